"""Request bodies that are too large, too slow or never end: bounded in size and time, and nothing else suffers."""

from __future__ import annotations

import asyncio
import gzip
import io
import resource
import sys
import zlib
from contextlib import AsyncExitStack
from functools import cache

import brotli  # type: ignore[import-untyped]
import pytest

from tests.fakes.upstream import Upstream
from tests.gateway.wire import POST, chat_body, chat_request, serves, until, wire
from tests.lab import Json, config, lab

MEGABYTE = 1_000_000
JSON = {"Content-Type": "application/json"}
CODINGS = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress}


def limits(p: Upstream, **gateway: str) -> Json:
    return config({"p": p}, gateway={"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", **gateway})


@cache
def gigabyte() -> bytes:
    """A thousand megabytes of zeros under gzip."""
    squeeze = zlib.compressobj(1, wbits=31)
    return b"".join(squeeze.compress(bytes(MEGABYTE)) for _ in range(1000)) + squeeze.flush()


def peak_bytes() -> int:
    """The most memory that this process has ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


async def test_J05_a_declared_length_over_the_limit_is_413_before_the_body_is_sent() -> None:
    async with Upstream("p") as p, lab(limits(p, max_body="1MB")) as g:
        async with wire(g) as w:
            w.send(f"{POST}Content-Length: {MEGABYTE + 1}\r\n\r\n")
            answer = await w.answer()
            assert answer.status == 413
            assert (answer.error["class"], answer.error["code"]) == ("too_large", "request_too_large")
            assert "1000000 bytes" in answer.error["message"]
            assert answer.headers["connection"] == "close"
            await w.closed()
        async with wire(g) as w:  # and nobody who asks first is told to go on
            w.send(f"{POST}Expect: 100-continue\r\nContent-Length: {MEGABYTE + 1}\r\n\r\n")
            status, _ = await w.head()
            assert status in (100, 413)
        assert p.attempts == 0
        await serves(g)


async def test_J05_a_chunked_body_is_413_when_the_count_is_passed() -> None:
    async with Upstream("p") as p, lab(limits(p, max_body="1MB")) as g:
        async with wire(g) as w:
            w.send(f"{POST}Transfer-Encoding: chunked\r\n\r\n")
            for _ in range(17):  # without an end
                w.send(b"10000\r\n" + b" " * 65536 + b"\r\n")
            answer = await w.answer()
            assert (answer.status, answer.error["class"]) == (413, "too_large")
            assert answer.headers["connection"] == "close"
            await w.closed()
        assert p.attempts == 0
        await serves(g)


async def test_J05_a_body_of_exactly_the_limit_passes() -> None:
    body = chat_body()
    padded = body + b" " * (MEGABYTE - len(body))
    async with Upstream("p") as p, lab(limits(p, max_body="1MB")) as g:
        assert (await g.post("/v1/chat/completions", padded)).status == 200
        assert (await g.post("/v1/chat/completions", padded + b" ")).status == 413
        assert p.attempts == 1


async def test_J05_twelve_megabytes_pass_with_the_default_settings() -> None:
    image = "data:image/png;base64," + "A" * 12 * MEGABYTE
    parts = [{"type": "image_url", "image_url": {"url": image}}]
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        body = io.BytesIO(chat_body(messages=[{"role": "user", "content": parts}]))
        async with g.session.post(f"{g.url}/v1/chat/completions", data=body, headers=JSON) as response:
            assert response.status == 200
        assert p.requests[0].json["messages"][0]["content"][0]["image_url"]["url"] == image


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_J05_a_bomb_is_413_and_takes_no_memory(framing: str) -> None:
    bomb = gigabyte()
    head = f"{POST}Content-Encoding: gzip\r\n"
    async with Upstream("p") as p, lab(limits(p, max_body="2MB")) as g:
        await serves(g)
        before = peak_bytes()
        async with wire(g) as w:
            if framing == "length":
                w.send(f"{head}Content-Length: {len(bomb)}\r\n\r\n")
                w.send(bomb)
            else:
                w.send(f"{head}Transfer-Encoding: chunked\r\n\r\n{len(bomb):x}\r\n".encode() + bomb + b"\r\n0\r\n\r\n")
            answer = await w.answer()
            assert (answer.status, answer.error["class"]) == (413, "too_large")
        assert peak_bytes() - before < 100 * MEGABYTE
        assert p.attempts == 1
        await serves(g)


@pytest.mark.parametrize("coding", CODINGS)
async def test_J05_a_small_bomb_that_is_there_at_once_is_counted_too(coding: str) -> None:
    bomb = CODINGS[coding](bytes(20 * MEGABYTE))
    async with Upstream("p") as p, lab(limits(p, max_body="1MB")) as g:
        async with wire(g) as w:
            w.send(f"{POST}Content-Encoding: {coding}\r\nContent-Length: {len(bomb)}\r\n\r\n".encode() + bomb)
            answer = await w.answer()
            assert (answer.status, answer.error["class"]) == (413, "too_large")
        assert p.attempts == 0
        await serves(g)


@pytest.mark.parametrize("coding", CODINGS)
async def test_a_compressed_body_is_read(coding: str) -> None:
    body = chat_body(user="é" * 1000)
    packed = CODINGS[coding](body)
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        answer = await g.post("/v1/chat/completions", packed, headers={"Content-Encoding": coding})
        assert answer.status == 200
        assert p.requests[0].json["user"] == "é" * 1000
        assert p.requests[0].header("content-encoding") is None
        assert p.requests[0].header("content-length") == str(len(p.requests[0].body))


@pytest.mark.parametrize("body", [b"no gzip at all", gzip.compress(chat_body())[:-12]], ids=["garbage", "half"])
async def test_a_broken_coding_is_400(body: bytes) -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        async with wire(g) as w:
            w.send(f"{POST}Content-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = await w.answer()
            assert (answer.status, answer.error["class"]) == (400, "bad_request")
        assert p.attempts == 0
        await serves(g)


@pytest.mark.parametrize("framing", ["Content-Length: 16000000", "Transfer-Encoding: chunked"])
async def test_J05_a_body_that_stops_is_408(framing: str) -> None:
    async with Upstream("p") as p, lab(limits(p, body_timeout="200ms")) as g:
        async with wire(g) as w:
            w.send(f"{POST}{framing}\r\n\r\n")
            w.send(b"1\r\n{\r\n")
            answer = await w.answer()
            assert answer.status == 408
            assert answer.error["type"] == "timeout_error"
            assert "gateway.body_timeout" in answer.error["message"]
            assert answer.headers["connection"] == "close"
            await w.closed()
        assert p.attempts == 0
        await serves(g)


async def test_J05_a_body_byte_by_byte_is_408_and_a_request_in_between_is_served() -> None:
    async with Upstream("p") as p, lab(limits(p, body_timeout="300ms")) as g:
        async with wire(g) as w:
            w.send(f"{POST}Content-Length: 1000\r\n\r\n")
            reading = asyncio.ensure_future(w.answer())
            while not reading.done():
                w.send(b" ")
                await serves(g)
            assert (await reading).status == 408
        await serves(g)


async def test_J05_a_head_byte_by_byte_is_closed() -> None:
    async with Upstream("p") as p, lab(limits(p, header_timeout="300ms")) as g:
        async with wire(g) as w:
            closed = asyncio.ensure_future(w.closed())
            for letter in POST + "X-Long: " + "x" * 100_000:
                if closed.done():
                    break
                w.send(letter)
                await asyncio.sleep(0.005)
            assert await closed == b""
        await serves(g)
        assert p.attempts == 1


async def test_J05_a_connection_that_says_nothing_is_closed() -> None:
    async with Upstream("p") as p, lab(limits(p, header_timeout="200ms")) as g:
        async with wire(g) as w:
            assert await w.closed() == b""
        await serves(g)


async def test_J05_a_second_head_byte_by_byte_is_closed_with_the_idle_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.server.KEEPALIVE_S", 0.3)
    async with Upstream("p") as p, lab(config({"p": p})) as g, wire(g) as w:
        w.send(chat_request())
        assert (await w.answer()).status == 200
        closed = asyncio.ensure_future(w.closed())
        for letter in POST + "X-Long: " + "x" * 100_000:
            if closed.done():
                break
            w.send(letter)
            await asyncio.sleep(0.005)
        assert await closed == b""


async def test_J05_many_slow_callers_do_not_keep_one_from_being_served() -> None:
    async with (
        Upstream("p") as p,
        lab(limits(p, header_timeout="30s", body_timeout="30s")) as g,
        AsyncExitStack() as stack,
    ):
        for number in range(300):
            slow = await stack.enter_async_context(wire(g))
            slow.send(POST if number % 2 else f"{POST}Content-Length: 1000\r\n\r\n{{")
        await until(lambda: g.service.in_flight == 150)
        await serves(g)
        await stack.aclose()
        await until(lambda: not g.service.in_flight)
        await serves(g)
        assert p.attempts == 2


async def test_a_caller_that_leaves_inside_its_body_is_no_failure() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        async with wire(g) as w:
            w.send(f"{POST}Content-Length: 1000\r\n\r\n{{")
            await until(lambda: g.service.in_flight == 1)
            w.abort()
            await until(lambda: not g.service.in_flight)
        assert [turn["outcome"] for turn in g.turns] == ["client_closed"]
        assert p.attempts == 0
        await serves(g)
