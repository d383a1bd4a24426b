"""Replacing one value of a JSON object: every other byte stays."""

from __future__ import annotations

import gc
import json
import re
import sys
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.jsonspan import MOST_REPEATS, RepeatedTooOften, Span, members, splice

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\],:]', re.DOTALL)


def top_level(body: bytes) -> list[Span]:
    """The reference: every top-level member in order, found token by token."""
    spans: list[Span] = []
    depth, key, value_start, expect_key = 0, "", 0, False
    for match in _TOKEN.finditer(body):
        token = match[0]
        first = token[0]
        if first == 0x22:  # a string
            if expect_key:
                key, expect_key = json.loads(token), False
        elif first in b"{[":
            depth += 1
            expect_key = expect_key or depth == 1
        elif first in b"}]":
            depth -= 1
            if depth == 0 and not expect_key:
                spans.append(trimmed(body, key, value_start, match.start()))
        elif depth == 1:
            if first == 0x3A:  # a colon
                value_start = match.end()
            else:  # a comma
                spans.append(trimmed(body, key, value_start, match.start()))
                expect_key = True
    return spans


def trimmed(body: bytes, key: str, start: int, end: int) -> Span:
    value = body[start:end]
    return Span(key, end - len(value.lstrip(b" \t\r\n")), start + len(value.rstrip(b" \t\r\n")))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10) | st.sampled_from(
    ["model", "other", '"', "\\", '{"model": 1}', "},{", "[", "]", ":", ",", "\\u0022", "日本"]
)
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
spaces = st.sampled_from(["", " ", "\n", "\t ", "\r\n  "])
MODEL_KEYS = ('"model"', '"m\\u006fdel"', '"\\u006Dodel"')


@st.composite
def objects(draw: st.DrawFn) -> tuple[bytes, list[tuple[str, str]]]:
    """An object as text, and its members: the key's and the value's text as they are written."""
    members = [
        (json.dumps(draw(texts), ensure_ascii=draw(st.booleans())), json.dumps(draw(values)))
        for _ in range(draw(st.integers(0, 4)))
    ]
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.integers(0, len(members)))
        members.insert(place, (draw(st.sampled_from(MODEL_KEYS)), json.dumps(draw(values))))
    written = ",".join(
        f"{draw(spaces)}{key}{draw(spaces)}:{draw(spaces)}{value}{draw(spaces)}" for key, value in members
    )
    return f"{draw(spaces)}{{{written}}}{draw(spaces)}".encode(), members


@given(objects())
def test_every_member_is_found_where_it_stands(made: tuple[bytes, list[tuple[str, str]]]) -> None:
    body, members = made
    spans = top_level(body)
    assert [span.key for span in spans] == [json.loads(key) for key, _ in members]
    assert [body[span.start : span.end].decode() for span in spans] == [value for _, value in members]


@given(objects())
def test_replacing_the_model_changes_nothing_else(made: tuple[bytes, list[tuple[str, str]]]) -> None:
    body, _ = made
    spans = members(body, ["model"])
    changed = splice(body, [(span.start, span.end, b'"new"') for span in spans])
    around, at = [], 0
    for span in spans:
        around.append(body[at : span.start])
        at = span.end
    assert changed == b'"new"'.join([*around, body[at:]])
    expected = {**json.loads(body), "model": "new"}
    assert json.loads(changed) == expected
    assert orjson.loads(changed) == expected


@given(objects())
def test_the_wanted_members_are_those_of_the_whole_list(made: tuple[bytes, list[tuple[str, str]]]) -> None:
    body, _ = made
    for wanted in (["model"], ["model", "other"], ["other", "model"]):
        if set(wanted) <= set(json.loads(body)):
            assert members(body, wanted) == [span for span in top_level(body) if span.key in wanted]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{}", []),
        (b' { "a" : 1 } ', [("a", b"1")]),
        (b'{"a":{"model":"x"},"b":[{"model":1}]}', [("a", b'{"model":"x"}'), ("b", b'[{"model":1}]')]),
        (b'{"a":"model","model":"m"}', [("a", b'"model"'), ("model", b'"m"')]),
        (b'{"a":"\\"model\\":","model":null}', [("a", b'"\\"model\\":"'), ("model", b"null")]),
        (b'{"a":[],"a":{}}', [("a", b"[]"), ("a", b"{}")]),
        (b'{"a":"\\\\"}', [("a", b'"\\\\"')]),
    ],
)
def test_members_of_odd_objects(body: bytes, expected: list[tuple[str, bytes]]) -> None:
    assert [(span.key, body[span.start : span.end]) for span in top_level(body)] == expected


def test_a_repeated_key_behind_the_first_is_found_too() -> None:
    body = b'{"model":"a","x":1,"m\\u006fdel":"b"}'
    assert [body[span.start : span.end] for span in members(body, ["model"])] == [b'"a"', b'"b"']


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"r"}',
        b'{"a":{"x":"m"},"model" :\n "r\\"s", "b":"model:"}',
        b'{"a":"model","model":"r"}',
        b'{"a":{"model":"x"},"model":"r"}',
        b'{"a":"say \\"model\\": \\"x\\"","model":"r"}',
        b'{"a":"say \\"model","model":"r"}',
        b'{"a":"\\\\","model":"r"}',
        b'{"a":{"model":1},"m\\u006Fdel":"r"}',
        b'{"a":[{"mode\\u006c":1}],"model":[{"]}":["}\\"]"]},[]]}',
    ],
)
def test_a_member_is_found_among_lookalikes(body: bytes) -> None:
    (span,) = members(body, ["model"])
    assert json.loads(body[span.start : span.end]) == json.loads(body)["model"]


def test_edits_apply_in_any_order_with_insertions_between() -> None:
    assert splice(b"0123456789", [(8, 9, b"H"), (2, 4, b""), (4, 4, b"++")]) == b"01++4567H9"


def test_a_long_string_is_no_trouble() -> None:
    value: dict[str, Any] = {"messages": [{"content": '\\"' * 100_000}], "model": "m"}
    body = orjson.dumps(value)
    assert [span.key for span in top_level(body)] == ["messages", "model"]
    assert [span.key for span in members(body, ["model"])] == ["model"]


def test_a_key_that_is_repeated_without_end_is_refused() -> None:
    body = b"{" + b",".join([b'"model":"r"'] * MOST_REPEATS) + b"}"
    assert len(members(body, ["model"])) == MOST_REPEATS
    with pytest.raises(RepeatedTooOften, match="model"):
        members(body[:-1] + b',"m\\u006fdel":1}', ["model"])


def calls_of(run: Callable[[], object]) -> int:
    """How often functions are called, those written in C included."""
    calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    gc.disable()  # it has callbacks of its own
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


@pytest.mark.parametrize(
    "filling",
    [b"[],", b'{"a":[]},', b'"x","\\u00e9\\"",', b"[[[[[[[[[[]]]]]]]]]],", b'{"model":1},'],
    ids=["lists", "objects", "texts", "nested", "names"],
)
@pytest.mark.parametrize(
    "around",
    [
        b'{"messages":[%b1],"model":"r","stream_options":{}}',
        b'{"messages":[%b{"model":1}],"mod\\u0065l":"r","stream_options":{}}',
        b'{"model":"r","stream_options":{"a":[%b1]}}',
    ],
    ids=["one", "among lookalikes", "inside"],
)
def test_the_steps_do_not_grow_with_the_body(around: bytes, filling: bytes) -> None:
    def steps(times: int) -> int:
        body = around % (filling * times)
        members(body, ["model", "stream_options"])  # patterns are compiled once
        return calls_of(lambda: members(body, ["model", "stream_options"]))

    assert steps(20_000) <= steps(20) + 5
