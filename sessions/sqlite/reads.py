"""What is read from the file. Each function runs inside one snapshot, in a worker's thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from sessions.checks import decode
from sessions.model import (
    Committed,
    Count,
    CountKey,
    Listing,
    Page,
    Position,
    SessionInfo,
    SessionKey,
    State,
)
from sessions.sqlite.rows import EVENT_COLUMNS, INFO_COLUMNS, event_of, info_of

_AFTER_ALL = (2**62, 0)


def info(db: sqlite3.Connection, key: SessionKey) -> SessionInfo | None:
    row = db.execute(
        f"SELECT {INFO_COLUMNS} FROM session WHERE app = ? AND user = ? AND name = ?",  # noqa: S608 - constant text
        (key.app, key.user, key.session),
    ).fetchone()
    return None if row is None else info_of(row)


def page(
    db: sqlite3.Connection, key: SessionKey, after: Position | None, until: Position | None, limit: int, *, newest: bool
) -> Page | None:
    found = info(db, key)
    if found is None:
        return None
    first = (after.epoch, after.seq) if after else (0, 0)
    last = (until.epoch, until.seq) if until else _AFTER_ALL
    order = "DESC" if newest else "ASC"
    rows = db.execute(
        f"SELECT {EVENT_COLUMNS} FROM event"  # noqa: S608 - constant text
        " WHERE session = (SELECT id FROM session WHERE app = ? AND user = ? AND name = ?)"
        f" AND (epoch, seq) > (?, ?) AND (epoch, seq) <= (?, ?) ORDER BY epoch {order}, seq {order} LIMIT ?",
        (key.app, key.user, key.session, *first, *last, limit + 1),
    ).fetchall()
    events = [event_of(row) for row in rows[:limit]]
    return Page(found, tuple(reversed(events) if newest else events), more=len(rows) > limit)


def state(db: sqlite3.Connection, key: SessionKey) -> State | None:
    found = info(db, key)
    if found is None:
        return None
    shared = shared_state(db, key.app, key.user)
    return State(shared.app, shared.user, _scope(db, key.app, key.user, key.session), found.version)


def shared_state(db: sqlite3.Connection, app: str, user: str) -> State:
    return State(_scope(db, app, "", ""), _scope(db, app, user, ""), {})


def listing(db: sqlite3.Connection, app: str, user: str | None, after: SessionKey | None, limit: int) -> Listing:
    rows = db.execute(
        f"SELECT {INFO_COLUMNS} FROM session WHERE app = :app AND (:user IS NULL OR user = :user)"  # noqa: S608 - constant text
        " AND (user, name) > (:after_user, :after_name) ORDER BY user, name LIMIT :limit",
        {
            "app": app,
            "user": user,
            "after_user": after.user if after else (user or ""),
            "after_name": after.session if after else "",
            "limit": limit + 1,
        },
    ).fetchall()
    return Listing(tuple(info_of(row) for row in rows[:limit]), more=len(rows) > limit)


def lookup(db: sqlite3.Connection, key: SessionKey, event_id: str) -> Committed | None:
    row = db.execute(
        "SELECT epoch, seq, version, gseq FROM event WHERE event_id = ?"
        " AND session = (SELECT id FROM session WHERE app = ? AND user = ? AND name = ?)",
        (event_id, key.app, key.user, key.session),
    ).fetchone()
    return None if row is None else Committed(Position(row[0], row[1]), row[2], row[3])


def counts(db: sqlite3.Connection, first_minute: int, end_minute: int) -> tuple[Count, ...]:
    rows = db.execute(
        "SELECT minute, component, region, node, boot, name, value FROM count WHERE minute >= ? AND minute < ?"
        " ORDER BY minute, component, region, node, boot, name",
        (first_minute, end_minute),
    )
    return tuple(
        Count(CountKey(*parts), {name: value for *_, name, value in group})
        for parts, group in groupby(rows, key=lambda row: row[:5])
    )


def _scope(db: sqlite3.Connection, app: str, user: str, session: str) -> Mapping[str, Any]:
    rows = db.execute(
        "SELECT key, value FROM state WHERE app = ? AND user = ? AND session = ? ORDER BY key", (app, user, session)
    )
    return {key: decode(value) for key, value in rows}
