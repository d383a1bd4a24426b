"""Server-sent events (WHATWG HTML, 9.2): cutting a byte stream into whole events, and reading one event's data.

Line ends may be LF, CR or CRLF, mixed; cuts may fall anywhere, between CR and LF too. An event is handed on as soon as
its blank line is complete, as the bytes that came.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_BLANK = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")  # atomic: CRLF is one line end, never two
_LINE = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class EventTooLarge(ValueError):
    """An event did not end within the limit."""


class Event(NamedTuple):
    """`data` is None for an event without a data field: a comment, or blank lines."""

    name: str
    data: bytes | None


class EventSplitter:
    """Cuts what `feed` is given into whole events. Every byte is looked at once, however long an event is in coming."""

    def __init__(self, limit: int = 8_000_000) -> None:
        self._rest = bytearray()
        self._returns = False  # whether the rest holds a CR
        self._limit = limit

    def feed(self, data: bytes) -> list[bytes]:
        """The events that are complete now, each with its blank line. Raises EventTooLarge."""
        rest = self._rest
        returns = self._returns or b"\r" in data
        if not rest and not returns and 0 <= data.find(b"\n\n") == len(data) - 2:
            return [data]  # the usual read
        at = max(len(rest) - 3, 0)
        if rest:
            rest += data
        buffer: bytes | bytearray = rest or data
        events: list[bytes] = []
        start = 0
        if not returns:
            while (end := buffer.find(b"\n\n", at)) >= 0:
                at = end + 2
                events.append(bytes(buffer[start:at]))
                start = at
        else:
            while (match := _BLANK.search(buffer, at)) is not None:
                at = match.end()
                events.append(bytes(buffer[start:at]))
                start = at
        if rest:
            del rest[:start]
        elif start < len(data):
            rest += data[start:]
        self._returns = returns and (not start or b"\r" in rest)
        if len(rest) > self._limit:
            raise EventTooLarge(f"an event is longer than {self._limit} bytes")
        return events

    @property
    def rest(self) -> bytes:
        """What has come of an event that is not complete."""
        return bytes(self._rest)


def read_event(raw: bytes) -> Event:
    """Name and data of one event; several data lines are joined with LF, a leading BOM is dropped."""
    if raw.startswith(b"data: ") and raw.endswith(b"\n\n") and raw.count(b"\n") == 2 and b"\r" not in raw:
        return Event("", raw[6:-2])
    name, data = "", []
    for line in _LINE.split(raw.removeprefix(_BOM)):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    return Event(name, b"\n".join(data) if data else None)
