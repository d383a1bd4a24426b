"""`stanchion status` against an admin address, good and bad ones."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

import pytest

from tests.cli.admin_server import admin_server, answer, target
from tests.cli.running import stanchion

OPEN = {"state": "open", "samples": 6, "failures": 6, "retry_in_s": 4.2}
HELD = {"reason": "rate_limited", "scope": "credential", "seconds_left": 25}
FAILED = {"class": "connect", "message": "no connection to the provider", "seconds_ago": 3.0}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_a_healthy_gateway() -> None:
    async with admin_server(answer(target("gpt-eu"), target("gpt-us"))) as url:
        done = await stanchion("status", "--admin", url)
    assert done.code == 0, done.text
    assert "gpt-eu" in done.out
    assert "openai/gpt-main" in done.out
    assert "2 of 2 targets usable (gpt-eu → gpt-us)" in done.out
    assert "3 success, 1 rescued" in done.out
    assert "hold" not in done.out, "columns without content are left out"
    assert "\x1b" not in done.out, "no colours in a pipe"


async def test_troubled_targets_say_why() -> None:
    levels = {"requests": {"level": 3.4, "capacity": 80}, "tokens": None, "in_flight": 2, "concurrency": 8}
    troubled = [
        target("gpt-eu", breaker=OPEN, last_error=FAILED),
        target("gpt-us", hold=HELD),
        target("claude", breaker={"state": "half_open"}, quota=levels),
    ]
    async with admin_server(answer(*troubled)) as url:
        done = await stanchion("status", "--admin", url)
    assert "open: next probe in 4 s" in done.out
    assert "half open: probe in flight" in done.out
    assert "rate_limited, 25 s left" in done.out
    assert "requests 3 of 80" in done.out
    assert "2 of 8" in done.out
    assert "why gpt-eu: connect 3 s ago: no connection to the provider" in done.out


async def test_a_route_without_a_usable_target_is_a_no() -> None:
    routes = [{"name": "support", "targets": ["gpt-eu"], "usable": 0}]
    async with admin_server(answer(target("gpt-eu", breaker=OPEN), routes=routes)) as url:
        done = await stanchion("status", "--admin", url)
        as_json = await stanchion("status", "--admin", url, "--json")
    assert (done.code, as_json.code) == (1, 1)
    assert json.loads(as_json.out)["ok"] is False
    assert json.loads(as_json.out)["targets"][0]["name"] == "gpt-eu"


async def test_the_token_comes_from_option_or_environment() -> None:
    async with admin_server(answer(target("gpt-eu")), token="s3cret") as url:
        given = await stanchion("status", "--admin", url, "--token", "s3cret")
        found = await stanchion("status", "--admin", url, env={"STANCHION_ADMIN_TOKEN": "s3cret"})
        missing = await stanchion("status", "--admin", url)
        wrong = await stanchion("status", "--admin", url, "--token", "other")
    assert (given.code, found.code) == (0, 0)
    assert (missing.code, wrong.code) == (2, 2)
    assert "asks for the admin token" in missing.err
    assert "refused the admin token" in wrong.err
    assert "STANCHION_ADMIN_TOKEN" in wrong.err


async def test_address_and_token_come_from_the_settings(tmp_path: Path) -> None:
    async with admin_server(answer(target("gpt-eu")), token="s3cret") as url:
        config = tmp_path / "stanchion.yaml"
        config.write_text(
            f'version: 1\ngateway: {{admin: "{url.removeprefix("http://")}", admin_token: "${{TOKEN}}"}}\n'
            'providers: {p: {dialect: openai, base_url: "http://127.0.0.1:1/v1", auth: none}}\n'
            "targets: {t: {provider: p, model: m}}\nroutes: {r: {targets: [t]}}\n"
        )
        done = await stanchion("status", "--config", str(config), env={"TOKEN": "s3cret"})
        unreadable = await stanchion("status", "--config", str(tmp_path / "missing.yaml"))
    assert done.code == 0, done.text
    assert unreadable.code == 2
    assert "s3cret" not in done.text


async def test_nothing_listens() -> None:
    done = await stanchion("status", "--admin", f"http://127.0.0.1:{free_port()}")
    assert done.code == 2
    assert "no gateway listens at" in done.err
    assert "stanchion serve" in done.err
    assert "Traceback" not in done.text


async def test_unreachable_as_json() -> None:
    done = await stanchion("status", "--json", "--admin", f"127.0.0.1:{free_port()}")
    assert done.code == 2
    told = json.loads(done.out)
    assert told["ok"] is False
    assert "no gateway listens" in told["error"]


@pytest.mark.parametrize(
    ("reply", "status", "said"),
    [
        ("<html>hello</html>", 200, "is not a Stanchion admin address"),
        ({"hello": "world"}, 200, "is not a Stanchion admin address"),
        ([1], 200, "is not a Stanchion admin address"),
        ("no such page", 404, "is not a Stanchion admin address"),
        ("broken", 503, "answered with status 503"),
    ],
)
async def test_what_answers_is_something_else(reply: object, status: int, said: str) -> None:
    async with admin_server(reply, status=status) as url:
        done = await stanchion("status", "--admin", url)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.text


async def test_what_answers_speaks_no_http() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"-ERR unknown command\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        done = await stanchion("status", "--admin", f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert done.code == 2
    assert "Traceback" not in done.text


@pytest.mark.parametrize("address", ["ftp://127.0.0.1", "http://", "http://127.0.0.1:99999", "http://a b/"])
async def test_what_is_no_address(address: str) -> None:
    done = await stanchion("status", "--admin", address)
    assert done.code == 2
    assert "Traceback" not in done.text
