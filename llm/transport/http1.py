"""The transport: one provider's pool of HTTP/1.1 connections.

A connection that the provider closed while it was idle is found out when a request is written on it. Such a request, lost
before any byte of an answer, is sent once more on a new connection: that is no failure of the provider and no retry.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from types import TracebackType
from urllib.parse import urlsplit

from llm.spec import ProviderSpec
from llm.transport.base import Counters, TransportError, WireRequest
from llm.transport.connection import Connection
from llm.transport.dialer import Dialer, Origin
from llm.transport.resolver import Lookup, Resolver
from llm.transport.tunnel import refused

_IDLE_S = 30.0
_PROXY_AUTHENTICATION_REQUIRED = 407


class Http1Transport:
    """Connections to one provider, at most `max_connections` at once; a request waits `pool_wait_s` for one.

    A connection is used again while it is younger than `max_connection_age_s`, so that a change of the provider's address
    is followed within that time. It has to be made inside a running loop, and closed. `resent` counts requests that were
    sent once more. `now` is monotonic, in seconds, the event loop's own time if it is not given.
    """

    def __init__(
        self,
        spec: ProviderSpec,
        tls: ssl.SSLContext | None = None,
        *,
        getaddrinfo: Lookup | None = None,
        now: Callable[[], float] | None = None,
    ) -> None:
        parts, proxy = urlsplit(spec.base_url), spec.proxy
        secure = parts.scheme == "https"
        self._loop = asyncio.get_running_loop()
        self._now = now or self._loop.time
        if secure or (proxy is not None and proxy.secure):
            tls = tls or ssl.create_default_context(cadata=spec.ca_pem)
        origin = Origin(parts.hostname or "", parts.port or (443 if secure else 80), tls if secure else None)
        first = (origin.host, origin.port) if proxy is None else (proxy.host, proxy.port)
        self._resolver = Resolver(*first, getaddrinfo or self._loop.getaddrinfo, self._now)
        self._dialer = Dialer(origin, self._resolver, proxy, tls if proxy is not None and proxy.secure else None)
        host = f"[{origin.host}]" if ":" in origin.host else origin.host
        host_header = host if parts.port is None else f"{host}:{parts.port}"
        self._target_at = len(f"{parts.scheme}://{parts.netloc}")
        self._method, self._fixed = "POST ", f" HTTP/1.1\r\nHost: {host_header}"
        self._asks_proxy = proxy is not None and not secure
        if proxy is not None and not secure:
            self._method += f"http://{host_header}"
            self._fixed += f"\r\nProxy-Authorization: {proxy.authorization}" if proxy.authorization else ""
        self._places = asyncio.Semaphore(spec.max_connections)
        self._limit, self._pool_wait_s = spec.max_connections, spec.pool_wait_s
        self._max_age_s = spec.max_connection_age_s
        self._idle: deque[Connection] = deque()
        self._reaper: asyncio.TimerHandle | None = None
        self._closed = False
        self._in_use = self._waiting = 0
        self.resent = 0

    def send(self, request: WireRequest) -> _Sent:
        return _Sent(self, request)

    def counters(self) -> Counters:
        idle = sum(connection.reusable for connection in self._idle)
        return Counters(self._in_use, idle, self._waiting, self.resent, self._resolver.stale)

    async def close(self) -> None:
        """Close what is idle; a connection in use is closed when it is given back, and nothing is kept any more.

        Who waits for a place goes on waiting, and gets it as before: a request that has begun is not lost to a reload.
        """
        self._closed = True
        self._resolver.close()
        if self._reaper is not None:
            self._reaper.cancel()
            self._reaper = None
        while self._idle:
            self._idle.pop().abort()
        await asyncio.sleep(0)  # the transports close in the loop's next turn

    async def begin(self, request: WireRequest) -> Connection:
        """A connection on which the request has been sent and the answer has begun. Raises TransportError.

        Every connection has to come back through `give_back`.
        """
        await self._take_place()
        self._in_use += 1
        connection: Connection | None = None
        try:
            head = self._head(request)
            connection = self._reused()
            if connection is not None:
                try:
                    await connection.exchange(head, request.body)
                except TransportError as error:
                    if error.kind != "connect" or connection.bytes_seen:
                        raise
                    connection.abort()
                    self.resent += 1
                    connection = None
            if connection is None:
                connection = await self._dialer.dial(request.connect_s)
                connection.opened_at = self._now()
                await connection.exchange(head, request.body)
            if connection.status == _PROXY_AUTHENTICATION_REQUIRED and self._asks_proxy:
                raise refused(connection.status)
        except BaseException:
            if connection is not None:
                connection.abort()
            self._release_place()
            raise
        return connection

    def give_back(self, connection: Connection) -> None:
        """The exchange is over: keep the connection if it is clean, else close it."""
        self._release_place()
        if self._closed or not connection.reusable or self._too_old(connection):
            connection.abort()
            return
        connection.rest()
        connection.idle_since = self._now()
        self._idle.append(connection)
        if self._reaper is None:
            self._reaper = self._loop.call_later(_IDLE_S, self._reap)

    def _reused(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and not self._too_old(connection) and connection.quiet:
                return connection
            connection.abort()
        return None

    def _too_old(self, connection: Connection) -> bool:
        return self._now() - connection.opened_at >= self._max_age_s

    def _reap(self) -> None:
        """Close what has been idle for long; the ones used last are at the end."""
        self._reaper = None
        since = self._now() - _IDLE_S
        while self._idle and (self._idle[0].idle_since <= since or not self._idle[0].reusable):
            self._idle.popleft().abort()
        if self._idle:
            self._reaper = self._loop.call_later(_IDLE_S, self._reap)

    async def _take_place(self) -> None:
        if not self._places.locked():
            await self._places.acquire()
            return
        self._waiting += 1
        try:
            async with asyncio.timeout(self._pool_wait_s):
                await self._places.acquire()
        except TimeoutError:
            message = f"all {self._limit} connections to the provider are in use (max_connections)"
            raise TransportError("capacity", message) from None
        finally:
            self._waiting -= 1

    def _release_place(self) -> None:
        self._in_use -= 1
        self._places.release()

    def _head(self, request: WireRequest) -> bytes:
        lines = [f"{self._method}{request.url[self._target_at :] or '/'}{self._fixed}"]
        lines += [f"{name}: {value}" for name, value in request.headers]
        lines.append(f"Content-Length: {len(request.body)}\r\n\r\n")
        return "\r\n".join(lines).encode("latin-1")


class _Sent:
    """A request on its way, and the connection that has to be given back."""

    __slots__ = ("_connection", "_request", "_transport")

    def __init__(self, transport: Http1Transport, request: WireRequest) -> None:
        self._transport, self._request = transport, request

    async def __aenter__(self) -> Connection:
        self._connection = await self._transport.begin(self._request)
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transport.give_back(self._connection)
