"""A plain client of a fake provider, for the tests of the provider itself."""

from __future__ import annotations

import json
from typing import Any

import aiohttp

from tests.fakes.upstream import Upstream

MESSAGES = [{"role": "user", "content": "hi"}]


def ask(client: aiohttp.ClientSession, p: Upstream, **body: Any) -> Any:
    """The context manager of one POST."""
    request = {"model": "m1", "messages": MESSAGES} | body
    return client.post(f"{p.base_url}/chat/completions", json=request, allow_redirects=False)


async def ask_for_json(client: aiohttp.ClientSession, p: Upstream, **body: Any) -> tuple[int, Any]:
    async with ask(client, p, **body) as response:
        return response.status, await response.json()


async def events(response: aiohttp.ClientResponse) -> list[Any]:
    """The JSON values of a stream, with the text `[DONE]` as itself."""
    values = [block.partition("data: ")[2] for block in (await response.text()).split("\n\n") if block]
    return [value if value == "[DONE]" else json.loads(value) for value in values]


def said(values: list[Any]) -> str:
    chunks = [value for value in values if value != "[DONE]" and value.get("choices")]
    return "".join(value["choices"][0]["delta"].get("content") or "" for value in chunks)
