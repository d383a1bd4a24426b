"""A target's quota: reservations over all limits at once, and their settlement."""

from __future__ import annotations

import asyncio

import pytest

from quota.errors import QuotaError, QuotaRefused
from quota.estimate import OutputEstimate
from quota.policy import QuotaPolicy
from quota.target_quota import Level, Levels, Reservation, TargetQuota
from tests.fakes.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def quota(clock: ManualClock, **policy: float) -> TargetQuota:
    return TargetQuota(QuotaPolicy.model_validate(policy), clock.now)


def tokens_left(target: TargetQuota) -> float:
    level = target.levels().tokens
    assert level is not None
    return level.level


def refused(target: TargetQuota, tokens: int) -> QuotaRefused:
    """The refusal of a reservation, which has to leave everything as it was."""
    before = target.levels()
    with pytest.raises(QuotaRefused) as caught:
        target.reserve(tokens)
    assert target.levels() == before
    return caught.value


def test_without_limits_everything_fits_and_is_counted_in_flight(clock: ManualClock) -> None:
    target = quota(clock)
    held = [target.reserve(10**9) for _ in range(3)]
    assert target.levels() == Levels(None, None, in_flight=3, concurrency=None)
    for reservation in held:
        reservation.settle(5)
    assert target.levels().in_flight == 0


def test_a_bucket_holds_rate_times_burst(clock: ManualClock) -> None:
    target = quota(clock, requests_per_minute=600, tokens_per_minute=60_000, concurrency=4)
    assert target.levels() == Levels(Level(100, 100), Level(10_000, 10_000), in_flight=0, concurrency=4)


def test_a_bucket_of_a_slow_target_still_holds_one_request(clock: ManualClock) -> None:
    target = quota(clock, requests_per_minute=2)
    assert target.levels().requests == Level(1, 1)
    target.reserve(0)
    assert refused(target, 0).retry_after_s == pytest.approx(30)


def test_a_whole_burst_fits_to_the_last_token(clock: ManualClock) -> None:
    for per_minute in range(1, 200):
        quota(clock, tokens_per_minute=per_minute, burst=60).reserve(per_minute)


def test_a_reservation_takes_from_all_limits(clock: ManualClock) -> None:
    target = quota(clock, requests_per_minute=60, tokens_per_minute=6000, concurrency=2)
    reservation = target.reserve(400, "batch")
    assert (reservation.tokens, reservation.priority, reservation.settled) == (400, "batch", False)
    assert target.levels() == Levels(Level(9, 10), Level(600, 1000), in_flight=1, concurrency=2)


def test_a_failed_attempt_gives_back_its_tokens_and_stays_a_request(clock: ManualClock) -> None:
    target = quota(clock, requests_per_minute=60, tokens_per_minute=6000)
    target.reserve(400).settle(0)
    assert target.levels() == Levels(Level(9, 10), Level(1000, 1000), in_flight=0, concurrency=None)


def test_an_attempt_that_reached_nobody_gives_back_everything(clock: ManualClock) -> None:
    target = quota(clock, requests_per_minute=60, tokens_per_minute=6000, concurrency=1)
    before = target.levels()
    reservation = target.reserve(400)
    reservation.release()
    reservation.settle(400)
    assert target.levels() == before
    assert reservation.settled


@pytest.mark.parametrize("tokens", [-1, -100])
def test_numbers_below_zero_are_refused_and_change_nothing(clock: ManualClock, tokens: int) -> None:
    target = quota(clock, tokens_per_minute=6000)
    reservation = target.reserve(10)
    before = target.levels()
    with pytest.raises(ValueError, match="cannot be reserved"):
        target.reserve(tokens)
    with pytest.raises(ValueError, match="cannot have been used"):
        reservation.settle(tokens)
    assert target.levels() == before
    assert not reservation.settled


def test_a_refusal_says_how_long_for_the_limit_that_takes_longest(clock: ManualClock) -> None:
    target = quota(clock, requests_per_minute=60, tokens_per_minute=6000, burst=1)
    target.reserve(100)
    refusal = refused(target, 50)
    assert (refusal.kind, refusal.limit, refusal.needed, refusal.never) == ("requests", 1, 1, False)
    assert refusal.retry_after_s == pytest.approx(1)
    target = quota(clock, requests_per_minute=60, tokens_per_minute=600, burst=10)
    for _ in range(10):
        target.reserve(10)
    refusal = refused(target, 80)
    assert (refusal.kind, refusal.limit, refusal.needed) == ("tokens", 100, 80)
    assert refusal.retry_after_s == pytest.approx(8)
    assert str(refusal) == "not enough tokens left for 80: try again in 8.000 s"
    clock.advance(8)
    target.reserve(80)


def test_full_concurrency_gives_no_time(clock: ManualClock) -> None:
    target = quota(clock, tokens_per_minute=600, concurrency=2)
    first, _second = target.reserve(40), target.reserve(40)
    refusal = refused(target, 40)
    assert (refusal.kind, refusal.limit, refusal.needed) == ("concurrency", 2, 1)
    assert (refusal.retry_after_s, refusal.never) == (None, False)
    assert "2 requests in flight" in str(refusal)
    first.settle(0)
    target.reserve(40)


def test_what_never_fits_is_said_before_anything_else(clock: ManualClock) -> None:
    target = quota(clock, requests_per_minute=6, tokens_per_minute=600, concurrency=1)
    target.reserve(100)
    refusal = refused(target, 101)
    assert (refusal.kind, refusal.never, refusal.retry_after_s) == ("tokens", True, None)


async def test_D01_of_requests_sent_together_only_those_that_fit_are_admitted(clock: ManualClock) -> None:
    """One process: 100 tokens a minute, five requests at once of 20 tokens in and a cap of 60."""
    target, estimate = quota(clock, tokens_per_minute=100, burst=60), OutputEstimate()
    together = asyncio.Barrier(5)

    async def one() -> Reservation | QuotaRefused:
        await together.wait()
        try:
            return target.reserve(20 + estimate.expect(60))
        except QuotaRefused as refusal:
            return refusal

    outcomes = await asyncio.gather(*(one() for _ in range(5)))
    refusals = [outcome for outcome in outcomes if isinstance(outcome, QuotaRefused)]
    assert len(refusals) == 4
    assert all(refusal.retry_after_s == pytest.approx(36) for refusal in refusals)
    assert tokens_left(target) == 20


def test_D01_the_largest_cap_is_what_is_reserved(clock: ManualClock) -> None:
    target, body = quota(clock, tokens_per_minute=100, burst=60), {"max_tokens": 1, "max_completion_tokens": 60}
    assert target.reserve(20 + OutputEstimate().expect(max(body.values()))).tokens == 80


def test_D02_reserved_tokens_come_back_whatever_the_ending(clock: ManualClock) -> None:
    """All endings in turn, while time stands still: what is left is the capacity less the real use."""
    target = quota(clock, tokens_per_minute=12_000, burst=60)
    blocker = target.reserve(11_950)
    for _ in range(50):
        refused(target, 100)
    blocker.settle(0)
    for used in [0] * 10 + [25] * 10 + [40] * 5 + [7] * 5:  # answers of 500, short streams, cut ones, hang-ups
        reservation = target.reserve(1020)
        reservation.settle(used)
        reservation.settle(1020)
        reservation.release()
    assert tokens_left(target) == 12_000 - (10 * 25 + 5 * 40 + 5 * 7)
    assert target.levels().in_flight == 0


def test_D02_use_above_the_reservation_pushes_the_balance_below_zero_by_that_difference(clock: ManualClock) -> None:
    target = quota(clock, tokens_per_minute=6000, burst=10)
    target.reserve(900).settle(900)
    target.reserve(100).settle(150)
    assert tokens_left(target) == -50
    assert refused(target, 0).retry_after_s == pytest.approx(0.5)
    clock.advance(0.5)
    assert tokens_left(target) == pytest.approx(0)
    clock.advance(3600)
    assert tokens_left(target) == 1000


def test_D02_the_balance_is_never_above_the_capacity(clock: ManualClock) -> None:
    target = quota(clock, requests_per_minute=60, tokens_per_minute=6000)
    settled_late, released_late = target.reserve(500), target.reserve(500)
    clock.advance(60)
    settled_late.settle(1)
    released_late.release()
    assert target.levels() == Levels(Level(10, 10), Level(1000, 1000), in_flight=0, concurrency=None)


def test_D03_a_request_larger_than_the_bucket_is_refused_for_good(clock: ManualClock) -> None:
    target = quota(clock, tokens_per_minute=666, burst=60)
    refusal = refused(target, 800)
    assert isinstance(refusal, QuotaError)
    assert (refusal.kind, refusal.limit, refusal.needed) == ("tokens", 666, 800)
    assert (refusal.never, refusal.retry_after_s) == (True, None)
    assert "needs 800 tokens and the bucket holds 666" in str(refusal)
    quota(clock, tokens_per_minute=5000, burst=60).reserve(800)


def test_a_limit_that_comes_later_is_charged_with_what_is_used_and_given_nothing(clock: ManualClock) -> None:
    target = quota(clock, requests_per_minute=60)
    settled, released = target.reserve(900), target.reserve(900)
    target.retune(QuotaPolicy(tokens_per_minute=6000, burst=60))
    target.reserve(5000)
    settled.settle(200)
    released.release()
    assert tokens_left(target) == 800
    target.retune(QuotaPolicy(requests_per_minute=60, tokens_per_minute=6000, burst=60))
    levels = target.levels()
    assert (levels.requests, levels.in_flight) == (Level(60, 60), 1)


def test_fewer_at_once_waits_until_enough_have_ended(clock: ManualClock) -> None:
    target = quota(clock, concurrency=3)
    held = [target.reserve(1) for _ in range(3)]
    target.retune(QuotaPolicy(concurrency=2))
    assert refused(target, 1).kind == "concurrency"
    held.pop().release()
    assert refused(target, 1).kind == "concurrency"
    held.pop().release()
    target.reserve(1)
