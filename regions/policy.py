"""The settings of regions, of the authority and of sessions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from stanchion.model import Policy
from stanchion.units import Count, Duration, Size


class RegionPolicy(Policy):
    """One region. Its name is the key it stands under; it has no settings of its own yet."""


class AuthorityPolicy(Policy):
    """The third place that decides which store is a shard's primary."""

    backend: Literal["etcd", "redis", "sqlite"]
    endpoints: tuple[str, ...] | None = Field(None, min_length=1, description="The client URLs of etcd's members.")
    url: SecretStr | None = Field(None, description="A Redis of its own, with appendfsync always and no replica.")
    path: str | None = Field(None, description="A SQLite file, for gateways on one machine.")
    username: str | None = None
    password: SecretStr | None = None
    ca_file: str | None = Field(None, description="Certificates, in PEM, that etcd's certificate has to lead to.")
    prefix: str = Field("stanchion/", pattern=r"^[A-Za-z0-9._:/-]{1,64}$", description="Before the names of registers.")
    timeout: Duration = Field(2.0, gt=0, le=30)


class RpoPolicy(Policy):
    """What a promotion may lose without being forced."""

    turns: Count = Field(0, description="Acknowledged writes that may be missing at the new primary.")


class PromotePolicy(Policy):
    """The operator's own step in place of `REPLICAOF`, for stores that forbid it."""

    command: tuple[str, ...] = Field(min_length=1, description="A program and its arguments; it has to be repeatable.")
    timeout: Duration = Field(60.0, gt=0)


class ShardPolicy(Policy):
    """The sessions of one home region: a primary there, replicas in other regions."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")
    home: str
    nodes: dict[str, SecretStr] = Field(min_length=1, description="For each region the URL of its Redis.")
    replication: Literal["async", "sync"] = "async"
    lease: Duration = Field(6.0, ge=0.5, le=60)
    renew: Duration | None = Field(
        None, gt=0, description="How often the lease is renewed; a quarter of it if not written."
    )
    rpo: RpoPolicy | None = Field(
        None, description="Without it every promotion that may lose something has to be forced."
    )
    rto: Duration | None = Field(
        None, gt=0, description="How long the shard may be without a primary; for alerts and drills."
    )
    failover: Literal["automatic", "manual"] = Field("automatic", description="Who promotes when the primary is lost.")
    quiet: Duration = Field(60.0, description="After a promotion, how long none begins by itself.")
    peer_loss: Literal["refuse", "degrade"] = Field(
        "refuse", description="What a sync shard does without its peer: take no writes, or record that it is degraded."
    )
    promote: PromotePolicy | None = None


class PlacementPolicy(Policy):
    """Which shards may hold the sessions of a caller."""

    shards: tuple[str, ...] = Field(min_length=1)


class LimitsPolicy(Policy):
    """How much a session may hold. What is over a limit is refused; nothing is cut off or dropped."""

    event: Size = Field(4_000_000, gt=0)
    append: Size = Field(16_000_000, gt=0)
    session: Size = Field(256_000_000, gt=0)
    events: Count = Field(100_000, gt=0)
    state: Size = Field(1_000_000, gt=0)


class SessionsPolicy(Policy):
    """Where sessions are kept."""

    backend: Literal["sqlite", "redis"] = "sqlite"
    path: str = Field("stanchion.db", min_length=1, description="The SQLite file.")
    shards: tuple[ShardPolicy, ...] | None = Field(None, min_length=1)
    placements: dict[str, PlacementPolicy] = Field(default_factory=dict)
    retention: Duration | None = Field(
        None, gt=0, description="A session idle for longer is deleted; kept if not written."
    )
    limits: LimitsPolicy = Field(default_factory=LimitsPolicy)
    exports: str = Field("exports", min_length=1, description="The folder for what a promotion lost.")
