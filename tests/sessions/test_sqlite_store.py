"""What is the file's own: opening it, whose it is, its threads, its disk."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sessions import errors
from sessions.fence import ENDLESS_MS
from sessions.limits import Limits
from sessions.sqlite import transaction as transactions
from sessions.sqlite.schema import VERSION
from sessions.sqlite.store import SqliteStore
from tests.sessions.labs import KEY, SqliteLab, SteppedClock, append, create, granted, stored_ids


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[SqliteLab]:
    one = await SqliteLab.open(tmp_path, Limits())
    await one.store.take()
    yield one
    await one.close()


async def test_a_store_without_an_authority_takes_its_own_grant_which_does_not_end(lab: SqliteLab) -> None:
    first = await lab.store.take()
    assert (first.epoch, first.deadline_ms) == (1, ENDLESS_MS)
    await create(lab.store)
    lab.clock.advance(3600.0 * 24 * 365)
    await append(lab.store, "a")
    assert (await lab.store.take()).epoch == 1


async def test_two_processes_share_one_file_and_its_grant(lab: SqliteLab) -> None:
    other = await lab.another()
    assert (await other.take()).epoch == 1
    assert other.bound.identity == lab.store.bound.identity
    assert not other.bound.created
    await create(lab.store)
    await append(other, "a", expected=0)
    await append(lab.store, "b", expected=1)
    assert await stored_ids(other) == ["a", "b"]


async def test_after_a_clock_step_it_takes_the_next_epoch_and_the_other_process_follows(lab: SqliteLab) -> None:
    other = await lab.another()
    await create(lab.store)
    lab.clock.step_wall(-1.0)
    with pytest.raises(errors.ClockBack):
        await append(lab.store, "a")
    assert (await lab.store.take()).epoch == 2
    await append(lab.store, "a", epoch=2)
    with pytest.raises(errors.Fenced):
        await append(other, "b", epoch=1)
    assert (await other.take()).epoch == 2
    await append(other, "b", epoch=2)


async def test_a_file_that_an_authority_granted_does_not_grant_itself(tmp_path: Path) -> None:
    lab = await SqliteLab.open(tmp_path, Limits())
    await granted(lab.store, epoch=1)
    await lab.store.revoke(1)
    with pytest.raises(errors.NotGranted):
        await lab.store.take()
    await lab.close()


async def test_a_copied_file_is_another_store(lab: SqliteLab, tmp_path: Path) -> None:
    await create(lab.store)
    await append(lab.store, "a")
    other_path = tmp_path / "copy.db"
    with sqlite3.connect(lab.path) as source, sqlite3.connect(other_path) as target:
        source.backup(target)
    source.close()
    target.close()
    copy = await SqliteStore.open(other_path, clock=lab.clock)
    assert copy.bound.copied_from == lab.store.bound.identity
    assert copy.bound.identity != lab.store.bound.identity
    with pytest.raises(errors.NotGranted):
        await append(copy, "b")
    assert (await copy.take()).epoch == 2
    await append(copy, "b", epoch=2)
    await append(lab.store, "c")
    assert [str(event.position) for event in (await copy.read(KEY)).events] == ["1-1", "2-2"]
    assert [str(event.position) for event in (await lab.store.read(KEY)).events] == ["1-1", "1-2"]
    await copy.close()


@pytest.mark.parametrize("how", ["removed", "exchanged"])
async def test_a_file_that_is_taken_away_beneath_an_open_store_acknowledges_nothing(
    lab: SqliteLab, tmp_path: Path, how: str
) -> None:
    await create(lab.store)
    if how == "removed":
        lab.path.unlink()
    else:
        shutil.copy(lab.path, tmp_path / "copy")
        (tmp_path / "copy").replace(lab.path)
    with pytest.raises(errors.NotGranted):
        await append(lab.store, "a")
    with pytest.raises(errors.NotGranted):
        await lab.store.lookup(KEY, "a")


async def test_many_open_a_new_file_at_once(tmp_path: Path) -> None:
    clock = SteppedClock()
    stores = await asyncio.gather(*(SqliteStore.open(tmp_path / "new.db", clock=clock) for _ in range(12)))
    assert len({store.bound.identity for store in stores}) == 1
    assert {(await store.take()).epoch for store in stores} == {1}
    assert sum(store.bound.created for store in stores) == 1
    for store in stores:
        await store.close()


async def test_the_file_is_for_its_owner_alone_and_on_the_disk_when_it_is_acknowledged(lab: SqliteLab) -> None:
    assert stat.S_IMODE(lab.path.stat().st_mode) == 0o600

    def settings(db: sqlite3.Connection) -> list[object]:
        return [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]

    assert await lab.store._writer.run(settings) == ["wal", 2]


async def test_a_file_of_a_newer_program_is_refused_and_left_alone(lab: SqliteLab) -> None:
    await lab.close()
    with sqlite3.connect(lab.path) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    with pytest.raises(errors.StoreTooNew, match=f"version {VERSION + 1} and this program knows {VERSION}"):
        await SqliteStore.open(lab.path, clock=lab.clock)
    with sqlite3.connect(lab.path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (VERSION + 1,)
    db.close()


async def test_files_of_something_else_are_refused_and_left_alone(tmp_path: Path) -> None:
    database = tmp_path / "photos.db"
    with sqlite3.connect(database) as db:
        db.execute("CREATE TABLE photo (id)")
    db.close()
    text = tmp_path / "notes.txt"
    text.write_text("not a database at all, but long enough to look at" * 100)
    for path in (database, text):
        before = path.read_bytes() if path == text else None
        with pytest.raises(errors.OpenRefused, match="a file of their own"):
            await SqliteStore.open(path, clock=SteppedClock())
        assert before is None or path.read_bytes() == before
    with sqlite3.connect(database) as db:
        assert db.execute("SELECT name FROM sqlite_schema").fetchall() == [("photo",)]
    db.close()


async def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(errors.OpenRefused, match="no folder"):
        await SqliteStore.open(tmp_path / "none" / "x.db", clock=SteppedClock())


class Gate:
    """Holds the writer's thread inside a job until it is opened."""

    def __init__(self, store: SqliteStore) -> None:
        self._opened, self._entered = threading.Event(), threading.Event()
        self._task = asyncio.ensure_future(store._writer.run(self._hold))

    async def entered(self) -> None:
        while not self._entered.is_set():  # noqa: ASYNC110 - a thread sets it
            await asyncio.sleep(0.001)

    async def open(self) -> None:
        self._opened.set()
        await self._task

    def _hold(self, db: sqlite3.Connection) -> None:
        self._entered.set()
        assert self._opened.wait(30)


async def test_the_event_loop_and_the_readers_go_on_while_a_write_waits_for_its_disk(lab: SqliteLab) -> None:
    await create(lab.store)
    await append(lab.store, "a")
    gate = Gate(lab.store)
    await gate.entered()
    waiting = asyncio.ensure_future(append(lab.store, "b"))
    assert await stored_ids(lab.store) == ["a"]
    assert not waiting.done()
    await gate.open()
    assert (await waiting).version == 2


async def test_an_append_that_is_cancelled_while_it_waits_never_happens(lab: SqliteLab) -> None:
    await create(lab.store)
    gate = Gate(lab.store)
    await gate.entered()
    waiting = asyncio.ensure_future(append(lab.store, "a"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await gate.open()
    assert await lab.store.lookup(KEY, "a") is None
    assert (await append(lab.store, "a")).duplicate is False


async def test_an_append_that_is_cancelled_at_any_moment_is_there_whole_or_not_and_lookup_tells(lab: SqliteLab) -> None:
    await create(lab.store)
    there = 0
    for number in range(60):
        ids = (f"{number}a", f"{number}b")
        task = asyncio.ensure_future(append(lab.store, *ids))
        await asyncio.sleep(0)
        if number % 3:
            await asyncio.sleep(number / 100_000)  # somewhere in the middle; both endings are right
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            found = [await lab.store.lookup(KEY, one) for one in ids]
            assert (found[0] is None) == (found[1] is None)
            there += found[0] is not None
        repeated = await append(lab.store, *ids)
        assert repeated.last.seq == 2 * (number + 1)
    assert len(await stored_ids(lab.store)) == 120
    assert (await lab.store.info(KEY)).version == 60


async def test_a_lookup_comes_behind_a_write_that_was_cancelled_under_way(lab: SqliteLab) -> None:
    """Were it to read beside the writer, it would say absent of an append that is about to be there."""
    await create(lab.store)
    inside, go_on = threading.Event(), threading.Event()
    clock_wall = lab.clock.wall

    def wall() -> float:  # it is read inside the transaction
        inside.set()
        assert go_on.wait(30)
        return clock_wall()

    lab.clock.wall = wall  # type: ignore[method-assign]
    task = asyncio.ensure_future(append(lab.store, "a"))
    while not inside.is_set():  # noqa: ASYNC110 - a thread sets it
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    looking = asyncio.ensure_future(lab.store.lookup(KEY, "a"))
    await asyncio.sleep(0.01)
    go_on.set()
    assert await looking is not None


async def test_too_many_waiting_are_refused(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "x.db", clock=SteppedClock(), most_waiting=2)
    await store.take()
    gate = Gate(store)
    await gate.entered()
    waiting = asyncio.ensure_future(store.take())
    await asyncio.sleep(0)
    with pytest.raises(errors.StoreBusy, match="2 operations"):
        await store.take()
    await gate.open()
    await waiting
    await store.take()
    await store.close()


async def test_closing_lets_begun_writes_end_and_leaves_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    store = await SqliteStore.open(tmp_path / "x.db", clock=SteppedClock())
    await store.take()
    await create(store)
    writes = [asyncio.ensure_future(append(store, f"e{number}")) for number in range(20)]
    await asyncio.sleep(0)
    await store.close()
    assert [(await write).version for write in writes] == list(range(1, 21))
    for _ in range(1000):
        if threading.active_count() == before:
            break
        await asyncio.sleep(0.001)
    assert threading.active_count() == before


async def test_a_file_that_another_keeps_locked_is_unavailable_and_nothing_is_written(
    lab: SqliteLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(lab.store)
    await lab.store._writer.run(lambda db: db.execute("PRAGMA busy_timeout = 20").fetchone())
    holder = sqlite3.connect(lab.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(errors.StoreUnavailable, match="another process"):
        await append(lab.store, "a")
    holder.execute("ROLLBACK")
    holder.close()
    assert await lab.store.lookup(KEY, "a") is None


class _FailingCommit:
    """A connection whose next commit fails as a disk does, after it has reached it."""

    def __init__(self, db: sqlite3.Connection, name: str) -> None:
        self._db, self._name = db, name

    def __getattr__(self, name: str) -> object:
        return getattr(self._db, name)

    def execute(self, sql: str, *given: object) -> sqlite3.Cursor:
        done = self._db.execute(sql, *given)  # type: ignore[arg-type]
        if sql == "COMMIT":
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorname = self._name
            raise error
        return done


async def test_a_disk_that_fails_while_committing_leaves_the_write_in_doubt_and_the_store_usable(
    lab: SqliteLab,
) -> None:
    await create(lab.store)
    worker = lab.store._writer
    assert worker._db is not None
    worker._db = _FailingCommit(worker._db, "SQLITE_IOERR_FSYNC")  # type: ignore[assignment]
    with pytest.raises(errors.InDoubt) as doubt:
        await append(lab.store, "a")
    assert doubt.value.event_id == "a"
    assert (await append(lab.store, "a")).duplicate


def test_a_commit_that_the_disk_had_no_room_for_is_no_doubt() -> None:
    db = sqlite3.connect(":memory:", isolation_level=None)
    failing = _FailingCommit(db, "SQLITE_FULL")
    with pytest.raises(sqlite3.OperationalError):
        with transactions.transaction(failing):  # type: ignore[arg-type]
            pass
    db.close()
