"""When a provider says it can be asked again: every form that its headers use, read into seconds.

Forms: `Retry-After` as seconds (fractions too) or an HTTP date (RFC 9110, 10.2.3), `retry-after-ms`, and OpenAI's
`x-ratelimit-reset-*` durations such as `6m0s` or `28ms`, which do not count beside a `remaining` above 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
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


def seconds(text: str, wall: float) -> float | None:
    """Seconds from now that `text` names, 0 for a past time, None when it is none of the forms. `wall`: Unix time."""
    text = text.strip()
    if len(text) > _LONGEST_TEXT:
        return None
    number = _number(text)
    if number is not None:
        if not math.isfinite(number) or number < 0:
            return None
        if number >= _EPOCH_FLOOR_MS:
            number /= 1000
        return number if number < _EPOCH_FLOOR_S else max(number - wall, 0.0)
    if text and "".join(match[0] for match in _PART.finditer(text)) == text:
        span = sum(float(match[1]) * _UNITS[match[2]] for match in _PART.finditer(text))
        return span if math.isfinite(span) else None
    moment = _moment(text)
    return None if moment is None else max(moment - wall, 0.0)


def retry_after(headers: Mapping[str, str], wall: float) -> float | None:
    """The provider's hint in seconds, the most exact form first; None when there is none that can be read.

    A hint above `LONGEST_S` is taken as that.
    """
    hint = _hint(headers, wall)
    return None if hint is None else min(hint, LONGEST_S)


def _hint(headers: Mapping[str, str], wall: float) -> float | None:
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None and milliseconds >= 0 and math.isfinite(milliseconds):
        return milliseconds / 1000
    if "retry-after" in headers and (hint := seconds(headers["retry-after"], wall)) is not None:
        return hint
    resets = [
        hint
        for kind in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{kind}", "0").strip() == "0"
        and (hint := seconds(headers.get(f"x-ratelimit-reset-{kind}", ""), wall)) is not None
    ]
    return max(resets, default=None)


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
