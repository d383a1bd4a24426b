"""Byte positions of top-level values in a JSON object, so that one value is replaced and every other byte survives."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import orjson

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\],:]', re.DOTALL)
_TEXT_VALUE = re.compile(rb'\s*:\s*("(?:[^"\\]++|\\.)*+")', re.DOTALL)
_SPACE = b" \t\r\n"


class Span(NamedTuple):
    """Where a top-level value stands: `body[start:end]`."""

    key: str
    start: int
    end: int


def top_level(body: bytes) -> list[Span]:
    """Every top-level member in order, repeated keys included. `body` has to be a valid JSON object."""
    spans: list[Span] = []
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
                spans.append(_span(body, key, value_start, match.start()))
        elif depth == 1:
            if first == 0x3A:  # a colon
                value_start = match.end()
            else:  # a comma
                spans.append(_span(body, key, value_start, match.start()))
                expect_key = True
    return spans


def text_member(body: bytes, key: str) -> list[Span]:
    """Where the member `key` stands at the top level, which is known to hold a text under it; repeated ones included.

    One plain occurrence of the key in a body without escaped letters can only be that member; everything else is read
    token by token.
    """
    name = b'"%s"' % key.encode()
    at = body.find(name)
    if at >= 0 and body.find(name, at + 1) < 0 and b"\\u00" not in body:
        match = _TEXT_VALUE.match(body, at + len(name))
        if match is not None:
            return [Span(key, *match.span(1))]
    return [span for span in top_level(body) if span.key == key]


def splice(body: bytes, edits: Iterable[tuple[int, int, bytes]]) -> bytes:
    """`body` with each `[start:end]` replaced; edits must not overlap."""
    parts, at = [], 0
    for start, end, data in sorted(edits):
        parts += [body[at:start], data]
        at = end
    return b"".join([*parts, body[at:]])


def _span(body: bytes, key: str, start: int, end: int) -> Span:
    while body[start] in _SPACE:
        start += 1
    while body[end - 1] in _SPACE:
        end -= 1
    return Span(key, start, end)


def _text(token: bytes) -> str:
    return str(orjson.loads(token)) if b"\\" in token else token[1:-1].decode()
