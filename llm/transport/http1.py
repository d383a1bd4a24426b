"""The transport: one provider's pool of HTTP/1.1 connections.

A connection that the provider closed while it was idle is found out when a request is written on it. Such a request, lost
before any byte of an answer, is sent once more on a new connection: that is no failure of the provider and no retry.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import deque
from types import TracebackType
from urllib.parse import urlsplit

import aiohappyeyeballs

from llm.spec import ProviderSpec
from llm.transport.base import TransportError, WireRequest
from llm.transport.connection import Connection

_IDLE_S = 30.0
_NEXT_ADDRESS_S = 0.25
"""How long one address is tried before the next one is tried beside it (RFC 8305, 8)."""


class Http1Transport:
    """Connections to one provider, at most `max_connections` at once; a request waits `pool_wait_s` for one.

    A connection is used again while it is younger than `max_connection_age_s`, so that a change of the provider's address
    is followed within that time. It has to be made inside a running loop, and closed. `resent` counts requests that were
    sent once more.
    """

    def __init__(self, spec: ProviderSpec, tls: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(spec.base_url)
        secure = parts.scheme == "https"
        self._loop = asyncio.get_running_loop()
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if secure else 80)
        self._tls = (tls or ssl.create_default_context()) if secure else None
        host = f"[{self._host}]" if ":" in self._host else self._host
        self._host_header = host if parts.port is None else f"{host}:{parts.port}"
        self._origin = len(f"{parts.scheme}://{parts.netloc}")
        self._places = asyncio.Semaphore(spec.max_connections)
        self._limit, self._pool_wait_s = spec.max_connections, spec.pool_wait_s
        self._max_age_s = spec.max_connection_age_s
        self._idle: deque[Connection] = deque()
        self._reaper: asyncio.TimerHandle | None = None
        self._closed = False
        self.resent = 0

    def send(self, request: WireRequest) -> _Sent:
        return _Sent(self, request)

    async def close(self) -> None:
        """Close what is idle; a connection in use is closed when it is given back."""
        self._closed = True
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
                else:
                    return connection
            connection = await self._connect(request.connect_s)
            await connection.exchange(head, request.body)
        except BaseException:
            if connection is not None:
                connection.abort()
            self._places.release()
            raise
        return connection

    def give_back(self, connection: Connection) -> None:
        """The exchange is over: keep the connection if it is clean, else close it."""
        self._places.release()
        if self._closed or not connection.reusable or self._too_old(connection):
            connection.abort()
            return
        connection.rest()
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
        return self._loop.time() - connection.opened_at >= self._max_age_s

    def _reap(self) -> None:
        """Close what has been idle for long; the ones used last are at the end."""
        self._reaper = None
        since = self._loop.time() - _IDLE_S
        while self._idle and (self._idle[0].idle_since <= since or not self._idle[0].reusable):
            self._idle.popleft().abort()
        if self._idle:
            self._reaper = self._loop.call_later(_IDLE_S, self._reap)

    async def _take_place(self) -> None:
        if not self._places.locked():
            await self._places.acquire()
            return
        try:
            async with asyncio.timeout(self._pool_wait_s):
                await self._places.acquire()
        except TimeoutError:
            message = f"all {self._limit} connections to the provider are in use (max_connections)"
            raise TransportError("capacity", message) from None

    async def _connect(self, limit_s: float) -> Connection:
        try:
            async with asyncio.timeout(limit_s):
                sock = await self._socket()
                try:
                    _, connection = await self._loop.create_connection(
                        lambda: Connection(self._loop),
                        sock=sock,
                        ssl=self._tls,
                        server_hostname=self._host if self._tls else None,
                    )
                except BaseException:
                    sock.close()
                    raise
        except TimeoutError:
            raise TransportError("connect", f"no connection to the provider within {limit_s:g} s") from None
        except (socket.gaierror, UnicodeError):  # the latter: no name at all, or too long a part of one
            raise TransportError("connect", "the provider's host name cannot be resolved") from None
        except ssl.SSLError as error:
            raise TransportError("connect", f"no TLS connection to the provider ({_tls_words(error)})") from None
        except OSError as error:
            words = os.strerror(error.errno) if error.errno else type(error).__name__
            raise TransportError("connect", f"no connection to the provider ({words})") from None
        return connection

    async def _socket(self) -> socket.socket:
        """A connected socket to the first of the host's addresses that answers."""
        addresses = await self._loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        sock = await aiohappyeyeballs.start_connection(
            addresses, happy_eyeballs_delay=_NEXT_ADDRESS_S, interleave=1, loop=self._loop
        )
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def _head(self, request: WireRequest) -> bytes:
        lines = [f"POST {request.url[self._origin :] or '/'} HTTP/1.1", f"Host: {self._host_header}"]
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


def _tls_words(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate: {error.verify_message.partition(',')[0]}"  # what comes after names the host
    return error.reason or type(error).__name__
