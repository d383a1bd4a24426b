"""Replacing one value of a JSON object: every other byte stays."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.jsonspan import splice, text_member, top_level

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10) | st.sampled_from(
    ["model", '"', "\\", '{"model": 1}', "},{", "[", "]", ":", ",", "\\u0022", "日本"]
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
    spans = [span for span in top_level(body) if span.key == "model"]
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
def test_a_text_member_is_that_of_the_whole_list(made: tuple[bytes, list[tuple[str, str]]]) -> None:
    body, _ = made
    if isinstance(json.loads(body)["model"], str):
        assert text_member(body, "model") == [span for span in top_level(body) if span.key == "model"]


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
    assert [body[span.start : span.end] for span in text_member(body, "model")] == [b'"a"', b'"b"']


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"r"}',
        b'{"a":{"x":"m"},"model" :\n "r\\"s", "b":"model:"}',
        b'{"a":"model","model":"r"}',
        b'{"a":{"model":"x"},"model":"r"}',
        b'{"a":"say \\"model\\": \\"x\\"","model":"r"}',
    ],
)
def test_a_text_member_is_found_among_lookalikes(body: bytes) -> None:
    (span,) = text_member(body, "model")
    assert json.loads(body[span.start : span.end]) == json.loads(body)["model"]


def test_edits_apply_in_any_order_with_insertions_between() -> None:
    assert splice(b"0123456789", [(8, 9, b"H"), (2, 4, b""), (4, 4, b"++")]) == b"01++4567H9"


def test_a_long_string_is_no_trouble() -> None:
    value: dict[str, Any] = {"messages": [{"content": '\\"' * 100_000}], "model": "m"}
    body = orjson.dumps(value)
    assert [span.key for span in top_level(body)] == ["messages", "model"]
