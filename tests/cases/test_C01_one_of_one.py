"""One failed request out of one opens nothing."""

from __future__ import annotations

import pytest

from tests.cases.drive import MODES, breaker, said
from tests.fakes.behaviours import answer, status
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.lab import config, lab

BREAKER = {"breaker": {"window": "60s", "minimum": 5, "failure_ratio": 0.5, "cooldown": "10s"}}


@pytest.mark.parametrize("stream", MODES)
async def test_C01_a_share_needs_its_samples(stream: bool) -> None:
    clock = ManualClock()
    async with Upstream("p") as p, Upstream("s") as s:
        values = config({"p": p, "s": s}, defaults={**BREAKER, "retry": {"attempts": 0}})
        async with lab(values, clock) as g:
            await clock.run(3600.0)
            p.script(status(500), answer(), status(500), answer(), status(500))
            assert said(await g.chat(stream=stream), stream=stream) == "hello from s"
            assert await breaker(g, "p") == ("closed", 1, 1)

            for expected in ("hello from p", "hello from s", "hello from p"):
                await clock.run(2.0)
                assert said(await g.chat(stream=stream), stream=stream) == expected
            assert await breaker(g, "p") == ("closed", 4, 2)

            assert said(await g.chat(stream=stream), stream=stream) == "hello from s"
            assert await breaker(g, "p") == ("open", 5, 3)
            assert p.attempts == 5

            after = await g.chat(stream=stream)
            assert said(after, stream=stream) == "hello from s"
            assert after.trail == ["p skip=breaker", "s class=success"]
            assert p.attempts == 5


async def test_C01_samples_leave_the_window() -> None:
    clock = ManualClock()
    async with Upstream("p") as p, Upstream("s") as s:
        values = config({"p": p, "s": s}, defaults={**BREAKER, "retry": {"attempts": 0}})
        async with lab(values, clock) as g:
            p.script(*(status(500) for _ in range(4)))
            for _ in range(4):
                await g.chat()
            await clock.run(61.0)
            p.script(status(500))
            await g.chat()
            assert await breaker(g, "p") == ("closed", 1, 1)
