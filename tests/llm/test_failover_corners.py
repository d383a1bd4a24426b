"""Where requests, hedges and canaries meet: single cases that properties come upon once in thousands of examples."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llm import plan
from llm.attempt import AttemptRecord, Trail
from llm.classes import ErrorClass, Skip
from llm.commit import COMPLETE, Commit
from llm.errors import Failure, QuotaShort, RouteFailed, StreamInterrupted
from llm.policy import HedgePolicy
from llm.walk import Walk
from tests.llm.making import request
from tests.llm.scripted import Script
from tests.llm.world import Caller, Setting, Visit, World

GOOD = Script()
BUSY = Script(status=503)
HEDGE = HedgePolicy(after=0.5, budget=1.0)


async def play(setting: Setting) -> tuple[World, list[Visit]]:
    world = World(setting)
    visits = await world.play()
    world.audit(visits)
    for visit in visits:
        world.check(visit)
    return world, visits


def trail(visit: Visit) -> list[str]:
    return [record.as_header().partition(";ms=")[0] for record in visit.trail.records]


async def test_no_retry_on_a_key_that_another_request_found_refused_during_the_wait() -> None:
    refused = Script(status=401, code="invalid_api_key")
    callers = (Caller(), Caller(start=0.1))
    world, [first, _] = await play(Setting(((BUSY, refused), ()), (GOOD, GOOD), callers, retries=1))
    assert trail(first) == ["p;class=overloaded", "p;skip=hold", "s;class=success"]
    assert len(world.transports["p"].played) == 2


async def test_a_hedge_that_is_under_way_is_not_asked_again_for_the_sake_of_a_content_policy() -> None:
    refusing = Script(status=400, code="content_policy_violation", head_after=1.0)
    setting = Setting(((), ()), (refusing, Script(head_after=1.5)), hedge=HEDGE, content_policy=True)
    world, [visit] = await play(setting)
    assert visit.clean
    assert trail(visit) == ["p;class=content_policy", "s;class=success"]
    assert len(world.transports["s"].played) == 1


async def test_a_failed_canary_is_still_asked_when_the_content_is_refused() -> None:
    refusing = Script(status=400, code="content_policy_violation")
    _, [visit] = await play(Setting(((), (BUSY,)), (refusing, GOOD), canary=1, content_policy=True))
    assert visit.clean
    assert trail(visit) == ["s;class=overloaded", "p;class=content_policy", "s;class=success"]


async def test_a_whole_answer_that_lost_the_race_is_no_success() -> None:
    setting = Setting(((), ()), (Script(head_after=1.0), Script(head_after=0.5)), hedge=HEDGE)
    world, [visit] = await play(replace(setting, callers=(Caller(commit=COMPLETE),)))
    assert trail(visit) == ["p;class=success", "s;class=cancelled"]
    assert world.targets["s"].breaker.view().samples == 0
    assert visit.clean


async def test_when_both_fail_at_once_the_final_refusal_is_told() -> None:
    for p, s in ((BUSY, Script(status=400)), (Script(status=400), BUSY)):
        setting = Setting(((), ()), (replace(p, head_after=1.0), replace(s, head_after=0.5)), hedge=HEDGE)
        for _ in range(5):
            _, [visit] = await play(setting)
            assert isinstance(visit.error, RouteFailed)
            assert visit.error.final
            assert visit.error.failure is not None
            assert visit.error.failure.error_class is ErrorClass.BAD_REQUEST


async def test_the_trail_is_in_order_though_targets_were_passed_over_meanwhile() -> None:
    too_large = Script(status=413)
    setting = Setting(((), (), ()), (too_large, GOOD, Script(ending="stall", pieces=0)), hedge=HEDGE, canary=2)
    _, [visit] = await play(setting)
    assert [entry for entry in trail(visit) if "class" in entry] == ["t;class=timeout_first_token", "p;class=too_large"]


async def test_a_connection_that_breaks_behind_the_finish_reason_has_given_the_whole_answer() -> None:
    world, [visit] = await play(Setting(((), ()), (Script(ending="finish_cut"), GOOD)))
    assert visit.clean
    assert trail(visit) == ["p;class=success"]
    assert world.targets["p"].breaker.view().failures == 0


@pytest.mark.parametrize(("pieces", "rescued"), [(2, True), (3, False)])
async def test_so_many_tokens_commit_and_not_one_less(pieces: int, rescued: bool) -> None:
    """Each piece of the scripted text is about one token."""
    cut = Script(pieces=pieces, ending="cut")
    _, [visit] = await play(Setting(((), ()), (cut, GOOD), (Caller(commit=Commit("tokens", tokens=3)),)))
    assert visit.clean is rescued
    assert isinstance(visit.error, StreamInterrupted) is not rescued


async def test_a_caller_who_reads_slowly_does_not_carry_an_attempt_beyond_the_deadline() -> None:
    """Its own time is not the provider's, whose total is longer for it; the deadline is not."""
    world, [visit] = await play(Setting(((),), (Script(pieces=30, gap=1.0),), (Caller(slow=3.9),)))
    assert isinstance(visit.error, StreamInterrupted)
    assert visit.ended_at <= visit.deadline_at + 3.9
    assert [record.outcome for record in visit.attempts] == ["deadline"]
    assert world.targets["p"].breaker.view().samples == 0


async def test_what_refused_a_canary_says_nothing_of_its_target_later() -> None:
    world = World(Setting(((),), (GOOD,)))
    [own] = world.route.stops
    walk = Walk(world.route, (replace(own, canary=True), own), world.targets, request(), lambda: 0.0)
    canary = walk.next()
    assert canary is not None
    walk.refused(canary, QuotaShort("full", 5.0, never=False))
    assert walk.next() == own
    walk.note(own, Failure(ErrorClass.SERVER_ERROR, "no", 500))
    error = walk.failed(deadline=False)
    assert (error.retry_after_s, error.rate_limits_only) == (None, False)


def test_a_canary_does_not_change_what_a_route_of_one_target_says() -> None:
    busy = Failure(ErrorClass.RATE_LIMITED, "slow down", 429)
    own = AttemptRecord("p", "rate_limited", failure=busy)
    canary = AttemptRecord("s", "server_error", role="canary")
    assert plan.conclude(Trail([own]), busy, [], deadline=False).final
    assert plan.conclude(Trail([canary, own]), busy, [], deadline=False).final


def test_a_canary_does_not_hide_that_no_target_fits() -> None:
    skip = plan.passed_over("p", Skip.CONTEXT_WINDOW, "too long", 0.0)
    canary = AttemptRecord("s", "server_error", role="canary")
    error = plan.conclude(Trail([canary, skip]), None, [], deadline=False)
    assert error.unfit is Skip.CONTEXT_WINDOW
    assert "s:" not in error.message
