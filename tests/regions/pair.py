"""Two regions with a real Redis each, one following the other, and gateways' parts over them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from regions.authority.base import Authority
from regions.crash import CrashPoint, nowhere
from regions.install import Install
from regions.node import Node
from regions.redis_node import RedisNode
from regions.topology import NodeSpec, ShardSpec
from sessions.redis.store import RedisStore, Timing
from stanchion.clock import SystemClock
from tests.fakes.authority import MemoryAuthority
from tests.sessions.redis_server import RedisServer

HOME, AWAY = "eu-west", "us-east"
SHARD = "eu"


class Pair:
    """Redis servers of two regions. The one of `AWAY` follows. `install` makes what a gateway of a region has."""

    def __init__(self, folder: Path, *, authority: Authority | None = None, **shard: object) -> None:
        self.authority = authority or MemoryAuthority()
        self.folder = folder
        self.servers: dict[str, RedisServer] = {}
        self.told: list[tuple[str, str, str]] = []
        self._shard = shard
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for region in (HOME, AWAY):
            place = self.folder / region
            place.mkdir()
            self.servers[region] = self._stack.enter_context(
                RedisServer(place, "appendonly yes", "appendfsync everysec")
            )
        await self.servers[AWAY].command("REPLICAOF", "127.0.0.1", self.servers[HOME].port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def spec(self) -> ShardSpec:
        nodes = {region: NodeSpec(region, server.url) for region, server in self.servers.items()}
        values: dict[str, object] = {
            "lease_s": 1.0,
            "renew_s": 0.25,
            "rpo_turns": 10_000,
            "quiet_s": 0.0,
            **self._shard,
        }
        return ShardSpec(SHARD, HOME, nodes, **values)  # type: ignore[arg-type]

    async def install(self, own: str, *, crash: CrashPoint = nowhere, start: bool = True) -> Install:
        """The shards as a gateway of `own` has them; closed with the pair."""
        spec = self.spec
        nodes: dict[str, Node] = {region: self._node(spec, region) for region in spec.nodes}
        install = Install(
            own, {SHARD: spec}, {SHARD: nodes}, self.authority, {"default": (SHARD,)}, {},
            clock=SystemClock(), now=time.monotonic, name=f"gateway-{own}", exports=self.folder / "exports",
            told=lambda *said: self.told.append(said), crash=crash,
        )  # fmt: skip
        self._stack.push_async_callback(install.close)
        if start:
            install.start()
        return install

    def _node(self, spec: ShardSpec, region: str) -> RedisNode:
        timing = Timing(timeout_s=0.5, connect_timeout_s=0.5)
        store = RedisStore(spec.nodes[region].url, shard=SHARD, now=time.monotonic, timing=timing)
        return RedisNode(spec.nodes[region], spec, store)


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait for what others do in their own time."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
