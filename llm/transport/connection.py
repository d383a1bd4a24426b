"""One HTTP/1.1 connection to a provider: httptools' parser on an asyncio protocol, one exchange at a time.

aiohttp's client took 60 % of the cost of a proxied request; this one does what a provider needs and nothing else. It reads
bodies framed by length, by chunks or by the end of the connection, undoes gzip, deflate and br, and stops reading from the
socket while nobody takes what has come.
"""

from __future__ import annotations

import asyncio
import select
import zlib
from typing import Protocol, cast

import brotli  # type: ignore[import-untyped]
import httptools

from llm.transport.base import Kind, TransportError

_BARE_LIMIT = 65_536
"""Bytes of an answer without one of its body: a head, interim answers, trailers, the extensions of a chunk."""
_BUFFER_LIMIT = 262_144


class _Decoder(Protocol):
    """Undoes a content coding, at most about `_BUFFER_LIMIT` bytes at a time: `more` says that it has not given all yet.

    `whole`: what came was nothing at all, or came to its end.
    """

    more: bool
    whole: bool

    def __call__(self, data: bytes, /) -> bytes: ...


class _Inflate:
    """gzip of one member or several, or zlib, told by the header; `bare` takes deflate without zlib's header too."""

    def __init__(self, *, bare: bool) -> None:
        self._bare = bare
        self._zlib = zlib.decompressobj()
        self._held = b""
        self.more, self.whole = False, True

    def __call__(self, data: bytes, /) -> bytes:
        data = self._held + data
        if data and self.whole:  # the first member, or a further one
            bare = self._bare and data[0] & 15 != 8
            self._zlib = zlib.decompressobj(-zlib.MAX_WBITS if bare else zlib.MAX_WBITS | 32)
        given = self._zlib.decompress(data, _BUFFER_LIMIT)
        self.whole = self._zlib.eof
        self._held = self._zlib.unused_data if self.whole else self._zlib.unconsumed_tail
        self.more = len(given) == _BUFFER_LIMIT or bool(self._held)
        return given


class _Brotli:
    def __init__(self) -> None:
        self._brotli = brotli.Decompressor()
        self.more, self.whole = False, True

    def __call__(self, data: bytes, /) -> bytes:
        given: bytes = self._brotli.process(data, output_buffer_limit=_BUFFER_LIMIT)
        self.more = len(given) >= _BUFFER_LIMIT or not self._brotli.can_accept_more_data()
        self.whole = self._brotli.is_finished()
        return given


class Connection(asyncio.Protocol):
    """`opened_at` and `idle_since` are the pool's to set, in seconds. `used`: it has carried an exchange before."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._lost = self._reading_paused = False
        self.opened_at = self.idle_since = 0.0
        self.used = False
        self._reset()

    def _reset(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.bytes_seen = False
        self._bare_size = 0
        self._head_ready = self._complete = self._keep = self._surplus = False
        self._busy = False
        self._parts: list[bytes] = []
        self._error: TransportError | None = None
        self._decode: _Decoder | None = None

    # what the pool and the response ask

    @property
    def reusable(self) -> bool:
        """Whether the last exchange left it clean, with the request sent to its end, and the provider has not closed it."""
        transport = self._transport
        clean = (self._complete and self._keep) or not self.used
        if not clean or self._lost or self._surplus or self._parts or transport is None or transport.is_closing():
            return False
        return transport.get_write_buffer_size() == 0

    @property
    def quiet(self) -> bool:
        """Whether nothing waits in the socket: no end of the connection, and no answer that nobody asked for."""
        return not self._poll.poll(0)

    async def exchange(self, head: bytes, body: bytes) -> None:
        """Send a request and wait for the head of its answer. Raises TransportError; then the connection is spent."""
        self._reset()
        self._busy, self.used = True, True
        transport = self._transport
        if transport is None or self._lost:
            raise TransportError("connect", "the provider closed the connection before the request")
        if len(body) <= _BUFFER_LIMIT:
            transport.write(head + body)
        else:
            transport.write(head)
            transport.write(body)
        while not self._head_ready:
            if self._error is not None:
                raise self._error
            await self._wait()
        self._decode = self._decoder()

    async def read_any(self) -> bytes:
        """What has arrived of the body, decoded; b"" at its end. Raises TransportError."""
        while True:
            if self._decode is not None and self._decode.more:
                if data := self._decoded(self._decode, b""):
                    return data
            elif self._parts:
                data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
                self._parts.clear()
                self._resume()
                if self._decode is not None:
                    data = self._decoded(self._decode, data)
                if data:
                    return data
            elif self._error is not None:
                raise self._error
            elif self._complete:
                if self._decode is not None and not self._decode.whole:
                    raise TransportError("cut", "the provider's compressed answer ends too early")
                return b""
            else:
                await self._wait()

    def rest(self) -> None:
        """The exchange is over and the connection goes back to the pool."""
        self._busy = False

    def abort(self) -> None:
        """Close now, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its class
        if self._lost or self._surplus:  # before it was told of: TLS was begun on a connection that stood already
            self.abort()
            return
        self._poll = select.poll()
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            self._surplus = True  # nobody asked: this connection is out of step
            self.abort()
            return
        self.bytes_seen = True
        self._bare_size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail("protocol", "the provider wants to change the protocol")
        except httptools.HttpParserError as error:
            if self._complete:
                self._surplus = True  # behind a whole answer, which stands
                self.abort()
            else:
                self._fail("protocol", f"the provider's answer is not HTTP ({type(error).__name__})")
        if self._bare_size > _BARE_LIMIT and not self._complete:
            self._fail("protocol", f"the provider's answer has more than {_BARE_LIMIT} bytes outside its body")
        if not self._reading_paused and self._parts and sum(map(len, self._parts)) > _BUFFER_LIMIT:
            self._pause()
        self._wake()

    def eof_received(self) -> None:
        if self._head_ready and self._error is None and self._ends_with_connection():
            self._complete = True
        self._ended("closed")  # it is lost only when the rest of the request has been sent, and that may be never

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._ended("closed" if exc is None else "reset")

    # httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head_ready:
            return  # a trailer, or of what comes behind the answer
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1").rstrip(" \t")

    def on_headers_complete(self) -> None:
        if self._head_ready:
            return
        self.status = self._parser.get_status_code()
        if self.status < 100:
            self._fail("protocol", "the provider's answer has a status below 100")
        elif self.status >= 200:
            self._head_ready = self._error is None

    def on_body(self, data: bytes) -> None:
        if self._complete:
            self._surplus = True
        elif self._head_ready:
            self._parts.append(data)
            self._bare_size = 0

    def on_message_begin(self) -> None:
        if self._complete:
            self._surplus = True

    def on_message_complete(self) -> None:
        if self._complete:
            return
        if self.status < 200:  # an interim answer: the real one follows
            self.headers = {}
            return
        self._complete = True
        self._keep = self._parser.should_keep_alive()

    # the rest

    def _ends_with_connection(self) -> bool:
        codings = self.headers.get("transfer-encoding", "").lower()
        return "content-length" not in self.headers and "chunked" not in codings

    def _decoder(self) -> _Decoder | None:
        coding = self.headers.get("content-encoding", "identity").strip().lower()
        if coding in ("", "identity"):
            return None
        if coding in ("gzip", "x-gzip", "deflate"):
            return _Inflate(bare=coding == "deflate")
        if coding == "br":
            return _Brotli()
        raise TransportError("protocol", f"the provider's answer has an unknown Content-Encoding ({coding[:20]})")

    def _decoded(self, decode: _Decoder, data: bytes) -> bytes:
        try:
            return decode(data)
        except (zlib.error, brotli.error):
            raise TransportError("protocol", "the provider's answer cannot be decompressed") from None

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _ended(self, how: str) -> None:
        """The connection is at its end: so is an exchange that has not got its whole answer."""
        if self._busy and not self._complete:
            if self.bytes_seen:
                self._fail("cut", "the provider's connection broke inside the answer")
            else:
                self._fail("connect", f"the provider {how} the connection before an answer")
        self._wake()

    def _fail(self, kind: Kind, message: str) -> None:
        if self._error is None:
            self._error = TransportError(kind, message)
        self.abort()

    def _pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
            self._reading_paused = True

    def _resume(self) -> None:
        if self._reading_paused and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        self._reading_paused = False
