"""Byte positions of top-level values in a JSON object, so that one value is replaced and every other byte survives.

Nothing here steps through a body token by token: a caller's body may have millions of them, and the event loop waits.
What is searched is found by patterns and counts that run outside of the interpreter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import indexOf
from typing import NamedTuple

MOST_REPEATS = 16
"""How often a key may be repeated. Parsers take the first or the last of them, or refuse: nobody means it."""

_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_TEXT = re.compile(_STRING, re.DOTALL)
_VALUE = re.compile(
    rb'\s*+(?P<value>%b|[^\s"{}\[\],]++|\{(?:[^"{}\[\]]++|%b)*+\}|\[(?:[^"{}\[\]]++|%b)*+\])' % ((_STRING,) * 3),
    re.DOTALL,
)
"""A value that holds no object or list."""

_OPENING = re.compile(rb"\s*+[{\[]")
_UPTO_BRACKET = rb'(?:[^"{}\[\]]++|%b)*+[{}\[\]]' % _STRING
_STEPS = bytes.maketrans(b"{[}]", b"\x01\x01\xff\xff")
"""Brackets as signed bytes: how the depth changes."""

_NO_BRACKETS = bytes(set(range(256)) - set(b"{[}]"))


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
    found = list(_names(tuple(keys), b"\\u00" in body).finditer(body))
    if len(found) > len(keys):
        found = _at_the_top(body, found)
    named = [(keys[(match.lastindex or 0) - 1], match.end()) for match in found]
    for key, times in Counter(key for key, _ in named).items():
        if times > MOST_REPEATS:
            raise RepeatedTooOften(key)
    return [Span(key, *_value(body, end)) for key, end in named]


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


def _at_the_top(body: bytes, found: Iterable[re.Match[bytes]]) -> list[re.Match[bytes]]:
    """Those names that stand at the top level: between two of them the brackets outside of texts are counted."""
    top, depth, at = [], 0, 0
    for match in found:
        between, at = _TEXT.sub(b"", body[at : match.start()]), match.start()
        depth += between.count(b"{") + between.count(b"[") - between.count(b"}") - between.count(b"]")
        if depth == 1:
            top.append(match)
    return top


def _value(body: bytes, start: int) -> tuple[int, int]:
    """Where the value that begins at `start` or after blanks there begins and ends."""
    match = _VALUE.match(body, start)
    if match is not None:
        return match.span("value")
    opening = _OPENING.match(body, start)
    assert opening is not None, "the body is valid JSON"  # noqa: S101 - a programming error, not input
    start = opening.end() - 1
    brackets = _TEXT.sub(b"", body[start:]).translate(_STEPS, _NO_BRACKETS)
    count = indexOf(accumulate(memoryview(brackets).cast("b")), 0) + 1
    end = re.compile(rb"(?:%b){%d}+" % (_UPTO_BRACKET, count), re.DOTALL).match(body, start)
    assert end is not None, "the body is valid JSON"  # noqa: S101 - a programming error, not input
    return start, end.end()
