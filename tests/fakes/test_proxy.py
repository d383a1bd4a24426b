"""The fake proxy, asked by another client than the gateway's own."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from tests.fakes.asking import MESSAGES
from tests.fakes.proxy import ForwardProxy
from tests.fakes.upstream import Upstream
from tests.llm.transport.driving import until

BODY = {"model": "m1", "messages": MESSAGES}


async def test_it_forwards_a_request_without_what_is_for_itself(p: Upstream, client: aiohttp.ClientSession) -> None:
    async with ForwardProxy(login="user:a@b") as proxy:
        for _ in range(2):
            async with client.post(f"{p.base_url}/chat/completions", json=BODY, proxy=proxy.url) as response:
                assert response.status == 200
                assert (await response.json())["choices"][0]["message"]["content"] == "hello from primary"
    assert proxy.asked[0].line == f"POST {p.base_url}/chat/completions HTTP/1.1"
    assert p.requests[0].header("proxy-authorization") is None
    assert p.requests[0].json == BODY


@pytest.mark.parametrize("login", ["user:wrong", ""])
async def test_it_asks_for_its_login(login: str, p: Upstream, client: aiohttp.ClientSession) -> None:
    async with ForwardProxy(login="user:right") as proxy:
        url = f"http://{login}@127.0.0.1:{proxy.port}" if login else f"http://127.0.0.1:{proxy.port}"
        async with client.post(f"{p.base_url}/chat/completions", json=BODY, proxy=url) as response:
            assert response.status == 407
    assert p.attempts == 0


async def test_it_tunnels_to_where_the_name_is_said_to_be(p: Upstream) -> None:
    async with ForwardProxy(hosts={"provider.test": p.port}) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"CONNECT provider.test:443 HTTP/1.1\r\nHost: provider.test:443\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.write(b"GET /v1/models HTTP/1.1\r\nHost: provider.test\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert (p.connections_open, proxy.connections_open) == (1, 1)
        writer.close()
        await writer.wait_closed()
        await until(lambda: (p.connections_open, proxy.connections_open) == (0, 0))


async def test_it_says_what_it_was_told_to_say(client: aiohttp.ClientSession) -> None:
    async with ForwardProxy(answer=b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n") as proxy:
        async with client.post("http://provider.test/", json=BODY, proxy=proxy.url) as response:
            assert response.status == 403
