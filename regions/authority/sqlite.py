"""An authority in a SQLite file, for gateways that run on one machine."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from regions.authority.base import Register, check_name, check_value
from regions.errors import AuthorityNonsense, AuthorityUnavailable, SwapConflict, SwapInDoubt
from sessions.errors import SessionsError
from sessions.sqlite.opening import connect
from sessions.sqlite.transaction import CommitFailed, snapshot, transaction
from sessions.sqlite.worker import Worker

T = TypeVar("T")

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS registers (name TEXT PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL) STRICT",
    "CREATE TABLE IF NOT EXISTS place (one INTEGER PRIMARY KEY CHECK (one = 1), device TEXT NOT NULL, inode TEXT NOT NULL,"
    " revision INTEGER NOT NULL) STRICT",
)
_MOST_WAITING = 1024


class SqliteAuthority:
    """See `regions.authority.base.Authority`. Made by `open`; several processes may open one file.

    The file is bound to its place on the disk: a copy of it would be a second authority, and is refused.
    """

    def __init__(self, path: Path, place: tuple[str, str], worker: Worker) -> None:
        self._path, self._place, self._worker = path, place, worker

    @classmethod
    async def open(cls, path: Path) -> SqliteAuthority:
        """Raises AuthorityUnavailable, after which nothing is left open."""
        worker = Worker("authority", partial(connect, path, writes=True), _MOST_WAITING)
        try:
            place = await worker.run(lambda db: _bind(db, path))
        except (SessionsError, sqlite3.Error, OSError) as error:
            await worker.close()
            raise AuthorityUnavailable(f"the authority's file {path} cannot be used: {error}") from error
        except BaseException:
            await worker.close()
            raise
        return cls(path, place, worker)

    @property
    def where(self) -> str:
        return f"the file {self._path}"

    async def read(self, name: str) -> Register | None:
        check_name(name)
        rows = await self._run(lambda db: _rows(db, "name = ?", name))
        return rows.get(name)

    async def read_all(self, prefix: str) -> Mapping[str, Register]:
        check_name(prefix)
        return await self._run(lambda db: _rows(db, "substr(name, 1, length(?1)) = ?1", prefix))

    async def swap(self, name: str, expected: str | None, value: bytes) -> str:
        check_name(name)
        check_value(value)

        def write(db: sqlite3.Connection) -> str:
            with transaction(db):
                self._still_there()
                row = db.execute("SELECT revision FROM registers WHERE name = ?", (name,)).fetchone()
                if (None if row is None else str(row[0])) != expected:
                    raise SwapConflict(name)
                (revision,) = db.execute("UPDATE place SET revision = revision + 1 RETURNING revision").fetchone()
                db.execute("INSERT OR REPLACE INTO registers VALUES (?, ?, ?)", (name, value, revision))
            return str(revision)

        return await self._run(write)

    async def close(self) -> None:
        await self._worker.close()

    async def _run(self, job: Callable[[sqlite3.Connection], T]) -> T:
        def within(db: sqlite3.Connection) -> T:
            self._still_there()
            return job(db)

        try:
            return await self._worker.run(within)
        except CommitFailed as error:
            raise SwapInDoubt(f"the disk of the authority's file failed while committing ({error})") from error
        except (SessionsError, sqlite3.Error) as error:
            raise AuthorityUnavailable(f"the authority's file {self._path} cannot be used now: {error}") from error

    def _still_there(self) -> None:
        if _place(self._path) != self._place:
            raise AuthorityUnavailable(
                f"the authority's file {self._path} was moved, deleted or replaced beneath this gateway: put it back, or "
                "restart with the right one"
            )


def _bind(db: sqlite3.Connection, path: Path) -> tuple[str, str]:
    found = _place(path)
    with transaction(db):
        for statement in _SCHEMA:
            db.execute(statement)
        row = db.execute("SELECT device, inode FROM place").fetchone()
        if row is None:
            db.execute("INSERT INTO place VALUES (1, ?, ?, 0)", found)
        elif row != found:
            raise AuthorityNonsense(
                f"the authority's file {path} was copied or moved from another disk: two of them would be two authorities; "
                "name the one that the other gateways use. Where it is the only one left, empty its table `place` with sqlite3"
            )
    return found


def _place(path: Path) -> tuple[str, str]:
    try:
        found = path.stat()
    except OSError:
        return "", ""
    return str(found.st_dev), str(found.st_ino)


def _rows(db: sqlite3.Connection, where: str, value: str) -> dict[str, Register]:
    with snapshot(db):
        rows = db.execute(f"SELECT name, value, revision FROM registers WHERE {where} ORDER BY name", (value,))  # noqa: S608
        return {name: Register(bytes(content), str(revision)) for name, content, revision in rows}
