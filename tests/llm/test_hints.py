"""Every form in which a provider says when it can be asked again."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.hints import LONGEST_S, bounded, of_texts, of_values, resets, seconds, told

WALL = 1_800_000_000.0


def retry_after(headers: Mapping[str, str], wall: float | None) -> float | None:
    """What the headers alone say, in the order in which the classifier asks."""
    hint = told(headers, wall)
    return bounded(resets(headers, wall) if hint is None else hint)


def rfc3339(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "2"}, 2),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": " 7 "}, 7),
        ({"retry-after": formatdate(WALL + 30, usegmt=True)}, 30),
        ({"retry-after": formatdate(WALL - 30, usegmt=True)}, 0),
        ({"retry-after-ms": "250", "retry-after": "5"}, 0.25),
        ({"retry-after-ms": "abc", "retry-after": "5"}, 5),
        ({"retry-after-ms": "-1", "retry-after": "5"}, 5),
        ({"retry-after-ms": "inf", "retry-after": "5"}, 5),
        ({"x-ratelimit-reset-tokens": "6m0s"}, 360),
        ({"x-ratelimit-reset-tokens": "28ms"}, 0.028),
        ({"x-ratelimit-reset-tokens": "2m59.56s"}, 179.56),
        ({"x-ratelimit-reset-tokens": "1h2m3s"}, 3723),
        ({"x-ratelimit-reset-tokens": rfc3339(WALL + 12)}, 12),
        ({"x-ratelimit-reset-tokens": str(WALL + 12)}, 12),
        ({"x-ratelimit-reset-tokens": str(WALL - 12)}, 0),
        ({"x-ratelimit-reset-requests": "3s", "x-ratelimit-reset-tokens": "9s"}, 9),
        ({"x-ratelimit-reset-tokens": "9s", "x-ratelimit-remaining-tokens": "0"}, 9),
        ({"retry-after": "2", "x-ratelimit-reset-tokens": "9s"}, 2),
        ({"retry-after": "abc", "x-ratelimit-reset-tokens": "9s"}, 9),
        ({"retry-after": "10800"}, 10800),
        ({"retry-after": "0"}, 0),
    ],
)
def test_a_hint_that_can_be_read(headers: dict[str, str], expected: float) -> None:
    assert retry_after(headers, WALL) == pytest.approx(expected)


@pytest.mark.parametrize("value", ["-1", "abc", "inf", "", "nan", "-inf", "1e999", "5 minutes", "s", "1.2.3"])
@pytest.mark.parametrize("header", ["retry-after", "x-ratelimit-reset-tokens"])
def test_what_cannot_be_read_is_no_hint(header: str, value: str) -> None:
    assert retry_after({header: value}, WALL) is None


def test_a_reset_beside_a_rest_is_no_hint() -> None:
    """OpenAI sends the resets with every answer; only the limit that is used up says when to come back."""
    headers = {"x-ratelimit-reset-tokens": "9s", "x-ratelimit-remaining-tokens": "400"}
    assert retry_after(headers, WALL) is None
    used_up = {"x-ratelimit-reset-requests": "2s", "x-ratelimit-remaining-requests": "0"}
    assert retry_after(headers | used_up, WALL) == 2


def test_no_header_is_no_hint() -> None:
    assert retry_after({}, WALL) is None


@pytest.mark.parametrize(
    "value",
    [
        "9" * 400,
        "9" * 400 + "s",
        "Mon, 99999999999999999999 Jan 2024 00:00:00 GMT",
        "Mon, 01 Jan 99999 00:00:00 GMT",
        "2024-13-45T99:00:00Z",
    ],
)
def test_a_monstrous_value_is_no_hint(value: str) -> None:
    assert seconds(value, WALL) is None


@given(st.text(max_size=30) | st.from_regex(r"\A[0-9a-zA-Z:.,+ -]{0,30}\Z"))
def test_any_text_is_a_span_or_nothing(text: str) -> None:
    span = seconds(text, WALL)
    assert span is None or (span >= 0 and math.isfinite(span))


@given(st.integers(0, 10**6))
def test_dates_and_epochs_agree(ahead: int) -> None:
    forms = [formatdate(WALL + ahead, usegmt=True), rfc3339(WALL + ahead), str(int(WALL) + ahead)]
    assert [seconds(form, WALL) for form in forms] == [ahead] * 3


def test_a_time_in_milliseconds_is_no_span_of_centuries() -> None:
    assert retry_after({"retry-after": f"{(WALL + 12) * 1000:.0f}"}, WALL) == pytest.approx(12)


@pytest.mark.parametrize("name", ["retry-after", "retry-after-ms"])
def test_a_monstrous_hint_is_a_month(name: str) -> None:
    assert retry_after({name: "99999999999999999999"}, WALL) == LONGEST_S


@pytest.mark.parametrize("name", ["retry-after", "retry-after-ms", "x-ratelimit-reset-tokens"])
@pytest.mark.parametrize("value", ["0" * 64 + "5", "1" * 20_000 + "x", "1s" * 10_000])
def test_a_text_longer_than_any_form_is_not_read(name: str, value: str) -> None:
    before = time.process_time()
    assert retry_after({name: value}, WALL) is None
    assert time.process_time() - before < 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fri, 15 Jan 2027 08:00:30 GMT", 30),
        ("Friday, 15-Jan-27 08:00:30 GMT", 30),
        ("Fri Jan 15 08:00:30 2027", 30),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ("2027-01-15T08:01:00Z", 60),
        ("2027-01-15T09:01:00+01:00", 60),
    ],
)
def test_each_form_of_a_date(text: str, expected: float) -> None:
    assert retry_after({"retry-after": text}, WALL) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "5, 10"}, 10),
        ({"retry-after": "5, soon"}, 5),
        ({"retry-after": "a, b"}, None),
        ({"retry-after": "31536000"}, LONGEST_S),
        ({"retry-after": "Wed, 15 Jan 2099 08:00:00 GMT"}, LONGEST_S),
        ({"x-ratelimit-reset": str(int(WALL) + 40), "x-ratelimit-remaining": "0"}, 40),
        ({"x-ratelimit-reset": str((int(WALL) + 40) * 1000), "x-ratelimit-remaining": "0"}, 40),
        ({"x-ratelimit-reset": "40", "x-ratelimit-remaining": "0"}, 40),
        ({"x-ratelimit-reset": "40", "x-ratelimit-remaining": "3"}, None),
        ({"x-ratelimit-reset": "40"}, None),
        ({"ratelimit-reset": "40", "ratelimit-remaining": "0"}, 40),
        ({"x-ratelimit-reset-tokens-minute": "12.5", "x-ratelimit-remaining-tokens-minute": "0"}, 12.5),
        ({"x-ratelimit-reset-requests-day": "40000", "x-ratelimit-remaining-requests-day": "9"}, None),
        ({"anthropic-ratelimit-tokens-reset": rfc3339(WALL + 9), "anthropic-ratelimit-tokens-remaining": "0"}, 9),
        ({"anthropic-ratelimit-tokens-reset": rfc3339(WALL + 9), "anthropic-ratelimit-tokens-remaining": "1000"}, None),
        ({"anthropic-ratelimit-tokens-reset": rfc3339(WALL + 9)}, None),
        (
            {
                "anthropic-ratelimit-input-tokens-reset": rfc3339(WALL + 9),
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-requests-reset": rfc3339(WALL + 5),
                "anthropic-ratelimit-requests-remaining": "0",
            },
            9,
        ),
        ({"x-should-retry": "true"}, None),
        ({"retry-after": "2", "x-ratelimit-reset": "40", "x-ratelimit-remaining": "0"}, 2),
    ],
)
def test_which_header_counts(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after(headers, WALL) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("please try again in 20s. contact us", 20),
        ("please try again in 1m2.5s.", 62.5),
        ("please try again in 6ms.", 0.006),
        ("please try again in 9m38.016s. need more tokens?", 578.016),
        ("please retry in 34.074824224s.", 34.074824224),
        ("please retry after 26 seconds.", 26),
        ("please try again after 1 seconds", 1),
        ("try again in 2 minutes.", 120),
        ("retry after 500 milliseconds", 0.5),
        ("you will regain access on 2027-01-16 at 00:00 utc.", 57_600),
        ("you will regain access on 2027-01-14.", 0),
        ("please try again later", None),
        ("retry in 5", None),
        ("retry in 5sheep", None),
        ("entry after 5 seconds", None),
        ("you will regain access on 2027-99-99", None),
        ("", None),
    ],
)
def test_a_wait_in_words(text: str, expected: float | None) -> None:
    assert of_texts(["nothing here", text], WALL) == (None if expected is None else pytest.approx(expected))


def test_a_date_needs_the_time_of_day() -> None:
    assert of_texts(["you will regain access on 2027-01-16"], None) is None
    assert of_values([rfc3339(WALL + 5), "34.07s"], None) == 34.07


NAMES = [
    *("retry-after", "retry-after-ms", "x-ratelimit-reset", "x-ratelimit-remaining", "ratelimit-reset"),
    *("ratelimit-remaining", "x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens", "x-should-retry"),
    *("x-ratelimit-reset-", "anthropic-ratelimit-tokens-reset", "anthropic-ratelimit-tokens-remaining"),
    *("anthropic-ratelimit--reset", "x-ratelimit-reset-a-b", "x-ratelimit-remaining-a-b"),
]
VALUES = st.text(max_size=80) | st.sampled_from(
    ["0", "-1", "nan", "inf", "1e999", "-inf", "0x10", "1_0", "9" * 70, "1m", "1m1m1m", "²", "Fri, 99 Jan 2027 08:00:30 GMT",
     "Mon, 01 Jan 0001 00:00:00 -2359", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "5, , -1, nan", ","]
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(NAMES), VALUES), st.sampled_from([WALL, 0.0, None]))
def test_no_header_raises_and_every_hint_is_a_span(headers: dict[str, str], wall: float | None) -> None:
    hint = retry_after(headers, wall)
    assert hint is None or 0 <= hint <= LONGEST_S


@given(st.lists(st.text(max_size=60) | st.from_regex(r"\A(try again|retry) (in|after) [0-9.]{0,30}[a-z ]{0,10}\Z")))
def test_no_words_raise_and_every_hint_is_a_span(texts: list[str]) -> None:
    hint = of_texts(texts, WALL)
    assert hint is None or (hint >= 0 and math.isfinite(hint))


@pytest.mark.parametrize("text", ["try again in " + "1" * 20_000, "retry in " * 2_000, "try again in 1s" * 1_300 + "x"])
def test_long_words_are_read_in_one_go(text: str) -> None:
    before = time.process_time()
    of_texts([text], WALL)
    assert time.process_time() - before < 5
