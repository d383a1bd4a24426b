"""Whether an answer may be passed on: only within the lease that it was given under."""

from __future__ import annotations

from typing import TypeVar

from sessions.errors import InDoubt
from sessions.model import Written
from sessions.store import DRIFT_BOUND

W = TypeVar("W", bound=Written)


def acknowledged(written: W, elapsed_s: float, event_id: str | None) -> W:
    """The answer, if it came within the remaining lease.

    `elapsed_s`: from before sending until now, on the writer's monotonic clock. An answer that took longer may be of a store
    whose epoch is over by now, and another may have been opened without this write: raises InDoubt.
    """
    if elapsed_s * 1000 * (1 + DRIFT_BOUND) >= written.remaining_ms:
        raise InDoubt(event_id, "the store's answer came after the end of its lease")
    return written
