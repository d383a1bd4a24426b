"""When everything is on hold the caller is told until when."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.cases.drive import MODES, attempts, breaker, said, turns
from tests.fakes.behaviours import status
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.lab import Lab, config, lab


def busy(seconds: float) -> dict[str, str]:
    return {"Retry-After": str(seconds)}


@asynccontextmanager
async def held(clock: ManualClock) -> AsyncIterator[tuple[Lab, Upstream, Upstream]]:
    """P is on hold for 7 s (rate limit), S for 20 s (breaker)."""
    async with Upstream("p") as p, Upstream("s") as s:
        values = config(
            {"p": p, "s": s},
            target_s={"breaker": {"minimum": 1, "cooldown": "20s"}},
            defaults={"retry": {"attempts": 0}},
        )
        async with lab(values, clock) as g:
            p.script(status(429, headers=busy(7)))
            s.script(status(500))
            assert (await g.chat()).status == 503
            assert (await g.target("p"))["hold"]["seconds_left"] == 7
            assert (await g.target("s"))["breaker"] == {
                "state": "open",
                "samples": 1,
                "failures": 1,
                "retry_in_s": 20,
            }
            yield g, p, s


@pytest.mark.parametrize("stream", MODES)
async def test_C02_the_caller_is_told_when_to_come_back(stream: bool) -> None:
    clock = ManualClock()
    async with held(clock) as (g, p, s):
        answer = await g.chat(stream=stream)
        assert (answer.status, answer.headers["retry-after"]) == (503, "7")
        assert answer.error["class"] == "no_target"
        assert answer.error["attempts"] == [{"target": "p", "skip": "hold"}, {"target": "s", "skip": "breaker"}]
        assert "rate_limited" in answer.error["message"]
        assert "breaker" in answer.error["message"]
        for secret in ("sk-", "127.0.0.1", "http", str(p.port)):
            assert secret not in answer.body.decode()
        assert (p.attempts, s.attempts) == (1, 1)

        assert await turns(g, "no_target") == 1
        assert await breaker(g, "p") == ("closed", 0, 0)
        assert await breaker(g, "s") == ("open", 1, 1)
        assert await attempts(g, "p", "rate_limited") == 1
        assert await attempts(g, "s", "server_error") == 1

        await clock.run(7.2)
        assert said(await g.chat(stream=stream), stream=stream) == "hello from p"
        assert (p.attempts, s.attempts) == (2, 1)


@pytest.mark.parametrize(("passed", "told"), [(0.5, "7"), (1.0, "6"), (6.9, "1")])
async def test_C02_the_rest_is_told_in_whole_seconds_rounded_up(passed: float, told: str) -> None:
    clock = ManualClock()
    async with held(clock) as (g, _, _):
        await clock.run(passed)
        assert (await g.chat()).headers["retry-after"] == told


async def test_C02_only_rate_limits_are_a_429() -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}), ManualClock()) as g:
        p.script(status(429, headers=busy(20)))
        s.script(status(429, headers=busy(7)))
        await g.chat()
        answer = await g.chat()
        assert (answer.status, answer.headers["retry-after"]) == (429, "7")
        assert answer.error["type"] == "rate_limit_error"
        assert (p.attempts, s.attempts) == (1, 1)
        assert await turns(g, "no_target") == 1
