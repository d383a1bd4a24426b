"""Byte positions of top-level values in a JSON object, so that one value is replaced and every other byte survives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import orjson

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\],:]', re.DOTALL)
_SPACE = b" \t\r\n"


class Span(NamedTuple):
    """Where a top-level value stands: `body[start:end]`."""

    key: str
    start: int
    end: int


def top_level(body: bytes) -> list[Span]:
    """Every top-level member in order, repeated keys included. `body` has to be a valid JSON object."""
    return list(_members(body))


def named(body: bytes, keys: frozenset[str]) -> Iterator[Span]:
    """The top-level members under these keys, repeated ones included; stops early where no other can follow."""
    missing = set(keys)
    for span in _members(body):
        if span.key in keys:
            yield span
            missing.discard(span.key)
            if not missing and not _may_follow(body, span.end, keys):
                return


def splice(body: bytes, edits: Iterable[tuple[int, int, bytes]]) -> bytes:
    """`body` with each `[start:end]` replaced; edits must not overlap."""
    parts, at = [], 0
    for start, end, data in sorted(edits):
        parts += [body[at:start], data]
        at = end
    return b"".join([*parts, body[at:]])


def _members(body: bytes) -> Iterator[Span]:
    depth, key, value_start, expect_key = 0, "", 0, False
    for match in _TOKEN.finditer(body):
        token = match[0]
        first = token[0]
        if first == 0x22:  # a string
            if expect_key:
                key, expect_key = _text(token), False
        elif first in b"{[":
            depth += 1
            expect_key = expect_key or depth == 1
        elif first in b"}]":
            depth -= 1
            if depth == 0 and not expect_key:
                yield _span(body, key, value_start, match.start())
        elif depth == 1:
            if first == 0x3A:  # a colon
                value_start = match.end()
            else:  # a comma
                yield _span(body, key, value_start, match.start())
                expect_key = True


def _may_follow(body: bytes, at: int, keys: frozenset[str]) -> bool:
    """Whether one of the keys may stand behind `at`, written plainly or with escapes."""
    return body.find(b"\\u00", at) >= 0 or any(body.find(b'"%s"' % key.encode(), at) >= 0 for key in keys)


def _span(body: bytes, key: str, start: int, end: int) -> Span:
    while body[start] in _SPACE:
        start += 1
    while body[end - 1] in _SPACE:
        end -= 1
    return Span(key, start, end)


def _text(token: bytes) -> str:
    return str(orjson.loads(token)) if b"\\" in token else token[1:-1].decode()
