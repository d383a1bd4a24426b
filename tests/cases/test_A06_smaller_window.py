"""A fallback whose window is too small is no fallback: an outage stays an outage."""

from __future__ import annotations

import pytest

from tests.cases.drive import MODES, attempts, breaker, said
from tests.fakes.behaviours import status
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.lab import Json, config, lab

BUSY = status(429, "rate_limit_exceeded", "slow down", headers={"Retry-After": "7"})
TOO_LONG = status(400, message="The prompt is longer than the model's context length.")
LONG = [{"role": "user", "content": "word " * 48_000}]
"""About 60 000 tokens."""


def windows(**upstreams: Upstream) -> Json:
    sizes = {"p": 128_000, "s": 8_000, "s2": 200_000}
    targets = {f"target_{name}": {"context_window": sizes[name]} for name in upstreams}
    return config(upstreams, **targets)


@pytest.mark.parametrize("stream", MODES)
async def test_A06_a_target_with_too_small_a_window_is_passed_over(stream: bool) -> None:
    async with Upstream("p", default=BUSY) as p, Upstream("s") as s, Upstream("s2") as s2:
        async with lab(windows(p=p, s=s, s2=s2), ManualClock()) as g:
            answer = await g.chat(messages=LONG, stream=stream)
            assert said(answer, stream=stream) == "hello from s2"
            assert answer.trail == ["p class=rate_limited", "s skip=context_window", "s2 class=success"]
            assert (p.attempts, s.attempts, s2.attempts) == (1, 0, 1)
            assert "retry-after" not in answer.headers


@pytest.mark.parametrize("stream", MODES)
async def test_A06_without_a_larger_target_the_caller_gets_the_429(stream: bool) -> None:
    async with Upstream("p", default=BUSY) as p, Upstream("s") as s:
        async with lab(windows(p=p, s=s), ManualClock()) as g:
            answer = await g.chat(messages=LONG, stream=stream)
            assert (answer.status, answer.headers["retry-after"]) == (429, "7")
            assert (answer.error["code"], answer.error["message"]) == ("rate_limit_exceeded", "slow down")
            assert answer.error["class"] == "rate_limited"
            assert answer.error["attempts"][1] == {"target": "s", "skip": "context_window"}
            assert (p.attempts, s.attempts) == (1, 0)


@pytest.mark.parametrize("stream", MODES)
async def test_A06_a_text_is_sign_enough_and_only_a_larger_window_is_next(stream: bool) -> None:
    async with Upstream("p", default=TOO_LONG) as p, Upstream("s") as s, Upstream("s2") as s2:
        async with lab(windows(p=p, s=s, s2=s2), ManualClock()) as g:
            answer = await g.chat(stream=stream)
            assert said(answer, stream=stream) == "hello from s2"
            assert answer.trail == ["p class=context_length", "s skip=context_window", "s2 class=success"]
            assert (p.attempts, s.attempts, s2.attempts) == (1, 0, 1)
            assert await breaker(g, "p") == ("closed", 0, 0)
            assert await attempts(g, "p", "context_length") == 1


async def test_A06_a_text_without_a_larger_window_is_the_callers() -> None:
    async with Upstream("p", default=TOO_LONG) as p, Upstream("s") as s:
        async with lab(windows(p=p, s=s), ManualClock()) as g:
            answer = await g.chat()
            assert (answer.status, answer.error["class"]) == (400, "context_length")
            assert answer.error["message"] == "The prompt is longer than the model's context length."
            assert (p.attempts, s.attempts) == (1, 0)
