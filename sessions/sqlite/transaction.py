"""One write transaction, with what its end can mean."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class CommitFailed(Exception):
    """The commit ended with an error of the disk: whether it is on it will only show when the file is read again."""


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """`BEGIN IMMEDIATE` … `COMMIT`: no other writer in between, and on the disk when it is left without an error.

    Whatever is raised inside rolls everything back. Raises CommitFailed where the disk failed while committing.
    """
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        _roll_back(db)
        raise
    try:
        db.execute("COMMIT")
    except sqlite3.Error as error:
        _roll_back(db)
        if error.sqlite_errorname.startswith("SQLITE_IOERR"):  # its pages may be in the log all the same
            raise CommitFailed(error.sqlite_errorname) from error
        raise


@contextmanager
def snapshot(db: sqlite3.Connection) -> Iterator[None]:
    """All reads inside see one moment."""
    db.execute("BEGIN")
    try:
        yield
    finally:
        _roll_back(db)


def _roll_back(db: sqlite3.Connection) -> None:
    if db.in_transaction:
        with suppress(sqlite3.Error):  # what led here is the error to tell
            db.execute("ROLLBACK")
