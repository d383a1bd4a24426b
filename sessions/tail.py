"""What a store holds that another one, which has taken its place, never got; and the store that can tell it.

Only stores that can be promoted have a tail: a SQLite file has no replica.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sessions.model import SessionKey, StoredEvent
from sessions.store import SessionStore


@dataclass(frozen=True, slots=True)
class LostEvent:
    key: SessionKey
    stored: StoredEvent


@dataclass(frozen=True, slots=True)
class LostCreation:
    """`gseq`: the shard's count of writes with this one."""

    key: SessionKey
    gseq: int


@dataclass(frozen=True, slots=True)
class LostDeletion:
    """The other store still has the session. `reason`: as in `SessionGone`; `at_ms`: Unix milliseconds of the store."""

    key: SessionKey
    gseq: int
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class LostState:
    """The session's own state as this store has it, for a session of which something else was lost."""

    key: SessionKey
    state: Mapping[str, Any]


Lost = LostEvent | LostCreation | LostDeletion | LostState


@dataclass(frozen=True, slots=True)
class LostSession:
    """What a session lost: how many events, and the version and sequence number that it had reached."""

    events: int = 0
    version: int = 0
    seq: int = 0


class PromotableStore(SessionStore, Protocol):
    """A store that may take another one's place, or lose its own."""

    def tail(self, above_gseq: int) -> AsyncIterator[Lost]:
        """All that was written behind `above_gseq`, session by session, its events in their order.

        It needs no grant, since it is asked of a store that has none any more. Complete for a store that takes no writes
        meanwhile. Raises StoreUnavailable."""

    async def mark_lost(self, key: SessionKey, lost: LostSession, *, epoch: int, lost_epoch: int) -> None:
        """Note that a promotion lost some of the session. Where it is not here at all it counts as gone, with the reason
        `lost`. The same again changes nothing. It waits for no replica: the one that would confirm it may be the store whose
        tail this is, which follows again only when all of it is noted. Raises FenceRefused."""
