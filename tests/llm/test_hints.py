"""Every form in which a provider says when it can be asked again."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.hints import LONGEST_S, retry_after, seconds

WALL = 1_800_000_000.0


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
    before = time.perf_counter()
    assert retry_after({name: value}, WALL) is None
    assert time.perf_counter() - before < 0.1
