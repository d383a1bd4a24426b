"""Who is blamed for what: slow callers, finals beside a hedge, an address that was replaced, and time that overlaps."""

from __future__ import annotations

import asyncio

import pytest

from gateway.turn import overhead
from llm.attempt import AttemptRecord, Trail
from llm.classes import Skip
from tests.fakes import chat
from tests.fakes.behaviours import Step, answer, gate, silent, sse, status
from tests.fakes.clock import ManualClock
from tests.fakes.exchange import Exchange
from tests.fakes.upstream import Upstream
from tests.gateway.wire import chat_request, idle, until, wire
from tests.lab import config, lab

HEDGE = {"hedge": {"after": "2s", "budget": "100%"}, "retry": {"attempts": 0}}


async def test_a_slow_reader_makes_no_provider_late_in_total() -> None:
    """The provider has all of it ready; the caller takes far longer than `total` to read it."""
    clock = ManualClock()
    many: list[Step] = [chat.text_chunk("x" * 60_000) for _ in range(400)]
    route = {"timeouts": {"total": "2s", "idle": "2s", "first_output": "2s"}, "deadline": "100s"}
    async with Upstream("p") as p, lab(config({"p": p}, route=route), clock) as g:
        p.script(sse(chat.role_chunk(), *many, chat.finish_chunk(), chat.DONE))
        async with wire(g) as w:
            w.send(chat_request(stream=True))
            await w.head()
            body = await w.until_seen(b"xxx")
            await asyncio.sleep(0.5)  # until sockets and buffers are full, and the gateway waits for its caller
            await clock.run(5)
            while piece := await w.piece():
                body += piece
        assert body.endswith(chat.DONE)
        await idle(g)
        assert (await g.target("p"))["breaker"]["failures"] == 0
        assert g.turns[-1]["outcome"] == "success"


async def test_a_final_refusal_does_not_wait_for_a_hedge_that_says_nothing() -> None:
    clock = ManualClock()
    go = asyncio.Event()
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=HEDGE), clock) as g:
        p.script(gate(go, status(400, "bad_thing", "no such parameter")))
        s.script(silent())
        asked = asyncio.ensure_future(g.chat(stream=True))
        await p.wait_for_requests(1)
        await clock.run(2.1)
        await s.wait_for_requests(1)
        go.set()
        got = await asked
        assert (got.status, got.error["code"]) == (400, "bad_thing")
        await until(lambda: s.requests[0].closed_early)
        await idle(g)
        assert g.turns[-1]["outcome"] == "rejected"


async def test_what_the_old_address_did_is_not_held_against_the_new_one() -> None:
    clock = ManualClock()
    strict = {"breaker": {"minimum": 1}, "retry": {"attempts": 0}, "holds": {"overloaded": "60s"}}
    async with Upstream("p") as p, Upstream("q") as q, lab(config({"p": p}, defaults=strict), clock) as g:
        go = asyncio.Event()
        p.script(gate(go, status(503, headers={"Retry-After": "500"})))
        late = asyncio.ensure_future(g.chat())
        await p.wait_for_requests(1)
        moved = config({"p": q}, defaults=strict)
        assert (await g.reload(moved)).status == 200
        go.set()
        assert (await late).status == 503
        assert (await g.target("p"))["hold"] is None
        assert (await g.target("p"))["breaker"]["state"] == "closed"
        assert (await g.chat()).text == "hello from q"


async def test_a_hedge_that_did_not_win_is_no_failover() -> None:
    clock = ManualClock()
    go = asyncio.Event()
    async with Upstream("p") as p, Upstream("s") as s, Upstream("t") as t:
        values = config({"p": p, "s": s, "t": t}, route=HEDGE, target_s={"quota": {"concurrency": 1}})
        values["routes"]["only-s"] = {"targets": ["s"]}
        async with lab(values, clock) as g:
            s.script(gate(go, answer()))
            busy = asyncio.ensure_future(g.chat("only-s"))
            await s.wait_for_requests(1)
            first = asyncio.Event()
            p.script(gate(first, answer()))
            t.script(silent())
            asked = asyncio.ensure_future(g.chat(stream=True))
            await p.wait_for_requests(1)
            await clock.run(2.1)
            await t.wait_for_requests(1)
            first.set()
            got = await asked
            assert got.trail == ["p class=success", "s skip=quota", "t class=cancelled"]
            go.set()
            await busy
            await idle(g)
            for names in (("p", "s"), ("p", "t"), ("s", "t")):
                for reason in ("quota", "cancelled"):
                    moved = {"from": names[0], "to": names[1], "reason": reason}
                    assert await g.metric("stanchion_failovers_total", **moved) == 0


async def test_failovers_of_canaries_and_weighted_neighbours_are_there_from_the_start() -> None:
    async with Upstream("p") as p, Upstream("s") as s, Upstream("t") as t:
        values = config(
            {"p": p, "s": s, "t": t},
            route={"targets": ["p", "s"], "canary": {"target": "t", "share": 1}},
            target_p={"weight": 1},
            target_s={"weight": 1},
        )
        async with lab(values) as g:
            for before, after in (("t", "p"), ("t", "s"), ("p", "s"), ("s", "p")):
                moved = {"from": before, "to": after, "reason": "connect"}
                assert await g.metric("stanchion_failovers_total", **moved) == 0


@pytest.mark.parametrize(
    ("spans", "waits", "busy"),
    [
        ([(0.0, 5.0)], [], 5.0),
        ([(0.0, 5.1), (2.0, 3.1)], [], 5.1),
        ([(0.0, 1.0), (2.0, 1.0)], [(1.0, 0.5)], 2.5),
        ([(0.0, 1.0), (0.5, 9.0)], [(1.0, 0.5)], 9.5),
        ([], [], 0.0),
    ],
)
def test_time_that_overlaps_counts_once(
    spans: list[tuple[float, float]], waits: list[tuple[float, float]], busy: float
) -> None:
    trail = Trail(waits=waits)
    for began, seconds in spans:
        trail.add(AttemptRecord("p", "success", seconds, began=began))
    trail.add(AttemptRecord("s", None, skip=Skip.HOLD, began=0.2))
    assert trail.busy_s == pytest.approx(busy)
    assert overhead(busy + 1.0, trail.busy_s, 0.25) == pytest.approx(0.75)


async def test_an_answer_that_cannot_be_put_together_is_a_bad_upstream_response() -> None:
    deep = b'{"x":' * 300 + b"1" + b"}" * 300
    chunk = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"hi"},"extra":' + deep + b"}]}\n\n"
    route = {"stream": {"upstream": "always"}}
    async with Upstream("p") as p, lab(config({"p": p}, route=route)) as g:
        p.script(sse(chat.role_chunk(), chunk, chat.finish_chunk(), chat.DONE))
        got = await g.chat()
        assert (got.status, got.error["class"]) == (502, "bad_upstream_response")
        assert g.turns[-1]["outcome"] == "failed"
        assert not [line for line in g.log if line["event"] == "crash"]


@pytest.mark.parametrize(("code", "error_class"), [(503, "overloaded"), (429, "rate_limited"), (500, "server_error")])
async def test_an_error_whose_body_never_ends_is_told_by_its_status(code: int, error_class: str) -> None:
    """Its caller and the next target do not wait for the rest; the clock of the limits stands still."""

    async def stalls(exchange: Exchange) -> None:
        exchange.begin(code, content_type="application/json", length=1000)
        await exchange.send(b'{"error": {"message": "half')
        await exchange.hang()

    route = {"retry": {"attempts": 0}}
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=route), ManualClock()) as g:
        p.script(stalls)
        got = await g.chat()
        assert got.text == "hello from s"
        assert got.trail == [f"p class={error_class}", "s class=success"]
        await until(lambda: p.requests[0].closed_early)
