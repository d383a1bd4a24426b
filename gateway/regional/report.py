"""Shards as operators see them: the JSON of `GET /admin/v1/regions`."""

from __future__ import annotations

from typing import Any

from regions.errors import AuthorityError
from regions.install import Install, ShardParts
from regions.journal import Entry
from regions.views import NodeView, Snapshot


async def report(install: Install, own: str) -> dict[str, Any]:
    """What this gateway knows, with the promotions that the authority remembers."""
    shards, error = [], ""
    for part in install.parts.values():
        entries: tuple[Entry, ...] = ()
        try:
            entries = await install.journal.entries(part.spec.name)
        except AuthorityError as failure:
            error = str(failure)
        shards.append(shard_row(part, install.sessions.shards[part.spec.name].closed_because(), entries))
    return {
        "region": own,
        "authority": {"where": install.authority.where, "ok": not error, "error": error},
        "problem": install.problem,
        "shards": shards,
    }


def shard_row(part: ShardParts, closed: str, entries: tuple[Entry, ...]) -> dict[str, Any]:
    snapshot, spec = part.observer.snapshot(), part.spec
    record = part.observer.watch.record
    decision = part.keeper.decision
    row: dict[str, Any] = {
        "name": spec.name,
        "home": spec.home,
        "open": not closed,
        "closed_because": closed,
        "decision": {"action": decision.action, "why": decision.why},
        "rpo_turns": spec.rpo_turns,
        "rto_s": spec.rto_s,
        "nodes": {region: _node(part, snapshot, region) for region in spec.nodes},
        "promotions": [entry.as_dict() for entry in entries],
    }
    if record is not None:
        left_s = part.observer.watch.lease.until - snapshot.now
        row |= {
            "epoch": record.epoch, "holder": record.holder, "stage": record.stage, "state": record.stage,
            "mode": record.mode, "renew_n": record.renew_n, "gseq": record.gseq, "by": record.by, "reason": record.reason,
            "possible_loss": record.possible_loss, "lease_left_s": round(max(0.0, left_s), 3),
        }  # fmt: skip
    return row


def _node(part: ShardParts, snapshot: Snapshot, region: str) -> dict[str, Any]:
    view: NodeView = snapshot.node(region)
    if view.fence is None or view.replication is None:
        return {"error": view.error}
    turns, seconds = part.observer.lag.of(snapshot.now, view.fence.gseq)
    return {
        "role": view.replication.role, "epoch": view.fence.epoch, "gseq": view.fence.gseq,
        "link_up": view.replication.link_up, "follows": view.replication.follows, "durable": view.replication.durable,
        "lag_turns": turns, "lag_s": round(seconds, 3), "error": "",
    }  # fmt: skip
