"""gzip, deflate and br, however the network cuts them."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]
import pytest

from llm.transport.base import TransportError
from tests.llm.transport.driving import Arrivals, Line, always, once, pair

TEXT = ("grüße, 世界 🎉 " * 3 + "end").encode()
LIMIT = 262_144


def bare_deflate(data: bytes) -> bytes:
    coder = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return coder.compress(data) + coder.flush()


def several_members(data: bytes) -> bytes:
    third = len(data) // 3
    return b"".join(gzip.compress(part) for part in (data[:third], b"", data[third : 2 * third], data[2 * third :]))


def flushed_br(data: bytes) -> bytes:
    """A flush after each part: the last bytes are the mark of the end alone."""
    coder = brotli.Compressor()
    half = len(data) // 2
    parts = [coder.process(data[:half]), coder.flush(), coder.process(data[half:]), coder.flush(), coder.finish()]
    return b"".join(map(bytes, parts))


CODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "gzip-in-any-case": (" GZip ", gzip.compress),
    "x-gzip": ("x-gzip", gzip.compress),
    "gzip-of-several-members": ("gzip", several_members),
    "deflate": ("deflate", zlib.compress),
    "deflate-without-a-header": ("deflate", bare_deflate),
    "br": ("br", brotli.compress),
    "br-flushed": ("br", flushed_br),
    "identity": ("identity", bytes),
    "none": ("", bytes),
}


def with_length(coding: str, data: bytes, more: str = "") -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(data)}\r\n{more}\r\n"
    return head.encode() + data


def until_the_end(coding: str, data: bytes) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nConnection: close\r\n\r\n".encode() + data


@pytest.mark.parametrize("name", CODINGS)
async def test_cut_in_two_at_every_byte(name: str, arrivals: Arrivals) -> None:
    coding, encode = CODINGS[name]
    data = encode(TEXT)
    whole = with_length(coding, data)
    head = len(whole) - len(data)

    async def play(line: Line) -> None:
        for at in range(head + 1, len(whole)):
            await line.request()
            await line.send_apart([whole[:at], whole[at:]], arrivals)
        await line.gone()

    async with pair(play) as (peer, client):
        for _ in range(head + 1, len(whole)):
            assert (await client.ask()).body == TEXT
        assert len(peer.lines) == 1


@pytest.mark.parametrize("name", CODINGS)
async def test_byte_by_byte_until_the_end_of_the_connection(name: str, arrivals: Arrivals) -> None:
    coding, encode = CODINGS[name]
    data = until_the_end(coding, encode(TEXT))

    async def play(line: Line) -> None:
        await line.request()
        await line.send_apart([bytes([byte]) for byte in data], arrivals)

    async with pair(play) as (_, client):
        assert (await client.ask()).body == TEXT


@pytest.mark.parametrize("name", CODINGS)
@pytest.mark.parametrize("size", [0, 1, LIMIT - 1, LIMIT, LIMIT + 1, 3 * LIMIT, 3 * LIMIT + 7])
@pytest.mark.parametrize("sort", ["even", "random"])
async def test_every_size_comes_out_whole_in_pieces_of_bounded_size(name: str, size: int, sort: str) -> None:
    coding, encode = CODINGS[name]
    body = b"a" * size if sort == "even" else random.Random(7).randbytes(size)
    async with pair(always(with_length(coding, encode(body)))) as (peer, client):
        for _ in range(2):
            pieces = []
            async with client.send(client.request()) as answer:
                while data := await answer.read_any():
                    pieces.append(data)
            assert b"".join(pieces) == body
            if encode is not bytes:
                assert max(map(len, pieces), default=0) <= 2 * LIMIT
        assert len(peer.lines) == 1


@pytest.mark.parametrize("name", ["gzip", "deflate", "br"])
async def test_no_body_at_all_needs_no_end(name: str) -> None:
    async with pair(always(with_length(name, b""))) as (_, client):
        assert (await client.ask()).body == b""


@pytest.mark.parametrize(
    "name", [name for name, (coding, _) in CODINGS.items() if coding.strip() not in ("", "identity")]
)
async def test_a_coded_body_that_lacks_its_last_byte_is_cut(name: str) -> None:
    coding, encode = CODINGS[name]
    for data in (with_length(coding, encode(TEXT)[:-1]), until_the_end(coding, encode(TEXT)[:-1])):
        async with pair(once(data)) as (_, client):
            error = await client.refused()
            assert (error.kind, error.message) == ("cut", "the provider's compressed answer ends too early")


BROKEN = {"plain": b'{"choices": []}', "broken": b"\x1f\x8b\x08\x00 broken", "ff": b"\xff" * 40}


@pytest.mark.parametrize(
    ("coding", "name"),
    # of `{`, deflate without a header can only say that more has to come
    [
        (coding, name)
        for coding in ("gzip", "deflate", "br")
        for name in BROKEN
        if (coding, name) != ("deflate", "plain")
    ],
)
async def test_what_cannot_be_decompressed_is_a_protocol_failure(coding: str, name: str) -> None:
    data = BROKEN[name]
    async with pair(always(with_length(coding, data))) as (_, client):
        error = await client.refused()
        assert (error.kind, error.message) == ("protocol", "the provider's answer cannot be decompressed")


@pytest.mark.parametrize("name", ["gzip", "br"])
async def test_broken_in_the_middle_is_a_failure_behind_what_came(name: str, arrivals: Arrivals) -> None:
    if name == "gzip":
        coder = zlib.compressobj(wbits=31)
        begin = coder.compress(TEXT) + coder.flush(zlib.Z_SYNC_FLUSH)
    else:
        other = brotli.Compressor()
        begin = bytes(other.process(TEXT)) + bytes(other.flush())
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {name}\r\nContent-Length: {len(begin) + 40}\r\n\r\n".encode()

    async def play(line: Line) -> None:
        await line.request()
        await line.send_apart([head + begin], arrivals)
        line.send(b"\xff" * 40)
        await line.gone()

    async with pair(play) as (_, client):
        got = b""
        with pytest.raises(TransportError) as caught:
            async with client.send(client.request()) as answer:
                while data := await answer.read_any():
                    got += data
        assert (got, caught.value.kind) == (TEXT, "protocol")


@pytest.mark.parametrize("name", ["gzip", "deflate", "br"])
async def test_bytes_behind_the_end_of_the_coding_are_a_protocol_failure(name: str) -> None:
    coding, encode = CODINGS[name]
    async with pair(always(with_length(coding, encode(TEXT) + b"and more"))) as (_, client):
        assert (await client.refused()).kind == "protocol"


@pytest.mark.parametrize("coding", ["zstd", "gzip, br", "compress", "aes128gcm-and-a-long-name-behind-it"])
async def test_an_unknown_coding_is_a_protocol_failure(coding: str) -> None:
    async with pair(always(with_length(coding, b"hello"))) as (_, client):
        error = await client.refused()
        assert error.kind == "protocol"
        assert error.message == f"the provider's answer has an unknown Content-Encoding ({coding[:20]})"
        assert client.places_taken == 0
