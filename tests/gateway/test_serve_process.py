"""The gateway as a process: `python -m gateway serve`, its signals and its exit codes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.fakes import chat
from tests.fakes.behaviours import cut_after, silent, sse, wait
from tests.fakes.upstream import Upstream
from tests.gateway.wire import GUARD_S, Wire, chat_body, chat_request
from tests.lab import Json, config, whole

ROOT = Path(__file__).parents[2]


class Gateway:
    """A running gateway process. `lines` are what it has logged so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[Json] = []

    async def event(self, name: str) -> Json:
        """The next line with this event, as it is logged."""
        assert self.process.stderr is not None
        async with asyncio.timeout(GUARD_S):
            while line := await self.process.stderr.readline():
                entry: Json = json.loads(line)
                self.lines.append(entry)
                if entry["event"] == name:
                    return entry
        raise AssertionError(f"the gateway ended without the event {name}: {self.lines}")

    async def exit_code(self) -> int:
        assert self.process.stderr is not None
        async with asyncio.timeout(GUARD_S):
            self.lines += [json.loads(line) for line in (await self.process.stderr.read()).splitlines()]
            return await self.process.wait()


@asynccontextmanager
async def started(values: Json, folder: Path) -> AsyncIterator[Gateway]:
    path = folder / "stanchion.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False), "utf-8")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-m", "gateway", "serve", "--config", str(path)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield Gateway(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@asynccontextmanager
async def wire_to(address: str) -> AsyncIterator[Wire]:
    host, _, port = address.removeprefix("http://").rpartition(":")
    one = Wire(*await asyncio.open_connection(host, int(port)))
    try:
        yield one
    finally:
        await one.close()


async def ask(address: str, path: str = "/v1/chat/completions", **fields: Any) -> tuple[int, Json]:
    async with aiohttp.ClientSession() as session:
        method, body = ("GET", None) if path != "/v1/chat/completions" else ("POST", chat_body(**fields))
        kind = {"Content-Type": "application/json"}
        async with session.request(method, address + path, data=body, headers=kind) as response:
            answered = await whole(response)
            return answered.status, answered.json


def drain(p: Upstream, span: str) -> Json:
    return config({"p": p}, gateway={"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "drain": span})


async def test_it_says_where_it_listens_serves_and_stops_in_order(tmp_path: Path) -> None:
    async with Upstream("p") as p, started(drain(p, "10s"), tmp_path) as gateway:
        start = await gateway.event("start")
        assert start["settings"] == str(tmp_path / "stanchion.yaml")
        status, answered = await ask(start["listen"])
        assert (status, answered["choices"][0]["message"]["content"]) == (200, "hello from p")
        assert (await ask(start["admin"], "/readyz"))[0] == 200
        gateway.process.send_signal(signal.SIGTERM)
        assert await gateway.exit_code() == 0
        assert [line["event"] for line in gateway.lines] == ["start", "turn", "drain", "stop"]
        assert gateway.lines[-1]["broken_off"] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_running_stream_ends_well_before_the_process_does(tmp_path: Path, number: signal.Signals) -> None:
    go = asyncio.Event()
    script = sse(chat.text_chunk("one "), wait(go), chat.text_chunk("two"), chat.finish_chunk(), chat.DONE)
    async with Upstream("p", default=script) as p, started(drain(p, "10m"), tmp_path) as gateway:
        start = await gateway.event("start")
        async with wire_to(start["listen"]) as w:
            w.send(chat_request(stream=True))
            await w.head()
            await w.until_seen(b"one ")
            gateway.process.send_signal(number)
            assert (await gateway.event("drain"))["in_flight"] == 1
            assert (await ask(start["admin"], "/readyz"))[0] == 503
            status, refused = await ask(start["listen"])
            assert (status, refused["error"]["class"]) == (503, "shed")
            go.set()
            await w.until_seen(b"[DONE]")
            assert await w.piece() == b""
        assert await gateway.exit_code() == 0
        assert [line["outcome"] for line in gateway.lines if line["event"] == "turn"] == ["no_target", "success"]


async def test_at_the_limit_of_the_drain_a_stream_gets_its_error_event(tmp_path: Path) -> None:
    async with Upstream("p", default=cut_after(2, silent())) as p, started(drain(p, "200ms"), tmp_path) as gateway:
        start = await gateway.event("start")
        async with wire_to(start["listen"]) as w:
            w.send(chat_request(stream=True))
            await w.head()
            await w.until_seen(b"p1 ")
            gateway.process.send_signal(signal.SIGTERM)
            await w.until_seen(b"stream_interrupted")
            await w.closed()
        assert await gateway.exit_code() == 0
        assert [line["outcome"] for line in gateway.lines if line["event"] == "turn"] == ["stream_interrupted"]
        assert [line["broken_off"] for line in gateway.lines if line["event"] == "stop"] == [1]


async def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    async with Upstream("p", default=cut_after(2, silent())) as p, started(drain(p, "1d"), tmp_path) as gateway:
        start = await gateway.event("start")
        async with wire_to(start["listen"]) as w, wire_to(start["listen"]) as plain:
            w.send(chat_request(stream=True))
            await w.head()
            await w.until_seen(b"p1 ")
            p.default = silent()
            plain.send(chat_request())
            await p.wait_for_requests(2)
            gateway.process.send_signal(signal.SIGTERM)
            assert (await gateway.event("drain"))["in_flight"] == 2
            gateway.process.send_signal(signal.SIGTERM)
            assert b'"error"' in await w.until_seen(b"stream_interrupted")
            await w.closed()
            assert (await plain.answer()).status == 503
        assert await gateway.exit_code() == 0


@pytest.mark.parametrize("key", ["listen", "admin"])
async def test_an_address_that_is_taken_is_an_exit_code_and_a_message(tmp_path: Path, key: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        values = config({"p": "http://127.0.0.1:9/v1"})
        values["gateway"][key] = address
        async with started(values, tmp_path) as gateway:
            assert await gateway.exit_code() == 3
        assert [line["event"] for line in gateway.lines] == ["start"]
        assert gateway.lines[0]["level"] == "error"
        message = gateway.lines[0]["message"]
        assert message.startswith(f"gateway.{key}: cannot listen on {address}: ")
        assert message.endswith("free it or set another address")


async def test_broken_settings_are_exit_code_1_with_their_place(tmp_path: Path) -> None:
    values = config({"p": "http://127.0.0.1:9/v1"})
    values["routes"]["r"]["tragets"] = ["p"]
    async with started(values, tmp_path) as gateway:
        out, _ = await gateway.process.communicate()
        assert gateway.process.returncode == 1
        assert b"routes.r.tragets" in out


async def test_a_log_reader_that_stops_reading_stops_no_turn(tmp_path: Path) -> None:
    """Far more lines than a pipe takes are logged while nobody reads them."""
    async with Upstream("p") as p:
        async with started(config({"p": p}), tmp_path) as gateway:
            start = await gateway.event("start")
            async with aiohttp.ClientSession() as session:
                for _ in range(1200):
                    async with session.post(
                        f"{start['listen']}/v1/chat/completions",
                        data=chat_body(),
                        headers={"Content-Type": "application/json"},
                    ) as response:
                        assert response.status == 200
            gateway.process.send_signal(signal.SIGTERM)
            assert await gateway.exit_code() == 0
            assert sum(line["event"] == "turn" for line in gateway.lines) == 1200
