"""The models of the settings, put together: targets with their decorators, and routes over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from gateway.settings.model import Settings
from llm.dialects.base import Dialect
from llm.dialects.openai import OpenAiChat
from llm.fallback import FallbackLlm, Observer
from llm.holds import Holds
from llm.provider_breaker import ProviderBreaker
from llm.spec import ProviderSpec
from llm.target import Target, provider_breaker
from llm.transport.base import Transport
from stanchion.clock import Clock

DIALECTS: Mapping[str, Callable[[], Dialect]] = {"openai": OpenAiChat}


class Engine:
    """Targets and routes of one gateway. `transports` makes the connections of a provider; `told` hears of breakers."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        random: Random,
        transports: Callable[[ProviderSpec], Transport],
        observer: Observer,
        told: Callable[[str, str], None] | None = None,
    ) -> None:
        self.holds = Holds(clock.now)
        self.targets: dict[str, Target] = {}
        self._transports: dict[str, Transport] = {}
        breakers: dict[str, ProviderBreaker] = {}
        for spec in settings.targets:
            name = spec.provider.name
            if name not in breakers:
                breakers[name] = provider_breaker(spec, clock, random, told)
                self._transports[name] = transports(spec.provider)
            dialect = DIALECTS[spec.provider.dialect]()
            self.targets[spec.name] = Target(spec, dialect, self._transports[name], breakers[name], self.holds, clock)
        self.routes = {
            route.name: FallbackLlm(route, self.targets, self.holds, clock, random, observer)
            for route in settings.routes
        }

    async def close(self) -> None:
        """Close every connection to a provider."""
        for transport in self._transports.values():
            await transport.close()
