"""A provider whose bytes a test writes itself, and a client that says whether anything was left behind."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, NamedTuple, Self, cast

from aiohappyeyeballs import AddrInfoType

from llm.spec import ProviderSpec
from llm.transport.base import TransportError, WireRequest
from llm.transport.connection import Connection
from llm.transport.http1 import Http1Transport
from llm.transport.resolver import Lookup
from tests.fakes.exchange import reset_transport
from tests.llm.making import KEY

GUARD_S = 30.0
"""After this long a wait is taken for a hang. No test depends on its length."""

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def until(true: Callable[[], bool]) -> None:
    """Let the event loop turn until something holds."""
    async with asyncio.timeout(GUARD_S):
        while not true():  # noqa: ASYNC110 - the condition is not the test's to signal
            await asyncio.sleep(0)


class Arrivals:
    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.size = 0

    async def taken(self, size: int) -> None:
        """Wait until the client has taken so many bytes since the beginning."""
        await until(lambda: self.size >= size)


class Line:
    """One connection as the provider has it; `number` counts from 1. `left`: its script has seen the client close it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        self.reader, self.writer, self.number = reader, writer, number
        self.left = asyncio.Event()

    async def head(self) -> str:
        """The head of the next request."""
        return (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")

    async def request(self) -> bytes:
        """The body of the next request."""
        head = await self.head()
        length = next(line.partition(":")[2] for line in head.split("\r\n") if line.startswith("Content-Length:"))
        return await self.reader.readexactly(int(length))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def send_apart(self, pieces: Iterable[bytes], arrivals: Arrivals) -> None:
        """Each piece when the client has taken the one before it."""
        for piece in pieces:
            size = arrivals.size + len(piece)
            self.send(piece)
            await arrivals.taken(size)

    def reset(self) -> None:
        reset_transport(cast(asyncio.Transport, self.writer.transport))

    async def gone(self) -> None:
        """Wait until the client has closed the connection, in whatever way."""
        async with asyncio.timeout(GUARD_S):
            try:
                while await self.reader.read(65_536):
                    pass
            except ConnectionError:
                pass
        self.left.set()


Play = Callable[[Line], Awaitable[Any]]


class Peer:
    """A provider that plays the same script on each connection; at the script's end it closes the connection.

    A script that fails makes the `async with` block fail; one that the client leaves in its middle does not.
    """

    def __init__(self, play: Play, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self._play, self._host, self._tls = play, host, tls
        self._tasks: set[asyncio.Task[None]] = set()
        self.lines: list[Line] = []
        self.failures: list[Exception] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._opened, self._host, 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for line in self.lines:
            line.writer.transport.abort()
        await self._server.wait_closed()
        if self.failures and error is None:
            raise self.failures[0]

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}/v1"

    async def opened(self, count: int) -> Line:
        """Wait for the connection of that number."""
        await until(lambda: len(self.lines) >= count)
        return self.lines[count - 1]

    async def left(self, number: int = 1) -> None:
        """Wait until the script of that connection has seen the client close it."""
        async with asyncio.timeout(GUARD_S):
            await (await self.opened(number)).left.wait()

    def _opened(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line(reader, writer, len(self.lines) + 1)
        self.lines.append(line)
        self._tasks.add(asyncio.get_running_loop().create_task(self._run(line)))

    async def _run(self, line: Line) -> None:
        try:
            await self._play(line)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has left
        except Exception as error:  # noqa: BLE001 - given to the test
            self.failures.append(error)
        finally:
            line.writer.close()


def always(*answers: bytes) -> Play:
    """Each request gets the answers in one write; the connection stays."""

    async def play(line: Line) -> None:
        while True:
            await line.request()
            line.send(b"".join(answers))

    return play


def once(data: bytes, *, reset: bool = False) -> Play:
    """One request gets these bytes; then the connection ends."""

    async def play(line: Line) -> None:
        await line.request()
        line.send(data)
        if reset:
            line.reset()

    return play


class Tls(NamedTuple):
    """Contexts of both ends: the client's trusts the certificate of the server's, which is for localhost."""

    server: ssl.SSLContext
    client: ssl.SSLContext


class Told(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


Connect = Callable[[float], Coroutine[Any, Any, socket.socket]]


class Client(Http1Transport):
    """The transport under test, with short ways to use it, which knows all sockets that it had."""

    def __init__(
        self,
        url: str,
        tls: ssl.SSLContext | None = None,
        getaddrinfo: Lookup | None = None,
        now: Callable[[], float] | None = None,
        **limits: Any,
    ) -> None:
        self.spec = ProviderSpec("p", "openai", url, (KEY,), **limits)
        super().__init__(self.spec, tls, getaddrinfo=getaddrinfo, now=now)
        self.sockets: list[socket.socket] = []
        self._dialer._socket = self._noted(self._dialer._socket)  # type: ignore[method-assign,assignment]

    def _noted(self, connect: Connect) -> Connect:
        async def connected(limit_s: float) -> socket.socket:
            sock = await connect(limit_s)
            self.sockets.append(sock)
            return sock

        return connected

    def request(self, body: bytes = b"{}", *, connect_s: float = GUARD_S, path: str = "/chat") -> WireRequest:
        return WireRequest(self.spec.base_url + path, (("X-Test", "1"),), body, connect_s)

    async def ask(self, body: bytes = b"{}", *, connect_s: float = GUARD_S) -> Told:
        """One exchange to its end."""
        async with self.send(self.request(body, connect_s=connect_s)) as answer:
            return Told(answer.status, dict(answer.headers), await read_all(answer))

    async def refused(self, body: bytes = b"{}", *, connect_s: float = GUARD_S) -> TransportError:
        """The failure of one exchange."""
        try:
            told = await self.ask(body, connect_s=connect_s)
        except TransportError as error:
            return error
        raise AssertionError(f"it was answered: {told}")

    @property
    def places_taken(self) -> int:
        return self.spec.max_connections - self._places._value

    @property
    def sockets_open(self) -> int:
        return sum(sock.fileno() >= 0 for sock in self.sockets)


def answers(*ports: int) -> Lookup:
    """A resolver that knows these ports of this machine, whatever the name."""

    async def lookup(*_: object, **__: object) -> Sequence[AddrInfoType]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]

    return lookup


async def read_all(answer: Connection) -> bytes:
    parts = []
    while data := await answer.read_any():
        parts.append(data)
    assert await answer.read_any() == b""  # the end stays the end
    return b"".join(parts)


@asynccontextmanager
async def client(url: str, tls: ssl.SSLContext | None = None, **parts: Any) -> AsyncIterator[Client]:
    """A client, `parts` as `Client` has them; when it is closed, nothing of it may be left."""
    transport = Client(url, tls, **parts)
    try:
        yield transport
        assert transport.places_taken == 0
        counted = transport.counters()
        assert (counted.in_use, counted.waiting) == (0, 0)
        assert len(transport._idle) <= transport.spec.max_connections
    finally:
        await transport.close()
        await until(lambda: transport.sockets_open == 0)
        assert not transport._idle


@asynccontextmanager
async def pair(play: Play, **limits: Any) -> AsyncIterator[tuple[Peer, Client]]:
    """A provider and a client of it."""
    async with Peer(play) as peer, client(peer.url, **limits) as transport:
        yield peer, transport
