"""The demo that walks by itself: ask, kill the first model, ask again, wait for its return, ask once more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from gateway.console.admin import AdminError
from gateway.console.report import Report
from gateway.demo.processes import ModelEvent
from gateway.demo.settings_file import ROUTE
from gateway.demo.stack import Answer, Stack

_BACK_TIMEOUT_S = 60.0
_RETURN_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was tried. `detail` is a sentence for people."""

    name: str
    ok: bool
    detail: str
    answer: Answer | None = None


@dataclass(slots=True)
class Walk:
    """What was seen on the way. `breakers`: the first target's breaker state after each step."""

    steps: list[Step] = field(default_factory=list)
    breakers: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return bool(self.steps) and all(step.ok for step in self.steps)

    def as_object(self) -> dict[str, Any]:
        """The object of `stanchion demo --walk --json`."""
        return {
            "name": "demo",
            "ok": self.ok,
            "steps": [asdict(step) for step in self.steps],
            "breakers": list(self.breakers),
            "seconds": round(self.seconds, 3),
        }


async def walk(
    stack: Stack,
    events: asyncio.Queue[ModelEvent],
    *,
    tell: Callable[[Step], None],
    show: Callable[[Report], None],
) -> Walk:
    """Take the walk; `tell` gets each step as it ends, `show` the gateway's own view while the model is dead.

    `events` has to carry what happens to the models. A step that fails ends the walk.
    """
    start, result = time.monotonic(), Walk()
    first, second = stack.models[0], stack.models[1]

    def took(step: Step) -> bool:
        result.steps.append(step)
        result.seconds = time.monotonic() - start
        tell(step)
        return step.ok

    if not took(_judge("ask", await stack.ask(ROUTE), first.name)):
        return result
    pid = first.pid
    first.kill()
    event = await asyncio.wait_for(events.get(), 10.0)
    killed = event.kind == "died" and event.model is first
    if not took(Step("kill", killed, f"{first.name} (process {pid}) ended with {event.detail}")):
        return result
    if not took(_judge("ask while it is dead", await stack.ask(ROUTE), second.name)):
        return result
    if not took(await _look(stack, result, show)):
        return result
    if not took(await _wait_back(events)):
        return result
    took(await _ask_until(stack, first.name))
    await _look(stack, result, show)
    result.seconds = time.monotonic() - start
    return result


def _judge(name: str, answer: Answer, wanted: str) -> Step:
    if not answer.ok:
        return Step(name, ok=False, detail=f"status {answer.status}: {answer.text}", answer=answer)
    detail = f"{answer.target} answered in {answer.ms} ms: {answer.text}"
    if answer.target != wanted:
        detail += f" (expected {wanted})"
    return Step(name, ok=answer.target == wanted, detail=detail, answer=answer)


async def _look(stack: Stack, result: Walk, show: Callable[[Report], None]) -> Step:
    try:
        report = await stack.report()
    except AdminError as error:
        return Step("status", ok=False, detail=str(error))
    show(report)
    states = {target.name: target.breaker for target in report.targets}
    state = states.get(stack.models[0].name, "missing")
    result.breakers.append(state)
    return Step("status", ok=report.ok, detail=f"the breaker of {stack.models[0].name} is {state.replace('_', ' ')}")


async def _wait_back(events: asyncio.Queue[ModelEvent]) -> Step:
    try:
        event = await asyncio.wait_for(events.get(), _BACK_TIMEOUT_S)
    except TimeoutError:
        return Step("return", ok=False, detail=f"the model was not back after {_BACK_TIMEOUT_S:g} s")
    if event.kind != "back":
        return Step("return", ok=False, detail=f"{event.model.name} {event.kind}: {event.detail}")
    return Step("return", ok=True, detail=f"{event.model.name} is back (process {event.model.pid})")


async def _ask_until(stack: Stack, wanted: str) -> Step:
    """Ask until the returned model answers: its breaker takes a probe only after the cool-down."""
    deadline = time.monotonic() + _RETURN_TIMEOUT_S
    while True:
        step = _judge("ask when it is back", await stack.ask(ROUTE), wanted)
        failed = step.answer is not None and not step.answer.ok
        if step.ok or failed or time.monotonic() > deadline:
            return step
        await asyncio.sleep(1.0)
