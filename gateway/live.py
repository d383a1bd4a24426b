"""One version of the settings at run time. A request takes it once and keeps it to its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.callers import Callers
from gateway.engine import Engine
from gateway.settings.model import Caller, Settings
from llm.spec import RouteSpec


@dataclass(frozen=True, slots=True)
class Live:
    """Settings with all that was made from them. Nothing in it is ever exchanged: a reload makes another one."""

    settings: Settings
    engine: Engine
    callers: Callers
    routes: Mapping[str, RouteSpec]

    @classmethod
    def of(cls, settings: Settings, engine: Engine) -> Live:
        return cls(settings, engine, Callers(settings.callers), {route.name: route for route in settings.routes})

    def routes_of(self, caller: Caller) -> list[str]:
        """The names of the routes that a caller may use, in the order of the settings."""
        return [name for name in self.routes if caller.may_use(name)]
