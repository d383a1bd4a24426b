"""OpenAI's error shapes, for callers that speak this dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson


def error_object(
    message: str,
    kind: str,
    code: str | None,
    param: str | None,
    error_class: str,
    attempts: Sequence[dict[str, Any]],
    retry_after_s: float | None = None,
) -> dict[str, Any]:
    """The value of `error`, with the class and the trail beside the dialect's own fields."""
    error: dict[str, Any] = {
        "message": message,
        "type": kind,
        "param": param,
        "code": code,
        "class": error_class,
    }
    if attempts:
        error["attempts"] = list(attempts)
    if retry_after_s is not None:
        error["retry_after_s"] = round(retry_after_s, 3)
    return error


def error_body(error: dict[str, Any]) -> bytes:
    """A whole error answer."""
    return orjson.dumps({"error": error})


def error_event(error: dict[str, Any]) -> bytes:
    """The one event that ends a stream which cannot go on."""
    return b"data: " + orjson.dumps({"error": error}) + b"\n\n"
