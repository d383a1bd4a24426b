"""Places as proxies on loopback, for machines without root. A cut holds back what is sent,
as a network that does not answer does.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.partition.links import PLACE_OF, Place, Server


class _Proxy:
    """Passes bytes on, in each direction as long as its gate is open."""

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self.requests, self.answers = asyncio.Event(), asyncio.Event()
        self.requests.set()
        self.answers.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> tuple[str, int]:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return host, port

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._client(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other: asyncio.StreamWriter | None = None
        try:
            await self.requests.wait()
            back, other = await asyncio.open_connection(*self._to)
            ways = {
                asyncio.ensure_future(_pass(reader, other, self.requests)),
                asyncio.ensure_future(_pass(back, writer, self.answers)),
            }
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass
        finally:
            writer.close()
            if other is not None:
                other.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
    with suppress(OSError):
        while piece := await reader.read(1 << 16):
            await gate.wait()
            writer.write(piece)
            await writer.drain()


class ProxyLinks:
    """See `tests.partition.links.Links`."""

    kind = "proxies"

    def __init__(self) -> None:
        self._proxies: dict[tuple[Place, Server], _Proxy] = {}

    def run_in(self, place: Place) -> list[str]:
        return []

    def bind(self, place: Place) -> str:
        return "127.0.0.1"

    async def reach(self, viewer: Place, server: Server, port: int) -> tuple[str, int]:
        proxy = self._proxies[viewer, server] = _Proxy("127.0.0.1", port)
        return await proxy.start()

    async def cut(self, sender: Place, receiver: Place) -> None:
        for (viewer, server), proxy in self._proxies.items():
            if (viewer, PLACE_OF[server]) == (sender, receiver):
                proxy.requests.clear()
            if (PLACE_OF[server], viewer) == (sender, receiver):
                proxy.answers.clear()

    async def cut_store(self, place: Place) -> None:
        for (viewer, server), proxy in self._proxies.items():
            if viewer == place == PLACE_OF[server]:
                proxy.requests.clear()

    async def heal(self) -> None:
        for proxy in self._proxies.values():
            proxy.requests.set()
            proxy.answers.set()

    async def close(self) -> None:
        for proxy in self._proxies.values():
            await proxy.close()
