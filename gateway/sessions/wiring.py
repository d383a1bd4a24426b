"""The shards of the settings, put together for one gateway."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gateway.log import Log
from gateway.settings.model import Settings
from regions.authority.base import Authority
from regions.authority.opening import OpenedLater
from regions.authority.redis import RedisAuthority
from regions.crash import CrashPoint
from regions.install import Install
from regions.local import LocalShard
from regions.node import Node
from regions.redis_node import RedisNode
from regions.sharded import Sessions
from regions.spec import LOCAL_SHARD, SessionsSpec
from regions.topology import NodeSpec, ShardSpec, even_map
from sessions.redis.store import RedisStore, Timing
from sessions.sqlite.store import SqliteStore
from stanchion.clock import Clock

_LEVELS = {
    "nothing": "info",
    "renew": "info",
    "bootstrap": "info",
    "exported": "info",
    "follow": "info",
    "mode": "info",
}
"""What is told of a shard is a warning, but for these."""


@dataclass(frozen=True, slots=True)
class SessionParts:
    """`install` is None where the sessions are in a file."""

    sessions: Sessions
    install: Install | None

    def start(self) -> None:
        if self.install is not None:
            self.install.start()

    async def close(self) -> None:
        await self.sessions.close()
        if self.install is not None:
            await self.install.close()


def build_sessions(
    settings: Settings, log: Log, clock: Clock, boot: Callable[[], float], crash: CrashPoint
) -> SessionParts:
    """`boot`: a clock that is not set and counts while the machine sleeps. Nothing is asked before `start`."""
    spec, own = settings.sessions, settings.gateway.region
    if spec.backend == "sqlite":
        return SessionParts(_local(spec, own, log, clock), None)
    shards = {shard.name: shard for shard in spec.shards}
    nodes = {shard.name: _nodes(shard, spec, boot) for shard in spec.shards}

    def told(shard: str, action: str, sentence: str) -> None:
        log.event(_LEVELS.get(action, "warning"), "shard", shard=shard or None, action=action, message=sentence)

    install = Install(
        own, shards, nodes, _authority(settings, spec.shards), spec.placements,
        {caller.name: caller.placement for caller in settings.callers},
        clock=clock, now=boot, name=gateway_name(own), exports=Path(spec.exports), told=told, crash=crash,
    )  # fmt: skip
    return SessionParts(install.sessions, install)


def gateway_name(region: str) -> str:
    return f"{region}/{socket.gethostname()}/{os.getpid()}"


def boot_clock() -> float:
    """Seconds since the machine was started, with those that it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def _local(spec: SessionsSpec, own: str, log: Log, clock: Clock) -> Sessions:
    def opened(store: SqliteStore) -> None:
        if store.bound.copied_from:
            message = "the sessions' file was copied or moved from another disk: it goes on as a store of its own"
            log.event("warning", "sessions", path=spec.path, message=message)
        log.event("info", "sessions", path=spec.path, created=store.bound.created)

    async def open_store() -> SqliteStore:
        return await SqliteStore.open(Path(spec.path), clock=clock, limits=spec.limits)

    shard = LocalShard(ShardSpec(LOCAL_SHARD, own, {}), open_store, opened)
    maps = {name: even_map(name, (LOCAL_SHARD,)) for name in spec.placements}
    return Sessions({LOCAL_SHARD: shard}, maps)


def _nodes(shard: ShardSpec, spec: SessionsSpec, boot: Callable[[], float]) -> dict[str, Node]:
    return {region: _node(node, shard, spec, boot) for region, node in shard.nodes.items()}


def _node(node: NodeSpec, shard: ShardSpec, spec: SessionsSpec, boot: Callable[[], float]) -> RedisNode:
    timeout_s = min(2.0, shard.lease_s / 2)
    timing = Timing(timeout_s=timeout_s, connect_timeout_s=timeout_s)
    return RedisNode(node, shard, RedisStore(node.url, shard=shard.name, now=boot, limits=spec.limits, timing=timing))


def _authority(settings: Settings, shards: tuple[ShardSpec, ...]) -> Authority:
    """The one of the settings; without, a register in the one store that there is, since nothing can take its place."""
    if settings.authority is not None:
        return OpenedLater(settings.authority)
    only = shards[0]
    return RedisAuthority(only.nodes[only.home].url, prefix="stanchion-register/", durable=False)
