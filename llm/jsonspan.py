"""Byte positions of top-level values in a JSON object, so that one value is replaced and every other byte survives.

Nothing here steps through a body token by token: a caller's body may have millions of them, and the event loop waits.
What is searched is found by patterns and counts that run outside of the interpreter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, compress
from operator import indexOf, not_
from typing import NamedTuple

MOST_REPEATS = 16
"""How often a key may be repeated. Parsers take the first or the last of them, or refuse: nobody means it."""

_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_UNESCAPED = re.compile(rb'"[^"]*+"')
_VALUE = re.compile(
    rb'\s*+(?P<value>%b|[^\s"{}\[\],]++|\{(?:[^"{}\[\]]++|%b)*+\}|\[(?:[^"{}\[\]]++|%b)*+\])' % ((_STRING,) * 3),
    re.DOTALL,
)
"""A value that holds no object or list."""

_OPENING = re.compile(rb"\s*+[{\[]")
_UPTO_BRACKET = rb'(?:[^"{}\[\]]++|%b)*+[{}\[\]]' % _STRING

_HERE = b"\x02"
"""A mark for a name. No control character stands in JSON, but for tabs and line ends."""

_STEPS = bytes.maketrans(b"{[}]" + _HERE, b"\x01\x01\xff\xff\x00")
"""Brackets as signed bytes: how the depth changes. A mark changes nothing."""

_NO_STEPS = bytes(set(range(256)) - set(b"{[}]" + _HERE))


class RepeatedTooOften(ValueError):
    """A key stands at the top level more than `MOST_REPEATS` times."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class Span(NamedTuple):
    """Where a top-level value stands: `body[start:end]`."""

    key: str
    start: int
    end: int


def members(body: bytes, keys: Sequence[str]) -> list[Span]:
    """Every top-level member under one of `keys` in order, repeated ones included. Raises RepeatedTooOften.

    `body` has to be a valid JSON object that has each of `keys`, which are plain ASCII words; in the body they may be
    written with escapes.
    """
    names = _names(tuple(keys), b"\\u00" in body)
    found = list(names.finditer(body))
    if len(found) > len(keys):
        steps = _steps(names.sub(_HERE, body))
        depths = compress(accumulate(steps), map(not_, steps))
        found = [match for match, depth in zip(found, depths, strict=True) if depth == 1]
    named = [(keys[(match.lastindex or 0) - 1], match.end()) for match in found]
    if len(named) > MOST_REPEATS:
        key, times = Counter(key for key, _ in named).most_common(1)[0]
        if times > MOST_REPEATS:
            raise RepeatedTooOften(key)
    stops = [match.start() for match in found[1:]]
    stops.append(len(body))
    return [Span(key, *_value(body, end, stop)) for (key, end), stop in zip(named, stops, strict=True)]


def without_escaped_marks(body: bytes) -> bytes:
    """Valid JSON so that each mark in it opens or closes a text.

    Pairs of backslashes are taken out from the left, so an odd one stays before what it escapes.
    """
    return body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body


def without_texts(body: bytes) -> bytes:
    """What `without_escaped_marks` made, without its texts: a pattern that knew of escapes would take five times as long."""
    return _UNESCAPED.sub(b"", body)


def splice(body: bytes, edits: Iterable[tuple[int, int, bytes]]) -> bytes:
    """`body` with each `[start:end]` replaced; edits must not overlap."""
    parts, at = [], 0
    for start, end, data in sorted(edits):
        parts += [body[at:start], data]
        at = end
    return b"".join([*parts, body[at:]])


@lru_cache(maxsize=64)
def _names(keys: tuple[str, ...], escapes: bool) -> re.Pattern[bytes]:
    """Any of `keys` as the name of a member, at any depth; the number of the group says which.

    A mark without a backslash before it either opens or closes a text, and after a closing one no letter can stand. So
    no look-alike inside a text fits, and only a name has a colon behind it.
    """
    words = (b"".join(_letter(letter, escapes) for letter in key) for key in keys)
    return re.compile(rb'"(?<!\\")(?:%b)"\s*+:' % b"|".join(b"(%b)" % word for word in words))


def _letter(letter: str, escapes: bool) -> bytes:
    plain = re.escape(letter.encode())
    return rb"(?:%b|\\u(?i:%04x))" % (plain, ord(letter)) if escapes else plain


def _steps(body: bytes) -> memoryview:
    """What each bracket outside of texts adds to the depth, and 0 for each mark."""
    return memoryview(without_texts(without_escaped_marks(body)).translate(_STEPS, _NO_STEPS)).cast("b")


def _value(body: bytes, start: int, stop: int) -> tuple[int, int]:
    """Where the value that begins at `start` or after blanks there begins and ends; it does so before `stop`."""
    match = _VALUE.match(body, start)
    if match is not None:
        return match.span("value")
    opening = _OPENING.match(body, start)
    assert opening is not None, "the body is valid JSON"  # noqa: S101 - a programming error, not input
    start = opening.end() - 1
    count = indexOf(accumulate(_steps(body[start:stop])), 0) + 1
    end = re.compile(rb"(?:%b){%d}+" % (_UPTO_BRACKET, count), re.DOTALL).match(body, start)
    assert end is not None, "the body is valid JSON"  # noqa: S101 - a programming error, not input
    return start, end.end()
