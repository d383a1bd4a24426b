"""How a streamed answer begins and ends: clean, broken off with one error event, or after an early head."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes import chat
from tests.fakes.behaviours import (
    Step,
    answer,
    cut,
    gate,
    rst,
    sse,
    status,
    wait,
)
from tests.fakes.clock import ManualClock
from tests.fakes.exchange import Exchange
from tests.fakes.upstream import Upstream
from tests.gateway.wire import Wire, chat_request, idle, serves, wire
from tests.lab import Answer, config, lab

NO_RETRY = {"retry": {"attempts": 0}}


async def rest(w: Wire, seen: bytes = b"") -> Answer:
    """What is left of a body, after `seen`."""
    try:
        while data := await w.piece():
            seen += data
    except (asyncio.IncompleteReadError, ConnectionError):
        return Answer(200, {}, seen, whole=False)
    return Answer(200, {}, seen)


ENDS: dict[str, tuple[Step, str]] = {
    "cut": (cut(), "bad_upstream_response"),
    "reset": (rst(), "bad_upstream_response"),
    "error": (chat.error_event({"message": "too much", "type": "overloaded_error"}), "overloaded"),
    "named-error": (chat.error_event({"message": "too much", "type": "overloaded_error"}, "error"), "overloaded"),
    "nonsense": (b"data: {nonsense}\n\n", "bad_upstream_response"),
    "no-finish": (b"", "bad_upstream_response"),
}


@pytest.mark.parametrize("name", ENDS)
async def test_a_failure_after_output_is_exactly_one_error_event_and_no_clean_end(name: str) -> None:
    end, error_class = ENDS[name]
    seen = asyncio.Event()
    pieces = [chat.role_chunk(), *(chat.text_chunk(f"p{number} ") for number in range(3))]
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s})) as g:
        p.script(sse(*pieces, wait(seen), end))
        async with wire(g) as w:
            w.send(chat_request(stream=True))
            status_code, headers = await w.head()
            text = await w.until_seen(b"p2 ")
            seen.set()
            got = await rest(w, text)
            await w.closed()
        assert (status_code, headers["x-stanchion-target"]) == (200, "p")
        assert got.streamed_text == "p0 p1 p2 "
        assert len(got.error_events) == 1
        error = got.error_events[0]
        assert (error["class"], error["code"]) == (error_class, "stream_interrupted")
        assert error["attempts"][-1]["target"] == "p"
        assert got.events[-1] == {"error": error}
        assert not got.whole
        assert not any(choice.get("finish_reason") for event in got.events[:-1] for choice in event["choices"])
        assert s.attempts == 0
        assert g.turns[-1]["outcome"] == "stream_interrupted"
        assert (await g.target("p"))["breaker"]["failures"] == 1
        await serves(g)
        await idle(g)


async def test_the_head_waits_for_the_first_output() -> None:
    more = asyncio.Event()
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}), ManualClock()) as g:
        p.script(sse(chat.role_chunk(), b": ping\n\n", wait(more), cut()))
        async with wire(g) as w:
            w.send(chat_request(stream=True))
            await p.wait_for_requests(1)
            more.set()
            answered = await w.answer()
        assert answered.headers["x-stanchion-target"] == "s"
        assert answered.clean
        assert answered.streamed_text == "hello from s"


async def test_a_heartbeat_keeps_a_silent_stream_open_and_the_trail_follows_before_the_output() -> None:
    clock, go = ManualClock(), asyncio.Event()
    async with Upstream("p") as p, lab(config({"p": p}), clock) as g:
        p.script(gate(go, answer("well done")))
        async with wire(g) as w:
            w.send(chat_request(stream=True))
            await p.wait_for_requests(1)
            await clock.run(15)
            status_code, headers = await w.head()
            assert (status_code, headers["content-type"]) == (200, "text/event-stream")
            assert "x-stanchion-attempts" not in headers  # not known yet
            assert headers["x-stanchion-request-id"].startswith("req_")
            assert await w.piece() == b": waiting\n\n"
            await clock.run(15)
            assert await w.piece() == b": waiting\n\n"
            go.set()
            got = await rest(w)
        assert got.clean
        assert got.streamed_text == "well done"
        assert got.body.startswith(b": stanchion-attempts p;class=success;ms=30000\n\ndata: ")
        assert got.body.count(b"stanchion-attempts") == 1
        assert g.turns[-1]["outcome"] == "success"


async def test_after_a_heartbeat_a_failure_is_the_error_event_behind_the_trail() -> None:
    clock, go = ManualClock(), asyncio.Event()
    refusal = status(429, headers={"Retry-After": "7"})
    async with Upstream("p") as p, lab(config({"p": p}, defaults=NO_RETRY), clock) as g:
        p.script(gate(go, refusal))
        async with wire(g) as w:
            w.send(chat_request(stream=True))
            await p.wait_for_requests(1)
            await clock.run(15)
            await w.head()
            assert await w.piece() == b": waiting\n\n"
            go.set()
            got = await rest(w)
            await w.closed()
        assert got.body.startswith(b": stanchion-attempts p;class=rate_limited;ms=15000\n\ndata: ")
        assert len(got.error_events) == 1
        error = got.error_events[0]
        assert (error["class"], error["retry_after_s"]) == ("rate_limited", 7)
        assert error["attempts"] == [{"target": "p", "class": "rate_limited", "ms": 15000}]
        assert got.events == [{"error": error}]
        assert not got.whole
        assert g.turns[-1]["outcome"] == "failed"


async def test_a_rescue_after_a_heartbeat_is_told_in_the_trail() -> None:
    clock, go = ManualClock(), asyncio.Event()
    patient = {"timeouts": {"first_output": "60s"}, **NO_RETRY}
    async with Upstream("p") as p, Upstream("s") as s:
        async with lab(config({"p": p, "s": s}, defaults=patient), clock) as g, wire(g) as w:
            p.script(gate(go, status(503)))
            w.send(chat_request(stream=True))
            await p.wait_for_requests(1)
            await clock.run(15)
            await w.head()
            assert await w.piece() == b": waiting\n\n"
            go.set()
            got = await rest(w)
            assert got.body.startswith(b": stanchion-attempts p;class=overloaded;ms=15000, s;class=success;ms=0\n\n")
            assert (got.clean, got.streamed_text) == (True, "hello from s")
            assert g.turns[-1]["outcome"] == "rescued"


async def test_heartbeats_go_on_between_pieces_and_stop_with_the_answer() -> None:
    clock, go = ManualClock(), asyncio.Event()
    slow = {"timeouts": {"idle": "60s"}}
    async with Upstream("p") as p, lab(config({"p": p}, defaults=slow), clock) as g:
        before = clock.pending
        p.script(sse(chat.text_chunk("one "), wait(go), chat.text_chunk("two"), chat.finish_chunk(), chat.DONE))
        async with wire(g) as w:
            w.send(chat_request(stream=True))
            await w.head()
            seen = await w.until_seen(b"one ")
            await clock.run(16)
            assert await w.piece() == b": waiting\n\n"
            go.set()
            got = await rest(w, seen)
        assert (got.clean, got.streamed_text) == (True, "one two")
        assert clock.pending == before, "a timer was left behind"


async def test_a_plain_answer_has_no_heartbeat() -> None:
    clock, go = ManualClock(), asyncio.Event()
    async with Upstream("p") as p, lab(config({"p": p}), clock) as g, wire(g) as w:
        p.script(gate(go, answer()))
        w.send(chat_request())
        await p.wait_for_requests(1)
        await clock.run(40)
        go.set()
        assert (await w.answer()).text == "hello from p"


async def test_a_caller_that_does_not_read_is_let_go_after_the_deadline() -> None:
    clock, sent = ManualClock(), []

    async def flood(exchange: Exchange) -> None:
        exchange.begin(200, content_type="text/event-stream")
        while True:
            await exchange.send(chat.text_chunk("x" * 60_000))
            sent.append(1)

    async def stalled() -> None:
        """All is full between the provider and the caller: the loop turns and nothing moves."""
        still = 0
        while still < 50:
            before = len(sent)
            await asyncio.sleep(0.002)
            still = still + 1 if len(sent) == before else 0

    async with Upstream("p", default=flood) as p, lab(config({"p": p}, route={"deadline": "10s"}), clock) as g:
        async with wire(g) as w:
            w.send(chat_request(stream=True))
            await w.head()
            await w.until_seen(b"xxx")  # and then never again
            await stalled()
            await clock.run(16)
            await idle(g)
        assert g.turns[-1]["outcome"] == "client_closed"
        assert (await g.target("p"))["breaker"]["failures"] == 0
        assert (await g.target("p"))["quota"]["in_flight"] == 0
