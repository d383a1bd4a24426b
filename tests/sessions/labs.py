"""A store of each kind whose time the test moves, and what tests say often."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from sessions.limits import Limits
from sessions.model import Appended, Created, Event, Granted, Position, SessionKey
from sessions.redis.keys import Keys
from sessions.redis.script import SOURCE
from sessions.redis.store import RedisStore
from sessions.sqlite.store import SqliteStore
from sessions.store import SessionStore
from tests.fakes.clock import ManualClock
from tests.sessions.redis_server import RedisServer

KEY = SessionKey("shop", "ann", "s1")
OTHER = SessionKey("shop", "ann", "s2")
LEASE_MS = 30_000


class SteppedClock(ManualClock):
    """A clock whose wall can be set, as an operator or a time server does."""

    def step_wall(self, seconds: float) -> None:
        self._wall_offset += seconds


class Lab(Protocol):
    """One shard's store, and hands on its time. `clock` is the writer's."""

    clock: SteppedClock

    @property
    def store(self) -> SessionStore: ...

    async def another(self) -> SessionStore:
        """A second client of the same store, as another gateway has it."""

    async def move(self, ms: int) -> None:
        """Move the store's time, backwards too."""

    async def new_identity(self) -> None:
        """What a restart, a promotion or a copy does: the store is another one now."""

    async def close(self) -> None: ...


class SqliteLab:
    """A file in a folder of the test's."""

    def __init__(self, path: Path, clock: SteppedClock, store: SqliteStore, limits: Limits) -> None:
        self.path, self.clock, self.limits = path, clock, limits
        self.store: SqliteStore = store
        self._opened = [store]

    @classmethod
    async def open(cls, folder: Path, limits: Limits) -> SqliteLab:
        clock = SteppedClock()
        path = folder / "sessions.db"
        return cls(path, clock, await SqliteStore.open(path, clock=clock, limits=limits), limits)

    async def another(self) -> SqliteStore:
        store = await SqliteStore.open(self.path, clock=self.clock, limits=self.limits)
        self._opened.append(store)
        return store

    async def move(self, ms: int) -> None:
        self.clock.step_wall(ms / 1000)

    async def new_identity(self) -> None:
        for store in self._opened:
            await store.close()
        copy = self.path.with_suffix(".copy")
        copy.write_bytes(self.path.read_bytes())
        copy.replace(self.path)
        self.store = await self.another()

    async def close(self) -> None:
        for store in self._opened:
            await store.close()


TEST_TIME = SOURCE.replace(
    "local time = redis.call('TIME')",
    "local test = redis.call('GET', keys[1] .. ':time'); local time = {math.floor(test / 1000), (test % 1000) * 1000}",
)
"""The library with a time that the test writes, under its fence's key."""

assert TEST_TIME != SOURCE


class RedisLab:
    """A shard of its own in the tests' server."""

    def __init__(self, server: RedisServer, url: str, shard: str, limits: Limits) -> None:
        self.server, self.url, self.shard, self.limits = server, url, shard, limits
        self.clock = SteppedClock()
        self._time_key = f"{Keys(shard).fence}:time"
        self._time_ms = 1_800_000_000_000
        self._opened: list[RedisStore] = []
        self.store: RedisStore = self._open()

    @classmethod
    async def open(cls, server: RedisServer, shard: str, limits: Limits, *, functions: bool = True) -> RedisLab:
        """Without `functions` as a user who may not use them, whom scripts serve in their place."""
        url = server.url
        if not functions:
            rules = ("on", ">pw", "~*", "+@all", "-function", "-fcall", "-fcall_ro")
            await server.command("ACL", "SETUSER", "scripts", *rules)
            url = url.replace("//", "//scripts:pw@")
        lab = cls(server, url, shard, limits)
        await lab.move(0)
        await lab.store.fence()
        assert lab.store.uses_functions is functions
        return lab

    def _open(self) -> RedisStore:
        store = RedisStore(
            self.url, shard=self.shard, now=lambda: self.clock.now(), limits=self.limits, source=TEST_TIME
        )
        self._opened.append(store)
        return store

    async def another(self) -> RedisStore:
        return self._open()

    async def move(self, ms: int) -> None:
        self._time_ms += ms
        await self.server.command("SET", self._time_key, self._time_ms)

    async def new_identity(self) -> None:
        await self.server.command("DEBUG", "CHANGE-REPL-ID")

    async def close(self) -> None:
        for store in self._opened:
            await store.close()


async def granted(store: SessionStore, epoch: int = 1, lease_ms: int = LEASE_MS) -> Granted:
    """Grant the store an epoch, as its lease agent does."""
    fence = await store.fence()
    return await store.grant(epoch, fence.identity, fence.now_ms + lease_ms)


def events(*ids: str, body: bytes = b"{}") -> tuple[Event, ...]:
    return tuple(Event(one, body) for one in ids)


async def create(store: SessionStore, key: SessionKey = KEY, epoch: int = 1) -> Created:
    return await store.create(key, epoch=epoch, write_id=f"make-{key.session}")


async def append(
    store: SessionStore, *ids: str, expected: int | None = None, epoch: int = 1, key: SessionKey = KEY
) -> Appended:
    return await store.append(key, events(*ids), epoch=epoch, expected_version=expected)


async def stored_ids(store: SessionStore, key: SessionKey = KEY) -> list[str]:
    page = await store.read(key)
    assert not page.more
    assert dense([stored.position for stored in page.events])
    return [stored.event.event_id for stored in page.events]


def dense(positions: Sequence[Position]) -> bool:
    """Whether sequence numbers have no gap and epochs never fall."""
    pairs = list(pairwise(positions))
    return all(b.seq == a.seq + 1 and b.epoch >= a.epoch for a, b in pairs)
