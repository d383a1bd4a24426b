"""What a caller may say in headers. Each reader raises HttpError 400 that names the header and what to write."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from gateway.http_errors import HttpError
from llm.commit import HEADER_FORMS, Commit, parse_header

_PRIORITIES = ("batch", "standard", "interactive")
_TRACEPARENT = re.compile(r"^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")


def deadline_of(headers: Mapping[str, str], route_s: float) -> float:
    """Seconds that this request may take: the route's, or `x-stanchion-timeout` where that is shorter."""
    text = headers.get("x-stanchion-timeout")
    if text is None:
        return route_s
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (seconds > 0 and math.isfinite(seconds)):
        raise _bad("x-stanchion-timeout", "seconds, such as 30 or 2.5")
    return min(seconds, route_s)


def priority_of(headers: Mapping[str, str], callers: str) -> str:
    """The caller's priority, or `x-stanchion-priority` where that is lower."""
    text = headers.get("x-stanchion-priority")
    if text is None:
        return callers
    if text not in _PRIORITIES:
        raise _bad("x-stanchion-priority", "interactive, standard or batch")
    return min(text, callers, key=_PRIORITIES.index)


def commit_of(headers: Mapping[str, str], routes: Commit) -> Commit:
    """When the answer is the caller's: as `x-stanchion-commit` says, else as the route does."""
    text = headers.get("x-stanchion-commit")
    if text is None:
        return routes
    try:
        return parse_header(text)
    except ValueError:
        raise _bad("x-stanchion-commit", HEADER_FORMS) from None


def traceparent_of(headers: Mapping[str, str]) -> str | None:
    """A well-formed W3C trace parent, which goes on to the provider; anything else is left out."""
    text = headers.get("traceparent", "")
    return text if _TRACEPARENT.match(text) else None


def _bad(header: str, instead: str) -> HttpError:
    return HttpError(
        400, "bad_request", f"the header {header} cannot be read: write {instead}", param=header, retry=False
    )
