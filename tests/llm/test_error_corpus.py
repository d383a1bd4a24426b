"""Every error of the corpus is its class, keeps its code and says when to come back: by status, in a 200, in a stream."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from llm.answer import Progress
from llm.classes import ErrorClass as C
from llm.classify import classify_error, classify_status
from llm.dialects.openai_answer import ChatStreamReader, read_plain
from llm.errors import AttemptFailed, Failure
from llm.signs import SIGNS
from tests.llm.error_corpus import ROWS, WALL, Row

JSON_ROWS = [row for row in ROWS if isinstance(row.body, dict | list)]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_an_error_answer_is_its_class(row: Row) -> None:
    failure = classify_status(row.status, row.headers, row.bytes, WALL)
    assert (failure.error_class, failure.status, failure.code) == (row.error_class, row.status, row.code)
    assert failure.retry_after_s == (None if row.wait is None else pytest.approx(row.wait))
    assert failure.message
    assert "<" not in failure.message[:1], "a page is no message"


@pytest.mark.parametrize("row", [row for row in JSON_ROWS if not row.headers], ids=str)
def test_the_same_error_with_its_status_known_is_the_same_without_its_wrapping(row: Row) -> None:
    assert classify_error(row.body, row.status).error_class is row.error_class
    if isinstance(row.body, dict) and isinstance(row.body.get("error"), dict):
        assert classify_error(row.body["error"], row.status).error_class is row.error_class


def in_stream(row: Row) -> Failure:
    reader = ChatStreamReader(usage_asked=False)
    with pytest.raises(AttemptFailed) as raised:
        reader.feed(b"data: " + json.dumps(row.body).encode() + b"\n\n")
    return raised.value.failure


def in_body(row: Row) -> Failure:
    with pytest.raises(AttemptFailed) as raised:
        read_plain(row.bytes, Progress())
    return raised.value.failure


@pytest.mark.parametrize("row", JSON_ROWS, ids=str)
def test_in_a_200_an_error_is_told_by_itself_and_never_taken_for_an_answer(row: Row) -> None:
    """Where the status told the class, there is none inside a 200: then it is a bad answer, and never another class."""
    told = classify_error(row.body, None).error_class
    assert told in (row.error_class, C.BAD_UPSTREAM_RESPONSE) or (row.provider, row.code) in ANOTHER_WITHOUT_STATUS
    assert in_stream(row).error_class is told
    plain = in_body(row)
    passing = told in (C.SERVER_ERROR, C.BAD_REQUEST)
    assert plain.error_class is (C.BAD_UPSTREAM_RESPONSE if passing else told)
    assert plain.code == row.code


ANOTHER_WITHOUT_STATUS = {("openai", "slow_down")}
"""Errors whose own words are those of another class where no status tells the two apart."""


@pytest.mark.parametrize(
    ("said", "error_class", "status"),
    [
        ([{"error": {"code": 503, "status": "UNAVAILABLE", "message": "m"}}], C.OVERLOADED, 503),
        ({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "m"}}, C.RATE_LIMITED, 429),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, C.OVERLOADED, None),
        ({"error": "m", "status": 429}, C.RATE_LIMITED, 429),
        ({"object": "error", "message": "m", "type": "rate_limited", "raw_status_code": 429}, C.RATE_LIMITED, 429),
        ({"detail": "m", "status_code": 503}, C.OVERLOADED, 503),
        ({"errors": [{"message": "m", "code": 429}]}, C.RATE_LIMITED, 429),
        ({"error": '{"error":{"code":"context_length_exceeded","message":"m"}}'}, C.CONTEXT_LENGTH, None),
        (
            {"choices": [{"finish_reason": "error", "delta": {}, "error": {"code": 502, "message": "m"}}]},
            C.SERVER_ERROR,
            502,
        ),
    ],
)
def test_every_shape_is_read_in_a_stream_too(said: object, error_class: C, status: int | None) -> None:
    failure = in_stream(Row("x", 200, said, error_class))  # type: ignore[arg-type]
    assert (failure.error_class, failure.status, failure.message) == (error_class, status, "m")


def test_the_corpus_covers_what_a_provider_can_say() -> None:
    counted = Counter(row.error_class for row in ROWS)
    told = {sign.error_class for sign in SIGNS} | {C.BAD_REQUEST, C.SERVER_ERROR, C.BAD_UPSTREAM_RESPONSE}
    assert set(counted) == told
    assert len(ROWS) >= 120
    assert min(counted.values()) >= 4, counted


@pytest.mark.parametrize("number", range(len(SIGNS)))
def test_every_sign_is_needed_by_a_row(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that nothing would miss is a mistake: shadowed by one before it, or not tried."""
    monkeypatch.setattr("llm.classify.SIGNS", SIGNS[:number] + SIGNS[number + 1 :])
    missed = []
    for row in ROWS:
        failure = classify_status(row.status, row.headers, row.bytes, WALL)
        if (failure.error_class, failure.retry_after_s) != (
            row.error_class,
            None if row.wait is None else pytest.approx(row.wait),
        ):
            missed.append(row)
    assert missed, SIGNS[number].source
