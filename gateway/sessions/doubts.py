"""Writes of this gateway whose fate is not known: the session's next request waits until it is."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from regions.sharded import Shard
from sessions.errors import InDoubt, SessionGone, SessionNotFound, SessionsError
from sessions.model import SessionKey
from stanchion.clock import Clock

WAIT_S = 2.0
"""How long a request waits for an earlier one's fate."""

LATE_S = 10.0
"""After which a write that was lost on its way will not arrive any more: beyond every time-out of a store's connection."""

MOST = 10_000
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Doubt:
    event_id: str
    at: float


class Doubts:
    """`told` counts how each ended: `committed`, `absent`, `repeated`, or `open` for a request that waited in vain."""

    def __init__(self, clock: Clock, told: Callable[[str, str], None]) -> None:
        self._clock, self._told = clock, told
        self._doubts: OrderedDict[SessionKey, Doubt] = OrderedDict()

    def __len__(self) -> int:
        return len(self._doubts)

    def add(self, key: SessionKey, error: InDoubt) -> None:
        if error.event_id is not None:
            self._doubts[key] = Doubt(error.event_id, self._clock.now())
            while len(self._doubts) > MOST:
                self._doubts.popitem(last=False)

    def written(self, key: SessionKey, shard: Shard, event_ids: list[str]) -> None:
        """A write was acknowledged; if it is the one in doubt, that is settled."""
        doubt = self._doubts.get(key)
        if doubt is not None and doubt.event_id in event_ids:
            self._settled(key, shard, "repeated")

    async def settle(self, key: SessionKey, shard: Shard, repeating: str | None = None) -> None:
        """Wait for the fate of the session's last write. `repeating` that very write needs no waiting.

        Raises InDoubt with its event id where it does not come in time, and what the store raises."""
        doubt = self._doubts.get(key)
        if doubt is None or doubt.event_id == repeating:
            return None
        until = self._clock.now() + WAIT_S
        while True:
            try:
                found = (await shard.lookup(key, doubt.event_id)).answer
            except (SessionNotFound, SessionGone):
                found = None
            except SessionsError as error:
                self._told(shard.spec.name, "open")
                raise InDoubt(
                    doubt.event_id, f"an earlier write of this session cannot be looked up ({error})"
                ) from error
            if found is not None:
                return self._settled(key, shard, "committed")
            if self._clock.now() - doubt.at >= LATE_S:
                return self._settled(key, shard, "absent")
            if self._clock.now() >= until:
                self._told(shard.spec.name, "open")
                raise InDoubt(doubt.event_id, "an earlier write of this session is not stored and may still be")
            await self._clock.sleep(_POLL_S)

    def _settled(self, key: SessionKey, shard: Shard, how: str) -> None:
        if self._doubts.pop(key, None) is not None:
            self._told(shard.spec.name, how)
