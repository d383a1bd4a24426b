"""The faults of the fake provider: no answer, a late one, a broken one, and what it sees of its clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from tests.fakes.asking import ask, ask_for_json
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import (
    DONE,
    Upstream,
    close,
    cut,
    cut_after,
    delay,
    error_event,
    finish_chunk,
    garbage,
    gate,
    pause,
    reset,
    role_chunk,
    rst,
    silent,
    sse,
    status,
    text_chunk,
    tool_chunk,
    truncated,
    usage_chunk,
    wait,
)


@pytest.mark.parametrize("fault", [close, reset, garbage])
async def test_no_answer_at_all(client: aiohttp.ClientSession, p: Upstream, fault: Callable[[], Any]) -> None:
    p.script(fault())
    with pytest.raises(aiohttp.ClientError):
        await ask_for_json(client, p)
    assert (await ask_for_json(client, p))[0] == 200
    assert not p.requests[0].answered
    assert not p.requests[0].closed_early


async def test_a_reset_is_a_reset_and_a_close_is_none(p: Upstream) -> None:
    async def outcome() -> bytes | type[Exception]:
        reader, writer = await asyncio.open_connection("127.0.0.1", p.port)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
        try:
            return await reader.read()
        except ConnectionResetError as error:
            return type(error)
        finally:
            writer.close()

    p.script(reset(), close())
    assert [await outcome(), await outcome()] == [ConnectionResetError, b""]


async def test_a_silent_provider_sees_the_client_leave(client: aiohttp.ClientSession, p: Upstream) -> None:
    p.script(silent())
    call = asyncio.create_task(ask_for_json(client, p))
    seen = await p.wait_for_requests(1)
    assert not seen.over
    call.cancel()
    await seen.wait_closed()
    assert seen.closed_early
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_waiting_for_a_close_that_did_not_happen_says_so(client: aiohttp.ClientSession, p: Upstream) -> None:
    await ask_for_json(client, p)
    with pytest.raises(AssertionError, match="did not close early"):
        await p.requests[0].wait_closed()


async def test_a_client_that_leaves_a_stream(client: aiohttp.ClientSession, p: Upstream) -> None:
    p.script(sse(role_chunk(), text_chunk("one"), wait(asyncio.Event())))
    response = await ask(client, p)
    assert await response.content.readany()
    response.close()
    await p.requests[0].wait_closed()


async def test_a_gate_and_a_delay(client: aiohttp.ClientSession) -> None:
    clock, opened = ManualClock(), asyncio.Event()
    async with Upstream("slow", sleep=clock.sleep) as p:
        p.script(gate(opened, delay(3600, status(503))))
        call = asyncio.create_task(ask_for_json(client, p))
        await p.wait_for_requests(1)
        await clock.run(4000)
        assert not call.done()
        opened.set()
        await clock.run(3599)
        assert not call.done()
        await clock.run(1)
        assert (await call)[0] == 503


async def test_a_scripted_stream_is_sent_as_given(client: aiohttp.ClientSession, p: Upstream) -> None:
    steps = [role_chunk(), b": ping\n\n", text_chunk("日"), tool_chunk("{}", call_id="c", name="f")]
    steps += [error_event({"code": 503}, "error"), finish_chunk("length"), usage_chunk(1, 2), DONE]
    p.script(sse(*steps[:4], pause(0), *steps[4:]))
    async with ask(client, p) as response:
        assert await response.read() == b"".join(steps)


@pytest.mark.parametrize("broken_off", [cut, rst])
async def test_a_stream_that_dies_half_way(
    client: aiohttp.ClientSession, p: Upstream, broken_off: Callable[[], Any]
) -> None:
    has_them = asyncio.Event()
    p.script(cut_after(4, broken_off(), until=has_them))
    received = b""
    async with ask(client, p) as response:
        while b'"p3 "' not in received:
            received += await response.content.readany()
        has_them.set()
        with pytest.raises(aiohttp.ClientError):
            await response.content.read()
    assert received.count(b'"content": "p') == 4
    assert b'finish_reason": "' not in received
    assert not p.requests[0].answered


async def test_a_plain_answer_that_stops_short(client: aiohttp.ClientSession, p: Upstream) -> None:
    p.script(truncated(b'{"id":"x"'))
    async with ask(client, p) as response:
        assert int(response.headers["Content-Length"]) == 19
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()


async def test_bytes_that_are_no_request(p: Upstream) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", p.port)
    writer.write(b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()
    assert p.malformed == ["both Content-Length and Transfer-Encoding"]
    assert p.requests == []


async def test_expect_continue_and_pipelining(p: Upstream) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", p.port)
    writer.write(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"{}" + b"POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    answers = await reader.read()
    writer.close()
    assert answers.index(b"chatcmpl-primary-1") < answers.index(b"chatcmpl-primary-2")
