"""G03: a replica that lags is promoted, and acknowledged turns vanish without a trace.

The primary's last acknowledged write is number 1000; the replicas are at 940 and at 998.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from regions.decide import decide
from regions.errors import PromotionRefused
from regions.plan import failed_over, plan_failover
from sessions.errors import StoreUnavailable
from sessions.model import Event, SessionKey
from tests.regions.making import LOST_S, A, B, C, away, replica, snapshot, spec
from tests.regions.pair import AWAY, HOME, SHARD, Pair, until
from tests.regions.test_install import ids, opened, shard_of

LAGGING, NEAR = replica(B, 940), replica(C, 998)


@pytest.mark.parametrize("own", [B, C])
def test_G03_a_no_loss_is_allowed_so_nothing_is_promoted(own: str) -> None:
    seen = snapshot(own, away(A), LAGGING, NEAR, shard=spec(A, B, C, rpo_turns=0), unchanged_s=LOST_S)
    decision = decide(seen, LOST_S)
    assert decision.action == "wait"
    if own == C:
        assert "at 998 of 1000" in decision.why


def test_G03_b_the_nearer_one_takes_over_and_the_loss_is_recorded() -> None:
    shard = spec(A, B, C, rpo_turns=10)
    seen = snapshot(C, away(A), LAGGING, NEAR, shard=shard, unchanged_s=LOST_S)
    decision = decide(seen, LOST_S)
    assert decision.action == "failover"
    assert decision.candidate is not None
    assert (decision.candidate.region, decision.candidate.loss) == (C, 2)
    assert decide(snapshot(B, away(A), LAGGING, NEAR, shard=shard, unchanged_s=LOST_S), LOST_S).action == "wait"
    plan = plan_failover(seen, C, lost=A)
    assert seen.record is not None
    after = failed_over(seen, seen.record, plan, by="keeper", reason="lost", wall=0.0)
    assert after.possible_loss
    (loss,) = after.losses
    assert (loss.epoch, loss.region, loss.identity, loss.exported) == (1, A, "a", False)


def test_G03_c_a_loss_over_the_bound_has_to_be_forced() -> None:
    seen = snapshot(B, away(A), LAGGING, away(C), shard=spec(A, B, C, rpo_turns=10), unchanged_s=LOST_S)
    assert decide(seen, LOST_S).action == "wait"
    with pytest.raises(PromotionRefused, match="60"):
        plan_failover(seen, B)
    assert plan_failover(seen, B, force=True).loss == 60


def test_G03_what_a_replica_believes_does_not_count() -> None:
    """The position is compared with the last acknowledged one that the authority has, not with anything of the replica's."""
    alone = snapshot(B, away(A), LAGGING, shard=spec(A, B, rpo_turns=59), unchanged_s=LOST_S)
    assert decide(alone, LOST_S).action == "wait"


async def test_G03_lost_turns_are_counted_and_their_sessions_say_so(tmp_path: Path) -> None:
    """Real stores: the replica is cut off, then promoted by force; the old primary's tail is exported when it is back."""
    key = SessionKey("shop", "ann", "s1")
    async with Pair(tmp_path, automatic=False) as pair:
        home, away_ = await pair.install(HOME), await pair.install(AWAY)
        await opened(home)
        await opened(away_)
        shard = shard_of(home)
        await shard.create(key, write_id="w")
        for number in range(5):
            await shard.append(key, (Event(f"kept-{number}", b"{}"),), expected_version=None)
        observer = home.parts[SHARD].observer
        await until(lambda: observer.snapshot().node(AWAY).gseq == observer.snapshot().node(HOME).gseq)
        await pair.servers[AWAY].command("REPLICAOF", "NO", "ONE")
        for number in range(3):
            await shard.append(key, (Event(f"lost-{number}", b"{}"),), expected_version=None)
        entry = await away_.parts[SHARD].promoter.failover(AWAY, by="ann", reason="G03", force=True)
        assert entry.forced
        other = shard_of(away_)
        await until(lambda: not other.closed_because())
        assert await ids(other, key) == [f"kept-{number}" for number in range(5)]
        again = (await other.append(key, (Event("lost-0", b"{}"),), expected_version=None)).answer
        assert not again.duplicate, "it runs again: nobody answers from what is gone"

        def exported() -> bool:
            record = away_.parts[SHARD].observer.watch.record
            return record is not None and bool(record.losses) and record.losses[-1].exported

        await until(exported)
        record = away_.parts[SHARD].observer.watch.record
        assert record is not None
        assert record.losses[-1].events == 3
        assert not record.possible_loss
        info = (await other.info(key)).answer
        assert info.lost is not None
        assert (info.lost.epoch, info.lost.events) == (1, 3)


async def test_G03_a_writes_are_refused_while_nothing_may_be_promoted(tmp_path: Path) -> None:
    key = SessionKey("shop", "ann", "s1")
    async with Pair(tmp_path, automatic=False) as pair:
        home, away_ = await pair.install(HOME), await pair.install(AWAY)
        await opened(home)
        await opened(away_)
        await shard_of(home).create(key, write_id="w")
        pair.servers[HOME].signal(signal.SIGKILL)
        other = shard_of(away_)
        await until(other.closed_because)
        with pytest.raises(StoreUnavailable):
            await other.append(key, (Event("e", b"{}"),), expected_version=None)
        assert other.retry_after_s > 0
