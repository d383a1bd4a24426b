"""A node whose store is a Redis."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from urllib.parse import urlsplit

from regions.errors import NodeError
from regions.topology import NodeSpec, ShardSpec
from regions.views import Replication
from sessions.errors import SessionsError
from sessions.redis.store import RedisStore, Sync
from sessions.tail import Lost

_SAID = 500
"""Characters of what a command says that are told."""


class RedisNode:
    """See `regions.node.Node`. `spec` says of which shard; its `promote_command` takes the place of `REPLICAOF NO ONE`."""

    def __init__(self, spec: NodeSpec, shard: ShardSpec, store: RedisStore, sync_timeout_s: float = 1.0) -> None:
        self._spec, self._store = spec, store
        self._shard, self._sync_timeout_s = shard, sync_timeout_s

    @property
    def spec(self) -> NodeSpec:
        return self._spec

    @property
    def store(self) -> RedisStore:
        return self._store

    async def replication(self) -> Replication:
        status = await self.store.replication.status()
        return Replication(
            role=status.role,
            offset=status.offset,
            follows=status.upstream,
            link_up=status.link_up,
            replicas=len(status.replicas),
            durable=status.aof,
            empty=status.empty,
        )

    async def promote(self) -> None:
        try:
            if (await self.store.replication.status()).role == "primary":
                return
            if self._shard.promote_command is not None:
                await self._run(self._shard.promote_command)
            else:
                await self.store.replication.promote()
            await self.store.drop_connections()
        except SessionsError as error:
            raise NodeError(f"the store in {self.spec.region} could not be made a primary: {error}") from error

    async def follow(self, other: NodeSpec) -> None:
        at = urlsplit(other.url)
        if at.scheme not in ("redis", "rediss") or not at.hostname:
            raise NodeError(
                f"the store in {self.spec.region} cannot be told to follow {other.region} by its URL: have it follow by hand"
            )
        try:
            await self.store.replication.follow(at.hostname, at.port or 6379)
            await self.store.drop_connections()
        except SessionsError as error:
            raise NodeError(f"the store in {self.spec.region} cannot follow {other.region}: {error}") from error

    def confirm(self, replicas: int) -> None:
        self.store.use_sync(Sync(replicas, self._sync_timeout_s) if replicas else None)

    def tail(self, above_gseq: int) -> AsyncIterator[Lost]:
        return self.store.tail(above_gseq)

    async def forget_connections(self) -> None:
        await self.store.drop_connections()

    async def close(self) -> None:
        await self.store.close()

    async def _run(self, command: tuple[str, ...]) -> None:
        """The operator's own step. It is ended, with all that it has started, when it takes too long or nobody waits."""
        environ = {**os.environ, "STANCHION_SHARD": self._shard.name, "STANCHION_REGION": self.spec.region}
        try:
            process = await asyncio.create_subprocess_exec(
                *command, env=environ, start_new_session=True,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
        except OSError as error:
            raise NodeError(f"promote.command cannot be run ({error.strerror}): {command[0]}") from error
        try:
            async with asyncio.timeout(self._shard.promote_timeout_s):
                _, said = await process.communicate()
        except TimeoutError:
            raise NodeError(
                f"promote.command did not end within {self._shard.promote_timeout_s:g} s: {command[0]}"
            ) from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode != 0:
            text = said.decode("utf-8", "replace").strip()[-_SAID:]
            raise NodeError(f"promote.command ended with {process.returncode}: {text or command[0]}")
