"""What a caller asks of sessions: paths, queries, headers and bodies, read strictly. Every refusal names its part."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web

from gateway.http_errors import HttpError
from sessions.model import Event, Position, SessionKey

_MATCH = re.compile(r'^(?:W/)?"?(\d{1,15})"?$')
_EVENT_FIELDS = {"event_id", "body", "invocation_id", "author", "tag", "partial"}


@dataclass(frozen=True, slots=True)
class AskedCreate:
    id: str | None
    state: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class AskedAppend:
    events: tuple[Event, ...]
    expected_version: int | None
    state: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class AskedRead:
    """`newest`: the last events. `after_s`: only those behind this Unix time."""

    after: Position | None
    after_s: float | None
    limit: int | None
    newest: bool
    stale: bool


def bad(part: str, message: str) -> HttpError:
    return HttpError(400, "bad_request", f"{part}: {message}", "invalid_session_request", param=part, retry=False)


def key_of(request: web.Request, *, session: bool = True) -> SessionKey:
    """The session that the path names; with an empty session name where the path has none."""
    names = request.match_info
    return SessionKey(_name(names, "app"), _name(names, "user"), _name(names, "session") if session else "")


def read_create(body: bytes) -> AskedCreate:
    row = _object(body, {"id", "state"}) if body.strip() else {}
    return AskedCreate(_text(row, "id"), _state(row))


def read_append(body: bytes, headers: Mapping[str, str], new_id: str) -> AskedAppend:
    """`new_id`: for an only event that says none; several have to say theirs, so that a repeat is known as one."""
    row = _object(body, {"events", "state", "expected_version"})
    events = row.get("events")
    if not isinstance(events, list) or not events:
        raise bad("events", "a list of at least one event is needed")
    lone = headers.get("Idempotency-Key") or new_id if len(events) == 1 else None
    return AskedAppend(
        tuple(_event(event, f"events[{index}]", lone) for index, event in enumerate(events)),
        _expected(row, headers),
        _state(row),
    )


def read_query(query: Mapping[str, str], most: int) -> AskedRead:
    """`most`: events that one answer has at most."""
    _known(query, {"after", "after_timestamp", "num_recent_events", "limit", "stale"})
    recent, limit = _count(query, "num_recent_events"), _count(query, "limit")
    after = None
    if (text := query.get("after")) is not None:
        try:
            after = Position.parse(text)
        except ValueError as error:
            raise bad("after", str(error)) from None
    asked = recent if recent is not None else limit
    return AskedRead(
        after=after,
        after_s=_seconds(query, "after_timestamp"),
        limit=None if asked is None else min(asked, most),
        newest=recent is not None,
        stale=_stale(query),
    )


def read_listing(query: Mapping[str, str]) -> tuple[str | None, SessionKey | None, int, bool]:
    """User, whom to go on after, how many, and whether a replica may answer."""
    _known(query, {"user_id", "after_user", "after_session", "limit", "stale"})
    after = None
    if "after_user" in query or "after_session" in query:
        after = SessionKey("", query.get("after_user", ""), query.get("after_session", ""))
    limit = _count(query, "limit")
    return query.get("user_id"), after, 100 if limit is None else min(max(limit, 1), 1000), _stale(query)


def _event(value: Any, path: str, lone_id: str | None) -> Event:
    if not isinstance(value, dict):
        raise bad(path, "an object is needed")
    _fields(value, _EVENT_FIELDS, path)
    if "body" not in value:
        raise bad(f"{path}.body", "the event's JSON is missing")
    event_id = _text(value, "event_id", path) or lone_id
    if event_id is None:
        raise bad(f"{path}.event_id", "each of several events needs an id of its own")
    partial = value.get("partial", False)
    if not isinstance(partial, bool):
        raise bad(f"{path}.partial", "true or false is needed")
    return Event(
        event_id,
        orjson.dumps(value["body"]),
        invocation_id=_text(value, "invocation_id", path) or "",
        author=_text(value, "author", path) or "",
        tag=_text(value, "tag", path) or "generic",
        partial=partial,
    )


def _expected(row: Mapping[str, Any], headers: Mapping[str, str]) -> int | None:
    said = row.get("expected_version")
    if said is not None and (isinstance(said, bool) or not isinstance(said, int) or said < 0):
        raise bad("expected_version", "a whole number, 0 or more, is needed")
    text = headers.get("If-Match")
    if text is None or text.strip() == "*":
        return said
    if (match := _MATCH.match(text.strip())) is None:
        raise bad("If-Match", 'the session\'s version is needed, such as "17"')
    if said is not None and said != int(match[1]):
        raise bad("If-Match", "it names another version than expected_version: send one of them")
    return int(match[1])


def _object(body: bytes, known: set[str]) -> dict[str, Any]:
    try:
        row = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad("body", f"it is no JSON ({error})") from None
    if not isinstance(row, dict):
        raise bad("body", "an object is needed")
    _fields(row, known, "")
    return row


def _fields(row: Mapping[str, Any], known: set[str], path: str) -> None:
    if unknown := sorted(row.keys() - known):
        name = f"{path}.{unknown[0]}" if path else unknown[0]
        raise bad(name[:100], f"the field is not known here: use {', '.join(sorted(known))}")


def _known(query: Mapping[str, str], known: set[str]) -> None:
    if unknown := sorted(query.keys() - known):
        raise bad(unknown[0][:100], f"the query parameter is not known here: use {', '.join(sorted(known))}")


def _state(row: Mapping[str, Any]) -> Mapping[str, object] | None:
    state = row.get("state")
    if state is not None and not isinstance(state, dict):
        raise bad("state", "an object is needed")
    return state


def _text(row: Mapping[str, Any], name: str, path: str = "") -> str | None:
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise bad(f"{path}.{name}" if path else name, "a text is needed")
    return value


def _name(names: Mapping[str, str], part: str) -> str:
    value = names[part]
    if "\ufffd" in value or any(0xD800 <= ord(letter) <= 0xDFFF for letter in value):
        raise bad(part, "the path's name is not UTF-8")
    return value


def _count(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise bad(name, "a whole number is needed")
    return int(text)


def _seconds(query: Mapping[str, str], name: str) -> float | None:
    text = query.get(name)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise bad(name, "Unix seconds are needed, such as 1764000000.5")
    return seconds


def _stale(query: Mapping[str, str]) -> bool:
    if query.get("stale", "refuse") not in ("allow", "refuse"):
        raise bad("stale", "write allow or refuse")
    return query.get("stale") == "allow"
