"""`LocalShard`: the one shard of a gateway that keeps its sessions in a SQLite file."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from regions.sharded import Placed
from regions.topology import ShardSpec
from sessions.errors import FenceRefused, OpenRefused, StoreUnavailable
from sessions.model import (
    Appended,
    Committed,
    Created,
    Deleted,
    Event,
    Listing,
    Page,
    Position,
    SessionInfo,
    SessionKey,
    State,
)
from sessions.sqlite.store import SqliteStore

T = TypeVar("T")


class LocalShard:
    """See `regions.sharded.Shard`. The file is opened, and made, when it is first asked for.

    Nobody else can take the file over, so no authority is needed: it is granted to itself, and again where its grant does not
    hold any more, since it was copied or its clock went back. `opened` hears of the store.
    """

    def __init__(
        self,
        spec: ShardSpec,
        open_store: Callable[[], Awaitable[SqliteStore]],
        opened: Callable[[SqliteStore], None] = lambda store: None,
    ) -> None:
        self._spec, self._open_store, self._told = spec, open_store, opened
        self._opening = asyncio.Lock()
        self._store: SqliteStore | None = None
        self._epoch = 0

    @property
    def spec(self) -> ShardSpec:
        return self._spec

    @property
    def retry_after_s(self) -> float:
        return 1.0

    def closed_because(self) -> str:
        return ""

    async def create(
        self, key: SessionKey, *, write_id: str, state: Mapping[str, object] | None = None
    ) -> Placed[Created]:
        return await self._write(lambda store, epoch: store.create(key, epoch=epoch, write_id=write_id, state=state))

    async def append(
        self,
        key: SessionKey,
        events: Sequence[Event],
        *,
        expected_version: int | None,
        state: Mapping[str, object] | None = None,
    ) -> Placed[Appended]:
        return await self._write(
            lambda store, epoch: store.append(key, events, epoch=epoch, expected_version=expected_version, state=state)
        )

    async def delete(self, key: SessionKey) -> Placed[Deleted]:
        return await self._write(lambda store, epoch: store.delete(key, epoch=epoch))

    async def expire(self, *, idle_before_ms: int, limit: int = 100) -> Placed[tuple[SessionKey, ...]]:
        return await self._write(
            lambda store, epoch: store.expire(epoch=epoch, idle_before_ms=idle_before_ms, limit=limit)
        )

    async def info(self, key: SessionKey, *, stale: bool = False) -> Placed[SessionInfo]:
        return await self._read(lambda store: store.info(key))

    async def read(
        self,
        key: SessionKey,
        *,
        after: Position | None = None,
        until: Position | None = None,
        limit: int | None = None,
        newest: bool = False,
        stale: bool = False,
    ) -> Placed[Page]:
        return await self._read(lambda store: store.read(key, after=after, until=until, limit=limit, newest=newest))

    async def state(self, key: SessionKey, *, stale: bool = False) -> Placed[State]:
        return await self._read(lambda store: store.state(key))

    async def shared_state(self, app: str, user: str, *, stale: bool = False) -> Placed[State]:
        return await self._read(lambda store: store.shared_state(app, user))

    async def list_sessions(
        self,
        app: str,
        *,
        user: str | None = None,
        after: SessionKey | None = None,
        limit: int = 100,
        stale: bool = False,
    ) -> Placed[Listing]:
        return await self._read(lambda store: store.list_sessions(app, user=user, after=after, limit=limit))

    async def lookup(self, key: SessionKey, event_id: str) -> Placed[Committed | None]:
        return await self._read(lambda store: store.lookup(key, event_id))

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()

    async def _write(self, write: Callable[[SqliteStore, int], Awaitable[T]]) -> Placed[T]:
        store = await self._opened()
        try:
            answer = await write(store, self._epoch)
        except FenceRefused:
            self._epoch = (await store.take()).epoch
            answer = await write(store, self._epoch)
        return self._placed(answer)

    async def _read(self, read: Callable[[SqliteStore], Awaitable[T]]) -> Placed[T]:
        store = await self._opened()
        try:
            answer = await read(store)
        except FenceRefused:
            self._epoch = (await store.take()).epoch
            answer = await read(store)
        return self._placed(answer)

    def _placed(self, answer: T) -> Placed[T]:
        return Placed(answer, self._spec.name, self._spec.home, self._epoch)

    async def _opened(self) -> SqliteStore:
        if self._store is None:
            async with self._opening:
                if self._store is None:
                    try:
                        store = await self._open_store()
                    except OpenRefused as error:
                        raise StoreUnavailable(f"the sessions' file cannot be used: {error}") from error
                    try:
                        self._epoch = (await store.take()).epoch
                    except BaseException:
                        await store.close()
                        raise
                    self._store = store
                    self._told(store)
        return self._store
