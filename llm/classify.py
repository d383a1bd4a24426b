"""The one classifier: what a provider said, in any form, becomes one failure of one class."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from llm import hints
from llm.classes import ErrorClass
from llm.errors import Failure
from llm.signs import SIGNS

_GENERIC = frozenset(
    {
        *("invalid_request_error", "invalid_request", "bad_request", "bad_request_error", "badrequesterror"),
        *("server_error", "internal_error", "internal_server_error", "internalservererror"),
        *("api_error", "error", "unknown_error", "unknown"),
    }
)
"""Types and codes that say nothing beyond the status, a number apart (`BadRequestError`: vLLM)."""

_READ_LIMIT = 20_000
"""Characters of a message that are searched for words."""

_QUOTED = re.compile(
    r"""(?<!\w)'(?:.*'(?!\w)|.*)|"(?:.*"|.*)|`(?:.*`|.*)|“(?:.*”|.*)""",
    re.DOTALL,
)
"""From the first quotation mark of a kind to the last, or to the end where none closes: what is quoted may hold marks of
its own. The apostrophe in `model's` is none."""

_STATUS = re.compile("[45][0-9][0-9]")


def classify_status(status: int, headers: Mapping[str, str], body: bytes, wall: float) -> Failure:
    """The failure that an answer with a status other than 2xx is. `wall`: Unix time, for hints that are dates."""
    hint = hints.retry_after(headers, wall)
    if 300 <= status < 400:
        return Failure(
            ErrorClass.BAD_UPSTREAM_RESPONSE,
            f"the provider answered with a redirect ({status}), which is not followed",
            status,
        )
    return classify_error(_error_of(body), status, hint, f"the provider answered {status}")


def classify_error(error: Any, status: int | None, retry_after_s: float | None = None, otherwise: str = "") -> Failure:
    """The failure that an error object is, in a body or in a stream.

    `status` is the HTTP status, or None inside an answer that began with 200: then a numeric `code` of the object stands
    for it. An object that says nothing is a bad answer of the provider when there is no status either.

    The failure has the provider's words at their full length: they are masked before they are cut (see `llm.provider`).
    """
    message, kind, code, param = _words(error)
    told = status
    if told is None:
        told = int(code) if code is not None and _STATUS.fullmatch(code) else None
    error_class = _class_of(told, kind, code, message)
    return Failure(
        error_class,
        message or otherwise or "the provider reported an error without a message",
        status if status is not None else told,
        kind,
        code,
        param,
        retry_after_s,
        quoted=bool(message),
    )


def bad_response(message: str, status: int | None = 200) -> Failure:
    """An answer that began well and is not one."""
    return Failure(ErrorClass.BAD_UPSTREAM_RESPONSE, message, status)


def _class_of(status: int | None, kind: str | None, code: str | None, message: str) -> ErrorClass:
    names = {name.lower() for name in (kind, code) if name}
    telling = any(name not in _GENERIC and not name.isdigit() for name in names)
    # A message may repeat what the caller sent: words count where nothing else tells, and only the provider's own.
    lowered = "" if telling else _QUOTED.sub(" ", message[:_READ_LIMIT].lower())
    for sign in SIGNS:
        if sign.statuses and status is not None and status not in sign.statuses:
            continue
        if sign.codes or sign.words:
            if names & sign.codes or any(words in lowered for words in sign.words):
                return sign.error_class
        elif status is not None:
            return sign.error_class
    if status is None:
        return ErrorClass.BAD_UPSTREAM_RESPONSE
    return ErrorClass.SERVER_ERROR if status >= 500 or status == 408 else ErrorClass.BAD_REQUEST


def _error_of(body: bytes) -> Any:
    try:
        value = orjson.loads(body)
    except ValueError:
        return None
    return value.get("error", value) if isinstance(value, dict) else None


def _words(error: Any) -> tuple[str, str | None, str | None, str | None]:
    """Message, type, code and param of an error object, each a text or None."""
    if isinstance(error, str):
        return error, None, None, None
    if not isinstance(error, dict):
        return "", None, None, None
    message = error.get("message")
    if message is None:
        message = error.get("detail", "")
    words = message if isinstance(message, str) else ""
    return words, _text(error.get("type")), _text(error.get("code")), _text(error.get("param"))


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) and value != "" else None
