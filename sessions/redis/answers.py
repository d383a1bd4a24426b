"""The library's answers, and the texts inside them, as the contract's objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from sessions.checks import decode
from sessions.model import Committed, Count, CountKey, Event, Loss, Position, SessionInfo, SessionKey, StoredEvent

GONE_PARTS = 5
"""What is remembered of a session that is gone: reason, time, gseq, version, sequence number."""


def position(text: bytes) -> Position:
    return Position.parse(text.decode())


def info(key: SessionKey, row: Sequence[bytes]) -> SessionInfo:
    version, epoch, seq, events, event_bytes, created_ms, updated_ms = (int(part) for part in row[:7])
    last = Position(epoch, seq) if events else None
    lost = Loss(*(int(part) for part in row[7].split(b" "))) if row[7] else None
    return SessionInfo(key, version, last, events, event_bytes, created_ms, updated_ms, lost)


def event(entry: tuple[bytes, Sequence[bytes]]) -> StoredEvent:
    """From an entry of the stream."""
    at, flat = entry
    fields = dict(_pairs(flat))
    given = Event(
        event_id=fields[b"id"].decode(),
        body=fields[b"b"],
        invocation_id=fields[b"i"].decode(),
        author=fields[b"a"].decode(),
        tag=fields[b"k"].decode(),
    )
    return StoredEvent(position(at), int(fields[b"v"]), int(fields[b"g"]), int(fields[b"t"]), given)


def committed(entry: bytes) -> Committed:
    """From the index of event ids."""
    at, version, gseq, _, _ = entry.split(b" ")
    return Committed(position(at), int(version), int(gseq))


def state(flat: Sequence[bytes]) -> Mapping[str, Any]:
    """A scope; its field without a name is its size."""
    return {key.decode(): decode(value) for key, value in sorted(_pairs(flat)) if key}


def count_field(key: CountKey, name: str) -> str:
    """The field of a minute's hash; no name has a NUL."""
    return "\0".join((key.component, key.region, key.node, key.boot, name))


def counts(minute: int, flat: Sequence[bytes]) -> list[Count]:
    """All of a minute, ordered by their key."""
    rows = sorted((tuple(field.decode().split("\0")), int(value)) for field, value in _pairs(flat))
    return [
        Count(CountKey(minute, *whose), {parts[4]: number for parts, number in group})
        for whose, group in groupby(rows, key=lambda row: row[0][:4])
    ]


def _pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)
