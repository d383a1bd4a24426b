"""One request at a fake provider and the answer to it: what was seen, and the means to answer or not to."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import socket
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol

import brotli  # type: ignore[import-untyped]

from gateway.drill.provider.http1 import LAST_CHUNK, Request, chunk, response_head

Encoding = Literal["gzip", "br"]
Headers = Mapping[str, str]
_GUARD_S = 30.0
"""After this long a wait is taken for a hang. Nothing depends on its length."""


class Seen:
    """A request as it arrived.

    `at` is monotonic seconds; `connection` counts the connections of the provider from 1, so that equal
    numbers mean a reused connection. `closed_early`: the client closed or reset before the answer was
    complete. `answered`: the whole answer was written. Both stay False where the provider itself broke off.
    """

    def __init__(self, request: Request, *, at: float, connection: int) -> None:
        self.method = request.method
        self.path = request.path
        self.headers = list(request.headers)
        self.body = request.body
        self.at = at
        self.connection = connection
        self.closed_early = False
        self.answered = False
        self._over = asyncio.Event()

    def header(self, name: str) -> str | None:
        """The first value of a header, whatever its case; None without it."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    @property
    def json(self) -> Any:
        """The body, parsed. Raises ValueError where it is not JSON."""
        return json.loads(self.body)

    @property
    def over(self) -> bool:
        """Whether the exchange has ended, in whatever way."""
        return self._over.is_set()

    async def wait_over(self, timeout: float = _GUARD_S) -> None:
        """Wait until the exchange has ended: answered, broken off by the provider, or left by the client."""
        async with asyncio.timeout(timeout):
            await self._over.wait()

    async def wait_closed(self, timeout: float = _GUARD_S) -> None:
        """Wait until the client has left before the answer was complete.

        Raises AssertionError when the exchange ended otherwise, TimeoutError when it did not end at all.
        """
        await self.wait_over(timeout)
        if not self.closed_early:
            raise AssertionError(f"the client did not close early: {self!r}")

    def end(self, *, answered: bool = False, closed_early: bool = False) -> None:
        """Note the end of the exchange; only the first one counts."""
        if not self.over:
            self.answered, self.closed_early = answered, closed_early
            self._over.set()

    def __repr__(self) -> str:
        end = "answered" if self.answered else "closed early" if self.closed_early else "broken off"
        state = end if self.over else "open"
        return f"<{self.method} {self.path} on connection {self.connection}, {len(self.body)} B, {state}>"


class ClientGone(ConnectionError):
    """The answer goes nowhere: the client has closed the connection."""


class Encoder(Protocol):
    """A content coding for a stream: each piece can be decoded as soon as it is there."""

    def encode(self, data: bytes) -> bytes: ...

    def end(self) -> bytes: ...


class _Gzip:
    def __init__(self) -> None:
        self._deflate = zlib.compressobj(wbits=31)

    def encode(self, data: bytes) -> bytes:
        return self._deflate.compress(data) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    def end(self) -> bytes:
        return self._deflate.flush()


class _Brotli:
    def __init__(self) -> None:
        self._compressor = brotli.Compressor()

    def encode(self, data: bytes) -> bytes:
        return bytes(self._compressor.process(data)) + bytes(self._compressor.flush())

    def end(self) -> bytes:
        return bytes(self._compressor.finish())


def encoded(body: bytes, encoding: Encoding | None) -> bytes:
    """A whole body under a content coding."""
    if encoding == "gzip":
        return gzip.compress(body, mtime=0)
    return bytes(brotli.compress(body)) if encoding == "br" else body


class Exchange:
    """The means of a behaviour: send, break off, wait.

    `name` is the provider's, `number` counts its POSTs from 1. Every behaviour has to end the exchange
    (`respond`, `finish`, `cut`, `reset`) or wait for the client to leave (`hang`). Writing raises ClientGone
    once the client has left.
    """

    def __init__(
        self,
        seen: Seen,
        transport: asyncio.Transport,
        *,
        name: str,
        number: int,
        keep_alive: bool,
        writable: asyncio.Event,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.seen = seen
        self.name = name
        self.number = number
        self.sleep = sleep
        self._transport = transport
        self._keep_alive = keep_alive
        self._writable = writable
        self._chunked = False
        self._encoder: Encoder | None = None

    @property
    def over(self) -> bool:
        """Whether the exchange has ended; nothing may be sent then."""
        return self.seen.over

    def respond(
        self,
        status: int,
        body: bytes,
        *,
        content_type: str = "application/json",
        headers: Headers | None = None,
        encoding: Encoding | None = None,
    ) -> None:
        """A whole answer in one write."""
        body = encoded(body, encoding)
        self.write(self._head(status, content_type, headers, encoding, length=len(body)) + body)
        self._end_answer()

    def begin(
        self,
        status: int,
        *,
        content_type: str,
        headers: Headers | None = None,
        encoding: Encoding | None = None,
        length: int | None = None,
    ) -> None:
        """The head of an answer in pieces: chunked, or of a `length` in bytes that is told beforehand."""
        self._chunked = length is None
        self._encoder = None if encoding is None else _Gzip() if encoding == "gzip" else _Brotli()
        self.write(self._head(status, content_type, headers, encoding, length=length))

    async def send(self, data: bytes) -> None:
        """One piece of the body as one write; returns when the connection takes more."""
        if self._encoder is not None:
            data = self._encoder.encode(data)
        self.write(chunk(data) if self._chunked else data)
        await asyncio.sleep(0)  # a turn of the loop between pieces: each goes out on its own
        await self._writable.wait()

    def finish(self) -> None:
        """The proper end of an answer that came in pieces."""
        if self._encoder is not None:
            self.write(chunk(self._encoder.end()))
        self.write(LAST_CHUNK if self._chunked else b"")
        self._end_answer()

    def cut(self) -> None:
        """Close the connection (FIN) once what was written has gone out."""
        self.seen.end()
        self._transport.close()

    def reset(self) -> None:
        """Reset the connection (RST) at once."""
        self.seen.end()
        reset_transport(self._transport)

    async def hang(self) -> None:
        """Never go on: ends by cancellation, when the client leaves or the provider is stopped."""
        await asyncio.get_running_loop().create_future()

    def write(self, data: bytes) -> None:
        """Bytes as they are, without any framing."""
        if self._transport.is_closing():
            raise ClientGone
        self._transport.write(data)

    def _head(
        self,
        status: int,
        content_type: str,
        headers: Headers | None,
        encoding: Encoding | None,
        *,
        length: int | None,
    ) -> bytes:
        lines = [("Content-Type", content_type)]
        lines.append(("Transfer-Encoding", "chunked") if length is None else ("Content-Length", str(length)))
        if encoding is not None:
            lines.append(("Content-Encoding", encoding))
        lines += (headers or {}).items()
        if any(name.lower() == "connection" and value.lower() == "close" for name, value in lines):
            self._keep_alive = False
        return response_head(status, lines)

    def _end_answer(self) -> None:
        self.seen.end(answered=True)
        if not self._keep_alive:
            self._transport.close()


def reset_transport(transport: asyncio.Transport) -> None:
    """Close with RST. The option is set on a duplicate, since uvloop's sockets do not take it themselves."""
    if not transport.is_closing():
        with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as duplicate:
            duplicate.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
