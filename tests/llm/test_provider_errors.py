"""False friends of the classifier, the order of hints, and that nothing a provider says raises or names an absurd wait.

`tests/llm/error_corpus.py` has what providers say in earnest.
"""

from __future__ import annotations

import json
import math
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from llm.classes import RULES, ErrorClass, Verdict
from llm.classify import classify_error, classify_status
from llm.hints import LONGEST_S
from llm.signs import SIGNS

C = ErrorClass
WALL = 1_800_000_000.0


def error(message: str, code: str | None = None, kind: str | None = None, **more: Any) -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "code": code, "param": None, **more}}).encode()


def behind(code: str) -> bytes:
    """OpenRouter's words around an error of the provider behind it."""
    return error("Provider returned error", metadata={"raw": json.dumps({"error": {"code": code, "message": "m"}})})


FALSE_FRIENDS: list[tuple[str, int, bytes, ErrorClass]] = [
    ("a caller's words on rate limits", 400, error("'x' in 'rate limit exceeded' is not allowed"), C.BAD_REQUEST),
    ("the same, unquoted", 400, error("Invalid tool name: rate limit exceeded"), C.BAD_REQUEST),
    ("a caller's word overloaded", 400, error("Unknown function: the engine is currently overloaded"), C.BAD_REQUEST),
    ("a caller's JSON", 400, error('Invalid schema: {"error":{"code":"insufficient_quota"}}'), C.BAD_REQUEST),
    ("a beginning that stands later", 400, error("Bad text: Content Exists Risk"), C.BAD_REQUEST),
    (
        "a caller's input in a validation",
        422,
        b'{"detail":[{"loc":["body"],"msg":"bad","input":"content policy"}]}',
        C.BAD_REQUEST,
    ),
    ("a wrong path", 404, b'{"detail":"Not Found"}', C.MODEL_UNAVAILABLE),
    ("a wrong path of Azure", 404, error("Resource not found", "404"), C.MODEL_UNAVAILABLE),
    ("the place, not the key", 403, error("m", "unsupported_country_region_territory"), C.MODEL_UNAVAILABLE),
    (
        "the place, with 400",
        400,
        error("User location is not supported for the API use.", status="FAILED_PRECONDITION"),
        C.MODEL_UNAVAILABLE,
    ),
    ("a firewall's page, not the key", 403, b"<!DOCTYPE html><title>Just a moment...</title>", C.BAD_UPSTREAM_RESPONSE),
    ("a page under 401 is the key", 401, b"<html>401 Authorization Required</html>", C.CREDENTIAL),
    ("a page under 429", 429, b"<html>error code: 1015</html>", C.RATE_LIMITED),
    (
        "a spent day is no spent account",
        429,
        error("You exceeded your current quota", status="RESOURCE_EXHAUSTED"),
        C.RATE_LIMITED,
    ),
    ("a spent account is no rate limit", 429, error("m", "insufficient_quota"), C.QUOTA_EXHAUSTED),
    (
        "above a minute's tokens is no rate limit",
        429,
        error("Request too large for m on tokens per min", "rate_limit_exceeded", "tokens"),
        C.TOO_LARGE,
    ),
    (
        "a rate limit on tokens is no large request",
        429,
        error("Rate limit reached for m on tokens per min", "rate_limit_exceeded", "tokens"),
        C.RATE_LIMITED,
    ),
    ("a key behind an aggregator is not ours", 400, behind("invalid_api_key"), C.BAD_REQUEST),
    ("a quota behind an aggregator is not ours", 429, behind("insufficient_quota"), C.RATE_LIMITED),
    ("a prompt behind an aggregator is the caller's", 400, behind("context_length_exceeded"), C.CONTEXT_LENGTH),
    *(
        (f"a page of Cloudflare ({status})", status, b"<html>cloudflare</html>", C.SERVER_ERROR)
        for status in (*range(520, 528), 530)
    ),
]


@pytest.mark.parametrize(
    ("status", "body", "error_class"), [row[1:] for row in FALSE_FRIENDS], ids=[row[0] for row in FALSE_FRIENDS]
)
def test_a_false_friend_is_not_taken_for_another(status: int, body: bytes, error_class: ErrorClass) -> None:
    failure = classify_status(status, {}, body, WALL)
    assert (failure.error_class, failure.status) == (error_class, status)
    assert failure.message


def test_words_of_a_caller_can_neither_hold_nor_open_anything() -> None:
    """The whole vocabulary of the signs, said by a caller inside quotation marks."""
    for sign in SIGNS:
        for words in (*sign.words, *sign.begins):
            failure = classify_status(400, {}, error(f'Invalid value: "{words}" is not allowed.'), WALL)
            assert failure.error_class is C.BAD_REQUEST, words


DATE = formatdate(WALL + 40, usegmt=True)
RETRY_INFO: dict[str, Any] = {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]}
OPENAI_SPENT = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m2.5s"}
ANTHROPIC_SPENT = {
    "anthropic-ratelimit-requests-remaining": "3",
    "anthropic-ratelimit-requests-reset": "2027-01-15T09:00:00Z",
    "anthropic-ratelimit-input-tokens-remaining": "0",
    "anthropic-ratelimit-input-tokens-reset": "2027-01-15T08:00:09Z",
}

HINTS: list[tuple[dict[str, str], bytes, float | None]] = [
    ({"retry-after-ms": "1500", "retry-after": "9"}, error("try again in 20s"), 1.5),
    ({"retry-after": "9", **OPENAI_SPENT}, error("try again in 20s", **RETRY_INFO), 9),
    ({"retry-after": "0.25"}, b"", 0.25),
    ({"retry-after": DATE}, b"", 40),
    ({"retry-after": formatdate(WALL - 40, usegmt=True)}, b"", 0),
    ({"retry-after": "-5"}, b"", None),
    ({"retry-after": "99999999"}, b"", LONGEST_S),
    ({"retry-after": "soon"}, error("try again in 20s"), 20),
    (OPENAI_SPENT, error("try again in 20s", **RETRY_INFO), 34.5),
    (OPENAI_SPENT, error("Please try again in 20s."), 20),
    (OPENAI_SPENT, b"", 62.5),
    ({"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "1h"} | OPENAI_SPENT, b"", 62.5),
    ({**OPENAI_SPENT, "x-ratelimit-remaining-tokens": "7"}, b"", None),
    (ANTHROPIC_SPENT, b"", 9),
    ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{WALL + 12:.0f}"}, b"", 12),
    ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{(WALL + 12) * 1000:.0f}"}, b"", 12),
    ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "12"}, b"", 12),
    ({"x-ratelimit-remaining": "1", "x-ratelimit-reset": "12"}, b"", None),
    ({}, error("Rate limit reached. Please try again in 1m2.5s. Visit the page."), 62.5),
    ({}, error("Please try again in 6ms."), 0.006),
    ({}, error("Please try again in 7m12s."), 432),
    ({}, error("* Quota exceeded\nPlease retry in 34.074824224s."), 34.074824224),
    ({}, error("Please retry after 26 seconds."), 26),
    ({}, error("Try again in 2 minutes"), 120),
    ({}, error("Do not try again in haste"), None),
    ({}, error("'try again in 20s' is no tool"), None),
]


@pytest.mark.parametrize(("headers", "body", "hint"), HINTS)
def test_which_hint_wins(headers: dict[str, str], body: bytes, hint: float | None) -> None:
    failure = classify_status(429, headers, body, WALL)
    assert failure.error_class is C.RATE_LIMITED
    assert failure.retry_after_s == (None if hint is None else pytest.approx(hint))


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_callers_words_name_no_wait(status: int) -> None:
    assert classify_status(status, {}, error("Bad text: try again in 20s"), WALL).retry_after_s is None


NAMES = [
    *("retry-after", "retry-after-ms", "x-ratelimit-reset", "x-ratelimit-remaining", "x-ratelimit-reset-tokens"),
    *("x-ratelimit-remaining-tokens", "anthropic-ratelimit-tokens-reset", "anthropic-ratelimit-tokens-remaining"),
]
VALUES = st.text(st.characters(max_codepoint=255), max_size=30) | st.from_regex(r"\A[-+0-9a-zA-Z:., ]{0,30}\Z")
NUMBERS = st.from_regex(r"\A[0-9]{1,15}(\.[0-9]{1,25})?\Z")
UNITS = st.sampled_from(["s", "ms", "m", "h", "d", " seconds", " minutes", " days", "m2s", "", " "])
WORDS = st.builds(lambda number, unit: f"try again in {number}{unit}.", NUMBERS, UNITS) | st.text(max_size=60)


@given(
    st.sampled_from([400, 403, 408, 429, 499, 500, 503, 529]),
    st.dictionaries(st.sampled_from(NAMES), VALUES),
    WORDS,
    VALUES,
)
@example(429, {"retry-after": "1e308"}, "retry in 999999999 days", "9" * 30)
@example(429, {"retry-after": "nan"}, "retry in 1" + "1ms" * 20_000, "inf")
def test_no_header_and_no_text_raises(status: int, headers: dict[str, str], words: str, delay: str) -> None:
    body = error(words, details=[{"retryDelay": delay, "reason": words}], metadata={"raw": words, "headers": headers})
    for failure in (classify_status(status, headers, body, WALL), classify_error(json.loads(body), None)):
        hint = failure.retry_after_s
        assert hint is None or (math.isfinite(hint) and 0 <= hint <= LONGEST_S)


def test_no_fault_of_a_caller_is_a_sample() -> None:
    for error_class in (C.BAD_REQUEST, C.CONTEXT_LENGTH, C.TOO_LARGE, C.CONTENT_POLICY):
        assert (RULES[error_class].verdict, RULES[error_class].hold) == (Verdict.NEUTRAL, None)
