"""The contract of a session store. `sessions.sqlite` and `sessions.redis` keep it, and one suite of tests holds them to it.

**Fence.** A shard is written under a grant: the right of one store identity to take writes of one epoch until a deadline
in the store's own time. Every write says its epoch and is checked in one atomic step with it, in this order:

1. the store's present identity is not the granted one: `NotGranted`
2. its time is more than 50 ms behind the latest it has seen: `ClockBack`, and the epoch is revoked
3. the write's epoch is lower than the store's: `Fenced`; higher: `StoreBehind`. A store never adopts a caller's epoch.
4. its time has reached the deadline: `LeaseExpired`
5. the event ids are stored: the answer of then, `duplicate` set
6. another version than expected: `VersionConflict`
7. the write, and `gseq` one higher

A missing session is told between 4 and 5, a limit that is passed between 6 and 7; what can be seen without the store, such
as an event that is too large by itself, before all of them. The latest time seen moves with every write
that gets past 2, refused or not.

**State.** Keys `app:…` are shared by all sessions of the app, `user:…` by those of the user in the app, `temp:…` are not
stored, all others are the session's. A key's value is replaced as a whole; `None` is a value. Where several sessions write
one shared key, the last write stands. Shared means: within this store. Deleting a session leaves the shared scopes.

**Versions** are integers and grow by one with each append. A session that is created again under the name of a deleted one
goes on above its versions and positions, for `Limits.gone_s`: a writer with an old copy is never taken for a current one.

**Reads** need no grant: a replica may answer them. But that something is *absent* is said only by a store whose grant holds;
others raise the refusal in its place. Every answer is one consistent moment.

**Errors** are those of `sessions.errors`; any method may raise `StoreUnavailable`, any write `InDoubt` as well. The store
repeats nothing by itself.

**Cancellation.** A cancelled write has happened as a whole or not at all; `lookup` tells, and repeating it with the same ids is
safe. Nothing is left half open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

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

CLOCK_TOLERANCE_MS = 50
"""How far a store's clock may be behind the latest time that it has seen: clocks are slewed and read on several cores."""

DRIFT_BOUND = 0.02
"""How much faster or slower than the store's clock the writer's may run: it decides when an answer came too late."""


class SessionStore(Protocol):
    """One shard's store."""

    @property
    def limits(self) -> Limits: ...

    async def create(
        self, key: SessionKey, *, epoch: int, write_id: str, state: Mapping[str, object] | None = None
    ) -> Created:
        """Make a session with a first state. `write_id` names this creation: the same again is answered as a duplicate.

        Raises SessionExists for a session that another `write_id` made, FenceRefused, LimitExceeded, InvalidInput.
        """

    async def append(
        self,
        key: SessionKey,
        events: Sequence[Event],
        *,
        epoch: int,
        expected_version: int | None,
        state: Mapping[str, object] | None = None,
    ) -> Appended:
        """Store events and a change of the state in one step: all or nothing, the events next to each other.

        `expected_version` None writes whatever the version is. Raises SessionNotFound, VersionConflict, EventIdsMixed,
        LimitExceeded, FenceRefused; InvalidInput for no events, partial ones, or an id given twice.
        """

    async def delete(self, key: SessionKey, *, epoch: int) -> Deleted:
        """Delete a session with its events and its own state. Deleting what is not there is no error."""

    async def expire(self, *, epoch: int, idle_before_ms: int, limit: int = 100) -> tuple[SessionKey, ...]:
        """Delete up to `limit` sessions that were last written before a time, the longest idle first, and name them.

        Nothing expires by itself: who keeps a retention calls this until it returns nothing."""

    async def info(self, key: SessionKey) -> SessionInfo:
        """Raises SessionNotFound."""

    async def read(
        self,
        key: SessionKey,
        *,
        after: Position | None = None,
        until: Position | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> Page:
        """The first `limit` events behind `after` up to and with `until`, or with `newest` the last ones, in their order.

        At most `Limits.page_events`. Raises SessionNotFound, and InvalidInput for a limit below 1."""

    async def state(self, key: SessionKey) -> State:
        """All that the session sees. Raises SessionNotFound."""

    async def shared_state(self, app: str, user: str) -> State:
        """The app's and the user's state, which need no session to exist."""

    async def list_sessions(
        self, app: str, *, user: str | None = None, after: SessionKey | None = None, limit: int = 100
    ) -> Listing:
        """An app's sessions, or a user's, in an order that does not change, behind `after`."""

    async def lookup(self, key: SessionKey, event_id: str) -> Committed | None:
        """Where an event is stored; None if it is not.

        None is said behind every write that the store has taken from this object; one that was lost on its way to a server
        may still come after it (see `InDoubt`). Raises FenceRefused where None cannot be said, since the grant does not hold.
        """

    async def add_counts(self, counts: Sequence[Count], *, epoch: int) -> None:
        """Note absolute counts. Of each name the greatest stands, so repeats and late reports change nothing. No gseq."""

    async def read_counts(self, first_minute: int, end_minute: int) -> tuple[Count, ...]:
        """The counts of the minutes from `first_minute` up to, without, `end_minute`, ordered by their key."""

    async def drop_counts(self, before_minute: int, *, epoch: int) -> int:
        """Forget the counts of older minutes; returns how many minutes had any."""

    async def fence(self) -> Fence:
        """The fence and the store's identity and time, for lease agents and promotions. Raises only StoreUnavailable."""

    async def grant(self, epoch: int, identity: str, deadline_ms: int) -> Granted:
        """Let the store take writes of `epoch` until `deadline_ms` of its own time, if it is `identity`.

        The same again with another deadline renews; of two deadlines the later one stands. Raises, in this order, WrongStore,
        StaleEpoch, EpochReused, EpochRevoked, ClockBack (for a renewal), DeadlineTooFar."""

    async def revoke(self, epoch: int) -> int:
        """End the grant of `epoch` and all before it for good, and return the shard's gseq. A second time does nothing.

        It needs no grant: one of this epoch that is still on its way will be refused. Raises StaleEpoch for a lower epoch
        than the store's."""

    async def close(self) -> None:
        """Let begun operations end, and give everything back. A second time does nothing."""
