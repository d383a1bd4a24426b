"""Snapshots of a shard in a few words."""

from __future__ import annotations

from dataclasses import replace

from regions.lease import fence_wait_s
from regions.record import ShardRecord
from regions.topology import NodeSpec, ShardSpec
from regions.views import PARKED, NodeView, RegisterView, Replication, Snapshot
from sessions.model import Fence

A, B, C = "eu-west", "us-east", "ap-south"
WALL = 1_800_000_000.0
LOST_S = fence_wait_s(6.0)
"""The register unchanged for so long: whoever held the shard does not any more."""


def spec(*regions: str, **values: object) -> ShardSpec:
    nodes = {region: NodeSpec(region, f"redis://{region}:6379/0") for region in (regions or (A, B))}
    return ShardSpec("eu", A, nodes, **{"rpo_turns": 0, "quiet_s": 0.0, **values})  # type: ignore[arg-type]


def record(**values: object) -> ShardRecord:
    """Epoch 1 of the store `a`, at 1000 writes."""
    return replace(ShardRecord(1, A, "a", gseq=1000, at=WALL - 1000), **values)  # type: ignore[arg-type]


def fence(identity: str, gseq: int = 1000, **values: object) -> Fence:
    """Of a store that was granted, or has replicated, epoch 1 of `a`."""
    return replace(Fence(identity, "a", 1, 0, False, 0, gseq, 0, 0), **values)  # type: ignore[arg-type]


def primary(region: str = A, identity: str = "a", gseq: int = 1000, **values: object) -> NodeView:
    return NodeView(region, 0.0, 0.0, fence(identity, gseq, **values), Replication("primary", 0))


def replica(region: str = B, gseq: int = 1000, *, link_up: bool = True, **values: object) -> NodeView:
    seen = Replication("replica", 0, follows=f"{A}:6379", link_up=link_up)
    return NodeView(region, 0.0, 0.0, fence(region, gseq, **values), seen)


def parked(region: str, identity: str, gseq: int = 1000, *, empty: bool = False, **values: object) -> NodeView:
    seen = Replication("replica", 0, follows=PARKED, link_up=False, empty=empty)
    return NodeView(region, 0.0, 0.0, fence(identity, gseq, **values), seen)


def away(region: str) -> NodeView:
    return NodeView(region, 0.0, 0.0, error="no connection")


def snapshot(
    own: str, *nodes: NodeView, shard: ShardSpec | None = None, now: ShardRecord | None = None, unchanged_s: float = 0.0
) -> Snapshot:
    """As the gateway of `own` sees it."""
    register = RegisterView(now or record(), "7", 0.0, unchanged_s)
    return Snapshot(shard or spec(), own, 0.0, WALL, register, {node.region: node for node in nodes})


def unwritten(own: str, *nodes: NodeView, shard: ShardSpec | None = None) -> Snapshot:
    """Of a shard without a record."""
    register = RegisterView(None, None, 0.0)
    return Snapshot(shard or spec(), own, 0.0, WALL, register, {node.region: node for node in nodes})
