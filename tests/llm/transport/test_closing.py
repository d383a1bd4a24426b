"""A transport that is closed while requests run, wait or still come, as a reload of the settings does it."""

from __future__ import annotations

import asyncio

import pytest

from llm.transport.base import Counters
from tests.fakes.behaviours import answer, gate, sse, wait
from tests.fakes.chat import text_chunk
from tests.fakes.upstream import Upstream
from tests.llm.transport.driving import client, read_all, until


async def test_what_is_idle_is_closed_at_once() -> None:
    async with Upstream("p") as p, client(p.base_url) as c:
        await c.ask()
        assert c.counters() == Counters(in_use=0, idle=1, waiting=0, resent=0, stale_lookups=0)
        await c.close()
        assert c.counters().idle == 0
        await until(lambda: p.connections_open == 0)
        await c.close()


async def test_an_exchange_goes_to_its_end_and_its_connection_is_closed_then() -> None:
    go = asyncio.Event()
    async with Upstream("p") as p, client(p.base_url) as c:
        p.script(sse(text_chunk("a"), wait(go), text_chunk("b")))
        async with c.send(c.request()) as stream:
            assert await stream.read_any() == text_chunk("a")
            await c.close()
            assert (p.connections_open, c.counters().in_use) == (1, 1)
            go.set()
            assert await read_all(stream) == text_chunk("b")
            assert p.connections_open == 1
        assert c.counters() == Counters(0, 0, 0, 0, 0)
        await until(lambda: p.connections_open == 0)


@pytest.mark.parametrize("turns", range(12))
async def test_a_request_that_was_just_begun_is_answered(turns: int) -> None:
    async with Upstream("p") as p, client(p.base_url) as c:
        asked = asyncio.create_task(c.ask())
        for _ in range(turns):
            await asyncio.sleep(0)
        await c.close()
        assert (await asked).status == 200
        await until(lambda: p.connections_open == 0)


async def test_a_request_that_comes_late_is_answered_and_keeps_nothing() -> None:
    async with Upstream("p") as p, client(p.base_url) as c:
        await c.ask()
        await c.close()
        for number in range(2, 5):
            assert (await c.ask()).status == 200
            assert p.connections_made == number
            await until(lambda: p.connections_open == 0)
        assert c._reaper is None


async def test_who_waits_for_a_place_gets_it_when_it_is_given_back() -> None:
    go = asyncio.Event()
    async with Upstream("p") as p, client(p.base_url, max_connections=1, pool_wait_s=60.0) as c:
        p.script(gate(go, answer()))
        held = asyncio.create_task(c.ask())
        await p.wait_for_requests(1)
        waiting = [asyncio.create_task(c.ask()) for _ in range(3)]
        await until(lambda: c.counters().waiting == 3)
        await c.close()
        assert c.counters() == Counters(in_use=1, idle=0, waiting=3, resent=0, stale_lookups=0)
        go.set()
        assert [told.status for told in await asyncio.gather(held, *waiting)] == [200] * 4
        assert p.connections_made == 4
        await until(lambda: p.connections_open == 0)


async def test_who_waits_for_a_place_that_does_not_come_is_told_in_time() -> None:
    go = asyncio.Event()
    async with Upstream("p", default=gate(go, answer())) as p:
        async with client(p.base_url, max_connections=1, pool_wait_s=0.05) as c:
            held = asyncio.create_task(c.ask())
            await p.wait_for_requests(1)
            waiting = asyncio.create_task(c.refused())
            await until(lambda: c.counters().waiting == 1)
            await c.close()
            assert (await waiting).kind == "capacity"
            assert c.counters().waiting == 0
            go.set()
            assert (await held).status == 200


async def test_who_waits_for_a_place_may_leave() -> None:
    go = asyncio.Event()
    async with Upstream("p", default=gate(go, answer())) as p:
        async with client(p.base_url, max_connections=1, pool_wait_s=60.0) as c:
            held = asyncio.create_task(c.ask())
            await p.wait_for_requests(1)
            waiting = asyncio.create_task(c.ask())
            await until(lambda: c.counters().waiting == 1)
            await c.close()
            waiting.cancel()
            await asyncio.wait([waiting])
            assert c.counters() == Counters(1, 0, 0, 0, 0)
            go.set()
            assert (await held).status == 200
