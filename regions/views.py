"""What is known of a shard at one moment: the snapshot that every decision is made from, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from regions.record import ShardRecord
from regions.topology import ShardSpec
from sessions.model import Fence


@dataclass(frozen=True, slots=True)
class Replication:
    """A store's replication. `follows`: the address that a replica follows, empty at a primary. `link_up`: whether it does
    so now. `replicas`: how many follow it. `durable`: writes are put into a file. `empty`: it holds nothing at all.

    `parked`: it follows an address at which nobody can be (`PARKED`), as its own settings have it do after a start. Then it has
    its data, takes no writes, and gives no replica a copy: one that has come back empty cannot empty those that follow it."""

    role: Literal["primary", "replica"]
    offset: int
    follows: str = ""
    link_up: bool = True
    replicas: int = 0
    durable: bool = True
    empty: bool = False

    @property
    def parked(self) -> bool:
        return self.role == "replica" and self.follows == PARKED


PARKED = "127.0.0.1:1"
"""`replicaof 127.0.0.1 1` in a store's own settings."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """One store, as it was between `asked_at` and `seen_at` by the observer's clock. `error`: why it could not be asked."""

    region: str
    asked_at: float
    seen_at: float
    fence: Fence | None = None
    replication: Replication | None = None
    error: str = ""

    @property
    def gseq(self) -> int | None:
        return None if self.fence is None else self.fence.gseq

    @property
    def is_primary(self) -> bool:
        return self.replication is not None and self.replication.role == "primary"

    @property
    def follows_nobody(self) -> bool:
        """It is a primary, or waits for somebody to say what it is to be."""
        return self.is_primary or (self.replication is not None and self.replication.parked)


@dataclass(frozen=True, slots=True)
class RegisterView:
    """The shard's register, as a read that began at `began` found it. `record` None: it was never written.

    `unchanged_s`: how long it is known not to have changed, without a gap in the reading. Two reads that found the same
    revision know it of the time between the end of the first and the beginning of the second: in between it was read, and
    nobody writes a revision twice.
    """

    record: ShardRecord | None
    revision: str | None
    began: float
    unchanged_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a decision about a shard is made from. `own`: the region of who decides. `now`: its clock's."""

    spec: ShardSpec
    own: str
    now: float
    wall: float
    register: RegisterView | None
    nodes: Mapping[str, NodeView]
    authority_error: str = ""

    @property
    def record(self) -> ShardRecord | None:
        return None if self.register is None else self.register.record

    def node(self, region: str) -> NodeView:
        """The node's view; one that says so where it was not asked."""
        return self.nodes.get(region) or NodeView(region, self.now, self.now, error="it was not asked")
