"""What is looked at before a store is asked: names, sizes, events, and the state split by scope. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sessions.errors import InvalidInput, LimitExceeded
from sessions.limits import Limits
from sessions.model import Count, Event, SessionKey

MAX_INTEGER = 2**53 - 1
"""Beyond it the numbers of a Redis script are no longer whole."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A change of state, as it is stored: (key, JSON) by scope."""

    app: tuple[tuple[str, bytes], ...] = ()
    user: tuple[tuple[str, bytes], ...] = ()
    session: tuple[tuple[str, bytes], ...] = ()


def check_key(key: SessionKey, limits: Limits) -> SessionKey:
    """Raises InvalidInput or LimitExceeded for a name that no store could keep."""
    check_name("app", key.app, limits)
    check_name("user", key.user, limits)
    check_name("session", key.session, limits)
    return key


def check_name(what: str, text: str, limits: Limits, *, empty: bool = False) -> str:
    """The same for one name; `empty` lets it be empty."""
    if not text and not empty:
        raise InvalidInput(what, "it is empty: give it a name")
    if "\0" in text:
        raise InvalidInput(what, "it has a NUL character: take it out")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidInput(what, "it has half a surrogate pair, which is no character: take it out") from None
    if size > limits.name_bytes:
        raise LimitExceeded("name_bytes", limits.name_bytes, size)
    return text


def check_events(events: Sequence[Event], limits: Limits) -> tuple[Event, ...]:
    """The events of one append. Raises InvalidInput or LimitExceeded; nothing is left out."""
    if not events:
        raise InvalidInput("events", "there are none: an append needs at least one")
    if len(events) > limits.append_events:
        raise LimitExceeded("append_events", limits.append_events, len(events))
    for event in events:
        check_name("event_id", event.event_id, limits)
        check_name("invocation_id", event.invocation_id, limits, empty=True)
        check_name("author", event.author, limits, empty=True)
        check_name("tag", event.tag, limits, empty=True)
        if event.partial:
            raise InvalidInput(
                "events", "one is a partial event, a piece of a stream: store the whole event when it is there"
            )
        if len(event.body) > limits.event_bytes:
            raise LimitExceeded("event_bytes", limits.event_bytes, len(event.body))
    if len({event.event_id for event in events}) != len(events):
        raise InvalidInput("events", "two have the same event id: each event needs its own")
    if (size := sum(len(event.body) for event in events)) > limits.append_bytes:
        raise LimitExceeded("append_bytes", limits.append_bytes, size)
    return tuple(events)


def split_state(state: Mapping[str, object] | None, limits: Limits) -> Delta:
    """The change by scope, in JSON. `temp:` is left out, as the contract says. Raises InvalidInput for what JSON has no
    word for (NaN, a lone surrogate, an object), and LimitExceeded."""
    scopes: dict[str, list[tuple[str, bytes]]] = {"app": [], "user": [], "session": []}
    for key, value in (state or {}).items():
        check_name("state key", key, limits)
        scope = key.partition(":")[0] if ":" in key else ""
        if scope != "temp":
            scopes[scope if scope in {"app", "user"} else "session"].append((key, encode(key, value)))
    for pairs in scopes.values():
        if (size := state_size(pairs)) > limits.state_bytes:
            raise LimitExceeded("state_bytes", limits.state_bytes, size)
    return Delta(tuple(scopes["app"]), tuple(scopes["user"]), tuple(scopes["session"]))


def state_size(pairs: Sequence[tuple[str, bytes]]) -> int:
    """Bytes of keys and values."""
    return sum(len(key.encode()) + len(value) for key, value in pairs)


def encode(key: str, value: object) -> bytes:
    """A value as JSON. Raises InvalidInput."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError):  # a UnicodeEncodeError is a ValueError
        raise InvalidInput(
            f"state {key!r:.80}", "its value cannot be written as JSON: store plain JSON values"
        ) from None


def decode(value: bytes) -> Any:
    """What `encode` wrote."""
    return json.loads(value)


def check_counts(counts: Sequence[Count], limits: Limits) -> tuple[Count, ...]:
    """Raises InvalidInput for names and numbers that cannot be kept."""
    for count in counts:
        for part in ("component", "region", "node", "boot"):
            check_name(part, getattr(count.key, part), limits, empty=True)
        check_number("minute", count.key.minute)
        for name, number in count.counts.items():
            check_name("count", name, limits)
            check_number(f"count {name!r:.80}", number)
    return tuple(counts)


def check_number(what: str, number: int, *, least: int = 0) -> int:
    """Raises InvalidInput for what is no whole number from `least` on that every store can hold."""
    if type(number) is not int or not least <= number <= MAX_INTEGER:
        raise InvalidInput(what, f"{number!r:.40} is not a whole number from {least} to {MAX_INTEGER}")
    return number


def page_limit(limit: int | None, limits: Limits) -> int:
    """How many to read at once. Raises InvalidInput for a limit below 1; one above the page is the page."""
    return min(check_number("limit", limits.page_events if limit is None else limit, least=1), limits.page_events)
