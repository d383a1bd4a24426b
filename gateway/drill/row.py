"""A row of a drill as data: what goes wrong, how the scene goes, what has to come of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from gateway.drill.checks import ALWAYS
from gateway.drill.judge import Check, Judgement, Refusal, judge
from gateway.drill.provider.behaviours import Behaviour
from gateway.drill.script import FIRST, SECOND
from gateway.drill.seen import Observation, Reply

SAFE_BREAK = "an honest break: one error event, no clean end, nothing spliced or repeated"


class Stage(Protocol):
    """What a scene can do. Times are seconds on the drill's clock since the scene began."""

    def now(self) -> float: ...

    async def until(self, at_s: float) -> None:
        """Wait until a time; one that is past is no wait."""

    async def ask(self) -> Reply:
        """One request of the caller, to its end."""

    def primary_does(self, behaviour: Behaviour) -> None:
        """What the primary does from now on, once its script is used up."""

    def mark(self, name: str) -> None:
        """Note this moment for the judge."""


Scene = Callable[[Stage], Awaitable[None]]


async def once(stage: Stage) -> None:
    """One request."""
    await stage.ask()


async def twice(stage: Stage) -> None:
    """One request, and another one after it."""
    await stage.ask()
    await stage.ask()


@dataclass(frozen=True, slots=True)
class Row:
    """One fault.

    `script`: what the primary does, in words; `primary`: the same as behaviours, one to a request, then `then`.
    `passes`: what the caller must get to pass; `safe`: what is honest where that cannot be, empty where nothing less will do.
    `ideal`: the refusal that is right where an answer would be wrong. `checks` are added to those of every scene.
    `settings`: what differs from the product's defaults, as `defaults`, `route`, `primary` and `secondary` of the settings
    file. `plain`, `streamed`: how it can be asked. `unreachable`: nothing listens where the primary should be.
    """

    number: int
    name: str
    script: str
    passes: str
    safe: str = ""
    primary: tuple[Behaviour, ...] = ()
    then: Behaviour = FIRST.good
    secondary: Behaviour = SECOND.good
    scene: Scene = once
    ideal: Refusal | None = None
    checks: tuple[Check, ...] = ()
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    plain: bool = True
    streamed: bool = True
    unreachable: bool = False

    def judge(self, seen: Observation) -> Judgement:
        """The verdict on what was seen of this row."""
        return judge(seen, self.ideal, (*ALWAYS, *self.checks), may_break=bool(self.safe))
