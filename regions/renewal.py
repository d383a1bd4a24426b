"""The two things that give a store its lease: renewing the one of a running epoch, and the first of a new one.

Both keep one order: read the store's time, then write the register, then grant up to an absolute deadline counted from that
time. So a grant that is delayed, however long, gives a shorter lease and never a later one; and no grant is sent that was not
preceded by a write which whoever promotes has seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from regions.crash import CrashPoint, nowhere
from regions.errors import PromotionStopped
from regions.node import Node
from regions.record import ShardRecord
from regions.topology import ShardSpec
from regions.views import RegisterView
from regions.watch import ShardWatch
from sessions.model import Fence

_PACE_S = 30.0
"""The pace of writes that is recorded is the highest of the last so many seconds."""


class Pace:
    """How fast a shard is written, from its counts at the renewals."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._gseq = 0
        self._paces: deque[tuple[float, float]] = deque()

    def seen(self, gseq: int, now: float) -> float:
        """Writes a second: the highest pace of late."""
        if self._at is not None and now > self._at and gseq >= self._gseq:
            self._paces.append((now, (gseq - self._gseq) / (now - self._at)))
        self._at, self._gseq = now, gseq
        while self._paces and self._paces[0][0] < now - _PACE_S:
            self._paces.popleft()
        return max((pace for _, pace in self._paces), default=0.0)


@dataclass(frozen=True, slots=True)
class Opened:
    """`fork_gseq`: how many writes of the epochs before the store has."""

    view: RegisterView
    fork_gseq: int


async def renew(
    watch: ShardWatch, node: Node, spec: ShardSpec, expected: RegisterView, pace: Pace, now: Callable[[], float]
) -> RegisterView:
    """Renew the lease of the record that was read, at the store that it names.

    Raises SwapConflict where the record is another one by now, and what authority and store raise; then the lease just
    has not been renewed.
    """
    record = expected.record
    assert record is not None  # noqa: S101 - decided from it
    began = now()
    fence = await node.store.fence()
    view = await watch.swap(expected, record.renewed(fence.gseq, pace.seen(fence.gseq, began)), began)
    await node.store.grant(record.epoch, record.store_identity, _deadline_ms(fence, spec))
    return view


async def open_store(
    watch: ShardWatch,
    node: Node,
    spec: ShardSpec,
    expected: RegisterView,
    now: Callable[[], float],
    wall: Callable[[], float],
    crash: CrashPoint = nowhere,
) -> Opened:
    """Give the holder's store of a record that is `opening` its epoch, and record that it is open.

    It can be done again from the beginning after a crash at any point. A store that has become another one since its
    identity was recorded gets no grant: an epoch belongs to one store. Raises PromotionStopped for that, SwapConflict, and what
    authority and store raise.
    """
    record = expected.record
    assert record is not None  # noqa: S101 - decided from it
    began = now()
    fence = await node.store.fence()
    if record.store_identity not in ("", fence.identity):
        raise PromotionStopped(
            f"the store of {record.holder} was restarted or replaced while epoch {record.epoch} was opened: an epoch belongs "
            "to one store, so the shard needs a new one; promote again"
        )
    named = replace(record, store_identity=fence.identity, renew_n=record.renew_n + 1)
    crash("open:name")
    view = await watch.swap(expected, named, began)
    crash("open:grant")
    await node.store.grant(record.epoch, fence.identity, _deadline_ms(fence, spec))
    granted = await node.store.fence()
    losses = tuple(
        replace(loss, fork_gseq=granted.fork_gseq) if loss.fork_gseq is None else loss for loss in record.losses
    )
    opened = replace(named, stage="open", gseq=granted.gseq, target="", sealed_gseq=None, losses=losses, at=wall())
    crash("open:record")
    return Opened(await watch.swap(view, opened), granted.fork_gseq)


def next_epoch(record: ShardRecord, holder: str, **changes: object) -> ShardRecord:
    """The record of a new epoch that is to be opened at `holder`."""
    values = {
        "stage": "opening", "store_identity": "", "target": "", "sealed_gseq": None,
        "source": record.holder, "source_identity": record.store_identity or record.source_identity, **changes,
    }  # fmt: skip
    return replace(record, epoch=record.epoch + 1, holder=holder, renew_n=record.renew_n + 1, **values)  # type: ignore[arg-type]


def _deadline_ms(fence: Fence, spec: ShardSpec) -> int:
    return fence.now_ms + round(spec.lease_s * 1000)
