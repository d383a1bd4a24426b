"""Rows of the tables as the contract's objects, and the few statements that reads and writes share."""

from __future__ import annotations

import sqlite3
from typing import Any

from sessions.fence import FenceRow
from sessions.model import Event, Position, SessionInfo, SessionKey, StoredEvent
from sessions.refusals import Refusal

INFO_COLUMNS = "app, user, name, version, epoch, seq, events, event_bytes, created_ms, updated_ms"
EVENT_COLUMNS = "epoch, seq, version, gseq, at_ms, event_id, body, invocation_id, author, tag"


def load_fence(db: sqlite3.Connection) -> FenceRow:
    row = db.execute(
        "SELECT epoch, granted_to, deadline_ms, revoked, high_water_ms, gseq, fork_gseq FROM store"
    ).fetchone()
    return FenceRow(row[0], row[1], row[2], bool(row[3]), *row[4:])


def info_of(row: tuple[Any, ...]) -> SessionInfo:
    """From `INFO_COLUMNS`."""
    app, user, name, version, epoch, seq, events, event_bytes, created_ms, updated_ms = row
    last = Position(epoch, seq) if events else None
    return SessionInfo(SessionKey(app, user, name), version, last, events, event_bytes, created_ms, updated_ms)


def event_of(row: tuple[Any, ...]) -> StoredEvent:
    """From `EVENT_COLUMNS`."""
    epoch, seq, version, gseq, at_ms, event_id, body, invocation_id, author, tag = row
    event = Event(event_id, body, invocation_id, author, tag)
    return StoredEvent(Position(epoch, seq), version, gseq, at_ms, event)


def session_id(db: sqlite3.Connection, key: SessionKey) -> int | None:
    row = db.execute(
        "SELECT id FROM session WHERE app = ? AND user = ? AND name = ?", (key.app, key.user, key.session)
    ).fetchone()
    return None if row is None else int(row[0])


def absent(db: sqlite3.Connection, key: SessionKey) -> Refusal:
    """Why a session is not there."""
    row = db.execute(
        "SELECT reason, at_ms FROM gone WHERE app = ? AND user = ? AND name = ?", (key.app, key.user, key.session)
    ).fetchone()
    return Refusal("NO_SESSION") if row is None else Refusal("GONE", tuple(row))
