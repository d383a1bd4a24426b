"""What changes the file. Each function runs inside one `BEGIN IMMEDIATE` transaction, in the worker's thread, and answers
with a result or a refusal; after a refusal only the fence may have moved."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sessions.checks import Delta
from sessions.fence import ENDLESS_MS, FenceRow, Verdict, clock_back, judge_grant, judge_revoke, judge_write
from sessions.limits import Limits
from sessions.model import Appended, Count, Created, Deleted, Event, Granted, Position, SessionKey
from sessions.refusals import Refusal
from sessions.sqlite.rows import absent, load_fence, session_id


@dataclass(frozen=True, slots=True)
class Moment:
    """The store as a transaction finds it: its identity, its time and its limits."""

    identity: str
    now_ms: int
    limits: Limits


def create(
    db: sqlite3.Connection, at: Moment, key: SessionKey, write_id: str, delta: Delta, epoch: int
) -> Created | Refusal:
    fence = _enter(db, at, epoch)
    if isinstance(fence, Refusal):
        return fence
    names = (key.app, key.user, key.session)
    row = db.execute(
        "SELECT write_id, created_version, created_gseq, version FROM session WHERE app = ? AND user = ? AND name = ?",
        names,
    ).fetchone()
    remaining_ms = fence.deadline_ms - at.now_ms
    if row is not None:
        if row[0] == write_id:
            return Created(row[2], remaining_ms, duplicate=True, version=row[1])
        return Refusal("EXISTS", (row[3],))
    if (refusal := _merge(db, at.limits, key, delta)) is not None:
        return refusal
    gone = db.execute("SELECT version, seq FROM gone WHERE app = ? AND user = ? AND name = ?", names).fetchone()
    version, seq = (0, 0) if gone is None else (gone[0] + 1, gone[1])
    gseq = _count_write(db, fence)
    db.execute(
        "INSERT INTO session (app, user, name, write_id, created_version, created_gseq, version, seq, created_ms, updated_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*names, write_id, version, gseq, version, seq, at.now_ms, at.now_ms),
    )
    return Created(gseq, remaining_ms, duplicate=False, version=version)


def append(
    db: sqlite3.Connection,
    at: Moment,
    key: SessionKey,
    events: Sequence[Event],
    delta: Delta,
    epoch: int,
    expected_version: int | None,
) -> Appended | Refusal:
    fence = _enter(db, at, epoch)
    if isinstance(fence, Refusal):
        return fence
    row = db.execute(
        "SELECT id, version, seq, events, event_bytes FROM session WHERE app = ? AND user = ? AND name = ?",
        (key.app, key.user, key.session),
    ).fetchone()
    if row is None:
        return absent(db, key)
    session, version, seq, count, size = row
    remaining_ms = fence.deadline_ms - at.now_ms
    if (stored := _stored(db, session, events, remaining_ms)) is not None:
        return stored
    if expected_version is not None and expected_version != version:
        return Refusal("CONFLICT", (version, expected_version))
    limits = at.limits
    count, size = count + len(events), size + sum(len(event.body) for event in events)
    if count > limits.session_events:
        return Refusal("LIMIT", ("session_events", limits.session_events, count))
    if size > limits.session_bytes:
        return Refusal("LIMIT", ("session_bytes", limits.session_bytes, size))
    if (refusal := _merge(db, limits, key, delta)) is not None:
        return refusal
    gseq = _count_write(db, fence)
    db.executemany(
        "INSERT INTO event (session, epoch, seq, event_id, version, gseq, part, parts, at_ms, invocation_id, author, tag, body)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(session, epoch, seq + 1 + part, event.event_id, version + 1, gseq, part, len(events), at.now_ms),
                *(event.invocation_id, event.author, event.tag, event.body),
            )
            for part, event in enumerate(events)
        ],
    )
    last = seq + len(events)
    db.execute(
        "UPDATE session SET version = ?, epoch = ?, seq = ?, events = ?, event_bytes = ?, updated_ms = ? WHERE id = ?",
        (version + 1, epoch, last, count, size, at.now_ms, session),
    )
    positions = Position(epoch, seq + 1), Position(epoch, last)
    return Appended(gseq, remaining_ms, duplicate=False, version=version + 1, first=positions[0], last=positions[1])


def delete(db: sqlite3.Connection, at: Moment, key: SessionKey, epoch: int) -> Deleted | Refusal:
    fence = _enter(db, at, epoch)
    if isinstance(fence, Refusal):
        return fence
    remaining_ms = fence.deadline_ms - at.now_ms
    if session_id(db, key) is None:
        return Deleted(fence.gseq, remaining_ms, duplicate=False, existed=False)
    return Deleted(_remove(db, at, fence, key, "deleted"), remaining_ms, duplicate=False, existed=True)


def expire(
    db: sqlite3.Connection, at: Moment, epoch: int, idle_before_ms: int, limit: int
) -> tuple[SessionKey, ...] | Refusal:
    fence = _enter(db, at, epoch)
    if isinstance(fence, Refusal):
        return fence
    rows = db.execute(
        "SELECT app, user, name FROM session WHERE updated_ms < ? ORDER BY updated_ms, id LIMIT ?",
        (idle_before_ms, limit),
    ).fetchall()
    keys = tuple(SessionKey(*row) for row in rows)
    for key in keys:
        fence = replace(fence, gseq=_remove(db, at, fence, key, "expired"))
    return keys


def add_counts(db: sqlite3.Connection, at: Moment, counts: Sequence[Count], epoch: int) -> Refusal | None:
    fence = _enter(db, at, epoch)
    if isinstance(fence, Refusal):
        return fence
    db.executemany(
        "INSERT INTO count (minute, component, region, node, boot, name, value) VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET value = MAX(value, excluded.value)",
        [
            (count.key.minute, count.key.component, count.key.region, count.key.node, count.key.boot, name, number)
            for count in counts
            for name, number in count.counts.items()
        ],
    )
    return None


def drop_counts(db: sqlite3.Connection, at: Moment, before_minute: int, epoch: int) -> int | Refusal:
    fence = _enter(db, at, epoch)
    if isinstance(fence, Refusal):
        return fence
    (minutes,) = db.execute("SELECT COUNT(DISTINCT minute) FROM count WHERE minute < ?", (before_minute,)).fetchone()
    db.execute("DELETE FROM count WHERE minute < ?", (before_minute,))
    return int(minutes)


def grant(db: sqlite3.Connection, at: Moment, epoch: int, identity: str, deadline_ms: int) -> Granted | Refusal:
    verdict = judge_grant(
        load_fence(db),
        own=at.identity,
        epoch=epoch,
        identity=identity,
        deadline_ms=deadline_ms,
        now_ms=at.now_ms,
        longest_ms=at.limits.longest_lease_ms,
    )
    return _granted(db, at, verdict, self_granted=False)


def take(db: sqlite3.Connection, at: Moment) -> Granted | Refusal:
    """The grant that a store without an authority gives itself: the present one if it holds, else that of a new epoch."""
    fence = load_fence(db)
    (self_granted,) = db.execute("SELECT self_granted FROM store").fetchone()
    if fence.epoch and not self_granted:
        return Refusal("NOT_GRANTED", (fence.epoch,))
    holds = fence.granted_to == at.identity and not fence.revoked and clock_back(fence, at.now_ms) is None
    verdict = judge_grant(
        fence,
        own=at.identity,
        epoch=fence.epoch if holds else fence.epoch + 1,
        identity=at.identity,
        deadline_ms=ENDLESS_MS,
        now_ms=at.now_ms,
        longest_ms=ENDLESS_MS,
    )
    return _granted(db, at, verdict, self_granted=True)


def revoke(db: sqlite3.Connection, at: Moment, epoch: int) -> int | Refusal:
    verdict = judge_revoke(load_fence(db), own=at.identity, epoch=epoch)
    if verdict.refusal is not None:
        return verdict.refusal
    _save(db, verdict.fence)
    return verdict.fence.gseq


def _granted(db: sqlite3.Connection, at: Moment, verdict: Verdict, *, self_granted: bool) -> Granted | Refusal:
    _save(db, verdict.fence)
    if verdict.refusal is not None:
        return verdict.refusal
    db.execute("UPDATE store SET self_granted = ?", (int(self_granted),))
    return Granted(verdict.fence.epoch, verdict.fence.deadline_ms, at.now_ms)


def _enter(db: sqlite3.Connection, at: Moment, epoch: int) -> FenceRow | Refusal:
    """The first checks of every write. What they change of the fence stays, whatever follows."""
    fence = load_fence(db)
    verdict = judge_write(fence, identity=at.identity, epoch=epoch, now_ms=at.now_ms)
    if verdict.fence != fence:
        _save(db, verdict.fence)
    return verdict.fence if verdict.refusal is None else verdict.refusal


def _save(db: sqlite3.Connection, fence: FenceRow) -> None:
    db.execute(
        "UPDATE store SET epoch = ?, granted_to = ?, deadline_ms = ?, revoked = ?, high_water_ms = ?, gseq = ?, fork_gseq = ?",
        (
            *(fence.epoch, fence.granted_to, fence.deadline_ms, int(fence.revoked)),
            *(fence.high_water_ms, fence.gseq, fence.fork_gseq),
        ),
    )


def _count_write(db: sqlite3.Connection, fence: FenceRow) -> int:
    db.execute("UPDATE store SET gseq = ?", (fence.gseq + 1,))
    return fence.gseq + 1


def _stored(
    db: sqlite3.Connection, session: int, events: Sequence[Event], remaining_ms: int
) -> Appended | Refusal | None:
    """The answer for ids that are there already, None if none of them is."""
    marks = ", ".join("?" * len(events))
    rows = db.execute(
        f"SELECT event_id, epoch, seq, version, gseq, part, parts FROM event WHERE session = ? AND event_id IN ({marks})"  # noqa: S608 - question marks
        " ORDER BY part",
        (session, *(event.event_id for event in events)),
    ).fetchall()
    if not rows:
        return None
    same = (
        [row[0] for row in rows] == [event.event_id for event in events]
        and len({row[3] for row in rows}) == 1
        and rows[0][6] == len(events)
    )
    if not same:
        return Refusal("MIXED_IDS", (len(rows), len(events)))
    first, last = rows[0], rows[-1]
    positions = Position(first[1], first[2]), Position(last[1], last[2])
    return Appended(first[4], remaining_ms, duplicate=True, version=first[3], first=positions[0], last=positions[1])


def _merge(db: sqlite3.Connection, limits: Limits, key: SessionKey, delta: Delta) -> Refusal | None:
    """Write the change of state. All scopes are measured before any is written."""
    scopes = (
        ((key.app, "", ""), delta.app),
        ((key.app, key.user, ""), delta.user),
        ((key.app, key.user, key.session), delta.session),
    )
    for scope, pairs in scopes:
        if pairs and (size := _size_with(db, scope, pairs)) > limits.state_bytes:
            return Refusal("LIMIT", ("state_bytes", limits.state_bytes, size))
    for scope, pairs in scopes:
        db.executemany(
            "INSERT INTO state (app, user, session, key, value) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET value = excluded.value",
            [(*scope, name, value) for name, value in pairs],
        )
    return None


def _size_with(db: sqlite3.Connection, scope: tuple[str, str, str], pairs: Sequence[tuple[str, bytes]]) -> int:
    sizes = dict(
        db.execute(
            "SELECT key, LENGTH(CAST(key AS BLOB)) + LENGTH(value) FROM state WHERE app = ? AND user = ? AND session = ?",
            scope,
        )
    )
    sizes.update((name, len(name.encode()) + len(value)) for name, value in pairs)
    return sum(sizes.values())


def _remove(db: sqlite3.Connection, at: Moment, fence: FenceRow, key: SessionKey, reason: str) -> int:
    """Delete a session that is there, and leave a note of it. Returns the write's gseq."""
    names = (key.app, key.user, key.session)
    session, version, seq = db.execute(
        "DELETE FROM session WHERE app = ? AND user = ? AND name = ? RETURNING id, version, seq", names
    ).fetchone()
    db.execute("DELETE FROM event WHERE session = ?", (session,))
    db.execute("DELETE FROM state WHERE app = ? AND user = ? AND session = ?", names)
    db.execute("DELETE FROM gone WHERE at_ms < ?", (at.now_ms - at.limits.gone_s * 1000,))
    db.execute("INSERT OR REPLACE INTO gone VALUES (?, ?, ?, ?, ?, ?, ?)", (*names, reason, at.now_ms, version, seq))
    return _count_write(db, fence)
