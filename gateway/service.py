"""What the handlers share: the settings, the engine, and where records go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from availability.outcome import Outcome
from gateway.body import LargeBodies
from gateway.callers import Callers
from gateway.engine import Engine
from gateway.log import Log
from gateway.metrics import Metrics
from gateway.settings.model import Caller, Settings
from gateway.turn import OutcomeRecord
from llm.attempt import SUCCESS, AttemptRecord
from llm.errors import Failure
from llm.spec import RouteSpec
from stanchion.clock import Clock


class Exchange(Protocol):
    """A turn under way."""

    async def break_off(self) -> None:
        """End it now, as well as it can be told to its caller."""


@dataclass(slots=True)
class TargetTally:
    """What the status page shows of a target's attempts. `failed_at` is on the clock's `now` scale."""

    attempts: int = 0
    success: int = 0
    failure: Failure | None = None
    failed_at: float = 0.0


@dataclass(slots=True)
class Tally:
    """Counts for the status page, written from the same records as the metrics."""

    targets: dict[str, TargetTally]
    routes: dict[str, Counter[Outcome]]

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
    """One gateway at run time. `new_id` gives request ids; `running` holds the turns under way."""

    settings: Settings
    clock: Clock
    engine: Engine
    callers: Callers
    metrics: Metrics
    log: Log
    tally: Tally
    new_id: Callable[[], str]
    started_at: float
    draining: bool = False
    routes: dict[str, RouteSpec] = field(default_factory=dict)
    running: set[Exchange] = field(default_factory=set)
    bodies: LargeBodies = field(default_factory=LargeBodies)

    @property
    def in_flight(self) -> int:
        """Turns under way."""
        return len(self.running)

    def routes_of(self, caller: Caller) -> list[str]:
        """The names of the routes that a caller may use, in the order of the settings."""
        return [name for name in self.routes if caller.may_use(name)]

    def turn_ended(self, record: OutcomeRecord) -> None:
        """The one place where a turn's outcome is written to everything that shows it."""
        self.metrics.turn(record)
        self.tally.turn(record)
        self.log.turn(record)
