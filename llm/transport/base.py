"""The interface between providers and an HTTP client. Clients retry nothing, follow nothing, and add no headers of a caller."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Literal, NamedTuple, Protocol


class WireRequest(NamedTuple):
    """One POST. `url` is complete and encoded; `connect_s` bounds the connection, TLS included, in seconds."""

    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    connect_s: float

    def __repr__(self) -> str:
        return f"WireRequest({self.url}, {len(self.body)} bytes)"  # headers hold the key, the body the prompt


class WireResponse(Protocol):
    """An answer whose head has come. Header names are lower case."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    async def read_any(self) -> bytes:
        """What has arrived, decompressed; b"" at the end of the body. Raises TransportError."""


class Counters(NamedTuple):
    """A transport as it is now, and what it has counted since it was made.

    `in_use`: places taken, also by connections that are still being made. `idle`: connections kept for the next request.
    `waiting`: requests that wait for a place. `resent`: requests that a stale connection lost and that were sent once more.
    `stale_lookups`: connections made to the last good addresses since the name could not be resolved.
    """

    in_use: int
    idle: int
    waiting: int
    resent: int
    stale_lookups: int


Kind = Literal["connect", "cut", "capacity", "protocol"]


class TransportError(Exception):
    """The wire failed. `kind`: `connect` before an answer or at a proxy, `cut` inside one, `capacity` when the own pool
    is full, `protocol` when what came is not HTTP. The message names no URL and no key."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


class Transport(Protocol):
    """One provider's connections."""

    def send(self, request: WireRequest) -> AbstractAsyncContextManager[WireResponse]:
        """Send, and wait for the head of the answer. Raises TransportError.

        Leaving the context before the body's end closes the connection; after it, the connection is used again.
        """

    def counters(self) -> Counters: ...

    async def close(self) -> None:
        """Close every connection that is idle, and each of the others at the end of its exchange.

        Requests that are under way, wait for a place, or still come, are served as before.
        """
