"""Rescues, shared causes, correlation and maintenance in turns."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from availability.chain import Chain, KOf, Part, Series
from availability.errors import FigureOutOfRange
from availability.redundancy import (
    beta_from_conditional,
    common_cause,
    correlation,
    failover,
    joint_failure,
    k_of_n,
    split_common_cause,
    staggered,
)
from tests.availability.support import shares

M = 43_200


@settings(deadline=None)
@given(st.lists(shares, min_size=1, max_size=6), st.integers(0, 7))
def test_k_of_n_equals_counting_the_states(parts: list[float], k: int) -> None:
    counted = sum(
        math.prod(a if up else 1 - a for a, up in zip(parts, states, strict=True))
        for states in itertools.product((True, False), repeat=len(parts))
        if sum(states) >= k
    )
    assert k_of_n(k, parts) == pytest.approx(counted, abs=1e-9)


@settings(deadline=None)
@given(shares, shares, shares)
def test_failover_is_the_coverage_formula(q1: float, q2: float, coverage: float) -> None:
    lost = 1 - failover([1 - q1, 1 - q2], coverage=coverage)
    assert lost == pytest.approx(q1 * (1 - coverage) + coverage * q1 * q2, abs=1e-12)


@settings(deadline=None)
@given(shares, shares, shares, shares)
def test_failover_is_the_correlated_formula(q1: float, q2: float, coverage: float, beta: float) -> None:
    conditional = beta + (1 - beta) * q2
    lost = 1 - failover([1 - q1, 1 - q2], coverage=coverage, beta=beta)
    assert lost == pytest.approx(q1 * (1 - coverage * (1 - conditional)), abs=1e-12)


def test_switching_takes_time() -> None:
    coverage, tau_s, mttr_min, q = 0.95, 30, 20, 0.001
    switch_share = tau_s / (mttr_min * 60)
    lost = (1 - failover([1 - q, 1 - q], coverage=coverage, switch_share=switch_share)) * M
    rate = q / ((1 - q) * mttr_min)
    assert lost == pytest.approx(3.23, abs=0.005)
    assert lost == pytest.approx((q * (1 - coverage) + rate * coverage * tau_s / 60 + q * q) * M, abs=0.005)


def test_the_beta_factor() -> None:
    assert common_cause(0.001, 0.1) * M == pytest.approx(4.35, abs=0.005)
    assert common_cause(0.001, 0.0) * M == pytest.approx(0.043, abs=0.0005)
    own, shared = split_common_cause(0.999, 0.1)
    copies = KOf("copies", (Part("1", own), Part("2", own)), 1)
    split = Chain(Series("pair", (Part("what they share", shared), copies)))
    assert split.minutes_per_30d == pytest.approx(4.35, abs=0.005)


@settings(deadline=None)
@given(shares, shares, st.floats(-1, 1))
def test_correlation_comes_back_out_where_it_is_possible(q1: float, q2: float, rho: float) -> None:
    joint = joint_failure(q1, q2, rho)
    assert max(0.0, q1 + q2 - 1) - 1e-12 <= joint <= min(q1, q2)
    found = correlation(q1, q2, joint)
    if found is not None:
        assert -1 <= found <= 1
        assert joint_failure(q1, q2, found) == pytest.approx(joint, abs=1e-9)


def test_correlation_of_parts_that_never_change_is_none() -> None:
    assert correlation(0.0, 0.5, 0.0) is None
    assert correlation(0.001, 0.001, 0.001) == 1.0
    with pytest.raises(FigureOutOfRange, match=r"a share between 0 and 0\.1"):
        correlation(0.1, 0.2, 0.15)
    with pytest.raises(FigureOutOfRange, match="between -1 and 1"):
        joint_failure(0.1, 0.1, 1.5)


@settings(deadline=None)
@given(shares, shares, shares)
def test_a_measured_conditional_gives_the_beta(q1: float, q2: float, beta: float) -> None:
    conditional = beta + (1 - beta) * q2
    found = beta_from_conditional(conditional, q2)
    assert 1 - failover([1 - q1, 1 - q2], beta=found) == pytest.approx(q1 * conditional, abs=1e-9)


def test_a_second_part_that_fails_less_just_then_is_not_counted_as_a_gain() -> None:
    assert beta_from_conditional(0.0, 0.1) == 0.0
    assert beta_from_conditional(1.0, 1.0) == 0.0


def test_maintenance_in_turns_keeps_one_up() -> None:
    assert staggered([1.0, 1.0], [60, 60]) == 1.0
    assert (1 - staggered([0.999, 0.999], [0, 0])) * M == pytest.approx(0.0432, abs=1e-4)
    at_random = 1 - (1 - 0.999 * (1 - 60 / M)) ** 2
    assert staggered([0.999, 0.999], [60, 60]) > at_random
    assert (1 - staggered([0.999, 0.99], [43_200, 0])) == pytest.approx(0.01)
    with pytest.raises(FigureOutOfRange, match="43 200 in all"):
        staggered([0.9, 0.9], [43_200, 1])
