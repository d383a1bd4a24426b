"""What the keeper of a shard decides, from one snapshot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from regions.decide import Decision, decide
from regions.record import Loss
from regions.views import Replication, Snapshot
from tests.regions.making import (
    LOST_S,
    WALL,
    A,
    B,
    C,
    away,
    parked,
    primary,
    record,
    replica,
    snapshot,
    spec,
    unwritten,
)  # fmt: skip


def of(seen: Snapshot, renewed_s: float = 0.0) -> Decision:
    return decide(seen, renewed_s)


def test_nothing_is_decided_without_the_authority() -> None:
    seen = replace(snapshot(A, primary(), replica()), register=None, authority_error="etcd is away")
    assert of(seen).action == "wait"
    assert "etcd is away" in of(seen).why


def test_the_home_writes_the_first_record_and_nobody_else_does() -> None:
    new = primary(A, "a", 0, epoch=0, granted_to="")
    assert of(unwritten(A, new, away(B))).action == "bootstrap"
    assert of(unwritten(B, new, away(B))).action == "wait"
    assert of(unwritten(A, away(A))).action == "wait"


def test_a_parked_store_is_one_to_begin_with() -> None:
    assert of(unwritten(A, parked(A, "a", 0, empty=True, epoch=0, granted_to=""))).action == "bootstrap"
    follows = replica(A, 0, epoch=0, granted_to="")
    assert of(unwritten(A, follows)).action == "refuse"


def test_a_store_of_another_install_is_no_beginning() -> None:
    decision = of(unwritten(A, primary(A, "a", epoch=4)))
    assert decision.action == "refuse"
    assert "epoch 4" in decision.why
    assert "--force" in decision.why


@pytest.mark.parametrize(("renewed_s", "action"), [(0.0, "nothing"), (1.4, "nothing"), (1.5, "renew"), (9.0, "renew")])
def test_the_holder_renews_when_it_is_time(renewed_s: float, action: str) -> None:
    assert of(snapshot(A, primary(), replica()), renewed_s).action == action


def test_a_holders_store_of_a_later_epoch_is_refused() -> None:
    decision = of(snapshot(A, primary(epoch=3), replica()), 9.0)
    assert decision.action == "refuse"
    assert "the authority is at 1" in decision.why


def test_a_revoked_epoch_is_followed_by_a_new_one() -> None:
    assert of(snapshot(A, primary(revoked=True), replica())).action == "reopen"


def test_a_restarted_holder_goes_on_in_a_new_epoch_if_it_has_everything() -> None:
    decision = of(snapshot(A, primary(A, "a2"), replica()))
    assert decision.action == "failover"
    assert decision.candidate is not None
    assert (decision.candidate.region, decision.candidate.loss) == (A, 0)
    assert of(snapshot(A, parked(A, "a2"), replica())).action == "failover"


def test_a_restarted_holder_that_has_lost_writes_leaves_it_to_the_other() -> None:
    behind = primary(A, "a2", gseq=900)
    assert of(snapshot(A, behind, replica())).action == "wait"
    assert of(snapshot(A, behind, replica(), unchanged_s=LOST_S)).action == "wait"
    assert of(snapshot(B, behind, replica(), unchanged_s=LOST_S)).action == "failover"


def test_a_holder_that_came_back_empty_is_no_candidate() -> None:
    empty = parked(A, "a2", 0, empty=True, epoch=0, granted_to="")
    decision = of(snapshot(A, empty, replica()))
    assert decision.action == "wait"
    assert "another region may" in decision.why


def test_a_holder_that_somebody_made_a_replica_is_refused() -> None:
    assert of(snapshot(A, replace(replica(A), fence=primary(A, "a2").fence), replica())).action == "refuse"


@pytest.mark.parametrize("unchanged_s", [0.0, LOST_S - 0.01])
def test_nobody_takes_over_while_the_lease_may_run(unchanged_s: float) -> None:
    assert of(snapshot(B, away(A), replica(), unchanged_s=unchanged_s)).action == "nothing"


def test_the_other_region_takes_over_when_the_lease_is_over() -> None:
    decision = of(snapshot(B, away(A), replica(), unchanged_s=LOST_S))
    assert decision.action == "failover"
    assert decision.candidate is not None
    assert decision.candidate.region == B


def test_manual_and_quiet_shards_wait() -> None:
    manual = snapshot(B, away(A), replica(), shard=spec(automatic=False), unchanged_s=LOST_S)
    assert of(manual).action == "wait"
    assert "stanchion promote eu --to" in of(manual).why
    recent = record(epoch=2, at=WALL - 30, store_identity="a")
    follows = replica(epoch=2)
    quiet = snapshot(B, away(A), follows, shard=spec(quiet_s=60.0), now=recent, unchanged_s=LOST_S)
    assert of(quiet).action == "wait"
    assert of(replace(quiet, wall=WALL + 31)).action == "failover"


def test_a_loss_over_the_bound_is_for_people() -> None:
    seen = snapshot(B, away(A), replica(gseq=990), shard=spec(rpo_turns=9), unchanged_s=LOST_S)
    assert of(seen).action == "wait"
    assert "at 990 of 1000" in of(seen).why
    assert "--force --reason" in of(seen).why
    assert of(replace(seen, spec=spec(rpo_turns=10))).action == "failover"


def test_the_pace_of_writes_counts_for_as_long_as_the_lease_let_them() -> None:
    busy = record(writes_s=10.0)
    seen = snapshot(B, away(A), replica(), shard=spec(rpo_turns=59), now=busy, unchanged_s=100.0)
    assert of(seen).action == "wait"
    assert of(replace(seen, spec=spec(rpo_turns=60))).action == "failover"


def test_a_store_whose_primary_is_lost_stops_following_while_nobody_may_take_over() -> None:
    """Else a primary that comes back empty would empty it too."""
    cut = replica(gseq=990, link_up=False)
    assert of(snapshot(B, away(A), cut, unchanged_s=LOST_S)).action == "detach"
    assert of(snapshot(B, away(A), replica(gseq=990), unchanged_s=LOST_S)).action == "wait", "it still hears of it"
    own_step = spec(promote_command=("true",))
    assert of(snapshot(B, away(A), cut, shard=own_step, unchanged_s=LOST_S)).action == "wait"


def test_a_detached_store_follows_again_when_its_primary_is_back() -> None:
    detached = primary(B, B)
    assert of(snapshot(B, primary(), detached)).action == "follow"
    assert of(snapshot(B, primary(), parked(B, B))).action == "follow"


def test_an_old_primary_is_exported_first_and_follows_then() -> None:
    lost = Loss(1, A, "a", fork_gseq=998)
    now = record(epoch=2, holder=B, store_identity="b", source=A, source_identity="a", losses=(lost,))
    held = primary(B, "b", epoch=2, granted_to="b")
    assert of(snapshot(A, primary(), held, now=now)).action == "export"
    not_open = replace(now, losses=(replace(lost, fork_gseq=None),))
    assert of(snapshot(A, primary(), held, now=not_open)).action == "wait"
    exported = replace(now, losses=(replace(lost, exported=True),))
    assert of(snapshot(A, primary(), held, now=exported)).action == "follow"


def test_data_that_is_not_known_is_not_given_up() -> None:
    now = record(epoch=2, holder=B, store_identity="b", source=A, source_identity="a")
    held = primary(B, "b", epoch=2, granted_to="b")
    decision = of(snapshot(A, primary(A, "x", granted_to="somebody"), held, now=now))
    assert decision.action == "refuse"
    assert "following would delete it" in decision.why
    later = of(snapshot(A, primary(A, "x", epoch=9), held, now=now))
    assert later.action == "refuse"
    assert "another install's" in later.why


def test_an_empty_store_follows() -> None:
    empty = replace(primary(B, B, 0, epoch=0, granted_to=""), replication=Replication("primary", 0, empty=True))
    assert of(snapshot(B, primary(), empty)).action == "follow"


@pytest.mark.parametrize("stage", ["opening", "switching"])
def test_what_was_left_is_gone_on_with_after_a_while(stage: str) -> None:
    now = record(epoch=2, holder=A, target=B, stage=stage, store_identity="a" if stage == "switching" else "")
    assert of(snapshot(A, primary(), replica(), now=now)).action == "wait"
    assert of(snapshot(A, primary(), replica(), now=now, unchanged_s=LOST_S + 6.0)).action == "resume"
    three = spec(A, B, C)
    assert of(snapshot(C, primary(), replica(), replica(C), now=now, shard=three)).action == "nothing"


def test_a_sync_shard_changes_its_mode_only_by_the_record() -> None:
    shard = spec(sync=True)
    joining = record(mode="joining", sync_peers=(B,))
    assert of(snapshot(A, primary(), replica(), shard=shard, now=joining)).action == "mode"
    alone = snapshot(A, primary(), away(B), shard=shard, now=replace(joining, mode="sync"))
    assert of(alone).action == "nothing", "it takes no writes"
    degraded = of(replace(alone, spec=spec(sync=True, may_degrade=True)))
    assert (degraded.action, degraded.mode) == ("mode", "degraded")
    back = snapshot(A, primary(), replica(), shard=shard, now=replace(joining, mode="degraded"))
    assert (of(back).action, of(back).mode) == ("reopen", "joining")


@pytest.mark.parametrize("mode", ["sync", "joining"])
def test_a_restarted_holder_of_a_shard_with_confirmed_writes_is_held_against_its_peers(mode: str) -> None:
    """However fast it was written: what nobody has confirmed was not acknowledged."""
    shard = spec(sync=True)
    now = record(mode=mode, sync_peers=(B,), writes_s=500.0, gseq=990)
    restarted = primary(A, "a2", gseq=1000)
    decision = of(snapshot(A, restarted, replica(gseq=1000), shard=shard, now=now, unchanged_s=1.0))
    assert decision.action == "failover"
    assert decision.candidate is not None
    assert decision.candidate.loss == 0
    ahead = snapshot(A, restarted, replica(gseq=1001), shard=shard, now=now, unchanged_s=1.0)
    assert of(ahead).action == "wait", "the peer has confirmed one more"
    silent = snapshot(A, restarted, away(B), shard=shard, now=now, unchanged_s=1.0)
    assert of(silent).action == "wait", "nobody says what was confirmed"


def test_a_peer_that_is_joining_is_held_against_what_came_before() -> None:
    now = record(mode="joining", sync_peers=(B,))
    seen = snapshot(B, away(A), replica(gseq=999), shard=spec(sync=True), now=now, unchanged_s=LOST_S)
    assert of(seen).action == "wait"
    assert of(replace(seen, nodes={**seen.nodes, B: replica(gseq=1000)})).action == "failover"


def test_a_peer_is_not_chosen_while_another_peer_may_have_more() -> None:
    now = record(mode="sync", sync_peers=(B, C))
    seen = snapshot(B, away(A), replica(B), away(C), shard=spec(A, B, C, sync=True), now=now, unchanged_s=LOST_S)
    assert of(seen).action == "wait"
    assert "may be on ap-south alone" in of(seen).why


def test_a_record_of_a_region_that_the_settings_do_not_have() -> None:
    decision = of(snapshot(B, replica(), now=record(holder="mars")))
    assert decision.action == "refuse"
    assert "mars" in decision.why
