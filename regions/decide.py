"""What the keeper of a shard in one region does next: one snapshot in, one decision out, with a sentence that says why.

Nothing here reads a clock or asks a store. What a decision rests on is checked again when it is acted on: by compare-and-set at
the authority, and by the fence at the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regions.lease import fence_wait_s
from regions.loss import Candidate, best, judge
from regions.record import ShardRecord
from regions.views import NodeView, Snapshot

Action = Literal[
    "nothing",  # all is well, or somebody else's to do
    "wait",  # something is not well, and waiting is what there is to do
    "refuse",  # something is wrong that only people can put right
    "bootstrap",  # write the shard's first record
    "renew",  # renew the lease
    "reopen",  # a new epoch for the same store
    "failover",  # promote a store of this region
    "resume",  # go on with a promotion or switchover that was left
    "export",  # write out what the promotion lost
    "follow",  # have the store of this region follow the primary
    "detach",  # have the store of this region stop following one that is away
    "mode",  # record another mode
]


@dataclass(frozen=True, slots=True)
class Decision:
    """`why`: a sentence for operators. `mode`: for `mode` and `reopen`. `candidate`: for `failover`."""

    action: Action
    why: str
    mode: str = ""
    candidate: Candidate | None = None


def decide(snapshot: Snapshot, renewed_s: float) -> Decision:
    """`renewed_s`: seconds since the newest renewal that is known began."""
    if snapshot.register is None:
        return Decision(
            "wait", f"the authority cannot be asked ({snapshot.authority_error}): nothing is decided without it"
        )
    record = snapshot.register.record
    if record is None:
        return _bootstrap(snapshot)
    if record.holder not in snapshot.spec.nodes:
        return Decision(
            "refuse",
            f"the record says that {record.holder} holds the shard, and the settings have no store there: write it back",
        )
    if record.stage == "open":
        if record.holder == snapshot.own:
            return _as_holder(snapshot, record, renewed_s)
        return _as_other(snapshot, record)
    return _in_between(snapshot, record)


def _bootstrap(snapshot: Snapshot) -> Decision:
    spec, node = snapshot.spec, snapshot.node(snapshot.own)
    if snapshot.own != spec.home:
        return Decision(
            "wait", f"the shard has no record yet: a gateway in its home, {spec.home}, writes the first one"
        )
    if node.fence is None:
        return Decision("wait", f"the shard has no record yet, and its store cannot be asked ({node.error})")
    if not node.follows_nobody:
        return Decision(
            "refuse", "the shard has no record yet, and the store of its home follows another one: make it a primary"
        )
    if node.fence.epoch > 0:
        return Decision(
            "refuse",
            f"the store was granted epoch {node.fence.epoch} and this authority has no record of the shard: it is another "
            "install's store, or the authority has lost its data; name the right store, restore the authority, or have "
            f"`stanchion promote {spec.name} --to {spec.home} --force --reason …` begin anew above that epoch",
        )
    return Decision("bootstrap", "the shard is new: its home becomes the holder of epoch 1")


def _as_holder(snapshot: Snapshot, record: ShardRecord, renewed_s: float) -> Decision:
    spec, node = snapshot.spec, snapshot.node(snapshot.own)
    if node.fence is None:
        return Decision("wait", f"the primary's store cannot be asked ({node.error}): its lease runs out")
    fence = node.fence
    if fence.epoch > record.epoch:
        return Decision(
            "refuse",
            f"the store was granted epoch {fence.epoch} and the authority is at {record.epoch}: it serves another install "
            "too, or the authority was set back; give each install a store of its own",
        )
    if fence.identity != record.store_identity:
        return _other_store(snapshot, record)
    if fence.epoch == record.epoch and fence.revoked:
        return Decision(
            "reopen", "the store's clock went back, so its epoch was revoked: it gets a new one", record.mode
        )
    if (mode := _mode(snapshot, record)) is not None:
        return mode
    if renewed_s >= spec.renew_s or fence.epoch < record.epoch:
        return Decision("renew", "it is time to renew the lease")
    return Decision("nothing", "the lease runs")


def _other_store(snapshot: Snapshot, record: ShardRecord) -> Decision:
    """The holder's store is not the one that was granted: it was restarted, failed over within its region, or replaced."""
    spec, node = snapshot.spec, snapshot.node(snapshot.own)
    if not node.follows_nobody:
        return Decision("refuse", "the holder's store follows another one: somebody changed its replication by hand")
    chosen, unfit = best(snapshot, spec.nodes)
    own = next((one for one in unfit if one.region == snapshot.own), None)
    if own is not None:
        return Decision(
            "wait", f"the holder's store is another one than before, and cannot go on: {own.why}; another region may"
        )
    if chosen is None or chosen.region != snapshot.own:
        better = chosen.region if chosen is not None else "none"
        return Decision("wait", f"the holder's store is another one than before; {better} has more of its data")
    if chosen.loss > _allowed(snapshot, record):
        return _too_much(snapshot, chosen, record)
    return Decision(
        "failover", "the holder's store was restarted or replaced: it goes on in a new epoch", candidate=chosen
    )


def _mode(snapshot: Snapshot, record: ShardRecord) -> Decision | None:
    """What a sync shard's holder makes of its peers."""
    spec = snapshot.spec
    if not spec.sync:
        if record.mode != "async":
            return Decision("reopen", "the settings say async: the next epoch is", "async")
        return None
    ready = [peer for peer in record.sync_peers if _follows(snapshot, record, peer)]
    fence = snapshot.node(record.holder).fence
    if record.mode == "async":
        return Decision("reopen", "the settings say sync: writers wait for a peer from the next epoch on", "joining")
    if record.mode == "joining":
        reached = [peer for peer in ready if fence and (snapshot.node(peer).gseq or 0) >= fence.fork_gseq]
        if fence and fence.epoch == record.epoch and len(reached) == len(record.sync_peers):
            return Decision("mode", "the peers have all that was there before this epoch: the shard is sync", "sync")
    if record.mode in ("sync", "joining") and not ready and spec.may_degrade:
        return Decision(
            "mode", "no peer confirms writes: the shard goes on degraded, as its settings allow", "degraded"
        )
    if record.mode == "degraded" and len(ready) == len(record.sync_peers):
        return Decision("reopen", "the peers are back: writers wait for them from the next epoch on", "joining")
    return None


def _follows(snapshot: Snapshot, record: ShardRecord, region: str) -> bool:
    node = snapshot.node(region)
    return (
        node.fence is not None
        and node.replication is not None
        and node.replication.role == "replica"
        and node.replication.link_up
        and node.fence.epoch in (record.epoch, record.epoch - 1)
    )


def _as_other(snapshot: Snapshot, record: ShardRecord) -> Decision:
    """In a region whose store is not the primary."""
    spec, own = snapshot.spec, snapshot.node(snapshot.own)
    unchanged_s = snapshot.register.unchanged_s if snapshot.register is not None else 0.0
    if unchanged_s >= fence_wait_s(spec.lease_s):
        return _primary_lost(snapshot, record, unchanged_s)
    if snapshot.own not in spec.nodes or own.fence is None or own.replication is None:
        return Decision(
            "nothing", f"{record.holder} holds the shard" + (f"; the own store: {own.error}" if own.error else "")
        )
    if own.follows_nobody:
        return _not_following(snapshot, record, own)
    if own.replication.link_up and not descends_or_behind(own, record):
        return Decision(
            "follow", f"the own store follows one of epoch {own.fence.epoch}; it has to follow {record.holder}"
        )
    return Decision("nothing", f"{record.holder} holds the shard, the own store follows")


def descends_or_behind(own: NodeView, record: ShardRecord) -> bool:
    """Whether a replica is on the primary's line: at its epoch, or at the one before while that is new."""
    return own.fence is not None and own.fence.epoch in (record.epoch, record.epoch - 1)


def _not_following(snapshot: Snapshot, record: ShardRecord, own: NodeView) -> Decision:
    """The own store follows nobody without being the holder's: the one that was left, one that was detached, or a new one."""
    assert own.fence is not None  # noqa: S101 - the caller looked
    if own.fence.epoch > record.epoch:
        return Decision(
            "refuse",
            f"the store was granted epoch {own.fence.epoch} and the authority is at {record.epoch}: it is another "
            "install's; name the right store",
        )
    loss = next((one for one in record.losses if one.region == snapshot.own and not one.exported), None)
    if loss is not None:
        if loss.fork_gseq is None:
            return Decision("wait", "the store's tail is exported when the new primary is open")
        return Decision("export", f"the store was left at epoch {loss.epoch}: what only it has is written out first")
    ours = {record.source_identity, *(one.identity for one in record.losses)} - {""}
    if own.replication is not None and own.replication.empty:
        return Decision("follow", f"the own store is new and empty: it follows {record.holder}")
    if own.fence.epoch == record.epoch and own.fence.granted_to == record.store_identity:
        return Decision(
            "follow", f"the own store has been detached from {record.holder}, which is back: it follows again"
        )
    if own.fence.epoch < record.epoch and own.fence.granted_to in ours:
        return Decision("follow", f"the own store was left at epoch {own.fence.epoch}: it follows {record.holder}")
    return Decision(
        "refuse",
        "the own store is a primary and holds data that is not known to be this shard's: following would delete it; empty "
        f"it, have it follow {record.holder} by hand, or name the right store",
    )


def _primary_lost(snapshot: Snapshot, record: ShardRecord, unchanged_s: float) -> Decision:
    """The lease has not been renewed for longer than it lasts: no store takes writes of this shard."""
    decision = _instead(snapshot, record, unchanged_s)
    own = snapshot.node(snapshot.own).replication
    if (
        decision.action == "wait"
        and own is not None
        and own.role == "replica"
        and not own.link_up
        and not own.parked
        and snapshot.spec.promote_command is None
        and isinstance(judge(snapshot, snapshot.own), Candidate)
    ):
        return Decision(
            "detach",
            f"{decision.why}; until then the store here stops following: a primary that comes back empty would empty it too",
        )
    return decision


def _instead(snapshot: Snapshot, record: ShardRecord, unchanged_s: float) -> Decision:
    spec = snapshot.spec
    lost = f"{record.holder} has not renewed for {unchanged_s:.1f} s, longer than its lease"
    if not spec.automatic:
        return Decision("wait", f"{lost}; the shard's failover is manual: `stanchion promote {spec.name} --to …`")
    if record.epoch > 1 and 0 <= snapshot.wall - record.at < spec.quiet_s:
        return Decision("wait", f"{lost}, but the last promotion was less than {spec.quiet_s:g} s ago")
    chosen, unfit = best(snapshot, (region for region in spec.nodes if region != record.holder))
    if chosen is None:
        return Decision("wait", f"{lost}, and no store can take over: {say_unfit(unfit)}")
    if chosen.region != snapshot.own:
        return Decision("wait", f"{lost}; {chosen.region} has most of its data and takes over")
    if chosen.loss > _allowed(snapshot, record):
        return _too_much(snapshot, chosen, record)
    return Decision("failover", f"{lost}: the store here takes over", candidate=chosen)


def _in_between(snapshot: Snapshot, record: ShardRecord) -> Decision:
    """A switchover or promotion is under way. Who began it goes on; if it does not, others do."""
    spec = snapshot.spec
    unchanged_s = snapshot.register.unchanged_s if snapshot.register is not None else 0.0
    patience_s = fence_wait_s(spec.lease_s) + (0.0 if record.stage == "switching" else spec.lease_s)
    concerned = {record.holder, record.target, record.source}
    if snapshot.own not in concerned:
        return Decision("nothing", f"the shard is {record.stage}: {record.reason}")
    if unchanged_s < patience_s:
        return Decision("wait", f"the shard is {record.stage} by {record.by}: {record.reason}")
    own = snapshot.node(snapshot.own).fence
    named = record.store_identity
    if (
        record.stage == "opening"
        and snapshot.own == record.holder
        and own is not None
        and named not in ("", own.identity)
    ):
        return _other_store(snapshot, record)  # an epoch belongs to one store: it needs another one
    if record.stage == "opening" and snapshot.own != record.holder:
        if snapshot.node(record.holder).error:
            return _primary_lost(snapshot, record, unchanged_s)
        return Decision("wait", f"{record.holder} has to go on with what {record.by} began")
    return Decision("resume", f"{record.by} has not gone on for {unchanged_s:.1f} s with: {record.reason}")


def _allowed(snapshot: Snapshot, record: ShardRecord) -> int:
    return snapshot.spec.rpo_turns or 0


def _too_much(snapshot: Snapshot, chosen: Candidate, record: ShardRecord) -> Decision:
    return Decision(
        "wait",
        f"{chosen.region} is at {chosen.gseq} of {record.gseq} and might lose {chosen.loss} writes, the shard's rpo allows "
        f"{_allowed(snapshot, record)}: nothing is promoted by itself; `stanchion promote {snapshot.spec.name} --to "
        f"{chosen.region} --force --reason …` does",
    )


def say_unfit(unfit: tuple[object, ...]) -> str:
    return (
        "; ".join(f"{one.region}: {one.why}" for one in unfit if hasattr(one, "why") and hasattr(one, "region"))
        or "none"
    )
