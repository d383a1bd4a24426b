"""What the handlers share: the live settings and their engine, and where records go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from availability.outcome import Outcome
from gateway.body import LargeBodies
from gateway.callers import Callers
from gateway.engine import Engine
from gateway.live import Live
from gateway.log import Log
from gateway.metrics import Metrics
from gateway.sessions.metrics import SessionMetrics
from gateway.sessions.wiring import SessionParts
from gateway.settings.model import Settings
from gateway.turn import OutcomeRecord
from llm.attempt import SUCCESS, AttemptRecord
from llm.errors import Failure
from llm.spec import RouteSpec
from stanchion.clock import Clock


class Exchange(Protocol):
    """A turn under way."""

    async def break_off(self) -> None:
        """End it now, as well as it can be told to its caller."""


class Sharer(Protocol):
    """What tells other gateways of breakers and holds."""

    def told(self, name: str, state: str) -> None:
        """A breaker has opened or closed."""

    def follow(self, engine: Engine) -> None:
        """This engine serves from now on."""


@dataclass(slots=True)
class TargetTally:
    """What the status page shows of a target's attempts. `failed_at` is on the clock's `now` scale."""

    attempts: int = 0
    success: int = 0
    failure: Failure | None = None
    failed_at: float = 0.0


@dataclass(slots=True)
class Tally:
    """Counts for the status page, written from the same records as the metrics, and kept by name across reloads."""

    targets: dict[str, TargetTally] = field(default_factory=dict)
    routes: dict[str, Counter[Outcome]] = field(default_factory=dict)

    def follow(self, settings: Settings) -> None:
        """Have a place for every target and route; what is there stays, since turns on what is gone may still run."""
        for target in settings.targets:
            self.targets.setdefault(target.name, TargetTally())
        for route in settings.routes:
            self.routes.setdefault(route.name, Counter())

    def attempt(self, record: AttemptRecord, now: float) -> None:
        one = self.targets[record.target]
        one.attempts += 1
        one.success += record.outcome == SUCCESS
        if record.failure is not None:
            one.failure, one.failed_at = record.failure, now

    def turn(self, record: OutcomeRecord) -> None:
        if record.route in self.routes:
            self.routes[record.route][record.outcome] += 1


@dataclass(slots=True)
class Service:
    """One gateway at run time. `new_id` gives request ids; `running` holds the turns under way; `sharing` is there while
    breakers and holds are shared.

    `live` is exchanged as a whole (`take_over`). Whoever waits in between and needs more than one thing of the settings
    takes it once; the properties are for a single look.
    """

    live: Live
    clock: Clock
    metrics: Metrics
    log: Log
    tally: Tally
    stores: SessionParts
    session_metrics: SessionMetrics
    new_id: Callable[[], str]
    started_at: float
    random: Random = field(default_factory=Random)
    sharing: Sharer | None = None
    draining: bool = False
    running: set[Exchange] = field(default_factory=set)
    bodies: LargeBodies = field(default_factory=LargeBodies)

    @property
    def in_flight(self) -> int:
        """Turns under way."""
        return len(self.running)

    @property
    def settings(self) -> Settings:
        return self.live.settings

    @property
    def engine(self) -> Engine:
        return self.live.engine

    @property
    def callers(self) -> Callers:
        return self.live.callers

    @property
    def routes(self) -> Mapping[str, RouteSpec]:
        return self.live.routes

    def take_over(self, settings: Settings) -> Engine:
        """From the next request on these settings hold; one step that nothing comes in between of.

        Returns the engine before, to be retired. Raises what a transport raises that cannot be made, and changes nothing.
        """
        before = self.engine
        live = Live.of(settings, before.successor(settings))
        self.tally.follow(settings)
        self.metrics.follow(live)
        self.log.follow(settings.gateway.log)
        self.live = live
        if self.sharing is not None:
            self.sharing.follow(live.engine)
        return before

    def turn_ended(self, record: OutcomeRecord) -> None:
        """The one place where a turn's outcome is written to everything that shows it."""
        self.metrics.turn(record)
        self.tally.turn(record)
        self.log.turn(record)
