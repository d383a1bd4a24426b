"""A slow consumer slows the provider down: what waits in memory is bounded, and nothing is lost."""

from __future__ import annotations

import asyncio

import pytest

from llm.transport.base import TransportError
from llm.transport.connection import Connection
from tests.llm.transport.driving import GUARD_S, Arrivals, Line, Peer, Tls, client, pair, read_all, until

LIMIT = 262_144
READ = 1_048_576
"""More than one read of any loop brings."""
PIECE = bytes(range(256)) * 4096
PIECES = 40
"""Together more than the sockets' own buffers take."""


def waiting(connection: Connection) -> int:
    return sum(map(len, connection._parts))


async def push(line: Line, sent: list[int]) -> None:
    """Send the body as fast as the connection takes it."""
    await line.request()
    line.send(f"HTTP/1.1 200 OK\r\nContent-Length: {PIECES * len(PIECE)}\r\n\r\n".encode())
    for _ in range(PIECES):
        line.send(PIECE)
        await line.writer.drain()
        sent.append(len(PIECE))
    await line.gone()


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
async def test_reading_stops_while_nobody_takes_and_goes_on_then(secure: bool, tls: Tls, arrivals: Arrivals) -> None:
    sent: list[int] = []

    async def play(line: Line) -> None:
        await push(line, sent)

    async with Peer(play, tls=tls.server if secure else None) as peer:
        async with client(peer.url.replace("127.0.0.1", "localhost"), tls.client) as c:
            async with c.send(c.request()) as answer:
                await until(lambda: answer._reading_paused)
                taken = arrivals.size
                for _ in range(200):  # turns in which all that comes would be taken
                    await asyncio.sleep(0)
                assert arrivals.size == taken
                assert LIMIT < waiting(answer) <= LIMIT + READ
                assert len(sent) < PIECES // 2
                total, most = 0, 0
                async with asyncio.timeout(GUARD_S):
                    while data := await answer.read_any():
                        assert data == (PIECE * 3)[total % 256 :][: len(data)]
                        total += len(data)
                        most = max(most, waiting(answer), len(data))
                assert total == PIECES * len(PIECE)
                assert most <= LIMIT + READ
            assert len(c._idle) == 1


async def test_an_answer_that_ended_while_reading_was_paused(arrivals: Arrivals) -> None:
    """All of it is given, the pause ends, and the connection serves the next request."""
    body = b"x" * (LIMIT + 1)
    data = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    async def play(line: Line) -> None:
        for _ in range(3):
            await line.request()
            line.send(data)
        await line.gone()

    async with pair(play) as (peer, c):
        for number in range(1, 4):
            async with c.send(c.request()) as answer:
                await arrivals.taken(number * len(data))
                assert answer._reading_paused
                assert answer._complete
                assert await read_all(answer) == body
                assert not answer._reading_paused
        assert len(peer.lines) == 1


async def test_left_while_reading_is_paused() -> None:
    sent: list[int] = []

    async def play(line: Line) -> None:
        await push(line, sent)

    async with pair(play) as (_, c):
        async with c.send(c.request()) as answer:
            await until(lambda: answer._reading_paused)
        await until(lambda: c.sockets_open == 0)
        assert not c._idle


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_broken_off_while_reading_is_paused(reset: bool, arrivals: Arrivals) -> None:
    """What was taken before is given first, then the break is told."""
    body = b"x" * (LIMIT + 1)
    data = b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n" + body

    async def play(line: Line) -> None:
        await line.request()
        line.send(data)
        await arrivals.taken(len(data))
        if reset:
            line.reset()

    async with pair(play) as (_, c):
        async with c.send(c.request()) as answer:
            await arrivals.taken(len(data))
            assert answer._reading_paused
            assert await answer.read_any() == body
            with pytest.raises(TransportError) as caught:
                await answer.read_any()
            assert caught.value.kind == "cut"
