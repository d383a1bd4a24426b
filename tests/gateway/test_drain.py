"""A replica that is told to stop: not ready first, then no new turns, then what runs is let end or broken off."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes import chat
from tests.fakes.behaviours import answer, cut_after, gate, silent, sse, wait
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.gateway.wire import chat_request, idle, until, wire
from tests.lab import Json, config, lab


def draining(p: Upstream, drain: str) -> Json:
    return config({"p": p}, gateway={"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "drain": drain})


async def test_a_running_stream_ends_well_while_new_requests_are_sent_away() -> None:
    go = asyncio.Event()
    stream = sse(chat.text_chunk("one "), wait(go), chat.text_chunk("two"), chat.finish_chunk(), chat.DONE)
    async with Upstream("p", default=stream) as p, lab(draining(p, "10m")) as g, wire(g) as w:
        w.send(chat_request(stream=True))
        await w.head()
        seen = await w.until_seen(b"one ")
        drained = asyncio.ensure_future(g.server.drain())
        await until(lambda: g.service.draining)
        for admin in (False, True):
            ready = await g.get("/readyz", admin=admin)
            assert (ready.status, ready.json) == (503, {"ready": False, "draining": True})
            assert (await g.get("/livez", admin=admin)).status == 200
        refused = await g.chat()
        assert (refused.status, refused.error["class"]) == (503, "shed")
        assert refused.headers["connection"] == "close"
        assert refused.headers["retry-after"] == "1"
        assert "x-should-retry" not in refused.headers  # another replica can take it
        assert (await g.get("/v1/models")).status == 200
        assert not drained.done()
        go.set()
        while data := await w.piece():
            seen += data
        assert seen.endswith(b"data: [DONE]\n\n")
        assert await drained is True
        assert p.attempts == 1
        assert await g.metric("stanchion_turns_total", route="r", outcome="success") == 1


async def test_readiness_goes_off_before_anything_else() -> None:
    async with Upstream("p") as p, lab(draining(p, "10m")) as g:
        assert (await g.get("/readyz")).status == 200
        g.service.draining = True
        assert (await g.get("/readyz")).status == 503
        assert (await g.get("/livez")).status == 200


async def test_at_the_limit_a_stream_gets_the_error_event() -> None:
    clock = ManualClock()
    async with Upstream("p", default=cut_after(3, silent())) as p, lab(draining(p, "5s"), clock) as g, wire(g) as w:
        w.send(chat_request(stream=True))
        await w.head()
        seen = await w.until_seen(b"p2 ")
        drained = asyncio.ensure_future(g.server.drain())
        await clock.run(5.1)
        assert await drained is False
        closing = asyncio.ensure_future(g.server.close())
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):  # no terminating chunk
            while data := await w.piece():
                seen += data
        await closing
        assert seen.count(b'"error"') == 1
        assert b'"class":"shed","retry_after' not in seen
        assert b'"code":"stream_interrupted"' in seen
        assert b"shut down" in seen
        assert b"[DONE]" not in seen
        await p.requests[0].wait_closed()
        assert [turn["outcome"] for turn in g.turns] == ["stream_interrupted"]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_at_the_limit_a_request_without_an_answer_gets_503(stream: bool) -> None:
    async with Upstream("p", default=silent()) as p, lab(draining(p, "5s"), ManualClock()) as g, wire(g) as w:
        w.send(chat_request(stream=stream))
        seen = await p.wait_for_requests(1)
        closing = asyncio.ensure_future(g.server.close())
        answered = await w.answer()
        await closing
        assert (answered.status, answered.error["class"]) == (503, "shed")
        assert answered.headers["connection"] == "close"
        assert "x-should-retry" not in answered.headers
        await seen.wait_closed()
        assert [(turn["outcome"], turn["status"]) for turn in g.turns] == [("failed", 503)]


async def test_after_the_drain_nothing_listens() -> None:
    async with Upstream("p") as p, lab(draining(p, "1s")) as g:
        assert (await g.chat()).status == 200
        assert await g.server.drain() is True
        await g.server.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*g.server.listen)


async def test_a_turn_that_is_still_sending_its_body_is_waited_for() -> None:
    go = asyncio.Event()
    async with Upstream("p", default=gate(go, answer())) as p, lab(draining(p, "10m")) as g, wire(g) as w:
        request = chat_request()
        w.send(request[:-5])
        await until(lambda: g.service.in_flight == 1)
        drained = asyncio.ensure_future(g.server.drain())
        await until(lambda: g.service.draining)
        w.send(request[-5:])
        go.set()
        assert (await w.answer()).status == 200
        assert await drained is True
        await idle(g)
