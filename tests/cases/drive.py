"""What the cases share: waiting for an event of the machine without a clock, and behaviours by model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from tests.fakes.behaviours import Behaviour
from tests.fakes.exchange import Exchange
from tests.lab import Answer, Lab

GUARD_S = 30.0
"""After this long a wait is taken for a hang. No case depends on its length."""

MODES = [False, True]
"""`stream` of a request: each case that makes sense for both runs for both."""


def start(asked: Coroutine[Any, Any, Answer]) -> asyncio.Task[Answer]:
    """A request that runs while the test moves the clock."""
    return asyncio.get_running_loop().create_task(asked)


async def until(true: Callable[[], bool]) -> None:
    """Let the event loop turn until something holds."""
    async with asyncio.timeout(GUARD_S):
        while not true():  # noqa: ASYNC110 - the condition is not the test's to signal
            await asyncio.sleep(0)


def said(answer: Answer, *, stream: bool) -> str:
    """The text of a good answer, whose end is checked too."""
    assert answer.status == 200, answer.body
    if not stream:
        return answer.text
    assert answer.clean, answer.body
    return answer.streamed_text


def by_model(behaviours: Mapping[str, Behaviour]) -> Behaviour:
    """One provider that treats its models differently."""

    async def play(exchange: Exchange) -> None:
        await behaviours[exchange.seen.json["model"]](exchange)

    return play


async def breaker(lab: Lab, target: str) -> tuple[str, int, int]:
    """State, samples and failures."""
    shown = (await lab.target(target))["breaker"]
    return shown["state"], shown["samples"], shown["failures"]


async def attempts(lab: Lab, target: str, outcome: str) -> float:
    return await lab.metric("stanchion_attempts_total", target=target, outcome=outcome)


async def turns(lab: Lab, outcome: str, route: str = "r") -> float:
    return await lab.metric("stanchion_turns_total", route=route, outcome=outcome)
