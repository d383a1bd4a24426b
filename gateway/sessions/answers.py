"""Sessions as the JSON that callers get."""

from __future__ import annotations

from typing import Any

import orjson

from regions.sharded import Placed
from sessions.model import Appended, Page, SessionInfo, State, StoredEvent


def headers_of(placed: Placed[Any], version: int | None = None) -> dict[str, str]:
    found = {"x-stanchion-epoch": str(placed.epoch), "x-stanchion-store-region": placed.region}
    if version is not None:
        found["ETag"] = f'"{version}"'
    if placed.possible_loss:
        found["x-stanchion-possible-loss"] = "true"
    if placed.stale:
        found["x-stanchion-stale"] = "true"
    return found


def session(info: SessionInfo) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": info.key.session,
        "app": info.key.app,
        "user": info.key.user,
        "version": info.version,
        "position": None if info.last is None else str(info.last),
        "event_count": info.events,
        "create_time": info.created_ms / 1000,
        "last_update_time": info.updated_ms / 1000,
    }
    if info.lost is not None:
        row["lost"] = {"epoch": info.lost.epoch, "events": info.lost.events}
    return row


def whole_session(page: Page, state: State, events: list[StoredEvent], *, more: bool) -> dict[str, Any]:
    return {**session(page.info), "state": state.merged(), "events": [event(one) for one in events], "more": more}


def event(stored: StoredEvent) -> dict[str, Any]:
    return {
        "event_id": stored.event.event_id,
        "position": str(stored.position),
        "seq": stored.position.seq,
        "version": stored.version,
        "timestamp": stored.at_ms / 1000,
        "invocation_id": stored.event.invocation_id,
        "author": stored.event.author,
        "tag": stored.event.tag,
        "body": orjson.Fragment(stored.event.body),
    }


def appended(placed: Placed[Appended], event_ids: list[str]) -> dict[str, Any]:
    done = placed.answer
    return {
        "version": done.version,
        "seq": done.last.seq,
        "epoch": done.last.epoch,
        "position": str(done.last),
        "first_position": str(done.first),
        "event_ids": event_ids,
        "duplicate": done.duplicate,
    }
