"""Opening the file: its settings, its schema, and whether it is still the file that it was.

A store's identity is a random id bound to the file's device and inode. Where those differ from what the file notes, it was
copied, restored or moved to another disk: it takes a new identity, and the old grant is void. A file that is exchanged beneath
an open store is noticed at the next write, since its path then leads to another inode or to none. What cannot be noticed: old
content written over the same file, and a snapshot of a whole disk.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import sleep

from sessions.errors import OpenRefused
from sessions.sqlite.schema import migrate
from sessions.sqlite.transaction import transaction

BUSY_S = 5.0
"""How long a connection waits for another process to end its write."""

_LEAST_SQLITE = (3, 37, 0)  # STRICT tables; RETURNING is older
_WAL_TRIES = 100


@dataclass(frozen=True, slots=True)
class Bound:
    """The identity of an opened file, and where it was found. `created`: by this opening. `copied_from`: the identity that
    it had before it was copied, empty if it was not."""

    path: Path
    device: str
    inode: str
    identity: str
    created: bool
    copied_from: str

    def present_identity(self) -> str:
        """The identity, if the path still leads to this file; else a text that no grant can name."""
        try:
            found = self.path.stat()
        except OSError:
            return "missing"
        return self.identity if (str(found.st_dev), str(found.st_ino)) == (self.device, self.inode) else "replaced"


def connect(path: Path, *, writes: bool) -> sqlite3.Connection:
    """A connection of the calling thread. Raises OpenRefused where the file cannot be one of a store."""
    if sqlite3.sqlite_version_info < _LEAST_SQLITE:
        raise OpenRefused(f"SQLite {sqlite3.sqlite_version} is too old: run a Python with SQLite 3.37 or newer")
    if writes:
        with suppress(FileExistsError):  # made here, so that sessions are for nobody else to read
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            except FileNotFoundError:
                raise OpenRefused(f"there is no folder for the sessions file {path.name}: make it first") from None
            except PermissionError:
                raise OpenRefused(
                    f"the sessions file {path.name} may not be written: give this user the right"
                ) from None
    db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    try:
        _settle(db, writes=writes)
    except sqlite3.DatabaseError as error:
        db.close()
        if error.sqlite_errorname == "SQLITE_NOTADB":
            raise OpenRefused(f"{path.name} is no SQLite database: give the sessions a file of their own") from None
        raise
    except BaseException:
        db.close()
        raise
    return db


def bind(db: sqlite3.Connection, path: Path, new_identity: Callable[[], str]) -> Bound:
    """Bring the schema up to date and find out which file this is. Two processes may do so at once."""
    found = path.stat()
    device, inode = str(found.st_dev), str(found.st_ino)
    with transaction(db):
        migrate(db)
        row = db.execute("SELECT identity, device, inode FROM store").fetchone()
        if row is None:
            identity, copied_from = new_identity(), ""
            db.execute(
                "INSERT INTO store (one, identity, device, inode) VALUES (1, ?, ?, ?)", (identity, device, inode)
            )
        elif row[1:] != (device, inode):
            identity, copied_from = new_identity(), row[0]
            db.execute(
                "UPDATE store SET identity = ?, device = ?, inode = ?, copied_from = ?",
                (identity, device, inode, copied_from),
            )
        else:
            identity, copied_from = row[0], ""
    return Bound(path, device, inode, identity, created=row is None, copied_from=copied_from)


def _settle(db: sqlite3.Connection, *, writes: bool) -> None:
    if not writes:
        db.execute("PRAGMA query_only = 1")
        return
    for left in range(_WAL_TRIES, 0, -1):  # this change does not wait for others as a write does: six openers met it
        try:
            (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            if left == 1 or error.sqlite_errorname not in {"SQLITE_BUSY", "SQLITE_LOCKED"}:
                raise
            sleep(BUSY_S / _WAL_TRIES)
    if mode != "wal":
        raise OpenRefused(
            "the file's disk cannot share memory between processes, which SQLite's WAL needs: use a local disk"
        )
    db.execute("PRAGMA synchronous = FULL")
