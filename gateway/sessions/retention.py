"""Sessions that have been idle for longer than they are kept are deleted, a few at a time."""

from __future__ import annotations

from collections.abc import Callable

from gateway.log import Log
from gateway.sessions.metrics import SessionMetrics
from regions.sharded import Sessions
from sessions.errors import SessionsError
from stanchion.clock import Clock

EVERY_S = 60.0
AT_ONCE = 100


class Retention:
    """`retention_s` gives how long sessions are kept, None for ever; it is asked at each round."""

    def __init__(
        self,
        sessions: Sessions,
        retention_s: Callable[[], float | None],
        clock: Clock,
        log: Log,
        metrics: SessionMetrics,
    ) -> None:
        self._sessions, self._retention_s, self._clock = sessions, retention_s, clock
        self._log, self._metrics = log, metrics
        self._failed: set[str] = set()

    async def run(self) -> None:
        while True:
            await self._clock.sleep(EVERY_S)
            await self.round()

    async def round(self) -> None:
        """All that is too old now; what fails is told once and tried again at the next round."""
        kept_s = self._retention_s()
        if kept_s is None:
            return
        before_ms = int((self._clock.wall() - kept_s) * 1000)
        for name, shard in self._sessions.shards.items():
            try:
                while gone := (await shard.expire(idle_before_ms=before_ms, limit=AT_ONCE)).answer:
                    self._metrics.expired(len(gone))
            except SessionsError as error:
                if name not in self._failed:
                    self._log.event("warning", "retention", shard=name, message=str(error))
                self._failed.add(name)
            else:
                self._failed.discard(name)
