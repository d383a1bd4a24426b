"""Measured, independent and corrected side by side; coverage and co-failure as measured."""

from __future__ import annotations

from fractions import Fraction

import pytest

from availability.chain import AnyOf, Chain, Part, Series
from availability.cofailure import cofailure, coverage
from availability.counts import Counts
from availability.errors import CountsInvalid, FigureOutOfRange
from availability.estimate import wilson
from availability.totals import totals
from tests.availability.support import EXAMPLE, MODEL, pair

CHAIN = EXAMPLE.replaced({"model API": pair(MODEL, coverage=0.9, beta=0.1)})


def test_each_gap_has_a_name() -> None:
    found = totals(CHAIN, Fraction(997, 1000))
    assert (1 - found.independent) * 43_200 == pytest.approx(90.70, abs=0.005)
    assert (1 - found.corrected) * 43_200 == pytest.approx(98.88, abs=0.005)
    assert found.measured == 0.997
    assert [gap.name for gap in found.gaps] == ["imperfect_redundancy", "unexplained_failures"]
    assert [gap.minutes_per_30d for gap in found.gaps] == [
        pytest.approx(98.88 - 90.70, abs=0.01),
        pytest.approx(129.6 - 98.88, abs=0.01),
    ]
    assert all(gap.meaning for gap in found.gaps)


def test_parts_that_fail_in_the_same_turns() -> None:
    """Two parts, each down in the same tenth of the turns: the product says 0.81, the truth is 0.9."""
    found = totals(Chain(Series("turn", (Part("a", 0.9), Part("b", 0.9)))), 0.9)
    assert found.gaps[-1].name == "coinciding_failures"
    assert found.gaps[-1].minutes_per_30d == pytest.approx(0.09 * 43_200)


def test_nothing_measured_leaves_the_gap_out() -> None:
    found = totals(CHAIN, None)
    assert found.measured is None
    assert [gap.name for gap in found.gaps] == ["imperfect_redundancy"]
    with pytest.raises(FigureOutOfRange):
        totals(CHAIN, 1.5)


def test_nested_groups_are_idealised_too() -> None:
    inner = AnyOf("inner", (Part("a", 0.9), Part("b", 0.9)), coverage=0.5)
    found = totals(Chain(Series("turn", (AnyOf("outer", (inner, Part("c", 0.9)), beta=0.5),))), None)
    assert found.independent == pytest.approx(1 - 0.1**3)


def test_measured_coverage() -> None:
    found = coverage(95, 100)
    assert found.point == 0.95
    assert found.interval == wilson(95, 100)
    assert coverage(0, 0).point is None
    with pytest.raises(CountsInvalid):
        coverage(2, 1)


def test_no_co_failure_in_30_days_still_allows_some() -> None:
    good = dict.fromkeys(range(43_200), Counts(3, 0))
    found = cofailure(good, good)
    assert found.minutes == 43_200
    assert found.joint_minutes_per_30d.high == pytest.approx(3.7, abs=0.05)
    assert (found.conditional, found.correlation, found.beta) == (None, None, None)


def test_minutes_in_which_both_were_seen() -> None:
    first = {0: Counts(2, 2), 1: Counts(2, 2), 2: Counts(2, 0), 3: Counts(2, 0), 4: Counts(9, 9), 5: Counts(0, 0)}
    second = {0: Counts(4, 2), 1: Counts(4, 1), 2: Counts(4, 4), 3: Counts(4, 0), 5: Counts(1, 1)}
    found = cofailure(first, second)
    assert (found.minutes, found.first_down, found.second_down, found.both_down) == (4, 2, 2, 1)
    assert (found.conditional, found.correlation, found.beta) == (0.5, 0.0, 0.0)
    apart = cofailure({m: Counts(1, m < 2) for m in range(8)}, {m: Counts(1, m < 2) for m in range(8)})
    assert (apart.conditional, apart.correlation, apart.beta) == (1.0, 1.0, 1.0)
    assert cofailure({}, {}).joint_minutes_per_30d.high == 43_200
