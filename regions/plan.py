"""What a promotion or switchover is going to do, or why it is not: pure, and shown to people before anything is done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from regions.errors import PromotionRefused, UnknownRegion
from regions.journal import Kind
from regions.lease import fence_wait_s
from regions.loss import Candidate, Unfit, best, judge
from regions.record import Loss, Mode, ShardRecord
from regions.renewal import next_epoch
from regions.topology import ShardSpec
from regions.views import Snapshot

READY_LAG = 10_000
"""Writes that the target of a switchover may be behind when it begins: what is missing passes while nobody can write."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`loss`: the most acknowledged writes that may be lost, None where that is not known; `behind`: how many of them
    are known to have been made. `wait_s`: how long the old lease has to be waited for. `steps`: what will be done, in words."""

    shard: str
    kind: Kind
    source: str
    to: str
    epoch: int
    loss: int | None
    behind: int | None
    wait_s: float
    steps: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "shard": self.shard, "kind": self.kind, "from": self.source, "to": self.to, "epoch": self.epoch,
            "loss_bound": self.loss, "behind": self.behind, "fence_wait_s": round(self.wait_s, 3),
            "steps": list(self.steps), "warnings": list(self.warnings),
        }  # fmt: skip


def plan_failover(snapshot: Snapshot, to: str, *, force: bool = False, lost: str = "") -> Plan:
    """Promote the store of `to`, whatever becomes of the present primary. `lost`: the region whose primary is known not to
    renew. Raises PromotionRefused or UnknownRegion."""
    spec, record = snapshot.spec, _record(snapshot)
    _known(spec, to)
    holder = snapshot.node(record.holder)
    if (
        not force
        and record.holder != lost
        and record.stage == "open"
        and holder.is_primary
        and holder.fence is not None
        and holder.fence.identity == record.store_identity
        and not holder.fence.revoked
    ):
        raise PromotionRefused(
            "primary_alive",
            f"the primary in {record.holder} can be asked from here and is well: `stanchion switchover {spec.name} --to {to}` "
            "moves the shard without a loss; --force --reason … promotes in spite of it",
        )
    judged = judge(snapshot, to)
    if isinstance(judged, Unfit) and not (force and _may_be_forced(snapshot, to)):
        raise PromotionRefused("unfit", f"{to} cannot become the primary of {spec.name}: {judged.why}")
    loss = judged.loss if isinstance(judged, Candidate) else None
    behind = judged.behind if isinstance(judged, Candidate) else None
    allowed = spec.rpo_turns or 0
    if not force and (loss is None or loss > allowed):
        better, _ = best(snapshot, spec.nodes)
        hint = f"; {better.region} would lose at most {better.loss}" if better and better.region != to else ""
        raise PromotionRefused(
            "rpo",
            f"{to} is at {snapshot.node(to).gseq} and the last count known of the primary is {record.gseq}: up to {loss} "
            f"acknowledged writes may be lost, and the shard's rpo allows {allowed}{hint}; --force --reason … promotes all the "
            "same, and the loss is recorded",
        )
    unchanged_s = snapshot.register.unchanged_s if snapshot.register else 0.0
    wait_s = 0.0 if record.sealed_gseq is not None else max(0.0, fence_wait_s(spec.lease_s) - unchanged_s)
    return Plan(
        spec.name, "failover", record.holder, to, record.epoch + 1, loss, behind, wait_s,
        (
            f"record epoch {record.epoch + 1} with {to} as its holder; from then on {record.holder} cannot renew its lease",
            f"wait {wait_s:.1f} s, until that lease is over by any clock",
            f"make the store in {to} a primary",
            f"grant it epoch {record.epoch + 1} and open the shard",
            f"when the store in {record.holder} is back: write out what only it has, count that, then have it follow {to}",
        ),
        _warnings(snapshot, to, judged),
    )  # fmt: skip


def plan_switchover(snapshot: Snapshot, to: str) -> Plan:
    """Move a healthy shard to `to` without a loss. Raises PromotionRefused or UnknownRegion."""
    spec, record = snapshot.spec, _record(snapshot)
    _known(spec, to)
    if to == record.holder:
        raise PromotionRefused("already", f"{to} holds the shard {spec.name} already, in epoch {record.epoch}")
    if record.stage != "open":
        raise PromotionRefused("busy", f"the shard is {record.stage} by {record.by}: {record.reason}; wait for its end")
    source, target = snapshot.node(record.holder), snapshot.node(to)
    if source.fence is None or source.fence.identity != record.store_identity:
        raise PromotionRefused(
            "primary_lost",
            f"the primary in {record.holder} cannot be asked from here ({source.error or 'it is another store now'}): a "
            f"switchover needs both; `stanchion promote {spec.name} --to {to}` is for a primary that is lost",
        )
    if target.fence is None or target.replication is None:
        raise PromotionRefused(
            "unfit", f"the store in {to} cannot be asked from here ({target.error}): a switchover needs both"
        )
    behind = source.fence.gseq - target.fence.gseq
    if target.replication.role != "replica" or not target.replication.link_up or target.fence.epoch != record.epoch:
        raise PromotionRefused(
            "unfit",
            f"the store in {to} does not follow the primary now: see `stanchion status`, and wait until it does",
        )
    if behind > READY_LAG:
        raise PromotionRefused("lag", f"the store in {to} is {behind} writes behind: wait until it has caught up")
    return Plan(
        spec.name, "switchover", record.holder, to, record.epoch + 1, 0, behind, 0.0,
        (
            f"record that the shard is switching; nobody renews the lease of {record.holder} any more",
            f"revoke epoch {record.epoch} at the store in {record.holder}: it takes no more writes",
            f"wait until the store in {to} has every one of them",
            f"record epoch {record.epoch + 1} with {to} as its holder, make its store a primary, and open it",
            f"have the store in {record.holder} follow {to}",
        ),
        _warnings(snapshot, to, None),
    )  # fmt: skip


def failed_over(
    snapshot: Snapshot, record: ShardRecord, plan: Plan, *, by: str, reason: str, wall: float
) -> ShardRecord:
    """The record with which a failover begins."""
    losses = record.losses
    if plan.to != record.holder and record.store_identity:
        synced = record.mode == "sync" and plan.to in record.sync_peers
        losses = (*losses, Loss(record.epoch, record.holder, record.store_identity, acknowledged=not synced))
    mode, peers = opening_mode(snapshot.spec, plan.to, lost=True)
    return next_epoch(
        record, plan.to, by=by, reason=reason, at=wall, losses=losses, mode=mode, sync_peers=peers,
        sealed_gseq=record.sealed_gseq if record.stage == "opening" else None,
    )  # fmt: skip


def opening_mode(spec: ShardSpec, holder: str, *, lost: bool) -> tuple[Mode, tuple[str, ...]]:
    """Mode and peers of an epoch that is opened at `holder`. `lost`: its peers are not to be counted on."""
    if not spec.sync:
        return "async", ()
    peers = tuple(region for region in spec.nodes if region != holder)
    return ("degraded" if lost and spec.may_degrade else "joining"), peers


def first_record(spec: ShardSpec, holder: str, identity: str, gseq: int, by: str, wall: float) -> ShardRecord:
    """The record of a new shard."""
    mode, peers = opening_mode(spec, holder, lost=False)
    return ShardRecord(
        1,
        holder,
        identity,
        mode=mode,
        sync_peers=peers,
        renew_n=1,
        gseq=gseq,
        by=by,
        reason="the shard is new",
        at=wall,
    )


def switching(record: ShardRecord, to: str, by: str, reason: str, wall: float) -> ShardRecord:
    """The record with which a switchover begins."""
    return replace(record, stage="switching", target=to, by=by, reason=reason, at=wall)


def _record(snapshot: Snapshot) -> ShardRecord:
    if snapshot.register is None:
        raise PromotionRefused(
            "authority", f"the authority cannot be asked ({snapshot.authority_error}): nothing is promoted without it"
        )
    if snapshot.register.record is None:
        raise PromotionRefused(
            "no_record",
            f"the authority has no record of the shard {snapshot.spec.name}: a gateway in its home writes the first one",
        )
    return snapshot.register.record


def _known(spec: ShardSpec, region: str) -> None:
    if region not in spec.nodes:
        raise UnknownRegion(f"the shard {spec.name} has no store in {region!r}: it has some in {', '.join(spec.nodes)}")


def _may_be_forced(snapshot: Snapshot, to: str) -> bool:
    """A store with older data of the shard may be forced, and an empty one: there may be no other left. One that is away, or
    another install's, may not."""
    record, node = snapshot.record, snapshot.node(to)
    if record is None or node.fence is None:
        return False
    return 0 < node.fence.epoch <= record.epoch or _is_empty(snapshot, to)


def _is_empty(snapshot: Snapshot, region: str) -> bool:
    node = snapshot.node(region)
    return node.replication is not None and node.replication.empty and node.fence is not None and node.fence.epoch == 0


def _warnings(snapshot: Snapshot, to: str, judged: Candidate | Unfit | None) -> tuple[str, ...]:
    found = []
    node = snapshot.node(to)
    if _is_empty(snapshot, to):
        found.append(
            f"the store in {to} is empty: the shard begins without a session; restore a backup there first, if there is one"
        )
    elif isinstance(judged, Unfit):
        found.append(f"forced: {judged.why}; how much may be lost is not known")
    if node.replication is not None and not node.replication.durable:
        found.append(f"the store in {to} keeps nothing in a file: should it restart, all its sessions are gone")
    return tuple(found)
