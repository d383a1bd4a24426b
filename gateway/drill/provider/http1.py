"""Just enough HTTP/1.1 for a fake provider, without I/O: requests from bytes, heads of answers to bytes."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from http import HTTPStatus

_MAX_LINE = 64 * 1024


class MalformedRequest(ValueError):
    """The bytes are not a well-framed HTTP/1.1 request; the message says what is wrong with them."""


@dataclass(frozen=True)
class Request:
    """One complete request. `headers` as received: order, case and repetitions are kept."""

    method: str
    path: str
    version: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def keep_alive(self) -> bool:
        """Whether the client will use the connection again."""
        tokens = {
            token.strip().lower()
            for name, value in self.headers
            if name.lower() == "connection"
            for token in value.split(",")
        }
        return "close" not in tokens if self.version == "HTTP/1.1" else "keep-alive" in tokens


class RequestReader:
    """Cuts a byte stream into requests, wherever the network cut it.

    `expects_continue` is set by a head that asks for `100 Continue`; whoever answers resets it.
    """

    def __init__(self) -> None:
        self.expects_continue = False
        self._buffer = bytearray()
        self._complete: list[Request] = []
        self._parser = self._parse()
        next(self._parser)

    def feed(self, data: bytes) -> list[Request]:
        """Take bytes as they came; give the requests that they complete.

        Raises MalformedRequest and is of no use after it.
        """
        self._buffer += data
        next(self._parser)
        complete, self._complete = self._complete, []
        return complete

    def _parse(self) -> Generator[None, None, None]:
        """The grammar, written top down: each `yield` waits for the next piece."""
        while True:
            method, path, version = _request_line((yield from self._line()))
            headers: list[tuple[str, str]] = []
            while line := (yield from self._line()):
                name, colon, value = line.partition(":")
                if not colon or not name or name != name.strip():
                    raise MalformedRequest(f"not a header line: {line[:80]!r}")
                headers.append((name, value.strip()))
            self.expects_continue = _values(headers, "expect") == ["100-continue"]
            lengths, codings = _values(headers, "content-length"), _values(headers, "transfer-encoding")
            if codings and lengths:
                raise MalformedRequest("both Content-Length and Transfer-Encoding")
            if codings == ["chunked"]:
                body = yield from self._chunks()
            elif codings or len(lengths) > 1 or not all(length.isdecimal() for length in lengths):
                raise MalformedRequest(f"a body that is framed by {codings or lengths}")
            else:
                body = yield from self._exactly(int(lengths[0]) if lengths else 0)
            self._complete.append(Request(method, path, version, tuple(headers), body))

    def _chunks(self) -> Generator[None, None, bytes]:
        body = bytearray()
        while True:
            line = yield from self._line()
            try:
                size = int(line.partition(";")[0], 16)
            except ValueError:
                raise MalformedRequest(f"not a chunk size: {line[:80]!r}") from None
            if size == 0:
                while (yield from self._line()):  # trailers
                    pass
                return bytes(body)
            body += yield from self._exactly(size)
            if (yield from self._line()):
                raise MalformedRequest("a chunk that is longer than its size says")

    def _line(self) -> Generator[None, None, str]:
        searched = 0
        while (end := self._buffer.find(b"\r\n", searched)) < 0:
            if len(self._buffer) > _MAX_LINE:
                raise MalformedRequest("a line without end")
            searched = max(len(self._buffer) - 1, 0)
            yield
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line.decode("latin-1")

    def _exactly(self, size: int) -> Generator[None, None, bytes]:
        while len(self._buffer) < size:
            yield
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data


def _request_line(line: str) -> tuple[str, str, str]:
    parts = line.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise MalformedRequest(f"not a request line: {line[:80]!r}")
    return parts[0], parts[1], parts[2]


def _values(headers: Iterable[tuple[str, str]], name: str) -> list[str]:
    return [value.lower() for key, value in headers if key.lower() == name]


def response_head(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    """Status line and headers of an answer, with the blank line."""
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:  # 529 and other codes that providers made up
        reason = "Status"
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body. An empty one would end the body, so it gives no bytes at all."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


LAST_CHUNK = b"0\r\n\r\n"
