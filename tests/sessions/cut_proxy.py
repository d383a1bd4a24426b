"""A TCP proxy that loses what the test tells it to: a request before it gets through, or the answer to it."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Literal, Self

Loss = Literal["nothing", "request", "answer", "silence"]


class CutProxy:
    """Between a client and a server on loopback.

    `lose` `request`: what the client sends is not passed on, and its connection is cut. `answer`: it is passed on, the server's
    answer is awaited, and the connection is cut in its place. `silence`: the answer is swallowed, and the connection stays.
    `connected` counts connections, `requests` what clients sent.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.lose: Loss = "nothing"
        self.connected = 0
        self.requests = 0

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/0"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._client, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connected += 1
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                await self._pass(reader, writer, server_reader, server_writer)
            finally:
                server_writer.close()
        except OSError:
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
    ) -> None:
        """One request and its answer after the other: all that is sent here fits into one piece."""
        while request := await reader.read(1 << 20):
            self.requests += 1
            if self.lose == "request":
                return
            server_writer.write(request)
            answer = await server_reader.read(1 << 20)
            if self.lose == "answer":
                return
            if self.lose != "silence":
                writer.write(answer)
