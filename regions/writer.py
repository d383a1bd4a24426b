"""`RegionalShard`: one shard, wherever its primary is. It asks the store that the authority names, and nobody else.

An answer is passed on only while this process's own lease on the epoch holds (`regions.lease`); what comes later is in doubt,
however well it looks. When another store has become the primary meanwhile, a write is repeated there with the same ids: it is
stored at most once, and what the old store may have kept is in its tail.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from regions.errors import AuthorityError
from regions.node import Node
from regions.observer import Observer
from regions.record import ShardRecord
from regions.sharded import Placed
from regions.topology import ShardSpec
from sessions.errors import FenceRefused, InDoubt, Refused, SessionsError, StoreUnavailable
from sessions.model import (
    Appended,
    Committed,
    Created,
    Deleted,
    Event,
    Listing,
    Page,
    Position,
    SessionInfo,
    SessionKey,
    State,
)
from sessions.store import SessionStore
from stanchion.clock import Clock

T = TypeVar("T")

PATIENCE_S = 3.0
"""How long a request waits for a primary: through a switchover, and through the end of a promotion."""

MOST_EPOCHS = 3
"""In so many epochs one request is tried."""

_POLL_S = 0.01


class NoPrimary(StoreUnavailable):
    """No store takes writes of the shard now."""

    def __init__(self, shard: str, why: str) -> None:
        super().__init__(f"the shard {shard} has no open primary: {why}; try again")


class RegionalShard:
    """See `regions.sharded.Shard`. `now` is the clock of leases."""

    def __init__(self, observer: Observer, clock: Clock, now: Callable[[], float]) -> None:
        self._observer, self._clock, self._now = observer, clock, now
        self._watch, self._spec = observer.watch, observer.spec
        self._nodes: Mapping[str, Node] = observer.nodes

    @property
    def spec(self) -> ShardSpec:
        return self._spec

    @property
    def retry_after_s(self) -> float:
        record = self._watch.record
        return 1.0 if record is not None and record.stage != "open" else max(1.0, self._spec.lease_s / 2)

    def closed_because(self) -> str:
        record = self._watch.record
        if self._watch.error:
            return f"the authority cannot be asked ({self._watch.error})"
        if record is None or record.stage != "open":
            return _why(record)
        return "" if self._watch.lease.holds(record.epoch, self._now()) else "the primary's lease is not renewed"

    async def create(
        self, key: SessionKey, *, write_id: str, state: Mapping[str, object] | None = None
    ) -> Placed[Created]:
        return await self._write(
            lambda store, epoch: store.create(key, epoch=epoch, write_id=write_id, state=state), write_id
        )

    async def append(
        self,
        key: SessionKey,
        events: Sequence[Event],
        *,
        expected_version: int | None,
        state: Mapping[str, object] | None = None,
    ) -> Placed[Appended]:
        return await self._write(
            lambda store, epoch: store.append(key, events, epoch=epoch, expected_version=expected_version, state=state),
            events[0].event_id if events else None,
        )

    async def delete(self, key: SessionKey) -> Placed[Deleted]:
        return await self._write(lambda store, epoch: store.delete(key, epoch=epoch), None)

    async def expire(self, *, idle_before_ms: int, limit: int = 100) -> Placed[tuple[SessionKey, ...]]:
        return await self._write(
            lambda store, epoch: store.expire(epoch=epoch, idle_before_ms=idle_before_ms, limit=limit), None
        )

    async def info(self, key: SessionKey, *, stale: bool = False) -> Placed[SessionInfo]:
        return await self._read(lambda store: store.info(key), stale=stale)

    async def read(
        self,
        key: SessionKey,
        *,
        after: Position | None = None,
        until: Position | None = None,
        limit: int | None = None,
        newest: bool = False,
        stale: bool = False,
    ) -> Placed[Page]:
        return await self._read(
            lambda store: store.read(key, after=after, until=until, limit=limit, newest=newest), stale=stale
        )

    async def state(self, key: SessionKey, *, stale: bool = False) -> Placed[State]:
        return await self._read(lambda store: store.state(key), stale=stale)

    async def shared_state(self, app: str, user: str, *, stale: bool = False) -> Placed[State]:
        return await self._read(lambda store: store.shared_state(app, user), stale=stale)

    async def list_sessions(
        self,
        app: str,
        *,
        user: str | None = None,
        after: SessionKey | None = None,
        limit: int = 100,
        stale: bool = False,
    ) -> Placed[Listing]:
        return await self._read(
            lambda store: store.list_sessions(app, user=user, after=after, limit=limit), stale=stale
        )

    async def lookup(self, key: SessionKey, event_id: str) -> Placed[Committed | None]:
        return await self._read(lambda store: store.lookup(key, event_id))

    async def close(self) -> None:
        """The stores are closed by whoever has made them."""

    async def _write(self, write: Callable[[SessionStore, int], Awaitable[T]], event_id: str | None) -> Placed[T]:
        def ask(store: SessionStore, record: ShardRecord) -> Awaitable[T]:
            self._nodes[record.holder].confirm(self._confirmations(record))
            return write(store, record.epoch)

        return await self._ask(ask, InDoubt(event_id, "the primary's lease was over when its answer was here"))

    async def _read(self, read: Callable[[SessionStore], Awaitable[T]], *, stale: bool = False) -> Placed[T]:
        late = StoreUnavailable(f"the primary's lease of the shard {self._spec.name} was over: try again")
        try:
            return await self._ask(lambda store, record: read(store), late)
        except (StoreUnavailable, FenceRefused) as error:
            if not stale:
                raise
            return await self._stale(read, error)

    async def _ask(self, ask: Callable[[SessionStore, ShardRecord], Awaitable[T]], late: SessionsError) -> Placed[T]:
        """Ask the primary, and once more where it is another one by now; `late`: what an answer after its lease is."""
        until = self._now() + PATIENCE_S
        epochs: set[int] = set()
        doubt: InDoubt | None = None
        while True:
            record = await self._open_record(until, doubt)
            if record.epoch not in epochs and len(epochs) == MOST_EPOCHS:
                raise doubt or NoPrimary(self._spec.name, f"it changed {MOST_EPOCHS} times meanwhile")
            epochs.add(record.epoch)
            failure: SessionsError
            try:
                answer = await ask(self._nodes[record.holder].store, record)
            except (FenceRefused, StoreUnavailable, InDoubt) as error:
                failure = error
            except Refused:  # what is refused, is so by the primary: nothing else says that a session is not there
                if await self._holds(record):
                    raise
                failure = StoreUnavailable(f"the lease of the shard {self._spec.name} was over: try again")
            else:
                if await self._holds(record):
                    return Placed(answer, self._spec.name, record.holder, record.epoch, record.possible_loss)
                failure = late
            doubt = failure if isinstance(failure, InDoubt) else doubt
            await self._after(failure, record, until, doubt)

    async def _after(self, failure: SessionsError, record: ShardRecord, until: float, doubt: InDoubt | None) -> None:
        """Return where asking again may help, else raise. A write in doubt stays so until another store has taken it."""
        try:
            present = (await self._watch.refresh()).record
        except AuthorityError as error:
            raise doubt or NoPrimary(
                self._spec.name, f"its store said: {failure} - and the authority cannot be asked ({error})"
            ) from failure
        if present is None or present.epoch != record.epoch or present.stage != "open":
            return
        if doubt is not None:
            raise doubt
        if self._now() >= until:
            if isinstance(failure, FenceRefused):
                raise NoPrimary(self._spec.name, str(failure)) from failure
            raise failure
        if isinstance(failure, StoreUnavailable):
            await self._nodes[record.holder].forget_connections()
        await self._watch.changed(min(_POLL_S * 10, until - self._now()))

    async def _open_record(self, until: float, doubt: InDoubt | None) -> ShardRecord:
        """The record, as soon as it is open; waits for that until `until`."""
        view = self._watch.view
        if view is None or self._watch.error:
            try:
                view = await self._watch.refresh()
            except AuthorityError as error:
                raise doubt or NoPrimary(self._spec.name, f"the authority cannot be asked ({error})") from error
        while view.record is None or view.record.stage != "open":
            if self._now() >= until:
                raise doubt or NoPrimary(self._spec.name, _why(view.record))
            await self._watch.changed(_POLL_S)
            try:
                view = await self._watch.refresh()
            except AuthorityError as error:
                raise doubt or NoPrimary(self._spec.name, f"the authority cannot be asked ({error})") from error
        return view.record

    async def _holds(self, record: ShardRecord) -> bool:
        """Whether an answer of this epoch may be passed on. A lease that only was not heard of lately is asked for."""
        if self._watch.lease.holds(record.epoch, self._now()):
            return True
        try:
            await self._watch.refresh()
        except AuthorityError:
            return False
        return self._watch.lease.holds(record.epoch, self._now())

    async def _stale(self, read: Callable[[SessionStore], Awaitable[T]], why: SessionsError) -> Placed[T]:
        """An answer of whichever store gives one, the own region's first."""
        record = self._watch.record
        for region in self._nearest():
            try:
                answer = await read(self._nodes[region].store)
            except (StoreUnavailable, FenceRefused):
                continue
            epoch, loss = (record.epoch, record.possible_loss) if record is not None else (0, False)
            return Placed(answer, self._spec.name, region, epoch, loss, stale=True)
        raise why

    def _nearest(self) -> Iterable[str]:
        own = self._observer.own
        return sorted(self._nodes, key=lambda region: region != own)

    def _confirmations(self, record: ShardRecord) -> int:
        """How many replicas have to confirm a write. Replicas that are no peers may be among those that answer first, so each
        that was seen is one more to wait for."""
        if record.mode not in ("sync", "joining"):
            return 0
        snapshot = self._observer.snapshot()
        holder = snapshot.node(record.holder).replication
        following = sum(
            1
            for peer in record.sync_peers
            if (seen := snapshot.node(peer).replication) is not None and seen.role == "replica" and seen.link_up
        )
        return 1 + max(0, (holder.replicas if holder is not None else 0) - following)


def _why(record: ShardRecord | None) -> str:
    if record is None:
        return "the authority has no record of it yet"
    return f"it is {record.stage} by {record.by} ({record.reason})"
