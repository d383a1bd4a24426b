"""The tables of the file, and how a file of an older version becomes one of this."""

from __future__ import annotations

import sqlite3

from sessions.errors import OpenRefused, StoreTooNew

APPLICATION_ID = 0x5354414E
"""`STAN` in the file's header: a database of something else is never written to."""

_FIRST = (
    """CREATE TABLE store (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        identity TEXT NOT NULL, device TEXT NOT NULL, inode TEXT NOT NULL, copied_from TEXT NOT NULL DEFAULT '',
        epoch INTEGER NOT NULL DEFAULT 0, granted_to TEXT NOT NULL DEFAULT '', deadline_ms INTEGER NOT NULL DEFAULT 0,
        revoked INTEGER NOT NULL DEFAULT 0, high_water_ms INTEGER NOT NULL DEFAULT 0,
        gseq INTEGER NOT NULL DEFAULT 0, fork_gseq INTEGER NOT NULL DEFAULT 0,
        self_granted INTEGER NOT NULL DEFAULT 0
    ) STRICT""",
    """CREATE TRIGGER fence_grows BEFORE UPDATE OF epoch, gseq ON store
        WHEN NEW.epoch < OLD.epoch OR NEW.gseq < OLD.gseq
        BEGIN SELECT RAISE(ABORT, 'epoch and gseq only grow'); END""",
    """CREATE TABLE session (
        id INTEGER PRIMARY KEY, app TEXT NOT NULL, user TEXT NOT NULL, name TEXT NOT NULL, write_id TEXT NOT NULL,
        created_version INTEGER NOT NULL, created_gseq INTEGER NOT NULL,
        version INTEGER NOT NULL, seq INTEGER NOT NULL, epoch INTEGER NOT NULL DEFAULT 0,
        events INTEGER NOT NULL DEFAULT 0, event_bytes INTEGER NOT NULL DEFAULT 0,
        created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL, UNIQUE (app, user, name)
    ) STRICT""",
    "CREATE INDEX session_idle ON session (updated_ms)",
    """CREATE TABLE event (
        session INTEGER NOT NULL, epoch INTEGER NOT NULL, seq INTEGER NOT NULL, event_id TEXT NOT NULL,
        version INTEGER NOT NULL, gseq INTEGER NOT NULL, part INTEGER NOT NULL, parts INTEGER NOT NULL,
        at_ms INTEGER NOT NULL, invocation_id TEXT NOT NULL, author TEXT NOT NULL, tag TEXT NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (session, epoch, seq), UNIQUE (session, event_id)
    ) STRICT""",
    """CREATE TABLE state (
        app TEXT NOT NULL, user TEXT NOT NULL, session TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
        PRIMARY KEY (app, user, session, key)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE gone (
        app TEXT NOT NULL, user TEXT NOT NULL, name TEXT NOT NULL, reason TEXT NOT NULL, at_ms INTEGER NOT NULL,
        version INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (app, user, name)
    ) STRICT, WITHOUT ROWID""",
    "CREATE INDEX gone_at ON gone (at_ms)",
    """CREATE TABLE count (
        minute INTEGER NOT NULL, component TEXT NOT NULL, region TEXT NOT NULL, node TEXT NOT NULL, boot TEXT NOT NULL,
        name TEXT NOT NULL, value INTEGER NOT NULL, PRIMARY KEY (minute, component, region, node, boot, name)
    ) STRICT, WITHOUT ROWID""",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST,)
"""What leads from each version to the next. Landed ones are never changed, new ones are added."""

VERSION = len(MIGRATIONS)


def migrate(db: sqlite3.Connection) -> None:
    """Bring the file to this version, in the caller's transaction.

    Raises StoreTooNew for a newer file, and OpenRefused for a database of something else; nothing is changed then.
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (tables,) = db.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID and (tables or version):
        raise OpenRefused("the file is a database of something else: give the sessions a file of their own")
    if version > VERSION:
        raise StoreTooNew(version, VERSION)
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            db.execute(statement)
    if version < VERSION:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {VERSION}")
