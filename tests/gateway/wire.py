"""What the tests of the gateway share: a bare socket, waiting for what can be seen, and two small figures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.lab import Answer, Lab

GUARD_S = 30.0
"""After this long a wait is taken for a hang. No test depends on its length."""

POST = "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n"


def chat_body(model: str = "r", **fields: Any) -> bytes:
    return json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}], **fields}).encode()


def chat_request(model: str = "r", **fields: Any) -> bytes:
    """A whole request as bytes."""
    body = chat_body(model, **fields)
    return f"{POST}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Wire:
    """One connection to the gateway, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(self, data: bytes | str) -> None:
        self._writer.write(data.encode() if isinstance(data, str) else data)

    async def drain(self) -> None:
        await self._writer.drain()

    async def answer(self) -> Answer:
        """One answer with its body, framed by its length or in chunks."""
        async with asyncio.timeout(GUARD_S):
            status, headers = await self.head()
            if headers.get("transfer-encoding") == "chunked":
                return await self._chunks(status, headers)
            return Answer(status, headers, await self._reader.readexactly(int(headers["content-length"])))

    async def head(self) -> tuple[int, dict[str, str]]:
        """The status and the headers, names in lower case; a name that comes twice fails."""
        async with asyncio.timeout(GUARD_S):
            lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers: dict[str, str] = {}
        for line in lines[1:-2]:
            name, _, value = line.partition(":")
            assert name.lower() not in headers, f"the header {name} came twice"
            headers[name.lower()] = value.strip()
        return int(lines[0].split(" ")[1]), headers

    async def piece(self) -> bytes:
        """One chunk of a chunked body; b"" is its proper end. Raises IncompleteReadError when it is cut."""
        async with asyncio.timeout(GUARD_S):
            size = int((await self._reader.readuntil(b"\r\n")).strip(), 16)
            data = await self._reader.readexactly(size)
            await self._reader.readexactly(2)
            return data

    async def exactly(self, size: int) -> bytes:
        """So many bytes of a body. Raises IncompleteReadError when there are fewer."""
        async with asyncio.timeout(GUARD_S):
            return await self._reader.readexactly(size)

    async def until_seen(self, words: bytes) -> bytes:
        """Read chunks until `words` have come; everything read so far."""
        seen = b""
        while words not in seen:
            data = await self.piece()
            assert data, f"the body ended before {words!r}: {seen!r}"
            seen += data
        return seen

    async def closed(self) -> bytes:
        """Wait until the gateway has closed the connection; what came before."""
        async with asyncio.timeout(GUARD_S):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""

    def abort(self) -> None:
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return

    async def _chunks(self, status: int, headers: dict[str, str]) -> Answer:
        body = b""
        try:
            while data := await self.piece():
                body += data
        except (asyncio.IncompleteReadError, ConnectionError):
            return Answer(status, headers, body, whole=False)
        return Answer(status, headers, body)


@asynccontextmanager
async def wire(g: Lab) -> AsyncIterator[Wire]:
    """A new connection to the gateway of `g`."""
    one = Wire(*await asyncio.open_connection(*g.server.listen))
    try:
        yield one
    finally:
        await one.close()


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that comes with the event loop's turns. Raises TimeoutError when it does not."""
    async with asyncio.timeout(GUARD_S):
        while not condition():  # noqa: ASYNC110 - it is the gateway's state, which tells nobody that it changed
            await asyncio.sleep(0.005)


async def serves(g: Lab) -> None:
    """The gateway answers the next request, as if nothing had happened."""
    answer = await g.chat()
    assert answer.status == 200, answer.body


async def idle(g: Lab, route: str = "r") -> None:
    """Wait until no turn is under way any more; the gauge says so too."""
    await until(lambda: not g.service.in_flight)
    assert await g.metric("stanchion_in_flight", route=route) == 0
