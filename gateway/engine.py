"""The models of the settings, put together: targets with their decorators, and routes over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import NamedTuple

from gateway.settings.model import Settings
from llm.dialects.base import Dialect
from llm.dialects.openai import OpenAiChat
from llm.fallback import FallbackLlm, Observer
from llm.holds import Holds
from llm.policy import BreakerPolicy
from llm.provider_breaker import ProviderBreaker
from llm.spec import Credential, ProviderSpec, RouteSpec, TargetSpec
from llm.target import Target, provider_breaker
from llm.transport.base import Transport
from stanchion.clock import Clock

DIALECTS: Mapping[str, Callable[[], Dialect]] = {"openai": OpenAiChat}


class Provider(NamedTuple):
    """A provider at run time: its connections, and the breaker of all its targets."""

    spec: ProviderSpec
    transport: Transport
    breaker: ProviderBreaker


class Engine:
    """Targets and routes of one gateway. `transports` makes the connections of a provider; `told` hears of breakers.

    `before`: the engine whose place this one takes. It is not changed and serves on whoever has begun with it, but what was
    learned goes over: to a target of the same name, provider, dialect, model and credential its breaker, buckets and
    estimate; to a provider of the same name and dialect its breaker, and its connections where all that makes them is the
    same; the holds, but for those of a key that is another one now. What has not changed at all is the very same object.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        random: Random,
        transports: Callable[[ProviderSpec], Transport],
        observer: Observer,
        told: Callable[[str, str], None] | None = None,
        before: Engine | None = None,
    ) -> None:
        self._clock, self._random, self._observer, self._told = clock, random, observer, told
        self._make_transport = transports
        self._route_specs = {route.name: route for route in settings.routes}
        self.holds: Holds = Holds(clock.now) if before is None else before.holds
        # First of all: should connections not be there to be had, nothing of what is live has been touched.
        self.providers: Mapping[str, Provider] = self._providers(
            settings.targets, before.providers if before is not None else {}
        )
        if before is not None:
            self._let_go(before, settings.targets)
        self.targets = {spec.name: self._target(spec, before) for spec in settings.targets}
        self.routes = {route.name: self._route(route, before) for route in settings.routes}

    def successor(self, settings: Settings) -> Engine:
        """The engine of other settings, in the place of this one. `retire` this one when the other serves."""
        return Engine(
            settings, self._clock, self._random, self._make_transport, self._observer, self._told, before=self
        )

    async def retire(self, successor: Engine) -> None:
        """Close the connections that the successor has not taken over: idle ones now, those in use when they are given
        back. A request that is still on its way here gets a connection of its own."""
        kept = [provider.transport for provider in successor.providers.values()]
        for provider in self.providers.values():
            if not any(provider.transport is transport for transport in kept):
                await provider.transport.close()

    async def close(self) -> None:
        """Close every connection to a provider."""
        for provider in self.providers.values():
            await provider.transport.close()

    def _providers(self, targets: Iterable[TargetSpec], before: Mapping[str, Provider]) -> dict[str, Provider]:
        """A provider's breaker is under the policy of the first target that uses it."""
        made: dict[str, Provider] = {}
        retuned: list[tuple[ProviderBreaker, BreakerPolicy]] = []
        for target in targets:
            spec = target.provider
            if spec.name in made:
                continue
            old = before.get(spec.name)
            transport = old.transport if old and _wire(old.spec) == _wire(spec) else self._make_transport(spec)
            if old is not None and _place(old.spec) == _place(spec):
                breaker = old.breaker
                retuned.append((breaker, target.breaker))
            else:
                breaker = provider_breaker(target, self._clock, self._random, self._told)
            made[spec.name] = Provider(spec, transport, breaker)
        for breaker, policy in retuned:
            breaker.retune(policy)
        return made

    def _let_go(self, before: Engine, targets: Iterable[TargetSpec]) -> None:
        """What was known of targets that are gone or others now, and of keys that are others now, holds no more."""
        now = {_identity(target) for target in targets}
        for name, target in before.targets.items():
            if _identity(target.spec) not in now:
                before.providers[target.spec.provider.name].breaker.forget(name)
                self.holds.forget(target.spec)
        keys = _keys(before.providers)
        for (provider, name), key in _keys(self.providers).items():
            if (known := keys.get((provider, name))) is not None and known != key:
                self.holds.key_changed(provider, known, key)

    def _target(self, spec: TargetSpec, before: Engine | None) -> Target:
        provider = self.providers[spec.provider.name]
        known = before.targets.get(spec.name) if before is not None else None
        if known is not None and known.spec == spec:
            return known
        if known is not None and _identity(known.spec) != _identity(spec):
            known = None
        dialect = DIALECTS[spec.provider.dialect]()
        return Target(spec, dialect, provider.transport, provider.breaker, self.holds, self._clock, known)

    def _route(self, route: RouteSpec, before: Engine | None) -> FallbackLlm:
        """The route as a model; the one before where neither it nor any of its targets has changed."""
        targets = {name: self.targets[name] for name in _names(route)}
        if before is not None and before._route_specs.get(route.name) == route:  # noqa: SLF001 - another one of these
            return before.routes[route.name]  # a route holds the specs of its targets: they are the same ones too
        return FallbackLlm(route, targets, self.holds, self._clock, self._random, self._observer)


def _names(route: RouteSpec) -> set[str]:
    """Every target that the route may ask."""
    stops = [*route.stops, *route.on_content_policy, *([route.canary.stop] if route.canary else [])]
    return {stop.target.name for stop in stops}


def _identity(target: TargetSpec) -> tuple[str, ...]:
    """What makes a target the same one under other settings."""
    provider = target.provider
    return (target.name, provider.name, provider.dialect, target.model, target.credential.name)


def _place(provider: ProviderSpec) -> tuple[str, ...]:
    """What makes a provider the same one: what happened at another address says nothing of the one that replaced it."""
    return (provider.name, provider.dialect, provider.base_url, str(provider.proxy))


def _wire(spec: ProviderSpec) -> ProviderSpec:
    """What makes the connections: everything but what is sent on them with each request."""
    return replace(spec, credentials=(), headers=())


def _keys(providers: Mapping[str, Provider]) -> dict[tuple[str, str], Credential]:
    """Every credential, by its provider's name and its own."""
    return {(name, key.name): key for name, provider in providers.items() for key in provider.spec.credentials}
