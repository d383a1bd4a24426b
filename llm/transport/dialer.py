"""A new connection to a provider: an address that answers, a proxy on the way if there is one, TLS."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar, cast

import aiohappyeyeballs

from llm.proxy import Proxy
from llm.transport.base import TransportError
from llm.transport.connection import Connection
from llm.transport.resolver import Resolver
from llm.transport.tunnel import Tunnel, connect_head

_NEXT_ADDRESS_S = 0.25
"""How long one address is tried before the next one is tried beside it (RFC 8305, 8)."""

_PROVIDER, _PROXY, _THROUGH = "the provider", "the proxy", "the provider through the proxy"

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Origin(NamedTuple):
    """Where requests go in the end. `tls` is None for plain HTTP."""

    host: str
    port: int
    tls: ssl.SSLContext | None


class Dialer:
    """Makes connections to `origin`. With a proxy, `resolver` is for the proxy's host, and `proxy_tls` for a secure one.

    TLS to the provider is always with its own name, inside of a tunnel too. Without TLS to the provider there is no
    tunnel: the proxy is asked for each request.
    """

    def __init__(
        self,
        origin: Origin,
        resolver: Resolver,
        proxy: Proxy | None = None,
        proxy_tls: ssl.SSLContext | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._origin, self._resolver, self._proxy, self._proxy_tls = origin, resolver, proxy, proxy_tls

    async def dial(self, limit_s: float) -> Connection:
        """A connection on which requests can be sent. Raises TransportError of kind `connect`, within `limit_s`."""
        origin, proxy = self._origin, self._proxy
        to = _PROVIDER if proxy is None else _PROXY
        try:
            async with asyncio.timeout(limit_s):
                if proxy is None:
                    return await self._reach(self._connection, origin.tls, origin.host, to, limit_s)
                if origin.tls is None:
                    return await self._reach(self._connection, self._proxy_tls, proxy.host, to, limit_s)
                tunnel = await self._reach(lambda: Tunnel(self._loop), self._proxy_tls, proxy.host, to, limit_s)
                to = _THROUGH
                return await self._through(tunnel, proxy, origin.tls)
        except TimeoutError:
            raise TransportError("connect", f"no connection to {to} within {limit_s:g} s") from None

    async def _reach(self, make: Callable[[], P], tls: ssl.SSLContext | None, name: str, to: str, limit_s: float) -> P:
        """A protocol on a connection to whoever comes first, over TLS under `name` if there is a context."""
        with _translated(to):
            sock = await self._socket(limit_s)
            try:
                transport, protocol = await self._loop.create_connection(make if tls is None else _Silent, sock=sock)
            except BaseException:
                sock.close()
                raise
            return cast(P, protocol) if tls is None else await self._over_tls(transport, make(), tls, name)

    async def _through(self, tunnel: Tunnel, proxy: Proxy, tls: ssl.SSLContext) -> Connection:
        host = self._origin.host
        try:
            with _translated(_THROUGH):
                await tunnel.open(connect_head(host, self._origin.port, proxy))
                return await self._over_tls(tunnel.transport, self._connection(), tls, host)
        except BaseException as error:
            tunnel.abort()
            if isinstance(error, TypeError):  # asyncio's before Python 3.13: a handshake inside of TLS has failed
                raise TransportError("connect", f"no TLS connection to {_THROUGH}") from None
            raise

    async def _over_tls(self, transport: asyncio.Transport, protocol: P, tls: ssl.SSLContext, name: str) -> P:
        """The protocol on TLS on a connection that stands. (A `create_connection` that begins TLS itself and is cancelled
        before the handshake leaves its transport behind, on asyncio's own loop.)"""
        try:
            if transport.is_closing():
                raise ConnectionResetError(errno.ECONNRESET, "closed before the handshake")
            secure = await self._loop.start_tls(transport, protocol, tls, server_hostname=name)
            if secure is None:
                raise ConnectionResetError(errno.ECONNRESET, "closed in the handshake")
            protocol.connection_made(secure)
        except BaseException:
            transport.abort()
            raise
        return protocol

    async def _socket(self, limit_s: float) -> socket.socket:
        """A connected socket to the first of the host's addresses that answers."""
        sock = await aiohappyeyeballs.start_connection(
            await self._resolver.addresses(limit_s), happy_eyeballs_delay=_NEXT_ADDRESS_S, interleave=1, loop=self._loop
        )
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def _connection(self) -> Connection:
        return Connection(self._loop)


class _Silent(asyncio.Protocol):
    """Before TLS nobody has anything to say to us: the connection of one who does is closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.abort()


@contextmanager
def _translated(to: str) -> Iterator[None]:
    """The errors of the network and of TLS as TransportError, in words that name no host."""
    try:
        yield
    except (socket.gaierror, UnicodeError):  # the latter: no name at all, or too long a part of one
        raise TransportError("connect", f"{to}'s host name cannot be resolved") from None
    except ssl.SSLError as error:
        raise TransportError("connect", f"no TLS connection to {to} ({_tls_words(error)})") from None
    except OSError as error:
        words = os.strerror(error.errno) if error.errno else type(error).__name__
        raise TransportError("connect", f"no connection to {to} ({words})") from None


def _tls_words(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate: {error.verify_message.partition(',')[0]}"  # what comes after names the host
    return error.reason or type(error).__name__
