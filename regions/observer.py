"""Looking at a shard: its register and its stores, each asked again and again by a task of its own.

A store or an authority that hangs holds up nobody else: decisions are made from what was seen last, and what was seen too
long ago counts as no answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from regions.errors import AuthorityError
from regions.node import Node, look
from regions.topology import ShardSpec
from regions.views import NodeView, Snapshot
from regions.watch import ShardWatch
from stanchion.clock import Clock

STALE_S = 5.0
"""A view of a store that is older says nothing any more."""

_KEPT_S = 3600.0


class Lag:
    """How far each region's store is behind the primary: in writes, and in the seconds since it had what it has now."""

    def __init__(self) -> None:
        self._history: deque[tuple[float, int]] = deque()

    def primary_at(self, now: float, gseq: int) -> None:
        if not self._history or self._history[-1][1] != gseq:
            self._history.append((now, gseq))
        while len(self._history) > 1 and self._history[1][0] < now - _KEPT_S:
            self._history.popleft()

    def of(self, now: float, gseq: int) -> tuple[int, float]:
        """Writes and seconds. The seconds count from the first moment at which the primary was seen to have more."""
        if not self._history:
            return 0, 0.0
        later = next((at for at, count in self._history if count > gseq), None)
        return max(0, self._history[-1][1] - gseq), 0.0 if later is None else max(0.0, now - later)


class Observer:
    """Looks at one shard for one region. `start` begins and `close` ends it.

    `now` is a clock that is not set and counts while the machine sleeps.
    """

    def __init__(
        self,
        spec: ShardSpec,
        own: str,
        nodes: Mapping[str, Node],
        watch: ShardWatch,
        clock: Clock,
        now: Callable[[], float],
        interval_s: float,
    ) -> None:
        self.spec, self.own, self.nodes, self.watch = spec, own, nodes, watch
        self.lag = Lag()
        self._clock, self._now, self._interval_s = clock, now, interval_s
        self._views: dict[str, NodeView] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks.append(asyncio.ensure_future(self._read()))
        self._tasks += [asyncio.ensure_future(self._look(node)) for node in self.nodes.values()]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def snapshot(self) -> Snapshot:
        """What is known now."""
        now, register = self._now(), self.watch.view
        views = {region: self._fresh(view, now) for region, view in self._views.items()}
        error = self.watch.error
        if error:  # an old reading decides nothing
            register = None
        return Snapshot(self.spec, self.own, now, self._clock.wall(), register, views, error)

    async def look_now(self, without: str = "") -> Snapshot:
        """What is known after everything was asked anew; of the region `without` what was known. Raises AuthorityError."""
        asked = [node for region, node in self.nodes.items() if region != without]
        await asyncio.gather(self.watch.refresh(), *(self._look_once(node) for node in asked))
        return self.snapshot()

    async def _read(self) -> None:
        while True:
            with suppress(AuthorityError):  # the watch keeps its text
                await self.watch.refresh()
            await self._clock.sleep(self._interval_s)

    async def _look(self, node: Node) -> None:
        while True:
            await self._look_once(node)
            await self._clock.sleep(self._interval_s)

    async def _look_once(self, node: Node) -> None:
        view = await look(node, self._now)
        before = self._views.get(view.region)
        if before is not None and before.asked_at > view.asked_at:
            return
        self._views[view.region] = view
        record = self.watch.record
        if view.fence is not None and record is not None and record.holder == view.region:
            self.lag.primary_at(view.asked_at, view.fence.gseq)

    def _fresh(self, view: NodeView, now: float) -> NodeView:
        if view.error or now - view.asked_at <= STALE_S:
            return view
        return replace(view, fence=None, replication=None, error=f"no answer for {now - view.asked_at:.0f} s")
