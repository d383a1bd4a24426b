"""A thread with a connection of its own, so that the event loop never waits for a disk."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from sessions.errors import StoreBusy, StoreClosed, StoreUnavailable
from sessions.sqlite.transaction import CommitFailed

T = TypeVar("T")


class Worker:
    """Runs jobs one after the other in one thread, with the connection that `connect` makes there on first use.

    A job that is cancelled while it waits never runs; one that has begun runs to its end, whoever still waits for it.
    At most `most_waiting` are taken. Errors of SQLite come out as StoreUnavailable; CommitFailed as it is, and the
    connection is made anew then.
    """

    def __init__(self, name: str, connect: Callable[[], sqlite3.Connection], most_waiting: int) -> None:
        self._connect = connect
        self._most_waiting = most_waiting
        self._places = threading.BoundedSemaphore(most_waiting)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._db: sqlite3.Connection | None = None
        self._ended: Future[None] | None = None

    async def run(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """The job's result. Raises what it raises, StoreBusy, StoreClosed or StoreUnavailable."""
        if self._ended is not None:
            raise StoreClosed
        if not self._places.acquire(blocking=False):
            raise StoreBusy(self._most_waiting)
        future = self._executor.submit(self._run, job)
        future.add_done_callback(lambda _: self._places.release())
        return await asyncio.wrap_future(future)

    async def close(self) -> None:
        """Let what was taken end, then close the connection and the thread."""
        if self._ended is None:
            self._ended = self._executor.submit(self._disconnect)
            self._executor.shutdown(wait=False)
        await asyncio.shield(asyncio.wrap_future(self._ended))

    def _run(self, job: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._db is None:
                self._db = self._connect()
            return job(self._db)
        except CommitFailed:
            self._disconnect()
            raise
        except sqlite3.Error as error:
            raise StoreUnavailable(_sentence(error)) from error

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()


def _sentence(error: sqlite3.Error) -> str:
    """What failed and what to do, without anything that was stored."""
    name: str = getattr(error, "sqlite_errorname", type(error).__name__)
    match name.split("_")[1] if name.startswith("SQLITE_") else name:
        case "BUSY" | "LOCKED":
            return "another process holds the sessions file: try again, and end what keeps it locked"
        case "FULL":
            return "the disk of the sessions file is full: make room"
        case "READONLY" | "CANTOPEN" | "PERM":
            return f"the sessions file cannot be written ({name}): give this user the right to it and its folder"
        case _:
            return f"SQLite failed ({name}): check the sessions file and its disk"
