"""Reloads of a gateway process: SIGHUP, the watch, and `stanchion reload`."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tests.cli.running import stanchion
from tests.fakes import chat
from tests.fakes.behaviours import sse, wait
from tests.fakes.upstream import Upstream
from tests.gateway.test_serve_process import Gateway, ask, started, wire_to
from tests.gateway.wire import chat_request
from tests.lab import Json, config, write


def values(p: Upstream, deadline: str, **more: str) -> Json:
    gateway = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "drain": "10s", "watch": "false", **more}
    return config({"p": p}, gateway=gateway, defaults={"deadline": deadline})


async def hang_up(gateway: Gateway) -> Json:
    gateway.process.send_signal(signal.SIGHUP)
    return await gateway.event("reload")


async def stop(gateway: Gateway) -> None:
    gateway.process.send_signal(signal.SIGTERM)
    assert await gateway.exit_code() == 0


async def test_SIGHUP_reloads_and_running_streams_go_on(tmp_path: Path) -> None:
    go, path = asyncio.Event(), tmp_path / "stanchion.yaml"
    script = sse(chat.text_chunk("one "), wait(go), chat.text_chunk("two"), chat.finish_chunk(), chat.DONE)
    async with Upstream("p", default=script) as p, started(values(p, "50s"), tmp_path) as gateway:
        start = await gateway.event("start")
        version = (await ask(start["admin"], "/admin/v1/targets"))[1]["settings_version"]
        assert start["settings_version"] == version
        async with wire_to(start["listen"]) as w:
            w.send(chat_request(stream=True))
            await w.head()
            await w.until_seen(b"one ")
            write(path, {**values(p, "60s"), "routes": {"other": {"targets": ["p"]}}})
            line = await hang_up(gateway)
            assert (line["applied"], line["trigger"], line["before"]) == (True, "SIGHUP", version)
            assert (await ask(start["listen"]))[0] == 404
            path.write_text("version: 1\nnonsense: 1\n")
            line = await hang_up(gateway)
            assert (line["applied"], line["level"]) == (False, "error")
            assert any("nonsense" in problem for problem in line["problems"])
            assert any("providers" in problem for problem in line["problems"]), "every problem is in the line"
            assert (await ask(start["admin"], "/admin/v1/targets"))[1]["settings_version"] == line["settings_version"]
            go.set()
            await w.until_seen(b"[DONE]")
            assert await w.piece() == b""
        gateway.process.send_signal(signal.SIGTERM)
        assert await gateway.exit_code() == 0


async def test_the_process_watches_its_file(tmp_path: Path) -> None:
    async with Upstream("p") as p, started(values(p, "50s", watch="true"), tmp_path) as gateway:
        await gateway.event("start")
        write(tmp_path / "stanchion.yaml", values(p, "60s", watch="true"))
        line = await gateway.event("reload")
        assert (line["applied"], line["trigger"]) == (True, "file")
        await stop(gateway)


async def test_the_command_says_what_came_of_it(tmp_path: Path) -> None:
    path = tmp_path / "stanchion.yaml"
    async with Upstream("p") as p, started(values(p, "50s", admin_token="s3cret"), tmp_path) as gateway:
        admin = (await gateway.event("start"))["admin"]
        write(path, values(p, "60s", admin_token="s3cret"))
        done = await stanchion("reload", "--admin", admin, "--token", "s3cret")
        version = (await gateway.event("reload"))["settings_version"]
        assert (done.code, version in done.out) == (0, True), done.text
        write(path, {**values(p, "60", admin_token="s3cret"), "nonsense": "1"})
        token = {"STANCHION_ADMIN_TOKEN": "s3cret"}
        done = await stanchion("reload", "--admin", admin, env=token)
        checked = await stanchion("check", "--config", str(path))
        assert done.code == 1
        assert done.out == checked.out, "the problems look as those of `check`"
        assert "refused: 2 problems" in done.err
        as_json = await stanchion("reload", "--admin", admin, "--json", env=token)
        told = json.loads(as_json.out)
        assert (as_json.code, told["applied"], len(told["problems"])) == (1, False, 2)
        assert told["version"] == version
        refused = await stanchion("reload", "--admin", admin, "--token", "other")
        assert (refused.code, "refused the admin token" in refused.err) == (2, True)
        await stop(gateway)


async def test_address_and_token_come_from_the_settings(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    async with Upstream("p") as p:
        async with started(values(p, "50s", admin=address, admin_token="s3cret"), tmp_path) as gateway:
            await gateway.event("start")
            done = await stanchion("reload", "--config", str(tmp_path / "stanchion.yaml"), "--json")
            assert (done.code, json.loads(done.out)["applied"]) == (0, True), done.text
            await stop(gateway)
        done = await stanchion("reload", "--config", str(tmp_path / "stanchion.yaml"))
        assert (done.code, "no gateway listens" in done.err) == (2, True)


@asynccontextmanager
async def somebody(reply: web.Response) -> AsyncIterator[str]:
    async def answer(_: web.Request) -> web.Response:
        return reply

    app = web.Application()
    app.router.add_post("/admin/v1/reload", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, "<html>"),
        (200, "{}"),
        (200, '{"applied": false}'),
        (422, '{"applied": false, "problems": []}'),
        (422, '{"applied": false, "problems": [1]}'),
        (422, "[]"),
        (404, "{}"),
    ],
)
async def test_what_answers_is_something_else(status: int, body: str) -> None:
    async with somebody(web.Response(status=status, text=body)) as url:
        done = await stanchion("reload", "--admin", url)
    assert done.code == 2
    assert "is not a Stanchion admin address" in done.err
    assert "Traceback" not in done.text


async def test_what_a_gateway_says_does_not_steer_the_terminal() -> None:
    problem = {"file": "f\x1b[2J", "line": 1, "column": 2, "path": "", "message": "m\x07"}
    body = json.dumps({"applied": False, "problems": [problem]})
    async with somebody(web.Response(status=422, text=body)) as url:
        done = await stanchion("reload", "--admin", url)
    assert (done.code, done.out) == (1, "f [2J:1:2: m \n")
