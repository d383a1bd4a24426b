"""A scripted OpenAI-compatible provider: a real HTTP server on 127.0.0.1 that does what its script says.

async with Upstream("primary") as p:
    p.script(status(503), answer("back again"))
    ...                                         # requests to p.base_url
    assert p.attempts == 2
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, cast

from gateway.drill.provider import chat
from gateway.drill.provider.behaviours import Behaviour, answer, raw, status
from gateway.drill.provider.exchange import ClientGone, Exchange, Seen, reset_transport
from gateway.drill.provider.http1 import MalformedRequest, Request, RequestReader


async def _real_sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class Upstream:
    """One provider.

    `requests`: all that arrived in full, in order. `default`: what it does when the script is used up (may be
    set). `malformed`: why bytes were refused that were no HTTP request. `connections_made` counts connections
    from the start, `connections_open` those that stand. `strict`: what a real API refuses is refused with
    400, what it does not know with 404, with `key` every other bearer key with 401; `refused` says why, and
    nothing is taken from the script. `sleep`: the clock of `delay` and `pause`, in seconds; `now`: that of
    `Seen.at`.

    GET answers a list of models and takes nothing from the script. A behaviour that raises makes the `async
    with` block raise the same at its end.
    """

    def __init__(
        self,
        name: str,
        *,
        default: Behaviour | None = None,
        strict: bool = False,
        key: str | None = None,
        port: int = 0,
        sleep: Callable[[float], Awaitable[None]] = _real_sleep,
        now: Callable[[], float] | None = None,
    ) -> None:
        self.name = name
        self.default = answer() if default is None else default
        self.strict = strict
        self.key = key
        self.port = port
        self.requests: list[Seen] = []
        self.malformed: list[str] = []
        self.refused: list[str] = []
        self.connections_made = 0
        self.now = now or _loop_time
        self._sleep = sleep
        self._script: deque[Behaviour] = deque()
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._arrived = asyncio.Event()
        self._failures: list[BaseException] = []

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        if self._failures and error is None:
            raise self._failures[0]

    async def start(self) -> None:
        """Listen, after a `stop` on the same port. Does nothing while it listens."""
        if self._server is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(
                lambda: _Connection(self), "127.0.0.1", self.port, reuse_address=True, backlog=1024
            )
            self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuse new connections and reset those that stand; returns when they and their tasks are gone."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
            for connection in list(self._connections):
                connection.abort()
            await server.wait_closed()
        for _ in range(3):  # a connection that was accepted as the server closed is reported turns later
            await asyncio.sleep(0)
        while self._connections:
            await asyncio.gather(*(connection.gone() for connection in list(self._connections)))

    @property
    def base_url(self) -> str:
        """What an OpenAI SDK takes as its base URL; known once it was started."""
        if not self.port:
            raise RuntimeError("the provider has no port before it is started")
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def attempts(self) -> int:
        """POSTs that arrived."""
        return sum(seen.method == "POST" for seen in self.requests)

    @property
    def connections_open(self) -> int:
        return len(self._connections)

    @property
    def script_left(self) -> int:
        """Scripted behaviours that no request has used yet."""
        return len(self._script)

    def script(self, *behaviours: Behaviour) -> None:
        """Add to the queue of behaviours; each POST uses up one, then `default` holds."""
        self._script.extend(behaviours)

    def close_idle(self) -> int:
        """Close (FIN) the connections that wait for a request, as providers do after a time; how many.

        A client that writes its next request at once may do so before the FIN reaches it.
        """
        idle = [connection for connection in self._connections if connection.idle]
        for connection in idle:
            connection.close()
        return len(idle)

    async def wait_for_requests(self, count: int, timeout: float = 30.0) -> Seen:
        """Wait until `count` requests have arrived since the beginning; gives the one of that number.

        Raises TimeoutError when they do not come.
        """
        async with asyncio.timeout(timeout):
            while len(self.requests) < count:
                await self._arrived.wait()
        return self.requests[count - 1]

    # What connections report.

    def opened(self, connection: _Connection) -> int:
        self.connections_made += 1
        self._connections.add(connection)
        if self._server is None:
            connection.abort()
        return self.connections_made

    def lost(self, connection: _Connection) -> None:
        self._connections.discard(connection)

    def failed(self, error: BaseException) -> None:
        self._failures.append(error)

    def arrived(self, seen: Seen) -> Behaviour:
        """Note a request and say what to do with it."""
        self.requests.append(seen)
        self._arrived.set()
        self._arrived = asyncio.Event()
        if seen.method != "POST":
            model = {"id": chat.MODEL, "object": "model", "created": chat.CREATED, "owned_by": self.name}
            return raw(json.dumps({"object": "list", "data": [model]}).encode())
        if self.strict and (refusal := _refusal(seen, self.key)) is not None:
            code, said = refusal
            self.refused.append(said)
            return status(code, message=said)
        return self._script.popleft() if self._script else self.default

    def exchange(
        self, seen: Seen, transport: asyncio.Transport, *, keep_alive: bool, writable: asyncio.Event
    ) -> Exchange:
        return Exchange(
            seen,
            transport,
            name=self.name,
            number=self.attempts,
            keep_alive=keep_alive,
            writable=writable,
            sleep=self._sleep,
        )


def _refusal(seen: Seen, key: str | None) -> tuple[int, str] | None:
    """Status and message with which a real API refuses the request, or None."""
    path = seen.path.partition("?")[0]
    if path != "/v1/chat/completions":
        return 404, f"Invalid URL (POST {path})"
    if key is not None and seen.header("authorization") != f"Bearer {key}":
        return 401, "Incorrect API key provided."
    try:
        message = chat.objection(seen.json)
    except ValueError:
        message = chat.objection(None)
    return None if message is None else (400, message)


class _Connection(asyncio.Protocol):
    """One client connection: requests are answered one after the other, each by a task of its own."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._reader = RequestReader()
        self._waiting: deque[Request] = deque()
        self._task: asyncio.Task[None] | None = None
        self._seen: Seen | None = None
        self._stopped = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost = asyncio.Event()

    @property
    def idle(self) -> bool:
        return self._task is None

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._stopped = True
        reset_transport(self._transport)

    async def gone(self) -> None:
        """Return when the connection is lost and its task is at its end."""
        await self._lost.wait()
        if self._task is not None:
            await asyncio.wait([self._task])
        self._upstream.lost(self)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without saying so
        self._number = self._upstream.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._seen is not None:
            self._seen.end(closed_early=not self._stopped)
        self._lost.set()
        self._writable.set()
        if self._task is not None:
            self._task.cancel()
        else:
            self._upstream.lost(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        try:
            self._waiting.extend(self._reader.feed(data))
        except MalformedRequest as error:
            self._upstream.malformed.append(str(error))
            self._transport.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self._transport.close()
            return
        if self._reader.expects_continue:
            self._reader.expects_continue = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._answer_next()

    def _answer_next(self) -> None:
        if self._task is None and self._waiting and not self._transport.is_closing():
            request = self._waiting.popleft()
            self._seen = Seen(request, at=self._upstream.now(), connection=self._number)
            behaviour = self._upstream.arrived(self._seen)
            exchange = self._upstream.exchange(
                self._seen, self._transport, keep_alive=request.keep_alive, writable=self._writable
            )
            self._task = asyncio.get_running_loop().create_task(self._play(behaviour, exchange))
            self._task.add_done_callback(self._played)

    async def _play(self, behaviour: Behaviour, exchange: Exchange) -> None:
        try:
            await behaviour(exchange)
            if not exchange.over:
                raise RuntimeError(f"the behaviour neither answered nor broke off {exchange.seen!r}")
        except ClientGone:
            pass

    def _played(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._upstream.failed(error)
            self._stopped = True  # the client did not leave
            self._transport.abort()
        if self._lost.is_set():
            self._upstream.lost(self)
        else:
            self._answer_next()
