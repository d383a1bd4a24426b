"""Cancellation at every stage, and the close of the whole: no place, no socket and no timer stays."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import ExitStack
from typing import Any

import pytest

from llm.transport import dialer
from llm.transport.connection import Connection
from tests.fakes.behaviours import silent, sse, wait
from tests.fakes.chat import text_chunk
from tests.fakes.upstream import Upstream
from tests.llm.transport.driving import OK, Client, Line, Peer, Tls, always, client, pair, until


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))  # noqa: PTH208 - a count


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_while_it_waits_for_a_place() -> None:
    async with Upstream("p", default=silent()) as p, client(p.base_url, max_connections=1, pool_wait_s=60.0) as c:
        holder = asyncio.create_task(c.ask())
        await p.wait_for_requests(1)
        waiting = [asyncio.create_task(c.ask()) for _ in range(3)]
        await until(lambda: len(c._places._waiters or ()) == 3)
        for task in waiting:
            await cancelled(task)
        assert c.places_taken == 1
        await cancelled(holder)
        assert c.places_taken == 0
        p.default = sse(b"")
        assert (await c.ask()).status == 200


async def test_a_place_that_was_just_given_goes_to_the_next_when_its_owner_is_cancelled() -> None:
    async with Upstream("p") as p, client(p.base_url, max_connections=1, pool_wait_s=60.0) as c:
        go = asyncio.Event()
        p.script(sse(text_chunk("a"), wait(go)))
        holder = asyncio.create_task(c.ask())
        await p.wait_for_requests(1)
        first, second = asyncio.create_task(c.ask()), asyncio.create_task(c.ask())
        await until(lambda: len(c._places._waiters or ()) == 2)
        holder.add_done_callback(lambda _: first.cancel())
        go.set()
        await holder
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await second).status == 200


async def test_while_it_connects() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(8):  # more than the backlog takes: those behind are not answered
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(server.getsockname())
        async with client(f"http://127.0.0.1:{server.getsockname()[1]}/v1") as c:
            before = descriptors()
            asked = asyncio.create_task(c.ask())
            await until(lambda: descriptors() == before + 1)
            await cancelled(asked)
            await until(lambda: descriptors() == before)
            assert c.places_taken == 0


@pytest.mark.parametrize("turns", range(8))
async def test_some_turns_of_the_loop_after_the_socket_is_connected(turns: int) -> None:
    """Between the socket and the transport nobody may lose it, nor close it twice."""
    async with Upstream("p", default=silent()) as p, client(p.base_url) as c:
        asked = asyncio.create_task(c.ask())
        await until(lambda: len(c.sockets) == 1)
        for _ in range(turns):
            await asyncio.sleep(0)
        await cancelled(asked)
        await until(lambda: c.sockets_open == 0)
        assert c.places_taken == 0
        await until(lambda: p.connections_made == 1 and p.connections_open == 0)


@pytest.mark.parametrize("turns", range(30))
async def test_while_tls_is_begun(turns: int, tls: Tls) -> None:
    """Nothing is left of it in the event loop, or the next connection with its number would not come about."""
    async with Peer(always(OK), tls=tls.server) as peer:
        async with client(peer.url.replace("127.0.0.1", "localhost"), tls.client) as c:
            asked = asyncio.create_task(c.ask())
            for _ in range(turns):
                await asyncio.sleep(0)
            asked.cancel()
            await asyncio.wait([asked])
            assert c.places_taken == 0
            assert (await c.ask()).body == b"ok"


async def test_in_the_tls_handshake() -> None:
    async def play(line: Line) -> None:
        await line.reader.read(1)
        began.set()
        await line.gone()

    began = asyncio.Event()
    async with Peer(play) as peer, client(peer.url.replace("http:", "https:")) as c:
        asked = asyncio.create_task(c.ask())
        await began.wait()
        await cancelled(asked)
        await peer.left()
        await until(lambda: c.sockets_open == 0)
        assert c.places_taken == 0


async def test_while_it_waits_for_the_head() -> None:
    async with Upstream("p", default=silent()) as p, client(p.base_url) as c:
        asked = asyncio.create_task(c.ask())
        seen = await p.wait_for_requests(1)
        await cancelled(asked)
        await seen.wait_closed()
        assert (c.places_taken, c.resent) == (0, 0)


async def test_while_it_waits_for_the_head_on_a_reused_connection() -> None:
    async with Upstream("p", default=silent()) as p, client(p.base_url) as c:
        p.script(sse(b"x"))
        await c.ask()
        asked = asyncio.create_task(c.ask())
        seen = await p.wait_for_requests(2)
        await cancelled(asked)
        await seen.wait_closed()
        assert (p.connections_made, c.places_taken, c.resent) == (1, 0, 0)


async def test_in_the_body() -> None:
    async with Upstream("p", default=sse(text_chunk("a"), wait(asyncio.Event()))) as p, client(p.base_url) as c:
        began = asyncio.Event()

        async def ask() -> None:
            async with c.send(c.request()) as answer:
                assert await answer.read_any()
                began.set()
                await answer.read_any()

        asked = asyncio.create_task(ask())
        await began.wait()
        await cancelled(asked)
        await p.requests[0].wait_closed()
        assert c.places_taken == 0
        assert not c._idle


@pytest.mark.parametrize("cut_at", [len(OK), len(OK) - 1], ids=["whole", "in-the-body"])
async def test_in_the_same_turn_as_the_head_comes(cut_at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Cancelling(Connection):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            asked.cancel()

    async def play(line: Line) -> None:
        await line.request()
        line.send(OK[:cut_at])
        await line.gone()

    monkeypatch.setattr(dialer, "Connection", Cancelling)
    async with pair(play) as (peer, c):
        asked = asyncio.create_task(c.ask())
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert c.places_taken == 0
        assert not c._idle
        await peer.left()


async def test_thirty_that_leave_in_different_turns_leave_nothing() -> None:
    async with Upstream("p", default=sse(text_chunk("a"), text_chunk("b"))) as p:
        async with client(p.base_url, max_connections=3, pool_wait_s=60.0) as c:
            for turns in range(30):
                asked = [asyncio.create_task(c.ask()) for _ in range(4)]
                for _ in range(turns):
                    await asyncio.sleep(0)
                for task in asked:
                    task.cancel()
                await asyncio.gather(*asked, return_exceptions=True)
                assert c.places_taken == 0
                assert c.sockets_open <= 3
            assert (await c.ask()).status == 200


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
async def test_close_leaves_nothing_open(secure: bool, tls: Tls) -> None:
    async def play(line: Line) -> None:
        await line.request()
        line.send(OK)
        await line.gone()

    async with Peer(play, tls=tls.server if secure else None) as peer:
        c = Client(peer.url.replace("127.0.0.1", "localhost"), tls.client)
        async with c.send(c.request()) as first, c.send(c.request()) as second:
            assert [await first.read_any(), await second.read_any()] == [b"ok", b"ok"]
        assert (len(c._idle), c.sockets_open) == (2, 2)
        await c.close()
        await peer.left(1)
        await peer.left(2)
        await until(lambda: c.sockets_open == 0)
        assert c._reaper is None
        await c.close()  # again does no harm


async def test_close_without_any_connection() -> None:
    c = Client("http://127.0.0.1:1/v1")
    await c.close()


async def test_an_answer_under_way_at_close_can_be_read_and_its_connection_is_not_kept() -> None:
    go = asyncio.Event()
    async with Upstream("p", default=sse(b"one", wait(go), b"two")) as p:
        c = Client(p.base_url)
        async with c.send(c.request()) as answer:
            assert await answer.read_any() == b"one"
            await c.close()
            go.set()
            assert await answer.read_any() == b"two"
            assert await answer.read_any() == b""
        assert not c._idle
        assert c._reaper is None
        await until(lambda: p.connections_open == 0 and c.sockets_open == 0)
