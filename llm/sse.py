"""Server-sent events (WHATWG HTML, 9.2): cutting a byte stream into whole events, and reading one event's data.

Line ends may be LF, CR or CRLF, mixed; cuts may fall anywhere, between CR and LF too. An event is handed on as soon as
its blank line is complete, as the bytes that came, with these exceptions, which are legal and which clients do not read:

- a byte order mark before an event is taken away: OpenAI's Python SDK loses the event behind it;
- an event without data (`data:` alone, a name alone, `id` or `retry` alone) becomes a comment: both of OpenAI's SDKs take
  the empty text for JSON and fail;
- `id` and `retry` are taken away: nobody can resume an answer, and after an `id` the Python SDK fails at the next comment;
- an event whose line ends are CR, or of several kinds, gets LF;
- one JSON value over several data lines is put on one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import orjson

_BLANK = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")  # atomic: CRLF is one line end, never two
_LINE = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
_USUAL = b"data: {"


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
        self._half = False  # whether the last event was handed on at a CR, whose LF may follow
        self._limit = limit

    def feed(self, data: bytes) -> list[bytes]:
        """The events that are complete now, each with its blank line. Raises EventTooLarge."""
        if self._half and data:
            self._half = False
            data = data.removeprefix(b"\n")
        rest = self._rest
        returns = self._returns or b"\r" in data
        if not rest and not returns and _usual(data):
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
                event = bytes(buffer[start:at])
                events.append(event if _usual(event) else _readable(event))
                start = at
        else:
            while (match := _BLANK.search(buffer, at)) is not None:
                at = match.end()
                event = bytes(buffer[start:at])
                if at == len(buffer) and event.endswith(b"\r"):
                    self._half = True
                    event += b"\n" if event.endswith(b"\n\r") else b""  # the half that is most likely to follow
                events.append(_readable(event))
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
    """Name and data of one event that a splitter cut; several data lines are joined with LF."""
    if raw.startswith(b"data: ") and raw.endswith(b"\n\n") and raw.count(b"\n") == 2 and b"\r" not in raw:
        return Event("", raw[6:-2])
    name, data = "", []
    for line in _LINE.split(raw):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    return Event(name, b"\n".join(data) if data else None)


def _usual(event: bytes) -> bool:
    """Whether a text without CR is one event, of one line of data that is an object."""
    return event.startswith(_USUAL) and event.endswith(b"\n\n") and event.find(b"\n") == len(event) - 2


def _readable(event: bytes) -> bytes:
    """The event as every client reads it, see above."""
    event = event.removeprefix(_BOM)
    kept: list[bytes] = []
    data: list[bytes] = []
    odd = _ends_oddly(event)
    for line in filter(None, _LINE.split(event)):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field in (b"id", b"retry"):
            odd = True
        else:
            kept.append(line)
    said = b"\n".join(data)
    if not said.strip():
        comments = [line for line in kept if line.startswith(b":")]
        odd = odd or bool(data) or len(comments) < len(kept)
        kept, data = comments or [b":"], []
    elif len(data) > 1 and _is_json(said):
        odd, data = True, [said.replace(b"\n", b" ")]
    if not odd:
        return event
    return b"".join(line + b"\n" for line in [*kept, *(b"data: " + text for text in data)]) + b"\n"


def _ends_oddly(event: bytes) -> bool:
    """Whether its line ends are neither all LF nor all CRLF."""
    if b"\r" not in event:
        return False
    bare = event.replace(b"\r\n", b"")
    return b"\r" in bare or b"\n" in bare


def _is_json(text: bytes) -> bool:
    """Whether a text is JSON as it stands. A line end inside of a string is none, and is not made one."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
