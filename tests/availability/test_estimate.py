"""Intervals of counted shares: the design's figures, exact identities, and their coverage by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from availability.errors import CountsInvalid, FigureOutOfRange
from availability.estimate import (
    Interval,
    clean_turns_needed,
    clopper_pearson,
    incident_count,
    jeffreys,
    jeffreys_lower,
    wilson,
)
from availability.special import beta_cdf, beta_quantile, poisson_limits

KINDS = (wilson, clopper_pearson, jeffreys)


@pytest.mark.parametrize(
    ("kind", "hits", "trials", "low", "high"),
    [
        (wilson, 0, 1000, 0, 165),
        (clopper_pearson, 0, 1000, 0, 159),
        (jeffreys, 0, 1000, 0, 108),
        (wilson, 10, 10_000, 23, 79),
        (clopper_pearson, 10, 10_000, 21, 79),
    ],
)
def test_the_designs_figures(kind: Callable[[int, int], Interval], hits: int, trials: int, low: int, high: int) -> None:
    found = kind(hits, trials).as_minutes_per_30d()
    assert found.low == pytest.approx(low, abs=0.5)
    assert found.high == pytest.approx(high, abs=0.5)


def test_clean_turns_and_minutes_without_a_co_failure() -> None:
    assert clean_turns_needed(0.001) == 2995
    assert 0.999**2995 <= 0.05 < 0.999**2994
    assert clopper_pearson(0, 43_200).as_minutes_per_30d().high == pytest.approx(3.7, abs=0.05)


@pytest.mark.parametrize(("hits", "trials"), [(4, 60), (10, 300), (24, 1000)])
def test_the_fewest_failures_that_show_a_burn_of_14_4(hits: int, trials: int) -> None:
    assert jeffreys_lower(hits, trials) > 0.0144 > jeffreys_lower(hits - 1, trials)


def test_three_incidents_may_have_been_one_or_nine() -> None:
    found = incident_count(3)
    assert found.low == pytest.approx(0.6187, abs=1e-4)
    assert found.high == pytest.approx(8.7673, abs=1e-4)
    assert incident_count(0).low == 0.0
    assert incident_count(0).high == pytest.approx(-math.log(0.025))


@settings(deadline=None)
@given(st.integers(0, 400), st.integers(0, 400), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_intervals_hold_the_share_and_keep_their_bounds(hits: int, misses: int, confidence: float) -> None:
    trials = hits + misses
    for kind in KINDS:
        found = kind(hits, trials, confidence)
        assert 0.0 <= found.low <= found.high <= 1.0
        if trials:
            assert found.low - 1e-12 <= hits / trials <= found.high + 1e-12
        mirrored = kind(misses, trials, confidence)
        assert mirrored.low == pytest.approx(1 - found.high, abs=1e-9)
        wider = kind(hits, trials, (1 + confidence) / 2)
        assert wider.low <= found.low + 1e-12
        assert wider.high >= found.high - 1e-12


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(1, 60), st.floats(0.0, 1.0))
def test_the_beta_integral_equals_the_binomial_sum(a: int, b: int, x: float) -> None:
    n = a + b - 1
    tail = math.fsum(math.comb(n, k) * x**k * (1 - x) ** (n - k) for k in range(a, n + 1))
    assert beta_cdf(x, a, b) == pytest.approx(tail, abs=1e-11)


@settings(deadline=None)
@given(st.floats(0.0, 1.0))
def test_the_beta_integral_of_halves_is_the_arcsine_law(x: float) -> None:
    assert beta_cdf(x, 0.5, 0.5) == pytest.approx(2 / math.pi * math.atan2(math.sqrt(x), math.sqrt(1 - x)), abs=1e-12)


@settings(deadline=None)
@given(st.floats(1e-6, 1 - 1e-6), st.floats(0.5, 1e5), st.floats(0.5, 1e5))
def test_the_quantile_undoes_the_integral(p: float, a: float, b: float) -> None:
    x = beta_quantile(p, a, b)
    around = beta_cdf(x * (1 - 1e-12), a, b), beta_cdf(min(x * (1 + 1e-12), 1.0), a, b)
    assert around[0] - 1e-9 <= p <= around[1] + 1e-9


def test_large_counts_agree_with_the_normal_law() -> None:
    hits, trials = 5_000, 10_000_000
    found = jeffreys(hits, trials)
    spread = 1.959964 * math.sqrt(hits) / trials
    assert found.low == pytest.approx(hits / trials - spread, rel=1e-3)
    assert found.high == pytest.approx(hits / trials + spread, rel=1e-3)


@settings(deadline=None)
@given(st.integers(0, 200), st.sampled_from([0.005, 0.025, 0.05]))
def test_poisson_limits_leave_the_tail(count: int, tail: float) -> None:
    low, high = poisson_limits(count, tail)
    assert low <= count <= high
    at_high = math.fsum(math.exp(k * math.log(high) - high - math.lgamma(k + 1)) for k in range(count + 1))
    assert at_high == pytest.approx(tail, abs=1e-9)
    if count:
        below = math.fsum(math.exp(k * math.log(low) - low - math.lgamma(k + 1)) for k in range(count))
        assert 1 - below == pytest.approx(tail, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_cover_what_they_say(kind: Callable[[int, int], Interval]) -> None:
    """Shares of failed turns from 1 to 30 %, each counted in 400 turns: 95 % of the intervals hold the true share."""
    random = Random(20)
    interval = cache(kind)
    held = runs = 0
    while runs < 4000:
        q = random.uniform(0.01, 0.3)
        found = interval(sum(random.random() < q for _ in range(400)), 400)
        held += found.low <= q <= found.high
        runs += 1
    assert 0.93 <= held / runs <= 0.97


def test_nothing_counted_says_nothing() -> None:
    for kind in KINDS:
        assert kind(0, 0) == Interval(0.0, 1.0)
    assert jeffreys_lower(0, 0) == 0.0


def test_what_cannot_be_counted_is_refused() -> None:
    for kind in KINDS:
        for hits, trials in ((2, 1), (-1, 1)):
            with pytest.raises(CountsInvalid, match="look for events that are counted in one place only"):
                kind(hits, trials)
        with pytest.raises(FigureOutOfRange, match=r"such as 0\.95"):
            kind(1, 2, 1.0)
    for q in (0.0, 1.0):
        with pytest.raises(FigureOutOfRange, match="failure share to show"):
            clean_turns_needed(q)
