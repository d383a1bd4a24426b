"""The bucket: refill, waits and their exactness, corrections."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quota.bucket import TOLERANCE_S, Bucket


def test_it_starts_full_and_refills_to_its_capacity_only() -> None:
    bucket = Bucket(capacity=100, rate_per_s=10, now=50.0)
    assert bucket.level(50.0) == 100
    bucket.take(60, 50.0)
    assert bucket.level(50.0) == 40
    assert bucket.level(53.0) == 70
    assert bucket.level(500.0) == 100


def test_reading_changes_nothing() -> None:
    bucket, control = (Bucket(capacity=1000, rate_per_s=1 / 3, now=0.0) for _ in range(2))
    for one in (bucket, control):
        one.take(900, 0.0)
    for step in range(1000):
        bucket.level(step / 7)
        bucket.wait_s(500, step / 7)
    assert bucket.level(200.0) == control.level(200.0)


def test_what_does_not_fit_has_an_exact_wait() -> None:
    bucket = Bucket(capacity=100, rate_per_s=10, now=0.0)
    bucket.take(100, 0.0)
    assert bucket.wait_s(30, 1.0) == 2.0
    assert bucket.wait_s(30, 3.0) == 0.0


def test_more_than_a_full_bucket_never_fits() -> None:
    bucket = Bucket(capacity=666.6, rate_per_s=11.1, now=0.0)
    assert [bucket.never_fits(amount) for amount in (0, 666, 667)] == [False, False, True]


def test_corrections_stay_below_the_capacity_and_may_go_below_zero() -> None:
    bucket = Bucket(capacity=100, rate_per_s=10, now=0.0)
    bucket.take(80, 0.0)
    bucket.correct(75, 1.0)
    assert bucket.level(1.0) == 100
    bucket.correct(-150, 1.0)
    assert bucket.level(1.0) == -50
    assert bucket.level(3.0) == -30


def test_nothing_fits_while_it_is_in_debt_not_even_nothing() -> None:
    bucket = Bucket(capacity=100, rate_per_s=10, now=0.0)
    bucket.correct(-120, 0.0)
    assert bucket.wait_s(0, 0.0) == 2.0
    assert bucket.wait_s(0, 2.0) == 0.0


def test_a_time_before_the_last_change_counts_as_the_time_of_that_change() -> None:
    bucket = Bucket(capacity=100, rate_per_s=10, now=10.0)
    bucket.take(50, 10.0)
    assert bucket.level(9.0) == 50
    bucket.take(10, 9.0)
    assert bucket.level(11.0) == 50


@pytest.mark.parametrize(("capacity", "rate_per_s"), [(0, 1), (1, 0), (-1, 1)])
def test_a_bucket_without_size_or_refill_is_refused(capacity: float, rate_per_s: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Bucket(capacity=capacity, rate_per_s=rate_per_s, now=0.0)


def test_another_size_keeps_the_level_and_fills_nothing() -> None:
    bucket = Bucket(capacity=100, rate_per_s=10, now=0.0)
    bucket.take(60, 0.0)
    bucket.retune(capacity=500, rate_per_s=1, now=2.0)
    assert (bucket.level(2.0), bucket.level(12.0)) == (60, 70), (
        "refilled at the old rate until then, at the new one since"
    )
    bucket.retune(capacity=50, rate_per_s=1, now=12.0)
    assert bucket.level(12.0) == 50
    bucket.retune(capacity=500, rate_per_s=1, now=12.0)
    assert bucket.level(12.0) == 50
    bucket.correct(-80, 12.0)
    bucket.retune(capacity=10, rate_per_s=2, now=12.0)
    assert (bucket.level(12.0), bucket.wait_s(0, 12.0)) == (-30, 15), "a debt stays"
    with pytest.raises(ValueError, match="above 0"):
        bucket.retune(capacity=0, rate_per_s=1, now=13.0)
    assert (bucket.capacity, bucket.level(13.0)) == (10, -28)


@settings(deadline=None)
@given(
    rate_per_s=st.floats(1 / 60, 2e6),
    burst_s=st.floats(0.5, 600),
    start=st.floats(0, 1e9),
    changes=st.lists(st.tuples(st.floats(0, 1.5), st.floats(0, 100)), max_size=30),
    share=st.floats(0, 1),
)
def test_after_the_wait_it_fits_and_50_ms_before_it_does_not(
    rate_per_s: float, burst_s: float, start: float, changes: list[tuple[float, float]], share: float
) -> None:
    """Whatever happened before, at any uptime of the machine and any rate."""
    bucket, now = Bucket(capacity=rate_per_s * burst_s, rate_per_s=rate_per_s, now=start), start
    for part, pause_s in changes:
        bucket.correct(-part * bucket.capacity, now)
        now += pause_s
    amount = share * bucket.capacity
    wait_s = bucket.wait_s(amount, now)
    assert bucket.wait_s(amount, now + wait_s) == 0.0
    if wait_s > 0.05:
        assert bucket.wait_s(amount, now + wait_s - 0.05) > 0.0
    bucket.take(amount, now + wait_s)
    assert bucket.level(now + wait_s) >= min(-2 * TOLERANCE_S * rate_per_s, bucket.level(now))
