"""Sessions wherever their shard's primary is: what the HTTP API talks to, and what a shard has to be for that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from regions.topology import ShardSpec, SlotMap, new_session_id, shard_of
from sessions.errors import StoreUnavailable
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

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Placed(Generic[T]):
    """An answer, and which store gave it.

    `possible_loss`: a promotion may have lost writes of this shard that are not exported yet, so what the answer lacks
    may have been acknowledged before. `stale`: a replica answered, since no primary could.
    """

    answer: T
    shard: str
    region: str
    epoch: int
    possible_loss: bool = False
    stale: bool = False


class Shard(Protocol):
    """One shard. It finds the primary by itself, and repeats a write once where another store has become it.

    Every method raises the errors of `sessions.errors`; of them `FenceRefused` and `StoreUnavailable` mean that no primary took
    the write in time, and `InDoubt` that it may be stored. `retry_after_s` says when asking again may help.
    `stale` permits an answer of a replica where no primary can be asked.
    """

    @property
    def spec(self) -> ShardSpec: ...

    @property
    def retry_after_s(self) -> float: ...

    def closed_because(self) -> str:
        """Why no write would be taken now, empty where one would: from what is known, without asking."""

    async def create(
        self, key: SessionKey, *, write_id: str, state: Mapping[str, object] | None = None
    ) -> Placed[Created]: ...

    async def append(
        self,
        key: SessionKey,
        events: Sequence[Event],
        *,
        expected_version: int | None,
        state: Mapping[str, object] | None = None,
    ) -> Placed[Appended]: ...

    async def delete(self, key: SessionKey) -> Placed[Deleted]: ...

    async def expire(self, *, idle_before_ms: int, limit: int = 100) -> Placed[tuple[SessionKey, ...]]: ...

    async def info(self, key: SessionKey, *, stale: bool = False) -> Placed[SessionInfo]: ...

    async def read(
        self,
        key: SessionKey,
        *,
        after: Position | None = None,
        until: Position | None = None,
        limit: int | None = None,
        newest: bool = False,
        stale: bool = False,
    ) -> Placed[Page]: ...

    async def state(self, key: SessionKey, *, stale: bool = False) -> Placed[State]: ...

    async def shared_state(self, app: str, user: str, *, stale: bool = False) -> Placed[State]: ...

    async def list_sessions(
        self,
        app: str,
        *,
        user: str | None = None,
        after: SessionKey | None = None,
        limit: int = 100,
        stale: bool = False,
    ) -> Placed[Listing]: ...

    async def lookup(self, key: SessionKey, event_id: str) -> Placed[Committed | None]: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Sessions:
    """All shards of an install. `maps`: the slot map of each placement as it is recorded, missing until that is known.

    Every method raises StoreUnavailable while the map that it needs is not known.
    """

    shards: Mapping[str, Shard]
    maps: Mapping[str, SlotMap]

    def of(self, key: SessionKey, placement: str) -> Shard:
        """The shard that the session lives in. Raises UnknownShard."""
        specs = {name: shard.spec for name, shard in self.shards.items()}
        return self.shards[shard_of(key, specs, self._map(placement))]

    def in_placement(self, placement: str) -> tuple[Shard, ...]:
        """The shards that may hold a caller's sessions, in the order of the settings."""
        return tuple(self.shards[name] for name in self._map(placement).shards)

    def new_id(self, placement: str, region: str, unix_ms: int, random_bits: int) -> str:
        """An id for a new session: in a shard at home in `region`, else in the placement's first."""
        shards = self.in_placement(placement)
        home = next((shard for shard in shards if shard.spec.home == region), shards[0])
        return new_session_id(home.spec.name, unix_ms, random_bits)

    def _map(self, placement: str) -> SlotMap:
        if (found := self.maps.get(placement)) is None:
            raise StoreUnavailable(
                f"which shards the placement {placement} has is not known yet, since the authority has not answered: try again"
            )
        return found

    async def close(self) -> None:
        for shard in self.shards.values():
            await shard.close()
