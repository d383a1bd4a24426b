"""What a promotion may lose, and which store it should choose: pure, from one snapshot."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from regions.record import ShardRecord
from regions.views import NodeView, Snapshot


@dataclass(frozen=True, slots=True)
class Candidate:
    """A store that could become the primary. `loss`: the most writes that may have been acknowledged and are not in it.

    `behind`: how many of them are known to have been counted; the rest may have come after the last renewal.
    """

    region: str
    gseq: int
    behind: int
    loss: int


@dataclass(frozen=True, slots=True)
class Unfit:
    """A store that cannot become the primary, and why, as the end of a sentence."""

    region: str
    why: str


def since_renewal(record: ShardRecord, unchanged_s: float, lease_s: float) -> int:
    """Writes that may have been acknowledged behind the last renewal: those of the pace that was measured then, for as long
    as its lease let them."""
    return math.ceil(record.writes_s * min(unchanged_s, lease_s))


def descends(node: NodeView, record: ShardRecord) -> bool:
    """Whether the store's data comes from the present epoch: the fence that it holds, replicated with all the rest, says so.

    An epoch that is still being opened may have been granted nowhere yet; then it is the one before.
    """
    if node.fence is None:
        return False
    if node.fence.epoch == record.epoch:
        return not record.store_identity or node.fence.granted_to == record.store_identity
    return record.stage == "opening" and node.fence.epoch == record.epoch - 1


def judge(snapshot: Snapshot, region: str) -> Candidate | Unfit:
    """The store of `region` as the next primary."""
    record, spec, node = snapshot.record, snapshot.spec, snapshot.node(region)
    if record is None or snapshot.register is None:
        return Unfit(region, "the authority has no record of the shard")
    if region not in spec.nodes:
        return Unfit(region, "the shard has no store there")
    if node.error or node.fence is None:
        return Unfit(region, f"its store cannot be asked ({node.error or 'no answer'})")
    fence = node.fence
    if fence.epoch > record.epoch:
        return Unfit(
            region,
            f"its store was granted epoch {fence.epoch}, which this authority never gave: it is another install's",
        )
    if fence.epoch == 0:
        return Unfit(region, "its store is empty, or has lost its data")
    if not descends(node, record):
        return Unfit(
            region,
            f"its store holds the data of epoch {fence.epoch} and the shard is at {record.epoch}: it has to follow the "
            "primary first",
        )
    if record.sealed_gseq is not None and record.stage == "opening":
        behind = max(0, record.sealed_gseq - fence.gseq)
        return Candidate(region, fence.gseq, behind, behind)
    if record.mode in ("sync", "joining") and (found := _confirmed(snapshot, record, region, fence.gseq)) is not None:
        return found
    behind = max(0, record.gseq - fence.gseq)
    later = since_renewal(record, snapshot.register.unchanged_s, spec.lease_s)
    return Candidate(region, fence.gseq, behind, max(behind, record.gseq + later - fence.gseq))


def _confirmed(snapshot: Snapshot, record: ShardRecord, region: str, gseq: int) -> Candidate | Unfit | None:
    """A store of a shard whose writers wait for a peer. None where that says nothing.

    Each write that was acknowledged in this epoch is on one of the peers, so the best of all of them has them all. While they
    are joining, what came before the epoch may be missing there; that was counted by the last renewal.
    """
    silent = [peer for peer in record.sync_peers if snapshot.node(peer).gseq is None]
    if silent and record.mode == "sync" and region in record.sync_peers:
        return Unfit(
            region,
            f"the shard is sync, and an acknowledged write may be on {' or '.join(silent)} alone, which cannot be asked",
        )
    if silent or not record.sync_peers:
        return None
    confirmed = max(snapshot.node(peer).gseq or 0 for peer in record.sync_peers)
    if record.mode == "joining":
        confirmed = max(confirmed, record.gseq)
    behind = max(0, confirmed - gseq)
    return Candidate(region, gseq, behind, behind)


def best(snapshot: Snapshot, regions: Iterable[str]) -> tuple[Candidate | None, tuple[Unfit, ...]]:
    """The candidate that may lose least, and those that are none. Of equals the first of the settings."""
    judged = [judge(snapshot, region) for region in regions]
    fit = [one for one in judged if isinstance(one, Candidate)]
    unfit = tuple(one for one in judged if isinstance(one, Unfit))
    return (min(fit, key=lambda one: one.loss) if fit else None), unfit
