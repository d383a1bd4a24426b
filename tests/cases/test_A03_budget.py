"""An overloaded or silent primary never uses up the time of the healthy fallback."""

from __future__ import annotations

import pytest

from tests.cases.drive import MODES, attempts, said, start, turns
from tests.fakes.behaviours import silent, status
from tests.fakes.clock import ManualClock, settle
from tests.fakes.upstream import Upstream
from tests.lab import Json, config, lab

OVERLOADED = status(529, type="overloaded_error")


def budget(upstreams: dict[str, Upstream]) -> Json:
    return config(
        upstreams,
        route={
            "deadline": "5s",
            "retry": {"attempts": 2},
            "timeouts": {"total": "2s", "first_output": "2s"},
        },
    )


@pytest.mark.parametrize("stream", MODES)
async def test_A03_a_an_overloaded_target_is_tried_three_times_at_most(stream: bool) -> None:
    clock = ManualClock()
    async with Upstream("p", default=OVERLOADED) as p, Upstream("s") as s:
        async with lab(budget({"p": p, "s": s}), clock) as g:
            began = clock.now()
            asked = start(g.chat(stream=stream))
            for number in (1, 2, 3):
                await (await p.wait_for_requests(number)).wait_over()
                await settle(200)
                if number < 3:
                    await clock.run(0.5)
            assert said(await asked, stream=stream) == "hello from s"
            assert clock.now() - began < 5
            assert (p.attempts, s.attempts) == (3, 1)
            assert await attempts(g, "p", "overloaded") == 3
            assert await attempts(g, "s", "success") == 1


@pytest.mark.parametrize("stream", MODES)
async def test_A03_b_a_silent_target_is_tried_once(stream: bool) -> None:
    clock = ManualClock()
    async with Upstream("p", default=silent()) as p, Upstream("s") as s:
        async with lab(budget({"p": p, "s": s}), clock) as g:
            asked = start(g.chat(stream=stream))
            await p.wait_for_requests(1)
            await clock.run(2.0)
            answer = await asked
            assert said(answer, stream=stream) == "hello from s"
            assert answer.trail == ["p class=timeout_total", "s class=success"]
            await p.requests[0].wait_closed()
            assert (p.attempts, s.attempts) == (1, 1)
            assert await attempts(g, "p", "timeout_total") == 1


@pytest.mark.parametrize("stream", MODES)
async def test_A03_one_deadline_covers_everything(stream: bool) -> None:
    clock = ManualClock()
    async with Upstream("p", default=silent()) as p, Upstream("q", default=silent()) as q:
        async with Upstream("s", default=silent()) as s, lab(budget({"p": p, "q": q, "s": s}), clock) as g:
            asked = start(g.chat(stream=stream))
            for upstream in (p, q, s):
                await upstream.wait_for_requests(1)
                await clock.run(2.0 if upstream is p or stream else 1.5)
            answer = await asked
            assert clock.now() <= 1000 + 6
            assert answer.status == 504
            assert (answer.error["type"], answer.error["class"]) == ("timeout_error", "deadline")
            assert [each["target"] for each in answer.error["attempts"]] == ["p", "q", "s"]
            assert all(each["class"] for each in answer.error["attempts"])
            assert sum(each["ms"] for each in answer.error["attempts"]) == 5000
            assert (p.attempts, q.attempts, s.attempts) == (1, 1, 1)
            assert await turns(g, "deadline") == 1


async def test_A03_waits_between_attempts_count_for_the_deadline() -> None:
    clock = ManualClock()
    async with Upstream("p", default=OVERLOADED) as p:
        values = config({"p": p}, route={"deadline": "200ms", "retry": {"attempts": 10}})
        async with lab(values, clock) as g:
            asked = start(g.chat())
            for number in (1, 2):
                await (await p.wait_for_requests(number)).wait_over()
                await settle(200)
                await clock.run(0.125)
            answer = await asked
            assert p.attempts == 2, "the second wait would end after the deadline"
            assert answer.status == 529
            assert await attempts(g, "p", "overloaded") == 2


async def test_A03_c_one_failure_does_not_strike_the_fallback_off() -> None:
    clock = ManualClock()
    async with Upstream("p", default=OVERLOADED) as p, Upstream("s") as s:
        values = config({"p": p, "s": s}, route={"retry": {"attempts": 0}})
        async with lab(values, clock) as g:
            s.script(status(500))
            first = await g.chat()
            assert first.status == 503
            assert first.trail == ["p class=overloaded", "s class=server_error"]
            second = await g.chat()
            assert said(second, stream=False) == "hello from s"
            assert s.attempts == 2
            assert await attempts(g, "s", "server_error") == 1
            assert await attempts(g, "s", "success") == 1
            assert await attempts(g, "p", "overloaded") == p.attempts == 2
