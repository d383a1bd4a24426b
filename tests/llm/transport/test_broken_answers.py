"""Answers that break off, are no HTTP, or never come to their body."""

from __future__ import annotations

import asyncio

import pytest

from llm.transport.base import TransportError
from tests.llm.transport.driving import OK, Arrivals, Line, always, once, pair

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CUT_IN_THE_HEAD = {
    "status-line": b"HTTP/1.1 20",
    "one-byte": b"H",
    "header": b"HTTP/1.1 200 OK\r\nContent-Le",
    "before-the-blank-line": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n",
    "after-an-interim-answer": b"HTTP/1.1 100 Continue\r\n\r\n",
}
CUT_IN_THE_BODY = {
    "length": (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", b"hello"),
    "length-without-a-byte": (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", b""),
    "1.0-length": (b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nhello", b"hello"),
    "in-a-chunk": (CHUNKED + b"9\r\nhello", b"hello"),
    "in-a-chunk-size": (CHUNKED + b"5\r\nhello\r\n1", b"hello"),
    "between-chunks": (CHUNKED + b"5\r\nhello\r\n", b"hello"),
    "in-the-last-chunk": (CHUNKED + b"5\r\nhello\r\n0\r\n", b"hello"),
    "in-the-trailers": (CHUNKED + b"5\r\nhello\r\n0\r\nX-A: 1\r\n", b"hello"),
    "chunks-in-any-case": (CHUNKED.replace(b"chunked", b"Chunked") + b"5\r\nhello\r\n", b"hello"),
    "chunks-and-close": (CHUNKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + b"5\r\nhello\r\n", b"hello"),
}
NOT_HTTP = {
    "tls-alert": b"\x15\x03\x01\x00\x02\x02\x46 not HTTP at all\r\n\r\n",
    "ssh": b"SSH-2.0-OpenSSH_9.6\r\n",
    "json": b'{"choices": []}',
    "request": b"GET / HTTP/1.1\r\n\r\n",
    "bad-status": b"HTTP/1.1 abc OK\r\n\r\n",
    "status-below-100": b"HTTP/1.1 042 Odd\r\nContent-Length: 0\r\n\r\n",
    "bad-header": b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
    "nul-in-a-header": b"HTTP/1.1 200 OK\r\nX-A: a\0b\r\n\r\n",
    "two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
    "length-that-is-no-number": b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nok",
    "length-below-0": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nok",
    "length-over-64-bits": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nok",
    "length-and-chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "101": b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x00",
    "101-without-its-headers": b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + OK,
}
NOT_CHUNKS = {
    "size": CHUNKED + b"5\r\nhello\r\nxyz\r\n",
    "size-below-0": CHUNKED + b"5\r\nhello\r\n-1\r\n",
    "size-over-64-bits": CHUNKED + b"5\r\nhello\r\n" + b"f" * 17 + b"\r\n",
    "longer-than-its-size": CHUNKED + b"5\r\nhello world\r\n",
}


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_a_new_connection_that_ends_without_an_answer_is_a_connect_failure(reset: bool) -> None:
    async with pair(once(b"", reset=reset)) as (peer, client):
        error = await client.refused()
        how = "reset" if reset else "closed"
        assert (error.kind, error.message) == ("connect", f"the provider {how} the connection before an answer")
        assert (len(peer.lines), client.resent) == (1, 0)


async def test_a_connection_that_is_closed_at_once_is_a_connect_failure() -> None:
    async def play(line: Line) -> None:
        """Nothing is read."""

    async with pair(play) as (peer, client):
        assert (await client.refused()).kind == "connect"
        assert (await client.refused(b"x" * 1_000_000)).kind == "connect"
        assert (len(peer.lines), client.resent) == (2, 0)


@pytest.mark.parametrize("reused", [False, True], ids=["new", "reused"])
@pytest.mark.parametrize("name", CUT_IN_THE_HEAD)
async def test_cut_in_the_head_is_a_cut_and_never_sent_again(name: str, reused: bool) -> None:
    async def play(line: Line) -> None:
        if reused:
            await line.request()
            line.send(OK)
        await line.request()
        line.send(CUT_IN_THE_HEAD[name])

    async with pair(play) as (peer, client):
        if reused:
            await client.ask()
        error = await client.refused()
        assert (error.kind, error.message) == ("cut", "the provider's connection broke inside the answer")
        assert (len(peer.lines), client.resent) == (1, 0)


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("name", CUT_IN_THE_BODY)
async def test_cut_in_the_body_is_a_cut_behind_what_came(name: str, reset: bool, arrivals: Arrivals) -> None:
    data, body = CUT_IN_THE_BODY[name]

    async def play(line: Line) -> None:
        await line.request()
        await line.send_apart([data], arrivals)
        if reset:
            line.reset()

    async with pair(play) as (_, client):
        got = b""
        with pytest.raises(TransportError) as caught:
            async with client.send(client.request()) as answer:
                while data := await answer.read_any():
                    got += data
        assert got == body
        assert (caught.value.kind, caught.value.message) == ("cut", "the provider's connection broke inside the answer")
        assert client.sockets_open == 0


async def test_an_answer_without_framing_that_is_reset_is_cut(arrivals: Arrivals) -> None:
    async def play(line: Line) -> None:
        await line.request()
        await line.send_apart([b"HTTP/1.1 200 OK\r\n\r\nhello"], arrivals)
        line.reset()

    async with pair(play) as (_, client):
        assert (await client.refused()).kind == "cut"


@pytest.mark.parametrize("name", NOT_HTTP)
async def test_what_is_not_http_is_a_protocol_failure(name: str) -> None:
    async def play(line: Line) -> None:
        await line.request()
        line.send(NOT_HTTP[name])
        await line.gone()  # the client closes, not the provider

    async with pair(play) as (peer, client):
        error = await client.refused()
        assert error.kind == "protocol"
        assert error.message.startswith("the provider")
        await peer.left()
        assert client.sockets_open == 0


@pytest.mark.parametrize("name", NOT_CHUNKS)
async def test_broken_chunks_are_a_protocol_failure_behind_what_came(name: str) -> None:
    async def play(line: Line) -> None:
        await line.request()
        line.send(NOT_CHUNKS[name])
        await line.gone()

    async with pair(play) as (peer, client):
        with pytest.raises(TransportError) as caught:
            async with client.send(client.request()) as answer:
                assert await answer.read_any() == b"hello"
                await answer.read_any()
        assert caught.value.kind == "protocol"
        await peer.left()


FLOODS = {
    "one-header-without-end": (b"HTTP/1.1 200 OK\r\nX-A: ", b"a" * 1000),
    "one-name-without-end": (b"HTTP/1.1 200 OK\r\n", b"a" * 1000),
    "headers-without-end": (b"HTTP/1.1 200 OK\r\n", b"X-A: 1\r\n" * 100),
    "status-line-without-end": (b"HTTP/1.1 200 ", b"a" * 1000),
    "interim-answers-without-end": (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 10),
    "trailers-without-end": (CHUNKED + b"2\r\nok\r\n0\r\n", b"X-A: 1\r\n" * 100),
    "extension-without-end": (CHUNKED + b"2;", b"a" * 1000),
    "blank-lines-without-end": (b"", b"\r\n" * 500),
}


@pytest.mark.parametrize("name", FLOODS)
async def test_a_flood_outside_the_body_is_cut_off(name: str, arrivals: Arrivals) -> None:
    begin, more = FLOODS[name]

    async def play(line: Line) -> None:
        await line.request()
        line.send(begin)
        while not line.writer.transport.is_closing():
            line.send(more)
            await line.writer.drain()
            await asyncio.sleep(0)

    async with pair(play) as (_, client):
        error = await client.refused()
        assert error.kind == "protocol"
        assert "65536 bytes outside its body" in error.message
        assert arrivals.size <= 65_536 + 1_048_576  # what one read can hold is more than the limit


async def test_many_small_chunks_are_no_flood(arrivals: Arrivals) -> None:
    """What counts is what comes without a byte of the body."""
    data = CHUNKED + b"1;extension=abcdefghij\r\nx\r\n" * 20_000 + b"0\r\n\r\n"
    async with pair(always(data)) as (_, client):
        assert (await client.ask()).body == b"x" * 20_000
    assert arrivals.size > 5 * 65_536


async def test_a_large_head_below_the_limit_is_taken() -> None:
    value = b"a" * 60_000
    async with pair(always(b"HTTP/1.1 200 OK\r\nX-A: " + value + b"\r\nContent-Length: 2\r\n\r\nok")) as (_, client):
        told = await client.ask()
        assert (told.headers["x-a"].encode(), told.body) == (value, b"ok")


@pytest.mark.parametrize(
    "greeting", [b"220 smtp.example ESMTP\r\n", b"\x00", OK], ids=["smtp", "one-byte", "an-answer"]
)
async def test_bytes_between_requests_are_no_answer(greeting: bytes, arrivals: Arrivals) -> None:
    """A connection on which the provider speaks unasked is given up."""

    async def play(line: Line) -> None:
        await line.request()
        line.send(OK)
        await arrivals.taken(len(OK))
        line.send(greeting)
        await line.gone()

    async with pair(play) as (peer, client):
        assert (await client.ask()).body == b"ok"
        await peer.left(1)
        assert (await client.ask()).body == b"ok"
        assert (len(peer.lines), client.resent) == (2, 0)


async def test_a_provider_that_speaks_first_fails_the_request() -> None:
    async def play(line: Line) -> None:
        line.send(b"220 smtp.example ESMTP\r\n")
        await line.gone()

    async with pair(play) as (peer, client):
        for number in (1, 2):
            assert (await client.refused()).kind in ("connect", "protocol")
            await peer.left(number)
        assert client.resent == 0
