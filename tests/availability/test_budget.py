"""Budgets: what was spent, what is left, and what is said when nothing can be."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from availability.budget import DataState, Objective, budget, burn_rate, source_is_gone
from availability.counts import Bucket, Counts, TimeSeries
from availability.errors import FigureOutOfRange

SLO = Objective("support", 0.999)


def test_no_request_is_no_data() -> None:
    found = budget(SLO, Counts())
    assert found.state == DataState.NO_DATA
    figures = (found.availability, found.spent, found.left, found.burn, found.allowed, found.equivalent_minutes)
    assert figures == (None,) * 6


def test_an_idle_time_leaves_the_budget_as_it_was() -> None:
    busy = [Bucket(minute, 1, Counts(100, minute % 20 == 0)) for minute in range(100)]
    idle = [Bucket(minute, 1, Counts()) for minute in range(100, 200)]
    before = budget(SLO, TimeSeries(busy).window(99, SLO.window_min))
    assert budget(SLO, TimeSeries(busy + idle).window(199, SLO.window_min)) == before
    assert before.left == 0.5


def test_no_failure_is_a_whole_budget() -> None:
    found = budget(SLO, Counts(1000, 0))
    assert (found.state, found.availability, found.burn, found.left) == (DataState.OK, 1.0, 0.0, 1.0)


def test_an_overspent_budget_is_negative() -> None:
    found = budget(SLO, Counts(1000, 4))
    assert (found.left, found.spent, found.allowed) == (-3.0, 4.0, 1.0)


def test_more_good_than_all_is_a_fault_of_the_instruments() -> None:
    found = budget(SLO, Counts.of_good(1001, 1000))
    assert found.state == DataState.INSTRUMENTATION_FAULT
    assert (found.availability, found.left) == (None, None)


def test_a_silent_source_is_no_success() -> None:
    assert budget(SLO, Counts(), source_gone=True).state == DataState.SOURCE_GONE
    assert budget(SLO, Counts(), source_gone=True).availability is None
    earlier = budget(SLO, Counts(1000, 4), source_gone=True)
    assert (earlier.state, earlier.left, earlier.notes) == (DataState.SOURCE_GONE, -3.0, ("gap_in_source",))
    back = budget(SLO, Counts(1000, 4), gap=True)
    assert (back.state, back.notes) == (DataState.OK, ("gap_in_source",))


def test_when_a_source_is_gone() -> None:
    assert not source_is_gone(1000.0, 1300.0)
    assert source_is_gone(1000.0, 1300.1)
    assert source_is_gone(1000.0, 4600.0)
    assert source_is_gone(None, 0.0)
    assert not source_is_gone(1000.0, 1300.1, after_s=600.0)


def test_a_young_service_gets_its_figures_with_a_note() -> None:
    found = budget(SLO, Counts(1000, 1), observed_min=2 * 1440)
    assert (found.left, found.notes) == (0.0, ("window_not_full",))
    assert budget(SLO, Counts(1000, 1), observed_min=43_200).notes == ()


def test_budget_and_burn_are_exact_at_the_edge() -> None:
    assert SLO.budget_minutes == 43.2
    assert burn_rate(SLO, Counts(10_000, 144)) == 14.4
    assert burn_rate(SLO, Counts(10, 1)) == 100.0
    assert burn_rate(Objective("a", 0.9995), Counts(2000, 3)) == 3.0


def test_equivalent_minutes_weigh_an_outage_by_its_load() -> None:
    """18 hours of full load and 6 of a tenth, each day: half an hour of outage by night costs 3.9 minutes, not 30."""
    day, night = 1000, 100
    turns = 30 * (18 * 60 * day + 6 * 60 * night)
    found = budget(SLO, Counts(turns, 30 * night))
    assert found.equivalent_minutes == pytest.approx(3.9, abs=0.05)


@settings(deadline=None)
@given(st.integers(-5, 10**9), st.integers(-5, 10**9), st.booleans(), st.floats(1e-9, 1 - 1e-9))
def test_no_figure_is_ever_nan_or_infinite(total: int, bad: int, gone: bool, target: float) -> None:
    found = budget(Objective("any", target), Counts(total, bad), source_gone=gone)
    json.dumps(asdict(found), allow_nan=False)
    if found.availability is not None:
        assert 0 <= found.availability <= 1
        assert found.left is not None
        assert math.isfinite(found.left)
    if not total:
        assert found.availability is None


@pytest.mark.parametrize("target", [0.0, 1.0, 99.9, float("nan")])
def test_targets_out_of_range(target: float) -> None:
    with pytest.raises(FigureOutOfRange, match=r"such as 99\.9%"):
        Objective("support", target)


def test_windows_out_of_range() -> None:
    with pytest.raises(FigureOutOfRange, match="the window of 'support' is 0: give one minute or more"):
        Objective("support", 0.999, 0)
