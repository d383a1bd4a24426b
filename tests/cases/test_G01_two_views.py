"""G01: two routers with different views promote two different stores at the same time."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from regions.errors import RegionsError
from regions.journal import Entry
from sessions.errors import StoreUnavailable
from sessions.model import Event, SessionKey
from tests.regions.pair import AWAY, HOME, SHARD, Pair, until
from tests.regions.test_install import opened, shard_of

KEY = SessionKey("shop", "ann", "s1")


async def test_G01_of_two_promotions_at_once_one_succeeds_and_the_other_is_told(tmp_path: Path) -> None:
    async with Pair(tmp_path, automatic=False) as pair:
        home, away = await pair.install(HOME), await pair.install(AWAY)
        await opened(home)
        await opened(away)
        await shard_of(home).create(KEY, write_id="w")
        both = await asyncio.gather(
            home.parts[SHARD].promoter.failover(HOME, by="r1", reason="G01", force=True),
            away.parts[SHARD].promoter.failover(AWAY, by="r2", reason="G01", force=True),
            return_exceptions=True,
        )
        won = [one for one in both if isinstance(one, Entry)]
        told = [one for one in both if isinstance(one, RegionsError)]
        assert (len(won), len(told)) == (1, 1), both
        assert won[0].epoch == 2
        record = away.parts[SHARD].observer.watch.record
        assert record is not None
        assert (record.epoch, record.holder, record.by) == (2, won[0].to, won[0].by)

        winner, loser = (home, away) if won[0].to == HOME else (away, home)
        await until(lambda: not shard_of(winner).closed_because())
        await until(lambda: not shard_of(loser).closed_because())
        for number, install in enumerate((winner, loser)):
            placed = await shard_of(install).append(KEY, (Event(f"e{number}", b"{}"),), expected_version=None)
            assert (placed.epoch, placed.region) == (2, won[0].to)


async def test_G01_without_a_majority_nothing_is_promoted_and_stale_reads_go_on(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        home, away = await pair.install(HOME), await pair.install(AWAY)
        await opened(home)
        await opened(away)
        shard = shard_of(away)
        await shard_of(home).create(KEY, write_id="w")
        observer = away.parts[SHARD].observer
        await until(lambda: observer.snapshot().node(AWAY).gseq == observer.snapshot().node(HOME).gseq)
        pair.authority.away = True  # type: ignore[attr-defined]
        pair.servers[HOME].signal(signal.SIGKILL)
        await until(shard.closed_because)
        with pytest.raises(RegionsError):
            await away.parts[SHARD].promoter.failover(AWAY, by="ann", reason="G01", force=True)
        with pytest.raises(StoreUnavailable):
            await shard.append(KEY, (Event("e", b"{}"),), expected_version=None)
        assert shard.retry_after_s > 0
        read = await shard.info(KEY, stale=True)
        assert (read.stale, read.region, read.answer.key) == (True, AWAY, KEY)
        await until(lambda: away.parts[SHARD].keeper.decision.action == "wait")
