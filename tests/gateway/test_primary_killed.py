"""The primary provider's process is killed while ten callers stream: what each of them gets, and the way back."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.fakes.upstream import Upstream
from tests.gateway.wire import GUARD_S, Wire, chat_request, idle, until, wire
from tests.lab import Answer, Lab, config, lab

ROOT = Path(__file__).parents[2]
FAST = {"breaker": {"minimum": 5, "cooldown": "300ms"}, "timeouts": {"first_output": "60s", "idle": "60s"}}


@asynccontextmanager
async def primary_process(port: int = 0) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """A provider as a process of its own, which streams slowly; the process and its port."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.fakes.upstream", "--name", "primary", "--port", str(port)),
        *("--pieces", "2000", "--piece-delay-ms", "50"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(GUARD_S):
            line = (await process.stdout.readline()).decode()
        assert line.startswith("listening on "), line
        yield process, int(line.split()[-1])
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def rest(w: Wire, seen: bytes) -> Answer:
    """What is left of a body that has begun."""
    try:
        while data := await w.piece():
            seen += data
    except (asyncio.IncompleteReadError, ConnectionError):
        return Answer(200, {}, seen, whole=False)
    return Answer(200, {}, seen)


async def state(g: Lab) -> str:
    return str((await g.target("primary"))["breaker"]["state"])


async def test_the_primary_is_killed_under_ten_streams_and_comes_back() -> None:
    async with Upstream("secondary") as secondary, AsyncExitStack() as stack:
        process, port = await stack.enter_async_context(primary_process())
        upstreams: dict[str, Upstream | str] = {"primary": f"http://127.0.0.1:{port}/v1", "secondary": secondary}
        g = await stack.enter_async_context(lab(config(upstreams, defaults=FAST)))
        wires = [await stack.enter_async_context(wire(g)) for _ in range(10)]
        begun, waiting = wires[:5], wires[5:]

        seen = []
        for w in begun:
            w.send(chat_request(stream=True))
        for w in begun:
            await w.head()
            seen.append(await w.until_seen(b"primary:0"))
        os.kill(process.pid, signal.SIGSTOP)  # from here on it takes connections and answers nobody
        for w in waiting:
            w.send(chat_request(stream=True))
        await until(lambda: g.service.in_flight == 10)
        process.kill()
        await process.wait()

        async with asyncio.timeout(GUARD_S):
            broken = await asyncio.gather(*(rest(w, data) for w, data in zip(begun, seen, strict=True)))
            rescued = await asyncio.gather(*(w.answer() for w in waiting))
        for got in broken:
            assert got.streamed_text.startswith("primary:0")
            assert "secondary" not in got.streamed_text
            assert len(got.error_events) == 1
            assert got.error_events[0]["code"] == "stream_interrupted"
            assert got.events[-1] == {"error": got.error_events[0]}
            assert not got.whole
            assert not got.clean
        for got in rescued:
            assert (got.status, got.clean, got.streamed_text) == (200, True, "hello from secondary")
            assert got.headers["x-stanchion-target"] == "secondary"
        assert secondary.attempts == 5
        await idle(g)
        outcomes = sorted(turn["outcome"] for turn in g.turns)
        assert outcomes == ["rescued"] * 5 + ["stream_interrupted"] * 5
        assert any(line["event"] == "breaker" and line.get("state") == "open" for line in g.log)
        assert await state(g) == "open"

        answered = await g.chat(stream=True)  # while it is down
        assert (answered.clean, answered.streamed_text) == (True, "hello from secondary")

        await stack.enter_async_context(primary_process(port))
        async with asyncio.timeout(GUARD_S):
            while (await g.target("primary"))["breaker"]["retry_in_s"] > 0:  # noqa: ASYNC110 - the admin state is asked
                await asyncio.sleep(0.02)
            while await state(g) != "closed":  # the next requests probe it
                async with wire(g) as w:
                    w.send(chat_request())
                    assert (await w.answer()).status == 200
        answered = await g.chat()
        assert answered.headers["x-stanchion-target"] == "primary"
        assert answered.text.startswith("primary:0 primary:1")
        await idle(g)
