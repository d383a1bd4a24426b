"""The fake provider as a plain client meets it: answers, the script, the record, and how it goes away."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop

from tests.fakes.asking import MESSAGES, ask, ask_for_json, events, said
from tests.fakes.upstream import (
    Behaviour,
    Exchange,
    Upstream,
    answer,
    close,
    cut_after,
    html,
    raw,
    redirect,
    reset,
    rst,
    silent,
    sse,
    status,
    wait,
)

# Answers


async def test_a_plain_answer(client: aiohttp.ClientSession, p: Upstream) -> None:
    code, body = await ask_for_json(client, p)
    assert code == 200
    assert (body["id"], body["model"]) == ("chatcmpl-primary-1", "m1")
    assert body["choices"][0]["message"]["content"] == "hello from primary"
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"] == {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}


async def test_the_same_answer_as_a_stream(client: aiohttp.ClientSession, p: Upstream) -> None:
    async with ask(client, p, stream=True) as response:
        assert response.content_type == "text/event-stream"
        values = await events(response)
    deltas = [value["choices"][0]["delta"] for value in values[:-1]]
    assert deltas == [
        {"role": "assistant", "content": ""},
        {"content": "hello"},
        {"content": " from"},
        {"content": " primary"},
        {},
    ]
    assert values[-2]["choices"][0]["finish_reason"] == "stop"
    assert values[-1] == "[DONE]"


async def test_a_usage_chunk_only_where_it_was_asked_for(client: aiohttp.ClientSession, p: Upstream) -> None:
    async with ask(client, p, stream=True, stream_options={"include_usage": True}) as response:
        values = await events(response)
    assert values[-2]["choices"] == []
    assert values[-2]["usage"]["total_tokens"] == 15


async def test_tool_calls_whole_and_in_pieces(client: aiohttp.ClientSession, p: Upstream) -> None:
    p.default = answer(tool_calls=[("c1", "look", '{"a": 1}'), ("c2", "sleep", "{}")])
    _, body = await ask_for_json(client, p)
    message = body["choices"][0]["message"]
    assert message["content"] is None
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["look", "sleep"]
    assert body["choices"][0]["finish_reason"] == "tool_calls"
    async with ask(client, p, stream=True) as response:
        values = await events(response)
    calls = [call for value in values[:-1] for call in value["choices"][0]["delta"].get("tool_calls", [])]
    assert [call["id"] for call in calls if "id" in call] == ["c1", "c2"]
    arguments = ["".join(call["function"]["arguments"] for call in calls if call["index"] == n) for n in (0, 1)]
    assert arguments == ['{"a": 1}', "{}"]


@pytest.mark.parametrize("encoding", ["gzip", "br"])
@pytest.mark.parametrize("streamed", [True, False])
async def test_content_codings(client: aiohttp.ClientSession, p: Upstream, encoding: Any, streamed: bool) -> None:
    p.default = answer("naïve 世界 🎈", encoding=encoding, headers={"X-Extra": "1"})
    async with ask(client, p, stream=streamed) as response:
        assert (response.headers["Content-Encoding"], response.headers["X-Extra"]) == (encoding, "1")
        text = said(await events(response)) if streamed else (await response.json())["choices"][0]["message"]["content"]
    assert text == "naïve 世界 🎈"


@pytest.mark.parametrize("encoding", ["gzip", "br"])
async def test_a_coded_piece_can_be_read_before_the_next_is_sent(
    client: aiohttp.ClientSession, p: Upstream, encoding: Any
) -> None:
    go_on = asyncio.Event()
    p.script(sse(b"one", wait(go_on), b"two", encoding=encoding))
    async with ask(client, p) as response:
        assert await response.content.readany() == b"one"
        go_on.set()
        assert await response.content.read() == b"two"


async def test_errors_of_the_api(client: aiohttp.ClientSession, p: Upstream) -> None:
    p.script(
        status(429, "insufficient_quota", "no money", type="insufficient_quota", headers={"Retry-After": "7"}),
        status(529),
        status(400, body=b"{}"),
    )
    async with ask(client, p) as response:
        assert (response.status, response.headers["Retry-After"]) == (429, "7")
        assert (await response.json())["error"] == {
            "message": "no money",
            "type": "insufficient_quota",
            "param": None,
            "code": "insufficient_quota",
        }
    code, body = await ask_for_json(client, p)
    assert (code, body["error"]["type"], body["error"]["code"]) == (529, "server_error", None)
    assert await ask_for_json(client, p) == (400, {})


async def test_other_bodies(client: aiohttp.ClientSession, p: Upstream) -> None:
    p.script(raw(b'{"choices":null}'), html(), redirect("http://elsewhere.invalid/"))
    assert await ask_for_json(client, p) == (200, {"choices": None})
    async with ask(client, p) as response:
        assert (response.status, response.content_type) == (200, "text/html")
    async with ask(client, p) as response:
        assert (response.status, response.headers["Location"]) == (307, "http://elsewhere.invalid/")


# The script and the record


async def test_the_script_is_used_up_by_posts_then_the_default_holds(
    client: aiohttp.ClientSession, p: Upstream
) -> None:
    p.script(status(500), status(503))
    async with client.get(f"{p.base_url}/models") as response:
        assert (await response.json())["object"] == "list"
    assert [(await ask_for_json(client, p))[0] for _ in range(3)] == [500, 503, 200]
    assert (p.attempts, len(p.requests), p.script_left) == (3, 4, 0)


async def test_what_is_recorded(client: aiohttp.ClientSession, p: Upstream) -> None:
    headers = [("X-Order", "1"), ("Authorization", "Bearer k"), ("X-Order", "2")]
    url = f"{p.base_url}/chat/completions?key=1"
    for _ in range(2):
        async with client.post(url, json={"model": "m"}, headers=headers) as response:
            await response.read()
    first, second = p.requests
    assert (first.method, first.path) == ("POST", "/v1/chat/completions?key=1")
    assert [value for name, value in first.headers if name == "X-Order"] == ["1", "2"]
    assert (first.header("authorization"), first.header("nope")) == ("Bearer k", None)
    assert (first.json, first.body) == ({"model": "m"}, b'{"model": "m"}')
    assert first.at <= second.at
    assert first.connection == second.connection == 1
    assert (first.answered, first.closed_early) == (True, False)


async def test_a_large_chunked_body(client: aiohttp.ClientSession, p: Upstream) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b"x" * 65_536

    async with client.post(f"{p.base_url}/chat/completions", data=pieces()) as response:
        assert response.status == 200
    assert len(p.requests[0].body) == 64 * 65_536
    assert p.requests[0].header("transfer-encoding") == "chunked"


async def test_waiting_for_requests(client: aiohttp.ClientSession, p: Upstream) -> None:
    waiter = asyncio.create_task(p.wait_for_requests(2))
    await ask_for_json(client, p, model="a")
    assert not waiter.done()
    await ask_for_json(client, p, model="b")
    assert (await waiter).json["model"] == "b"
    with pytest.raises(TimeoutError):
        await p.wait_for_requests(3, timeout=0)


@pytest.mark.parametrize(
    "body",
    [
        {"messages": []},
        {"messages": [{"role": "robot", "content": "x"}]},
        {"messages": [{"role": "user"}]},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"stream": "true"},
        {"stream_options": {"include_usage": True}},
        {"model": ""},
        {"temperature": 3},
    ],
)
async def test_a_strict_provider_refuses_what_a_real_one_does(
    client: aiohttp.ClientSession, body: dict[str, Any]
) -> None:
    async with Upstream("strict", strict=True) as p:
        p.script(answer("taken"))
        code, refusal = await ask_for_json(client, p, **body)
        assert (code, refusal["error"]["type"]) == (400, "invalid_request_error")
        async with client.post(f"{p.base_url}/v1/chat/completions", json={}) as response:
            assert response.status == 404
        code, taken = await ask_for_json(client, p)
        assert (code, taken["choices"][0]["message"]["content"]) == (200, "taken")


async def test_a_strict_provider_with_a_key_refuses_every_other(client: aiohttp.ClientSession) -> None:
    async with Upstream("strict", strict=True, key="sk-right") as p:
        p.script(answer("taken"))
        for given, code in (("Bearer sk-wrong", 401), ("sk-right", 401), ("Bearer sk-right", 200)):
            body = {"model": "m1", "messages": MESSAGES}
            sent = client.post(f"{p.base_url}/chat/completions", json=body, headers={"Authorization": given})
            async with sent as response:
                assert response.status == code
        assert p.refused == ["Incorrect API key provided."] * 2
        assert p.script_left == 0


# Connections, and going away


async def test_idle_connections_can_be_closed(client: aiohttp.ClientSession, p: Upstream) -> None:
    p.script(answer(), silent())
    reader, writer = await asyncio.open_connection("127.0.0.1", p.port)
    writer.write(b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
    await reader.readuntil(b'"total_tokens": 15}}')
    busy = asyncio.create_task(ask_for_json(client, p))
    await p.wait_for_requests(2)
    assert (p.connections_made, p.connections_open) == (2, 2)
    assert p.close_idle() == 1
    assert await reader.read() == b""
    writer.close()
    assert (p.connections_made, p.connections_open) == (2, 1)
    busy.cancel()
    await p.requests[1].wait_closed()


async def test_a_request_lost_on_a_reused_connection(p: Upstream) -> None:
    """The next request on the connection gets a FIN and no byte."""
    p.script(answer(), close())
    reader, writer = await asyncio.open_connection("127.0.0.1", p.port)
    writer.write(b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
    await reader.readuntil(b'"total_tokens": 15}}')
    writer.write(b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
    assert await reader.read() == b""
    writer.close()
    assert [seen.connection for seen in p.requests] == [1, 1]


async def test_stopped_it_refuses_and_started_it_is_at_the_same_port(
    client: aiohttp.ClientSession, p: Upstream
) -> None:
    url = p.base_url
    p.script(silent())
    call = asyncio.create_task(ask_for_json(client, p))
    seen = await p.wait_for_requests(1)
    await p.stop()
    await p.stop()
    assert p.connections_open == 0
    assert not seen.closed_early
    with pytest.raises(aiohttp.ClientError):
        await call
    with pytest.raises(aiohttp.ClientConnectorError):
        await ask_for_json(client, p)
    await p.start()
    assert p.base_url == url
    assert (await ask_for_json(client, p))[0] == 200


async def test_no_task_is_left(client: aiohttp.ClientSession) -> None:
    before = asyncio.all_tasks()
    async with Upstream("primary", default=silent()) as p:
        calls = [asyncio.create_task(ask_for_json(client, p)) for _ in range(20)]
        await p.wait_for_requests(20)
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(result, aiohttp.ClientError) for result in results)
    assert asyncio.all_tasks() == before


async def test_a_broken_behaviour_shows_at_the_end(client: aiohttp.ClientSession) -> None:
    async def broken(exchange: Exchange) -> None:
        raise KeyError("broken")

    async def forgetful(exchange: Exchange) -> None:
        pass

    async def meet(behaviour: Behaviour) -> None:
        async with Upstream("p", default=behaviour) as p:
            with pytest.raises(aiohttp.ClientError):
                await ask_for_json(client, p)

    with pytest.raises(KeyError, match="broken"):
        await meet(broken)
    with pytest.raises(RuntimeError, match="neither answered nor broke off"):
        await meet(forgetful)


async def test_no_address_before_the_start() -> None:
    with pytest.raises(RuntimeError, match="before it is started"):
        _ = Upstream("p").base_url


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_both_event_loops(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def scenario() -> None:
        has_it = asyncio.Event()
        async with Upstream("primary") as p, aiohttp.ClientSession() as client:
            p.script(reset(), close(), silent(), cut_after(1, rst(), until=has_it))
            for _ in range(2):
                with pytest.raises(aiohttp.ClientError):
                    await ask_for_json(client, p)
            call = asyncio.create_task(ask_for_json(client, p))
            silent_one = await p.wait_for_requests(3)
            call.cancel()
            await silent_one.wait_closed()
            async with ask(client, p) as response:
                while b'"p0 "' not in await response.content.readany():
                    pass
                has_it.set()
                with pytest.raises(aiohttp.ClientError):
                    await response.read()
            assert (await ask_for_json(client, p))[0] == 200
            async with ask(client, p, stream=True) as response:
                assert said(await events(response)) == "hello from primary"
            reader, writer = await asyncio.open_connection("127.0.0.1", p.port)
            p.script(reset())
            writer.write(b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()
            await p.stop()
            await p.start()
            assert (await ask_for_json(client, p))[0] == 200

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())


def test_as_a_process_of_its_own() -> None:
    root = Path(__file__).parents[2]
    command = [
        sys.executable,
        "-m",
        "tests.fakes.upstream",
        "--port",
        "0",
        "--name",
        "other",
        "--pieces",
        "3",
    ]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        assert words[:2] == ["listening", "on"]
        connection = http.client.HTTPConnection("127.0.0.1", int(words[2]), timeout=30)
        connection.request("POST", "/v1/chat/completions", json.dumps({"model": "m", "messages": MESSAGES}))
        body = json.loads(connection.getresponse().read())
        connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert body["choices"][0]["message"]["content"] == "other:0 other:1 other:2"
    assert body["usage"]["completion_tokens"] == 3
