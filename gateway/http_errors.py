"""Every error that a caller can meet, mapped to HTTP in one table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llm.classes import CALLERS_FAULT, ErrorClass, Skip
from llm.dialects.openai_errors import error_body, error_event, error_object
from llm.errors import Failure, InvalidRequest, RouteFailed, StreamInterrupted

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
}
"""OpenAI's error type for a status of our own; every other one is a server_error."""


@dataclass(frozen=True, slots=True)
class HttpError(Exception):
    """An answer that is an error. `retry_after_s` becomes a whole-number header, rounded up.

    `retry` False says that the same request would fail the same way at once: SDKs are told to leave it.
    """

    status: int
    error_class: str
    message: str
    code: str | None = None
    param: str | None = None
    type: str | None = None
    retry_after_s: float | None = None
    retry: bool = True
    close: bool = False
    attempts: Sequence[dict[str, Any]] = ()
    trail: str = ""
    headers: tuple[tuple[str, str], ...] = ()

    def body(self) -> bytes:
        return error_body(self.object())

    def event(self) -> bytes:
        """The error as the last event of a stream, with the wait inside, since its head has gone."""
        return error_event({**self.object(), **self._wait()})

    def object(self) -> dict[str, Any]:
        kind = self.type or _TYPES.get(self.status, "server_error")
        return error_object(self.message, kind, self.code, self.param, self.error_class, self.attempts)

    def header_fields(self) -> dict[str, str]:
        fields = dict(self.headers)
        if self.retry_after_s is not None:
            fields["Retry-After"] = str(math.ceil(max(self.retry_after_s, 0.0)) or 1)
        if not self.retry:
            fields["x-should-retry"] = "false"
        if self.trail:
            fields["x-stanchion-attempts"] = self.trail
        if self.close:
            fields["Connection"] = "close"
        return fields

    def _wait(self) -> dict[str, float]:
        return {} if self.retry_after_s is None else {"retry_after_s": round(self.retry_after_s, 3)}


def invalid(error: InvalidRequest) -> HttpError:
    return HttpError(400, "bad_request", error.message, param=error.param, retry=False)


def unauthorized() -> HttpError:
    message = "the key is missing or unknown: send a caller's key as Authorization: Bearer, x-api-key or x-goog-api-key"
    return HttpError(401, "unauthorized", message, code="invalid_api_key", retry=False)


def web_page_forbidden() -> HttpError:
    message = "a gateway without callers serves no web pages of other sites: set up callers with keys"
    return HttpError(403, "forbidden", message, retry=False)


def route_forbidden(route: str) -> HttpError:
    return HttpError(403, "forbidden", f"this caller may not use the model {route!r}", param="model", retry=False)


def route_unknown(model: str, known: Sequence[str]) -> HttpError:
    shown = model if len(model) <= 100 else model[:100] + "…"
    message = f"the model {shown!r} does not exist here; this caller can use: {', '.join(known) or 'none'}"
    return HttpError(404, "not_found", message, code="model_not_found", param="model", retry=False)


def unknown_path() -> HttpError:
    message = "no such path: agents use POST /v1/chat/completions and GET /v1/models"
    return HttpError(404, "not_found", message, retry=False)


def wrong_method(allowed: Sequence[str]) -> HttpError:
    message = f"this path takes {' or '.join(allowed)}"
    return HttpError(405, "bad_request", message, retry=False, headers=(("Allow", ", ".join(allowed)),))


def draining() -> HttpError:
    return HttpError(503, "shed", "this replica is shutting down: try again", retry_after_s=1, close=True)


def unwritable() -> HttpError:
    """An answer came whole and cannot be put together."""
    message = "the provider's answer is nested too deep to be put together: send the request as a stream"
    return HttpError(502, "bad_upstream_response", message, retry=False)


def unexpected() -> HttpError:
    return HttpError(500, "internal", "the gateway failed on this request; its log has the request id", retry=False)


def route_failed(error: RouteFailed) -> HttpError:
    """What the caller of a route is told when nothing of it answered."""
    attempts, trail = error.trail.as_json(), error.trail.as_header()
    if error.deadline:
        return HttpError(504, "deadline", error.message, retry=False, attempts=attempts, trail=trail)
    if error.failure is not None:
        return _after_attempts(error, error.failure)
    if error.unfit is not None:
        status, name, code = _UNFIT.get(error.unfit, (400, "bad_request", None))
        return HttpError(status, name, error.message, code, retry=False, attempts=attempts, trail=trail)
    if error.never_fits:
        return HttpError(413, "too_large", error.message, retry=False, attempts=attempts, trail=trail)
    status = 429 if error.rate_limits_only else 503
    name = "shed" if error.rate_limits_only else "no_target"
    return HttpError(status, name, error.message, retry_after_s=error.retry_after_s, attempts=attempts, trail=trail)


_UNFIT: dict[Skip, tuple[int, str, str | None]] = {
    Skip.CONTEXT_WINDOW: (400, "context_length", "context_length_exceeded"),
    Skip.REQUEST_LIMIT: (413, "too_large", "request_too_large"),
    Skip.CAPABILITY: (400, "bad_request", "unsupported_capability"),
    Skip.RESIDENCY: (403, "forbidden", "region_not_allowed"),
}


def _after_attempts(error: RouteFailed, failure: Failure) -> HttpError:
    attempts, trail = error.trail.as_json(), error.trail.as_header()
    name = failure.error_class.value
    if error.final:
        status = failure.status if failure.status is not None and 400 <= failure.status <= 599 else 502
        if failure.error_class in CALLERS_FAULT and not 400 <= status <= 499:  # said with a 500, or inside a 200
            status = 413 if failure.error_class is ErrorClass.TOO_LARGE else 400
        hint = error.retry_after_s if status in (429, 503, 529) else None
        return HttpError(
            status, name, failure.message, failure.code, failure.param, failure.type,
            retry_after_s=hint, retry=hint is not None, attempts=attempts, trail=trail,
        )  # fmt: skip
    status = 502 if failure.error_class is ErrorClass.BAD_UPSTREAM_RESPONSE else 503
    if error.rate_limits_only:
        status = 429
    message = f"no target of the route answered; the last one: {error.message}"
    wait = error.retry_after_s
    return HttpError(status, name, message, retry_after_s=wait, retry=wait is not None, attempts=attempts, trail=trail)


def interrupted(error: StreamInterrupted) -> HttpError:
    """The error event of a stream that broke off after output."""
    failure = error.failure
    message = f"the answer broke off and is not complete: {failure.message}"
    return HttpError(
        502, failure.error_class.value, message, "stream_interrupted", type="server_error",
        retry_after_s=failure.retry_after_s, attempts=error.trail.as_json(), trail=error.trail.as_header(),
    )  # fmt: skip


def stopped() -> HttpError:
    """The error event of a stream that the shutdown of this replica ended."""
    message = "the answer broke off and is not complete: this replica had to shut down"
    return HttpError(503, "shed", message, "stream_interrupted", type="server_error")
