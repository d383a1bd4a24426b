"""`SqliteStore`: the contract over one file, with one thread that writes and one that reads.

Several processes may open one file. They share its identity and so its grant, as several gateways share one Redis: SQLite lets
one of them write at a time, and the expected version keeps them off each other's sessions. A rolling restart relies on it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from sessions.acknowledge import acknowledged
from sessions.checks import (
    check_counts,
    check_events,
    check_key,
    check_name,
    check_number,
    page_limit,
    split_state,
)
from sessions.errors import InDoubt, StoreUnavailable
from sessions.fence import judge_write
from sessions.limits import Limits
from sessions.model import (
    Appended,
    Committed,
    Count,
    Created,
    Deleted,
    Event,
    Fence,
    Granted,
    Listing,
    Page,
    Position,
    SessionInfo,
    SessionKey,
    State,
)
from sessions.refusals import Refusal
from sessions.sqlite import reads, writes
from sessions.sqlite.opening import Bound, bind, connect
from sessions.sqlite.rows import absent, load_fence
from sessions.sqlite.transaction import CommitFailed, snapshot, transaction
from sessions.sqlite.worker import Worker
from sessions.sqlite.writes import Moment
from stanchion.clock import Clock

T = TypeVar("T")

MOST_WAITING = 1024
"""Operations that may wait for a thread; more are refused with StoreBusy."""


class SqliteStore:
    """See `sessions.store.SessionStore`. Made by `open`, ended by `close`.

    The file's time is the clock's `wall`. `bound` tells what opening found: whether the file is new, or was copied.
    """

    def __init__(self, bound: Bound, writer: Worker, reader: Worker, clock: Clock, limits: Limits) -> None:
        self.bound = bound
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._limits = limits

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        clock: Clock,
        limits: Limits | None = None,
        most_waiting: int = MOST_WAITING,
        new_identity: Callable[[], str] = lambda: uuid4().hex,
    ) -> SqliteStore:
        """Open or make the file. It takes no write before a grant: `take` where there is no authority, else `grant`.

        Raises OpenRefused, StoreTooNew or StoreUnavailable, after which nothing is left open.
        """
        writer = Worker("sessions-write", partial(connect, path, writes=True), most_waiting)
        reader = Worker("sessions-read", partial(connect, path, writes=False), most_waiting)
        try:
            bound = await writer.run(lambda db: bind(db, path, new_identity))
        except BaseException as error:
            await writer.close()
            await reader.close()
            if isinstance(error, CommitFailed):
                raise StoreUnavailable(
                    "the disk of the sessions file failed while it was made: check the disk"
                ) from error
            raise
        return cls(bound, writer, reader, clock, limits or Limits())

    @property
    def limits(self) -> Limits:
        return self._limits

    async def take(self) -> Granted:
        """Grant the file to itself without an end, for a store that no authority knows and nobody else can take over.

        Answers with the present epoch if its grant holds, and takes the next one where it does not: for a file that was
        copied, after a clock went back. So whoever is refused with a FenceRefused takes again and repeats the write.
        Raises NotGranted if an authority has granted this file: then only that may.
        """
        return await self._write(None, lambda db, at: writes.take(db, at))

    async def create(
        self, key: SessionKey, *, epoch: int, write_id: str, state: Mapping[str, object] | None = None
    ) -> Created:
        check_key(key, self._limits)
        check_name("write_id", write_id, self._limits)
        delta = split_state(state, self._limits)
        started = self._clock.now()
        created = await self._write(write_id, lambda db, at: writes.create(db, at, key, write_id, delta, epoch))
        return acknowledged(created, self._clock.now() - started, write_id)

    async def append(
        self,
        key: SessionKey,
        events: Sequence[Event],
        *,
        epoch: int,
        expected_version: int | None,
        state: Mapping[str, object] | None = None,
    ) -> Appended:
        check_key(key, self._limits)
        batch = check_events(events, self._limits)
        delta = split_state(state, self._limits)
        started = self._clock.now()
        first_id = batch[0].event_id
        appended = await self._write(
            first_id, lambda db, at: writes.append(db, at, key, batch, delta, epoch, expected_version)
        )
        return acknowledged(appended, self._clock.now() - started, first_id)

    async def delete(self, key: SessionKey, *, epoch: int) -> Deleted:
        check_key(key, self._limits)
        started = self._clock.now()
        deleted = await self._write(None, lambda db, at: writes.delete(db, at, key, epoch))
        return acknowledged(deleted, self._clock.now() - started, None)

    async def expire(self, *, epoch: int, idle_before_ms: int, limit: int = 100) -> tuple[SessionKey, ...]:
        most = page_limit(limit, self._limits)
        return await self._write(None, lambda db, at: writes.expire(db, at, epoch, idle_before_ms, most))

    async def info(self, key: SessionKey) -> SessionInfo:
        return await self._found(key, lambda db: reads.info(db, key))

    async def read(
        self,
        key: SessionKey,
        *,
        after: Position | None = None,
        until: Position | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> Page:
        most = page_limit(limit, self._limits)
        return await self._found(key, lambda db: reads.page(db, key, after, until, most, newest=newest))

    async def state(self, key: SessionKey) -> State:
        return await self._found(key, lambda db: reads.state(db, key))

    async def shared_state(self, app: str, user: str) -> State:
        check_name("app", app, self._limits)
        check_name("user", user, self._limits)
        return await self._read(lambda db: reads.shared_state(db, app, user))

    async def list_sessions(
        self, app: str, *, user: str | None = None, after: SessionKey | None = None, limit: int = 100
    ) -> Listing:
        most = page_limit(limit, self._limits)
        check_name("app", app, self._limits)
        return await self._read(lambda db: reads.listing(db, app, user, after, most))

    async def lookup(self, key: SessionKey, event_id: str) -> Committed | None:
        check_key(key, self._limits)

        def look(db: sqlite3.Connection) -> Committed | Refusal | None:
            with snapshot(db):
                return reads.lookup(db, key, event_id) or self._unsure(db)

        found = await self._writer.run(look)  # behind the writes, a cancelled one too
        if isinstance(found, Refusal):
            raise found.error()
        return found

    async def add_counts(self, counts: Sequence[Count], *, epoch: int) -> None:
        checked = check_counts(counts, self._limits)
        await self._write(None, lambda db, at: writes.add_counts(db, at, checked, epoch))

    async def read_counts(self, first_minute: int, end_minute: int) -> tuple[Count, ...]:
        return await self._read(lambda db: reads.counts(db, first_minute, end_minute))

    async def drop_counts(self, before_minute: int, *, epoch: int) -> int:
        return await self._write(None, lambda db, at: writes.drop_counts(db, at, before_minute, epoch))

    async def fence(self) -> Fence:
        row, identity = await self._read(lambda db: (load_fence(db), self.bound.present_identity()))
        return Fence(
            identity=identity,
            granted_to=row.granted_to,
            epoch=row.epoch,
            deadline_ms=row.deadline_ms,
            revoked=row.revoked,
            high_water_ms=row.high_water_ms,
            gseq=row.gseq,
            fork_gseq=row.fork_gseq,
            now_ms=self._now_ms(),
        )

    async def grant(self, epoch: int, identity: str, deadline_ms: int) -> Granted:
        check_number("epoch", epoch)
        check_number("deadline_ms", deadline_ms)
        return await self._write(None, lambda db, at: writes.grant(db, at, epoch, identity, deadline_ms))

    async def revoke(self, epoch: int) -> int:
        check_number("epoch", epoch)
        return await self._write(None, lambda db, at: writes.revoke(db, at, epoch))

    async def close(self) -> None:
        try:
            await self._writer.close()
        finally:
            await self._reader.close()

    async def _write(self, event_id: str | None, job: Callable[[sqlite3.Connection, Moment], T | Refusal]) -> T:
        """One transaction. Its time is read when it has the lock, so that no wait makes it old."""

        def run(db: sqlite3.Connection) -> T | Refusal:
            with transaction(db):
                return job(db, Moment(self.bound.present_identity(), self._now_ms(), self._limits))

        try:
            answer = await self._writer.run(run)
        except CommitFailed as error:
            raise InDoubt(event_id, f"the disk failed while committing, {error}") from error
        if isinstance(answer, Refusal):
            raise answer.error()
        return answer

    async def _read(self, job: Callable[[sqlite3.Connection], T]) -> T:
        def run(db: sqlite3.Connection) -> T:
            with snapshot(db):
                return job(db)

        return await self._reader.run(run)

    async def _found(self, key: SessionKey, job: Callable[[sqlite3.Connection], T | None]) -> T:
        """What `job` finds, or the refusal that says why there is nothing."""
        check_key(key, self._limits)
        found = await self._read(lambda db: job(db) or self._unsure(db) or absent(db, key))
        if isinstance(found, Refusal):
            raise found.error()
        return found

    def _unsure(self, db: sqlite3.Connection) -> Refusal | None:
        """Why this store cannot say that something is absent, None if it can."""
        return judge_write(
            load_fence(db), identity=self.bound.present_identity(), epoch=None, now_ms=self._now_ms()
        ).refusal

    def _now_ms(self) -> int:
        return round(self._clock.wall() * 1000)
