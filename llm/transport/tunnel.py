"""A tunnel through an HTTP proxy: CONNECT and its answer (RFC 9110, 9.3.6), before TLS to the provider begins."""

from __future__ import annotations

import asyncio
import re
from typing import cast

from llm.proxy import Proxy
from llm.transport.base import TransportError

_HEAD_LIMIT = 16_384
"""Bytes of a proxy's answer, interim ones included."""
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9]\d\d)(?: |\r\n)")

_REASONS = {
    403: "403: it does not allow this provider",
    407: "407: it asks for another user and password",
    502: "502: it cannot reach the provider",
    503: "503: it cannot reach the provider",
    504: "504: it does not reach the provider in time",
}


def refused(status: int) -> TransportError:
    """The proxy answered in the provider's place."""
    return TransportError(
        "connect", f"the proxy refused the connection to the provider ({_REASONS.get(status, status)})"
    )


def connect_head(host: str, port: int, proxy: Proxy) -> bytes:
    """The request for a tunnel. Only the proxy gets to see it."""
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class Tunnel(asyncio.Protocol):
    """The connection to the proxy until it is the provider's. What is read beyond the answer's head is a fault:
    in TLS the provider speaks second."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._answered: asyncio.Future[int] = loop.create_future()
        self._head = b""
        self.transport: asyncio.Transport

    async def open(self, head: bytes) -> None:
        """Ask for the tunnel. Raises TransportError of kind `connect` when the proxy does not give one."""
        self.transport.write(head)
        status = await self._answered
        if not 200 <= status < 300:
            raise refused(status)

    def abort(self) -> None:
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its class

    def data_received(self, data: bytes) -> None:
        if self._answered.done():  # between the answer and the handshake, where nobody has anything to say
            self.transport.abort()
            return
        self._head += data
        while not self._answered.done():
            head, end, rest = self._head.partition(b"\r\n\r\n")
            match = _STATUS.match(head + end)
            if len(self._head) > _HEAD_LIMIT:
                self._fail(f"the proxy's answer has a head of more than {_HEAD_LIMIT} bytes")
            elif not end:
                return
            elif match is None:
                self._fail("the proxy's answer is not HTTP")
            elif (status := int(match[1])) < 200:
                self._head = rest  # an interim answer: the real one follows
            elif rest and status < 300:
                self._fail("the proxy sent more than its answer before the tunnel was used")
            else:
                self._answered.set_result(status)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail("the proxy closed the connection before its answer")

    def _fail(self, message: str) -> None:
        if not self._answered.done():
            self._answered.set_exception(TransportError("connect", message))
            self._answered.exception()  # nobody waits for it where the connection has been given up
