"""The shapes that providers put their errors in, read into one form.

An object under `error` (OpenAI, Anthropic, Gemini), a list around it (Gemini's OpenAI-compatible address), a bare text
(Ollama, xAI, Hugging Face), the fields at the top (Mistral, vLLM, Bedrock), `detail` with a text or with the list of a
validation (FastAPI), `errors` (Cloudflare), a problem of RFC 9457, any of these as JSON inside of a message, and what
an aggregator hands on in `metadata.raw` (OpenRouter). Whatever else comes is an error that says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

_DEPTH = 6
"""Shapes inside shapes that are read."""

_JSON_LIMIT = 100_000
"""Characters of a text that is tried as JSON."""

_NAME_LIMIT = 200
_LIST_LIMIT = 20
"""Characters of a name, and items of a list, that are read."""

_MESSAGES = ("message", "Message", "detail", "msg", "title")
_TYPES = ("error_type", "status", "__type")
"""What stands for a `type` where there is none: Hugging Face, Gemini, AWS."""

_STATUSES = ("code", "status", "status_code", "statusCode", "raw_status_code", "http_status")
_MORE_NAMES = ("reason", "error_code", "limit_source", "error_type")
"""Where objects beside the error name what it is: `details` of Gemini and Anthropic, `metadata` of OpenRouter."""

_TELLING_KEYS = ("flagged_input",)
"""Keys of `metadata` whose presence names the error."""

_STATUS = re.compile("[45][0-9][0-9]")

_WRAPPED = re.compile(r"\Alitellm\.[A-Za-z_.: ]{1,120}Exception ?- ?(?=\{)")
"""LiteLLM's own words before the JSON of the provider behind it (litellm_core_utils/exception_mapping_utils.py). JSON elsewhere
in a message may be the caller's, and is not read."""


@dataclass(slots=True)
class Said:
    """What an error says. `names` are its codes, types and reasons in lower case, `texts` its messages.

    `status` is the HTTP status that it gives itself. `waits` are values that say when to come back, `day` that a limit of
    a day is spent, `headers` a rate limit's headers that stand in the body. `upstream` is the error that an aggregator
    handed on. `page`: it was no error but a page of markup.
    """

    message: str = ""
    type: str | None = None
    code: str | None = None
    param: str | None = None
    status: int | None = None
    names: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    waits: list[str | float] = field(default_factory=list)
    day: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    upstream: Said | None = None
    page: bool = False


def of_body(body: bytes, headers: Mapping[str, str]) -> Said:
    """What the body of an answer with a bad status says. Never raises."""
    try:
        said = of_value(orjson.loads(body))
    except ValueError:
        said = _of_text(body)
    _name(said, headers.get("x-amzn-errortype", "").partition(":")[0])
    said.page = said.page or headers.get("cf-mitigated") == "challenge"
    return said


def of_value(value: Any) -> Said:
    """What an error object, or a whole body or event around one, says. Never raises."""
    said = Said()
    _read(said, value, 0)
    return said


def error_in(value: Any) -> Any:
    """`value` where it is an error in the place of an answer, in one of the shapes; None where it is not."""
    if isinstance(value, list):
        return value if value and isinstance(value[0], dict) and value[0].get("error") else None
    if not isinstance(value, dict):
        return None
    if value.get("error") or value.get("object") == "error" or value.get("type") == "error":
        return value
    choices = value.get("choices")
    if isinstance(choices, list):  # OpenRouter gives an error in the choice that it ended
        return next((choice for choice in choices if isinstance(choice, dict) and choice.get("error")), None)
    return value if choices is None and any(value.get(key) for key in ("errors", *_MESSAGES)) else None


def _of_text(body: bytes) -> Said:
    """A body that is not JSON: a page, whose words are another program's, or a line of text."""
    text = body[:_JSON_LIMIT].decode("utf-8", "replace").strip()
    if text.startswith("<"):
        return Said(page=True)
    if not text.isprintable() or "\ufffd" in text or len(text) > 1000:
        return Said()
    return Said(message=text, texts=[text] if text else [])


def _read(said: Said, value: Any, depth: int) -> None:
    """Add what `value` says. What stands in the error itself goes before what stands around it."""
    if depth > _DEPTH:
        return
    if isinstance(value, str):
        _text(said, value, depth)
    elif isinstance(value, list):
        if value:
            _read(said, value[0], depth + 1)
    elif isinstance(value, dict):
        inner = value.get("error")
        if isinstance(inner, dict | list):
            _read(said, inner, depth + 1)
        _fields(said, value, depth)
        if isinstance(inner, str):
            _text(said, inner, depth)
        if isinstance(errors := value.get("errors"), list) and not inner:
            _read(said, errors, depth + 1)


def _fields(said: Said, value: dict[str, Any], depth: int) -> None:
    for key in _MESSAGES:
        if key in value:
            _message(said, value[key], depth)
    kind, code, param = value.get("type"), _scalar(value.get("code")), value.get("param")
    others = [other for key in _TYPES if isinstance(other := value.get(key), str)]
    for name in (kind, *others):
        _name(said, name.rpartition("#")[2] if isinstance(name, str) else None)
    if code is not None:
        _name(said, code)
        if " " in code:
            said.texts.append(code)  # xAI's codes are sentences
    if isinstance(kind, str) and "://" not in kind:  # a problem's type is an address
        said.type = said.type or kind or None
    said.type = said.type or next((other for other in others if _is_word(other)), None)
    said.code = said.code or code
    said.param = said.param or (param if isinstance(param, str) and param else None)
    said.status = said.status or _status(value)
    for key in ("retry_after_s", "estimated_time"):
        _wait(said, value.get(key))
    if isinstance(inner := value.get("innererror"), dict):
        _name(said, _scalar(inner.get("code")))
    details = value.get("details")
    for detail in details[:_LIST_LIMIT] if isinstance(details, list) else (details,):
        if isinstance(detail, dict):
            _detail(said, detail)
    if isinstance(metadata := value.get("metadata"), dict):
        _metadata(said, metadata, depth)


def _message(said: Said, value: Any, depth: int) -> None:
    if isinstance(value, str):
        _text(said, value, depth)
    elif isinstance(value, dict):
        _read(said, value, depth + 1)
    elif isinstance(value, list):  # of a validation: what was wrong and where; what was sent is left out
        parts = [_finding(item) for item in value[:_LIST_LIMIT] if isinstance(item, dict)]
        _text(said, "; ".join(part for part in parts if part), depth)


def _json(text: str) -> Any:
    """The object or list that a text is, None where it is none."""
    if text[:1] not in ("{", "[") or len(text) > _JSON_LIMIT:
        return None
    try:
        return orjson.loads(text)
    except ValueError:
        return None


def _finding(item: dict[str, Any]) -> str:
    place, words = item.get("loc"), item.get("msg")
    if not isinstance(words, str):
        return ""
    where = ".".join(str(part) for part in place[:_LIST_LIMIT]) if isinstance(place, list) else ""
    return f"{where}: {words}" if where else words


def _text(said: Said, text: str, depth: int) -> None:
    """A message, which may be an error in JSON itself (Gemini's SDKs and many proxies hand theirs on so)."""
    stripped = text.strip()
    value = _json(stripped)
    if value is not None:
        before = len(said.texts)
        _read(said, value, depth + 1)
        if len(said.texts) > before:
            return
    wrapped = _WRAPPED.match(stripped)
    if wrapped and said.upstream is None and depth < _DEPTH:
        inner = _json(stripped[wrapped.end() : stripped.rfind("}") + 1])
        if inner is not None:
            said.upstream = Said()
            _read(said.upstream, inner, depth + 1)
    if text:
        said.message = said.message or text
        said.texts.append(text)


def _detail(said: Said, detail: dict[str, Any]) -> None:
    for key in _MORE_NAMES:
        _name(said, _scalar(detail.get(key)))
    _wait(said, detail.get("retryDelay"))
    violations = detail.get("violations")
    for violation in violations[:_LIST_LIMIT] if isinstance(violations, list) else ():
        quota = violation.get("quotaId") if isinstance(violation, dict) else None
        said.day = said.day or (isinstance(quota, str) and "PerDay" in quota)


def _metadata(said: Said, metadata: dict[str, Any], depth: int) -> None:
    for key in _MORE_NAMES:
        _name(said, _scalar(metadata.get(key)))
    for key in _TELLING_KEYS:
        if metadata.get(key):
            said.names.add(key)
    headers = metadata.get("headers")
    if isinstance(headers, dict):
        said.headers |= {str(name).lower(): value for name, value in headers.items() if isinstance(value, str)}
    raw = metadata.get("raw")
    if raw and depth < _DEPTH and said.upstream is None:
        said.upstream = upstream = Said()
        _read(upstream, raw, depth + 1)
        if upstream.message:
            said.message = f"{said.message}: {upstream.message}" if said.message else upstream.message
        if said.code is None or said.code.isdigit():
            said.code = upstream.code or said.code


def _wait(said: Said, value: Any) -> None:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        said.waits.append(value)


def _name(said: Said, name: str | None) -> None:
    if name and len(name) <= _NAME_LIMIT and not any(mark in name for mark in (" ", "://")):
        said.names.add(name.lower())


def _is_word(text: str) -> bool:
    """A name worth handing on: no sentence, no number."""
    return bool(text) and " " not in text and not text.isdigit()


def _scalar(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) and value != "" else None


def _status(value: dict[str, Any]) -> int | None:
    for key in _STATUSES:
        text = _scalar(value.get(key))
        if text is not None and _STATUS.fullmatch(text):
            return int(text)
    return None
