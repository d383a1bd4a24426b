"""Where an answer ends: by its length, by chunks, by the end of the connection, or at its head."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.llm.transport.driving import OK, Arrivals, Line, always, once, pair, until


class Framed(NamedTuple):
    data: bytes
    body: bytes
    status: int = 200


KEPT = {
    "length": Framed(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    "length-0": Framed(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
    "names-in-any-case": Framed(b"HTTP/1.1 200 OK\r\ncOnTeNt-LeNgTh: 5\r\n\r\nhello", b"hello"),
    "no-reason": Framed(b"HTTP/1.1 529 \r\nContent-Length: 2\r\n\r\nno", b"no", 529),
    "chunked": Framed(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", b"hello"
    ),
    "chunked-in-any-case": Framed(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"hello"
    ),
    "chunk-extensions": Framed(
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nhel\r\n2;c;d="e f"\r\nlo\r\n0;g\r\n\r\n',
        b"hello",
    ),
    "trailers": Framed(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"
        b"Content-Encoding: br\r\nX-Sum: 9\r\n\r\n",
        b"hello",
    ),
    "204": Framed(b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n", b"", 204),
    "304-with-a-length": Framed(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", b"", 304),
    "100-before": Framed(b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"ok"),
    "103-before": Framed(
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Encoding: br\r\n\r\n"
        b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok",
        b"ok",
        201,
    ),
    "1.0-that-says-keep-alive": Framed(
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", b"hello"
    ),
}
ENDED = {
    "1.0": Framed(b"HTTP/1.0 200 OK\r\n\r\nhello", b"hello"),
    "1.0-with-a-length": Framed(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    "close": Framed(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", b"hello"),
    "close-with-a-length": Framed(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    "close-with-chunks": Framed(
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"hello"
    ),
    "no-framing-at-all": Framed(b"HTTP/1.1 200 OK\r\n\r\nhello", b"hello"),
    "nothing-after-the-head": Framed(b"HTTP/1.1 500 Oh\r\nConnection: close\r\n\r\n", b"", 500),
}


@pytest.mark.parametrize("name", KEPT)
async def test_an_answer_that_says_where_it_ends_keeps_the_connection(name: str) -> None:
    framed = KEPT[name]
    async with pair(always(framed.data)) as (peer, client):
        for _ in range(3):
            told = await client.ask()
            assert (told.status, told.body) == (framed.status, framed.body)
        assert len(peer.lines) == 1


@pytest.mark.parametrize("name", ENDED)
async def test_an_answer_that_the_end_of_the_connection_ends(name: str) -> None:
    framed = ENDED[name]
    async with pair(once(framed.data)) as (peer, client):
        for number in (1, 2):
            told = await client.ask()
            assert (told.status, told.body) == (framed.status, framed.body)
            assert len(peer.lines) == number
        assert client.resent == 0


@pytest.mark.parametrize("name", [name for name in ENDED if "close-with" in name or "1.0-with" in name])
async def test_a_connection_that_the_provider_will_close_is_closed_without_waiting_for_it(name: str) -> None:
    async def play(line: Line) -> None:
        await line.request()
        line.send(ENDED[name].data)
        await line.gone()

    async with pair(play) as (peer, client):
        assert (await client.ask()).body == b"hello"
        await peer.left()
        assert client.sockets_open == 0


@pytest.mark.parametrize("name", KEPT)
async def test_cut_in_two_at_every_byte(name: str, arrivals: Arrivals) -> None:
    framed = KEPT[name]

    async def play(line: Line) -> None:
        for at in range(1, len(framed.data)):
            await line.request()
            await line.send_apart([framed.data[:at], framed.data[at:]], arrivals)
        await line.gone()

    async with pair(play) as (peer, client):
        for _ in range(1, len(framed.data)):
            told = await client.ask()
            assert (told.status, told.body) == (framed.status, framed.body)
            assert not {"link", "content-encoding"} & told.headers.keys()
        assert len(peer.lines) == 1
    assert len(arrivals.pieces) == 2 * (len(framed.data) - 1)


@pytest.mark.parametrize("name", [*KEPT, *ENDED])
async def test_byte_by_byte(name: str, arrivals: Arrivals) -> None:
    framed = {**KEPT, **ENDED}[name]

    async def play(line: Line) -> None:
        await line.request()
        await line.send_apart([bytes([byte]) for byte in framed.data], arrivals)

    async with pair(play) as (_, client):
        told = await client.ask()
        assert (told.status, told.body) == (framed.status, framed.body)


async def test_chunks_in_one_read_come_out_in_one_piece() -> None:
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
    async with pair(always(data)) as (_, client):
        async with client.send(client.request()) as answer:
            assert await answer.read_any() == b"hello"
            assert await answer.read_any() == b""


async def test_what_is_there_is_given_at_once(arrivals: Arrivals) -> None:
    """A piece is not held back until the next one, or the end."""
    pieces = [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"3\r\nhel\r\n", b"2\r\nlo", b"\r\n0\r\n\r\n"]
    handed: list[bytes] = []

    async def play(line: Line) -> None:
        await line.request()
        await line.send_apart(pieces[:2], arrivals)
        await until(lambda: handed == [b"hel"])
        await line.send_apart(pieces[2:3], arrivals)
        await until(lambda: handed == [b"hel", b"lo"])
        await line.send_apart(pieces[3:], arrivals)
        await line.gone()

    async with pair(play) as (_, client):
        async with client.send(client.request()) as answer:
            while data := await answer.read_any():
                handed.append(data)
        assert handed == [b"hel", b"lo"]


async def test_header_values_are_given_without_the_space_around_them() -> None:
    data = b"HTTP/1.1 200 OK\r\nX-A:   v w \t\r\nRetry-After: 3\r\nX-Empty:\r\nContent-Length: 0\r\n\r\n"
    async with pair(always(data)) as (_, client):
        headers = (await client.ask()).headers
        assert headers == {"x-a": "v w", "retry-after": "3", "x-empty": "", "content-length": "0"}
