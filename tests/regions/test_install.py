"""Promotions over two real Redis servers, by what gateways of both regions do."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from regions.errors import SwapConflict
from regions.install import Install
from regions.sharded import Shard
from sessions.errors import SessionsError
from sessions.model import Event, SessionKey
from tests.regions.pair import AWAY, HOME, SHARD, Pair, until

KEY = SessionKey("shop", "ann", "s1")


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with Pair(tmp_path) as one:
        yield one


def shard_of(install: Install) -> Shard:
    return install.sessions.shards[SHARD]


async def opened(install: Install) -> None:
    """Until the shard takes writes, and the other store follows."""
    observer = install.parts[SHARD].observer

    def follows() -> bool:
        snapshot = observer.snapshot()
        record, other = snapshot.record, snapshot.node(AWAY)
        return (
            record is not None
            and record.stage == "open"
            and observer.watch.lease.holds(record.epoch, time.monotonic())
            and other.replication is not None
            and other.replication.link_up
            and other.fence is not None
            and other.fence.epoch == record.epoch
        )

    await until(follows)


class Load:
    """A writer that appends one event after the other, and remembers what was acknowledged when, and by which epoch."""

    def __init__(self, shard: Shard, key: SessionKey) -> None:
        self.shard, self.key = shard, key
        self.acknowledged: list[tuple[str, float, int]] = []
        self.errors: list[str] = []
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        n = 0
        while True:
            name = f"{self.key.session}-{n}"
            while True:
                try:
                    placed = await self.shard.append(self.key, (Event(name, b"{}"),), expected_version=None)
                except SessionsError as error:
                    self.errors.append(f"{type(error).__name__}: {error}")
                    await asyncio.sleep(0.01)
                    continue
                break
            now = time.monotonic()
            self.acknowledged.append((name, now, placed.epoch))
            n += 1
            await asyncio.sleep(0.002)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def ids(shard: Shard, key: SessionKey) -> list[str]:
    found: list[str] = []
    after = None
    while True:
        page = (await shard.read(key, after=after)).answer
        found += [one.event.event_id for one in page.events]
        if not page.more:
            return found
        after = page.events[-1].position


async def test_a_switchover_under_load_loses_nothing(pair: Pair) -> None:
    home, away = await pair.install(HOME), await pair.install(AWAY)
    await opened(home)
    await opened(away)
    await shard_of(home).create(KEY, write_id="w")
    load = Load(shard_of(home), KEY)
    await until(lambda: len(load.acknowledged) > 50)
    entry = await away.parts[SHARD].promoter.switchover(AWAY, by="ann", reason="drill")
    assert entry.done
    await until(lambda: any(epoch == 2 for _, _, epoch in load.acknowledged))
    await until(lambda: len(load.acknowledged) > 200)
    await load.stop()
    stored = await ids(shard_of(away), KEY)
    assert len(stored) == len(set(stored))
    assert {name for name, _, _ in load.acknowledged} <= set(stored)


async def test_a_killed_primary_is_replaced_by_the_other_region(pair: Pair) -> None:
    home, away = await pair.install(HOME), await pair.install(AWAY)
    await opened(home)
    await opened(away)
    await shard_of(home).create(KEY, write_id="w")
    load = Load(shard_of(away), KEY)
    await until(lambda: len(load.acknowledged) > 50)
    pair.servers[HOME].signal(signal.SIGSTOP)
    await until(lambda: any(epoch == 2 for _, _, epoch in load.acknowledged))
    pair.servers[HOME].signal(signal.SIGCONT)
    await until(lambda: any(told[1] == "exported" for told in pair.told))
    await load.stop()
    watch = home.parts[SHARD].observer.watch
    await until(lambda: watch.record is not None and not watch.record.possible_loss)
    stored = set(await ids(shard_of(away), KEY))
    exports = "".join(p.read_text() for p in (pair.folder / "exports").glob("*.jsonl"))
    missing = {name for name, _, _ in load.acknowledged} - stored
    assert all(f'"{name}"' in exports for name in missing)
    await until(
        lambda: (
            home.parts[SHARD].observer.snapshot().node(HOME).replication is not None
            and not home.parts[SHARD].observer.snapshot().node(HOME).is_primary
        )
    )


async def test_what_was_decided_from_a_record_that_is_over_changes_nothing(pair: Pair) -> None:
    """A store that is just revoked for a switchover looks like one whose clock went back, under the record from before."""
    home, away = await pair.install(HOME), await pair.install(AWAY, start=False)
    await opened(home)
    watch = home.parts[SHARD].observer.watch
    before = await watch.refresh()
    await away.parts[SHARD].promoter.switchover(AWAY, by="ann", reason="drill")
    promoter = home.parts[SHARD].promoter
    with pytest.raises(SwapConflict):
        await promoter.reopen("async", decided=before, by="bob", reason="its clock went back")
    with pytest.raises(SwapConflict):
        await promoter.failover(HOME, decided=before, by="bob", reason="it was restarted")
    with pytest.raises(SwapConflict):
        await promoter.resume(decided=before, by="bob")
    assert watch.record is not None
    assert (watch.record.epoch, watch.record.holder, watch.record.stage) == (2, AWAY, "open")
