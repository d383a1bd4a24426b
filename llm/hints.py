"""When a provider says it can be asked again: every form that it says this in, read into seconds.

Where several are given, the first of these that can be read wins, the one that is meant for this very request before those
that tell of a bucket:

1. `retry-after-ms` (OpenAI, Azure OpenAI), then `Retry-After`: seconds, with fractions, or a date in any of the three forms
   of RFC 9110 (5.6.7), or RFC 3339. Of several values in one header the longest.
2. A field of the error: Gemini's `RetryInfo.retryDelay`, Hugging Face's `estimated_time`, this gateway's `retry_after_s`.
3. The words of the error, outside of quotation marks: `try again in 1m2.5s`, `retry after 26 seconds`, and Anthropic's
   `regain access on` a date.
4. For a rate limit: when a bucket is full again, of those that are spent, the longest. `x-ratelimit-reset-KIND` (OpenAI, Groq,
   Cerebras) counts unless `x-ratelimit-remaining-KIND` is above 0; `anthropic-ratelimit-KIND-reset`, `x-ratelimit-reset` (as a
   time, in seconds or milliseconds, or a span) and `ratelimit-reset` only where their `remaining` is 0. OpenRouter has these
   headers in the error's `metadata`.

One thing is known better than said: a spent day (Gemini's `QuotaFailure` with a `PerDay` quota) comes with the delay of a
minute's limit, and counts as `DAY_LEAST_S` at least. `x-should-retry` names no time; it tells a passing error from the
caller's (see `llm.classify`). Fields, words and buckets count only where a wait may cure the error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_PART = re.compile(r"(\d{1,20}+(?:\.\d{1,20}+)?)(ms|s|m|h|d)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_EPOCH_FLOOR_S = 1_000_000_000.0
"""Plain numbers above this are Unix times, not spans (they would be 31 years)."""

_EPOCH_FLOOR_MS = 100_000_000_000.0
"""Above this they are Unix times in milliseconds."""

_LONGEST_TEXT = 64
"""Characters; no form is as long, and a provider's word is not taken for how much there is to read."""

LONGEST_S = 30 * 86_400.0
"""The longest wait that is believed: the longest window that a provider's limits are counted in is a month."""

DAY_LEAST_S = 600.0
"""The least wait for a limit that counts days."""

_AGAIN = re.compile(
    r"\b(?:try again|retry)\s{1,3}(?:in|after)\s{1,3}"
    r"(?:((?:\d{1,12}+(?:\.\d{1,20}+)?(?:ms|s|m|h|d))++)(?![a-z0-9])"
    r"|(\d{1,12}+(?:\.\d{1,20}+)?)\s{1,3}(milliseconds?|seconds?|secs?|minutes?|mins?|hours?|days?)\b)"
)
"""OpenAI and Groq ("Please try again in 7m12s."), Gemini ("Please retry in 34.07s."), Azure OpenAI ("Please retry after 26
seconds."), Azure API management and LiteLLM ("Try again in 26 seconds"), Moonshot ("try again after 1 seconds")."""

_WORD_UNITS = {"mil": 0.001, "sec": 1.0, "min": 60.0, "hou": 3600.0, "day": 86400.0}

_REGAIN = re.compile(r"\bregain access on (\d{4}-\d\d-\d\d)(?: at (\d\d:\d\d)(?: utc)?)?")
"""Anthropic, of a spend limit: "You will regain access on 2027-02-01 at 00:00 UTC."."""

_KIND = re.compile(r"x-ratelimit-reset-([a-z-]{1,40})")
_ANTHROPIC_KIND = re.compile(r"anthropic-ratelimit-([a-z-]{1,40})-reset")
_PLAIN = {"x-ratelimit-reset": "x-ratelimit-remaining", "ratelimit-reset": "ratelimit-remaining"}


def seconds(text: str, wall: float | None) -> float | None:
    """Seconds from now that `text` names, 0 for a past time, None when it is none of the forms.

    `wall`: Unix time; without it a date is none of them.
    """
    text = text.strip()
    if len(text) > _LONGEST_TEXT:
        return None
    number = _number(text)
    if number is not None:
        if not math.isfinite(number) or number < 0:
            return None
        if number >= _EPOCH_FLOOR_MS:
            number /= 1000
        return number if number < _EPOCH_FLOOR_S else _ahead(number, wall)
    if text and "".join(match[0] for match in _PART.finditer(text)) == text:
        span = sum(float(match[1]) * _UNITS[match[2]] for match in _PART.finditer(text))
        return span if math.isfinite(span) else None
    return _ahead(_moment(text), wall)


def told(headers: Mapping[str, str], wall: float | None) -> float | None:
    """What the headers say of this very request."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None and milliseconds >= 0 and math.isfinite(milliseconds):
        return milliseconds / 1000
    text = headers.get("retry-after", "")
    hint = seconds(text, wall)
    if hint is not None or "," not in text or len(text) > 4 * _LONGEST_TEXT:
        return hint
    several = (seconds(part, wall) for part in text.split(","))
    return max((value for value in several if value is not None), default=None)


def of_values(values: Iterable[str | float], wall: float | None) -> float | None:
    """The first of the values of an error's own fields that can be read."""
    return next((hint for value in values if (hint := seconds(str(value), wall)) is not None), None)


def of_texts(texts: Iterable[str], wall: float | None) -> float | None:
    """The first wait that one of these messages names; they are in lower case, and without what they quote."""
    for text in texts:
        if found := _AGAIN.search(text):
            return seconds(found[1], wall) if found[1] else float(found[2]) * _WORD_UNITS[found[3][:3]]
        if found := _REGAIN.search(text):
            return seconds(f"{found[1]}T{found[2] or '00:00'}:00Z", wall)
    return None


def resets(headers: Mapping[str, str], wall: float | None) -> float | None:
    """When the last of the spent buckets is full again."""
    found = (
        seconds(value, wall)
        for name, value in headers.items()
        if "ratelimit" in name and _number(_left(headers, name)) == 0
    )
    return max((hint for hint in found if hint is not None), default=None)


def bounded(hint: float | None) -> float | None:
    return None if hint is None else min(hint, LONGEST_S)


def _left(headers: Mapping[str, str], reset: str) -> str:
    """What the header beside a reset says is left: where nothing stands beside it, OpenAI's alone counts."""
    if match := _KIND.fullmatch(reset):
        return headers.get(f"x-ratelimit-remaining-{match[1]}", "0").strip()
    if match := _ANTHROPIC_KIND.fullmatch(reset):
        return headers.get(f"anthropic-ratelimit-{match[1]}-remaining", "").strip()
    return headers.get(_PLAIN[reset], "").strip() if reset in _PLAIN else ""


def _ahead(moment: float | None, wall: float | None) -> float | None:
    return None if moment is None or wall is None else max(moment - wall, 0.0)


def _number(text: str) -> float | None:
    try:
        return float(text) if len(text) <= _LONGEST_TEXT else None
    except ValueError:
        return None


def _moment(text: str) -> float | None:
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = parse(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return None
