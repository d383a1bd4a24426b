"""Hedges as a caller, the providers and the records see them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fakes.behaviours import answer, cut, gate, silent, sse, status
from tests.fakes.chat import role_chunk, text_chunk
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.gateway.wire import chat_request as bytes_of
from tests.gateway.wire import idle, until, wire
from tests.lab import config, lab

HEDGE: dict[str, Any] = {"hedge": {"after": "2s", "budget": "100%"}, "retry": {"attempts": 0}}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_slow_first_target_is_hedged_and_the_first_answer_wins(stream: bool) -> None:
    clock = ManualClock()
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=HEDGE), clock) as g:
        p.script(silent())
        asked = asyncio.ensure_future(g.chat(stream=stream))
        await p.wait_for_requests(1)
        await clock.run(1.9)
        assert s.attempts == 0
        await clock.run(0.2)
        got = await asked
        assert got.status == 200
        assert (got.streamed_text if stream else got.text) == "hello from s"
        assert got.trail == ["p class=cancelled", "s class=success"]
        await until(lambda: p.requests[0].closed_early)
        assert await g.metric("stanchion_attempts_total", target="p", outcome="cancelled") == 1
        assert await g.metric("stanchion_attempts_total", target="s", outcome="success") == 1
        assert await g.metric("stanchion_extra_attempts_total", route="r", role="hedge", outcome="success") == 1
        for name in ("p", "s"):
            state = await g.target(name)
            assert (state["breaker"]["failures"], state["quota"]["in_flight"]) == (0, 0)
        assert g.turns[-1]["outcome"] == "rescued"
        await idle(g)


async def test_the_first_target_may_still_win_and_the_second_is_cancelled() -> None:
    clock = ManualClock()
    go = asyncio.Event()
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=HEDGE), clock) as g:
        p.script(gate(go, answer()))
        s.script(silent())
        asked = asyncio.ensure_future(g.chat(stream=True))
        await p.wait_for_requests(1)
        await clock.run(2.1)
        await s.wait_for_requests(1)
        go.set()
        got = await asked
        assert got.streamed_text == "hello from p"
        await until(lambda: s.requests[0].closed_early)
        await idle(g)
        assert g.turns[-1]["outcome"] == "success"
        entries = [entry.partition(";ms=")[0] for entry in g.turns[-1]["attempts"]]
        assert entries == ["p;class=success", "s;class=cancelled"]


async def test_the_budget_bounds_the_hedges() -> None:
    clock = ManualClock()
    route = {**HEDGE, "hedge": {"after": "2s", "budget": "10%"}, "timeouts": {"first_output": "3s"}}
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=route), clock) as g:
        p.default = silent()
        hedged = 0
        for number in range(1, 5):
            asked = asyncio.ensure_future(g.chat(stream=True))
            await p.wait_for_requests(number)
            await clock.run(2.1)
            under_way = g.service.engine.targets["s"].quota.levels().in_flight
            if not under_way and not asked.done():
                await clock.run(1.0)
            got = await asked
            assert got.streamed_text == "hello from s"
            hedged += got.trail[0] == "p class=cancelled"
        assert hedged == 1


async def test_a_caller_who_leaves_ends_both() -> None:
    clock = ManualClock()
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=HEDGE), clock) as g:
        p.script(silent())
        s.script(silent())
        async with wire(g) as w:
            w.send(bytes_of(stream=True))
            await p.wait_for_requests(1)
            await clock.run(2.1)
            await s.wait_for_requests(1)
            w.abort()
            await until(lambda: p.requests[0].closed_early and s.requests[0].closed_early)
        await idle(g)
        for name in ("p", "s"):
            assert (await g.target(name))["quota"]["in_flight"] == 0
            assert await g.metric("stanchion_attempts_total", target=name, outcome="cancelled") == 1
        assert g.turns[-1]["outcome"] == "client_closed"


async def test_a_failed_hedge_leaves_the_first_target_its_time() -> None:
    clock = ManualClock()
    go = asyncio.Event()
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=HEDGE), clock) as g:
        p.script(gate(go, answer()))
        s.script(status(500))
        asked = asyncio.ensure_future(g.chat(stream=True))
        await p.wait_for_requests(1)
        await clock.run(2.1)
        await until(lambda: s.attempts == 1)
        go.set()
        got = await asked
        assert got.streamed_text == "hello from p"
        assert got.trail == ["s class=server_error", "p class=success"] or got.trail == [
            "p class=success",
            "s class=server_error",
        ]


async def test_the_loser_had_output_that_nobody_sees() -> None:
    """With `complete` the first leg holds text when the second one wins."""
    clock = ManualClock()
    sent = asyncio.Event()

    async def told(exchange: object) -> None:
        sent.set()

    route = {**HEDGE, "stream": {"commit": "complete"}}
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=route), clock) as g:
        p.script(sse(role_chunk(), text_chunk("from p "), told, silent()))
        asked = asyncio.ensure_future(g.chat(stream=True))
        await sent.wait()
        await clock.run(2.1)
        got = await asked
        assert (got.streamed_text, got.clean) == ("hello from s", True)
        assert b"from p" not in got.body


async def test_a_final_refusal_of_one_is_told_when_the_other_fails_later() -> None:
    clock = ManualClock()
    go = asyncio.Event()
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=HEDGE), clock) as g:
        p.script(gate(go, status(400, "bad_thing", "no such parameter")))
        later = asyncio.Event()
        s.script(gate(later, cut()))
        asked = asyncio.ensure_future(g.chat(stream=True))
        await p.wait_for_requests(1)
        await clock.run(2.1)
        await s.wait_for_requests(1)
        go.set()
        await until(lambda: g.service.engine.targets["p"].quota.levels().in_flight == 0)
        later.set()
        got = await asked
        assert (got.status, got.error["code"]) == (400, "bad_thing")


async def test_a_single_target_is_not_hedged() -> None:
    clock = ManualClock()
    async with Upstream("p") as p, lab(config({"p": p}, route=HEDGE), clock) as g:
        go = asyncio.Event()
        p.script(gate(go, answer()))
        asked = asyncio.ensure_future(g.chat())
        await p.wait_for_requests(1)
        await clock.run(5)
        go.set()
        assert (await asked).text == "hello from p"
        assert p.attempts == 1
