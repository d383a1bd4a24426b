"""Hundreds of slow callers at once, and what else is served meanwhile. One by one they are in `tests/gateway/test_bodies.py`:
each framing that stops or never ends, the exact limit, each coding, and the gigabyte under gzip."""

from __future__ import annotations

import asyncio
import gzip
import resource
import statistics
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.fakes.upstream import Upstream
from tests.gateway.wire import GUARD_S, POST, Wire, chat_body, until, wire
from tests.lab import Answer, Json, Lab, config, lab

SLOW = 500
MEGABYTE = 1_000_000
BODY = f"{POST}Content-Length: 16000000\r\n\r\n{{"
CHUNKED = f"{POST}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n"


@pytest.fixture(autouse=True)
def enough_files() -> Iterator[None]:
    """Both ends of each connection are in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * SLOW + 500
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"this machine allows no {needed} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def values(p: Upstream, **limits: str) -> Json:
    return config({"p": p}, gateway={"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", **limits})


def memory() -> int:
    """Bytes that this process has, or where that cannot be read the most that it ever had."""
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class Slow:
    """Callers that send byte after byte: every other one inside its head, the others inside a body, framed or in chunks."""

    def __init__(self, wires: list[Wire]) -> None:
        self._loop = asyncio.get_running_loop()
        self.wires = wires
        self.pieces = [(b"x", b"x", b" ", b"1\r\n \r\n")[number % 4] for number in range(len(wires))]
        for number, w in enumerate(wires):
            w.send((f"{POST}X-Long: x", f"{POST}X-Long: x", BODY, CHUNKED)[number % 4])
        self.ended = [self._loop.create_task(w.closed()) for w in wires]

    @property
    def left(self) -> int:
        """How many have been neither answered nor closed."""
        return sum(not ended.done() for ended in self.ended)

    def one_more_byte(self) -> None:
        for w, piece, ended in zip(self.wires, self.pieces, self.ended, strict=True):
            if not ended.done():
                w.send(piece)


@asynccontextmanager
async def slow_callers(g: Lab) -> AsyncIterator[Slow]:
    async with AsyncExitStack() as stack:
        slow = Slow([await stack.enter_async_context(wire(g)) for _ in range(SLOW)])
        yield slow
        for w in slow.wires:
            w.abort()
        await asyncio.wait(slow.ended)


async def test_J05_five_hundred_slow_callers_delay_nobody() -> None:
    async with Upstream("p") as p, lab(values(p, header_timeout="60s", body_timeout="60s")) as g:
        assert (await g.chat()).status == 200
        before = memory()
        async with slow_callers(g) as slow:
            await until(lambda: g.service.in_flight == SLOW / 2)
            took = []
            for _ in range(15):
                slow.one_more_byte()
                started = slow._loop.time()
                assert (await g.chat()).status == 200
                took.append(slow._loop.time() - started)
            assert statistics.median(took) < 1.0
            assert memory() - before < 100 * MEGABYTE
            assert (p.attempts, slow.left) == (16, SLOW)
            await large_ones_meanwhile(g, p)
            assert slow.left == SLOW
        await until(lambda: not g.service.in_flight)
        assert (await g.chat()).status == 200


async def large_ones_meanwhile(g: Lab, p: Upstream) -> None:
    """With the limits as they are if nothing is written: twelve megabytes pass, and what is too large does not."""
    attempts = p.attempts
    image = "data:image/png;base64," + "A" * 12 * MEGABYTE
    message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": image}}]}
    assert (await large(g, {}, chat_body(messages=[message]))).status == 200
    assert p.attempts == attempts + 1
    assert len(p.requests[-1].body) > 12 * MEGABYTE
    for headers, body in (
        ({}, chat_body(user="x" * 32 * MEGABYTE)),
        ({"Content-Encoding": "gzip"}, gzip.compress(bytes(33 * MEGABYTE), 1)),
    ):
        refused = await large(g, headers, body)
        assert (refused.status, refused.error["class"]) == (413, "too_large")
    assert p.attempts == attempts + 1


async def large(g: Lab, headers: dict[str, str], body: bytes) -> Answer:
    async with wire(g) as w:
        fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        w.send(f"{POST}{fields}Content-Length: {len(body)}\r\n\r\n")
        w.send(body)
        return await w.answer()


async def test_J05_five_hundred_slow_callers_are_ended_within_the_limits() -> None:
    async with Upstream("p") as p, lab(values(p, header_timeout="1s", body_timeout="1s")) as g:
        before = memory()
        served = 0
        async with slow_callers(g) as slow:
            async with asyncio.timeout(GUARD_S):
                while slow.left:
                    slow.one_more_byte()
                    assert (await g.chat()).status == 200
                    served += 1
                    await asyncio.sleep(0.02)
            assert memory() - before < 100 * MEGABYTE
            ends = [ended.result() for ended in slow.ended]
        heads = [end for number, end in enumerate(ends) if number % 4 < 2]
        bodies = [end for number, end in enumerate(ends) if number % 4 >= 2]
        assert set(heads) == {b""}
        assert {end[:12] for end in bodies} <= {
            b"HTTP/1.1 408",
            b"",
        }  # a byte that comes too late may reset the connection
        told = [end for end in bodies if end]
        assert len(told) > len(bodies) / 2
        assert all(b"gateway.body_timeout" in end and end.count(b"HTTP/1.1") == 1 for end in told)
        assert p.attempts == served
        await until(lambda: not g.service.in_flight)


async def test_J05_a_declared_length_is_not_taken_for_bytes_that_have_come() -> None:
    """A hundred callers say 16 MB each, send little of it, and stop."""
    async with Upstream("p") as p, lab(values(p, body_timeout="1s")) as g, AsyncExitStack() as stack:
        before = memory()
        wires = [await stack.enter_async_context(wire(g)) for _ in range(100)]
        for w in wires:
            w.send(BODY + " " * 10_000)
        await until(lambda: g.service.in_flight == len(wires))
        assert memory() - before < 100 * MEGABYTE
        for w in wires:
            answered = await w.answer()
            assert (answered.status, answered.headers["connection"]) == (408, "close")
        assert p.attempts == 0
        assert (await g.chat()).status == 200
