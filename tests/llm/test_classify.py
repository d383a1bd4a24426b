"""One table of what providers say, and what each is; whatever else they say never raises."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.classes import RULES, ErrorClass, Verdict
from llm.classify import bad_response, classify_error, classify_status
from llm.error_shapes import error_in

WALL = 1_800_000_000.0


def error(code: str | int | None = None, message: str = "m", kind: str | None = None) -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "code": code, "param": None}}).encode()


C = ErrorClass
TABLE: list[tuple[int, bytes, ErrorClass]] = [
    (429, error("insufficient_quota"), C.QUOTA_EXHAUSTED),
    (429, error(None, "m", "insufficient_quota"), C.QUOTA_EXHAUSTED),
    (429, error(None, "You exceeded your current quota, please check your plan"), C.QUOTA_EXHAUSTED),
    (401, error(None, "m", "insufficient_quota"), C.QUOTA_EXHAUSTED),
    (402, error(), C.QUOTA_EXHAUSTED),
    (402, b"", C.QUOTA_EXHAUSTED),
    (403, error("billing_not_active"), C.QUOTA_EXHAUSTED),
    (400, error(None, "Your credit balance is too low to access the API"), C.QUOTA_EXHAUSTED),
    (429, error("rate_limit_exceeded"), C.RATE_LIMITED),
    (429, error(None, "m", "rate_limit_error"), C.RATE_LIMITED),
    (429, b"slow down", C.RATE_LIMITED),
    (429, b"", C.RATE_LIMITED),
    (401, error("invalid_api_key"), C.CREDENTIAL),
    (401, b"", C.CREDENTIAL),
    (403, error(), C.CREDENTIAL),
    (403, error(403, 'x/y requires moderation on X. Your input was flagged for "violence".'), C.CONTENT_POLICY),
    (401, error(401, "Your account was flagged"), C.CREDENTIAL),
    (400, error(None, "API key not valid. Please pass a valid API key."), C.CREDENTIAL),
    (404, error("model_not_found"), C.MODEL_UNAVAILABLE),
    (404, b"<html>", C.MODEL_UNAVAILABLE),
    (410, error(), C.MODEL_UNAVAILABLE),
    (400, error("model_decommissioned"), C.MODEL_UNAVAILABLE),
    (400, error(None, "The model has been deprecated"), C.MODEL_UNAVAILABLE),
    (400, error("content_policy_violation"), C.CONTENT_POLICY),
    (400, error("content_filter"), C.CONTENT_POLICY),
    (400, error(None, "The response was filtered due to Azure's content management policy"), C.CONTENT_POLICY),
    (400, error("context_length_exceeded"), C.CONTEXT_LENGTH),
    (400, error(None, "This is longer than the model's context length"), C.CONTEXT_LENGTH),
    (400, error(None, "This model's maximum context length is 8192 tokens"), C.CONTEXT_LENGTH),
    (400, error(None, "request exceeds the available context size"), C.CONTEXT_LENGTH),
    (400, error(400, "This model's maximum context length is 8 tokens", "BadRequestError"), C.CONTEXT_LENGTH),
    (400, error(None, "Your credit balance is too low", "invalid_request_error"), C.QUOTA_EXHAUSTED),
    (413, error(), C.TOO_LARGE),
    (413, error("context_length_exceeded"), C.CONTEXT_LENGTH),
    (400, error(), C.BAD_REQUEST),
    (400, error("invalid_value"), C.BAD_REQUEST),
    (422, error(), C.BAD_REQUEST),
    (409, b"{}", C.SERVER_ERROR),
    (418, b"", C.BAD_REQUEST),
    (408, error(), C.SERVER_ERROR),
    (500, error(), C.SERVER_ERROR),
    (502, b"<html>bad gateway</html>", C.SERVER_ERROR),
    (504, b"", C.SERVER_ERROR),
    (599, b"", C.SERVER_ERROR),
    (503, error(), C.OVERLOADED),
    (529, error(None, "m", "overloaded_error"), C.OVERLOADED),
    (500, error(None, "m", "overloaded_error"), C.OVERLOADED),
    (301, b"", C.BAD_UPSTREAM_RESPONSE),
    (307, error(), C.BAD_UPSTREAM_RESPONSE),
]


@pytest.mark.parametrize(("status", "body", "error_class"), TABLE)
def test_a_status_and_a_body_are_one_class(status: int, body: bytes, error_class: ErrorClass) -> None:
    failure = classify_status(status, {}, body, WALL)
    assert (failure.error_class, failure.status) == (error_class, status)
    assert failure.message


def test_the_providers_own_words_are_kept() -> None:
    body = json.dumps({"error": {"message": "why", "type": "t", "code": "c", "param": "p"}}).encode()
    failure = classify_status(400, {"retry-after": "3"}, body, WALL)
    assert (failure.message, failure.type, failure.code, failure.param) == ("why", "t", "c", "p")
    assert failure.retry_after_s == 3


@pytest.mark.parametrize(
    ("said", "error_class", "status"),
    [
        ({"code": 503}, C.OVERLOADED, 503),
        ({"code": "529"}, C.OVERLOADED, 529),
        ({"code": 502}, C.SERVER_ERROR, 502),
        ({"code": 404}, C.MODEL_UNAVAILABLE, 404),
        ({"code": "insufficient_quota"}, C.QUOTA_EXHAUSTED, None),
        ({"type": "overloaded_error"}, C.OVERLOADED, None),
        ({"code": 200}, C.BAD_UPSTREAM_RESPONSE, None),
        ({"code": 600}, C.BAD_UPSTREAM_RESPONSE, None),
        ({"code": "5000"}, C.BAD_UPSTREAM_RESPONSE, None),
        ({"code": "²"}, C.BAD_UPSTREAM_RESPONSE, None),
        ({"code": "9" * 5000}, C.BAD_UPSTREAM_RESPONSE, None),
        ({"code": True}, C.BAD_UPSTREAM_RESPONSE, None),
        ({}, C.BAD_UPSTREAM_RESPONSE, None),
        ("words", C.BAD_UPSTREAM_RESPONSE, None),
        (None, C.BAD_UPSTREAM_RESPONSE, None),
        ([], C.BAD_UPSTREAM_RESPONSE, None),
    ],
)
def test_an_error_inside_a_200_speaks_by_its_code(said: Any, error_class: ErrorClass, status: int | None) -> None:
    failure = classify_error(said, None)
    assert (failure.error_class, failure.status) == (error_class, status)


def test_words_are_taken_from_detail_too() -> None:
    assert classify_status(400, {}, b'{"detail":"no such thing"}', WALL).message == "no such thing"


def test_a_bad_response_is_a_failure_of_the_target() -> None:
    failure = bad_response("why")
    assert (failure.error_class, failure.verdict) == (C.BAD_UPSTREAM_RESPONSE, Verdict.FAILURE)


def test_every_class_has_its_rule() -> None:
    assert set(RULES) == set(ErrorClass)


@pytest.mark.parametrize(
    ("verdict", "classes"),
    [
        (
            Verdict.FAILURE,
            {C.CONNECT, C.TIMEOUT_FIRST_TOKEN, C.TIMEOUT_IDLE, C.TIMEOUT_TOTAL, C.OVERLOADED, C.SERVER_ERROR}
            | {C.BAD_UPSTREAM_RESPONSE},
        ),
        (
            Verdict.NEUTRAL,
            {C.RATE_LIMITED, C.QUOTA_EXHAUSTED, C.CREDENTIAL, C.MODEL_UNAVAILABLE, C.CONTEXT_LENGTH, C.TOO_LARGE}
            | {C.CONTENT_POLICY, C.BAD_REQUEST, C.LOCAL_CAPACITY, C.DEADLINE, C.CANCELLED},
        ),
    ],
)
def test_which_classes_a_breaker_counts(verdict: Verdict, classes: set[ErrorClass]) -> None:
    assert {each for each, rule in RULES.items() if rule.verdict is verdict} == classes


ERROR_KEYS = [
    *("error", "message", "type", "code", "param", "detail", "details", "errors", "metadata", "raw", "status"),
    *("innererror", "violations", "retryDelay", "estimated_time", "headers", "choices", "loc", "msg", "x"),
]

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(ERROR_KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)
header_values = st.text(st.characters(max_codepoint=255), max_size=20) | st.sampled_from(["1e999", "nan", "-0", "1d2h"])
headers = st.dictionaries(
    st.sampled_from(
        ["retry-after", "retry-after-ms", "x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens", "content-type"]
    ),
    header_values,
)


@given(st.integers(300, 999), headers, st.binary(max_size=60) | json_values.map(orjson.dumps))
def test_nothing_that_a_provider_says_raises(status: int, fields: dict[str, str], body: bytes) -> None:
    failure = classify_status(status, fields, body, WALL)
    assert failure.status == status
    assert isinstance(failure.message, str)
    assert failure.retry_after_s is None or 0 <= failure.retry_after_s < float("inf")


@given(json_values)
def test_nothing_that_stands_in_an_answer_raises(said: Any) -> None:
    failure = classify_error(said, None)
    assert failure.error_class in RULES
    assert all(isinstance(part, str | None) for part in (failure.type, failure.code, failure.param))


def test_words_that_a_telling_error_quotes_from_the_caller_do_not_count() -> None:
    error = {"message": "You have insufficient credits.", "type": "invalid_request_error", "code": "invalid_value"}
    assert classify_error(error, 400).error_class is ErrorClass.BAD_REQUEST
    assert classify_error({**error, "code": None}, 400).error_class is ErrorClass.QUOTA_EXHAUSTED


@pytest.mark.parametrize(
    "message",
    [
        "Invalid value: 'insufficient credits'. Supported values are: 'a' and 'b'.",
        'Invalid value: "insufficient credits".',
        "Invalid value: `insufficient credits`.",
        "Invalid value: “insufficient credits”.",
        "Invalid value: 'it's insufficient credits'.",
        "Invalid value: 'x' insufficient credits 'y'.",
        "Invalid value: 'insufficient credits and then no end",
    ],
)
def test_words_inside_quotation_marks_do_not_count(message: str) -> None:
    assert classify_error({"message": message}, 400).error_class is ErrorClass.BAD_REQUEST


def test_an_apostrophe_quotes_nothing() -> None:
    message = "The model's context length is 8, the users' prompt's is 9."
    assert classify_error({"message": message}, 400).error_class is ErrorClass.CONTEXT_LENGTH


@pytest.mark.parametrize("mark", ["'", '"', "`", "“", "' '"])
def test_a_message_of_marks_is_read_in_one_go(mark: str) -> None:
    before = time.process_time()
    classify_error({"message": mark * 1_000_000}, 400)
    assert time.process_time() - before < 10


@given(json_values)
def test_an_error_is_found_in_any_answer_without_raising(said: Any) -> None:
    error = error_in(said)
    if error:
        assert classify_error(error, None).error_class in RULES


@pytest.mark.parametrize(
    "wrap",
    [
        lambda said: {"error": said},
        lambda said: [said],
        lambda said: {"message": said},
        lambda said: {"errors": [said]},
        lambda said: {"metadata": {"raw": said}},
    ],
)
def test_shapes_inside_shapes_end(wrap: Callable[[Any], Any]) -> None:
    said: Any = "end"
    for _ in range(200):
        said = wrap(said)
    assert classify_error(said, 400).error_class is C.BAD_REQUEST


def test_json_in_json_ends() -> None:
    text = "end"
    for _ in range(8):
        text = json.dumps({"error": text})
    assert classify_error(text, 400).error_class is C.BAD_REQUEST


def test_a_page_is_no_message_and_no_sign() -> None:
    page = b"<html>You exceeded your current quota. Please retry after 26 seconds.</html>"
    failure = classify_status(502, {}, page, WALL)
    assert (failure.error_class, failure.retry_after_s, failure.quoted) == (C.SERVER_ERROR, None, False)
    assert failure.message == "the provider answered 502 with a page, not with an error of its API"


def test_what_was_sent_is_left_out_of_a_validations_words() -> None:
    body = orjson.dumps({"detail": [{"loc": ["body", "n"], "msg": "must be 1", "input": "secret"}, {"msg": "no"}]})
    assert classify_status(422, {}, body, WALL).message == "body.n: must be 1; no"


def test_the_words_of_the_provider_behind_an_aggregator_are_handed_on() -> None:
    raw = '{"error":{"message":"too long","code":"context_length_exceeded","param":"messages"}}'
    error = {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw, "provider_name": "X"}}
    failure = classify_error(error, 400)
    assert (failure.message, failure.code) == ("Provider returned error: too long", "context_length_exceeded")
    assert failure.error_class is C.CONTEXT_LENGTH


@pytest.mark.parametrize("error_class", [C.BAD_REQUEST, C.CONTENT_POLICY, C.CONTEXT_LENGTH, C.CREDENTIAL])
def test_words_name_a_wait_only_where_waiting_may_help(error_class: C) -> None:
    words = {C.BAD_REQUEST: "no", C.CONTENT_POLICY: "content policy", C.CONTEXT_LENGTH: "context window"}
    message = words.get(error_class, "api key not valid") + ", try again in 900s"
    failure = classify_error({"message": message}, 400)
    assert (failure.error_class, failure.retry_after_s) == (error_class, None)
