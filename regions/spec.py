"""What the settings say of sessions and of their authority, every default applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from regions.policy import AuthorityPolicy, LimitsPolicy, SessionsPolicy, ShardPolicy
from regions.topology import DEFAULT_PLACEMENT, NodeSpec, ShardSpec
from sessions.limits import Limits

LOCAL_SHARD = "local"
"""The one shard of a SQLite file."""

_RENEWALS = 4
"""A lease is renewed so many times before it would end."""


@dataclass(frozen=True, slots=True)
class AuthoritySpec:
    """Secrets are never shown."""

    backend: str
    endpoints: tuple[str, ...] = ()
    url: str = field(default="", repr=False)
    path: str = ""
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    prefix: str = "stanchion/"
    timeout_s: float = 2.0


@dataclass(frozen=True, slots=True)
class SessionsSpec:
    """`shards` is empty for a SQLite file. `placements`: for each its shards."""

    backend: str
    path: str
    shards: tuple[ShardSpec, ...]
    placements: Mapping[str, tuple[str, ...]]
    retention_s: float | None
    limits: Limits
    exports: str


def authority_spec(policy: AuthorityPolicy) -> AuthoritySpec:
    return AuthoritySpec(
        backend=policy.backend,
        endpoints=policy.endpoints or (),
        url=policy.url.get_secret_value() if policy.url is not None else "",
        path=policy.path or "",
        username=policy.username,
        password=policy.password.get_secret_value() if policy.password is not None else None,
        ca_file=policy.ca_file,
        prefix=policy.prefix,
        timeout_s=policy.timeout,
    )


def sessions_spec(policy: SessionsPolicy) -> SessionsSpec:
    shards = tuple(_shard(one) for one in policy.shards or ())
    names = tuple(shard.name for shard in shards) or (LOCAL_SHARD,)
    placements = {DEFAULT_PLACEMENT: names, **{name: one.shards for name, one in policy.placements.items()}}
    return SessionsSpec(
        policy.backend, policy.path, shards, placements, policy.retention, _limits(policy.limits), policy.exports
    )


def _shard(policy: ShardPolicy) -> ShardSpec:
    promote = policy.promote
    return ShardSpec(
        name=policy.name,
        home=policy.home,
        nodes={region: NodeSpec(region, url.get_secret_value()) for region, url in policy.nodes.items()},
        sync=policy.replication == "sync",
        lease_s=policy.lease,
        renew_s=policy.lease / _RENEWALS if policy.renew is None else policy.renew,
        rpo_turns=policy.rpo.turns if policy.rpo is not None else None,
        rto_s=policy.rto,
        automatic=policy.failover == "automatic",
        quiet_s=policy.quiet,
        may_degrade=policy.peer_loss == "degrade",
        promote_command=promote.command if promote is not None else None,
        promote_timeout_s=promote.timeout if promote is not None else 60.0,
    )


def _limits(policy: LimitsPolicy) -> Limits:
    return Limits(
        event_bytes=policy.event,
        append_bytes=policy.append,
        session_bytes=policy.session,
        session_events=policy.events,
        state_bytes=policy.state,
    )
