"""When a rolling budget is spent."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from availability.budget import Objective
from availability.counts import Bucket, Counts
from availability.errors import CountsInvalid, FigureOutOfRange
from availability.projection import evenly_spread, minutes_left

SLO = Objective("support", 0.999)
DAY = 1440
NOW = 30 * DAY - 1


def history(spent: float, per_hour: int = 1_000_000) -> list[Bucket]:
    """30 days of even traffic that spent this share of the budget, evenly."""
    return [Bucket(hour * 60, 60, Counts(per_hour, round(per_hour * 0.001 * spent))) for hour in range(720)]


def left(buckets: list[Bucket], burn: float, per_min: float = 1_000_000 / 60) -> float | None:
    return minutes_left(SLO, buckets, NOW, events_per_min=per_min, failed_share=burn * 0.001)


def test_the_even_history() -> None:
    assert evenly_spread(0.8, 1.2, 30) == pytest.approx(15)
    assert left(history(0.8), 1.2) != pytest.approx(5 * DAY)  # W(1 − S)/b, which expires nothing
    assert left(history(0.8), 1.2) == pytest.approx(15 * DAY)


@settings(deadline=None)
@given(st.floats(0.0, 0.999).map(lambda s: round(s, 3)), st.floats(1.01, 50))
def test_real_buckets_agree_with_the_even_figure(spent: float, burn: float) -> None:
    assert left(history(spent), burn) == pytest.approx(evenly_spread(spent, burn, 43_200), rel=1e-6, abs=1e-3)


def test_an_outage_that_expires_tomorrow_gives_its_budget_back() -> None:
    old, new = history(0.0), history(0.0)
    old[12] = old[12]._replace(counts=Counts(1_000_000, 576_000))  # 80 % of the budget, half a day into the window
    new[-12] = new[-12]._replace(counts=Counts(1_000_000, 576_000))
    soon, late = left(old, 1.2), left(new, 1.2)
    assert late == pytest.approx(0.2 / 1.2 * 43_200, rel=0.01)  # nothing expires in time
    assert soon == pytest.approx(43_200 / 1.2, rel=0.01)  # as if it had never been


def test_spent_already_and_never() -> None:
    assert left(history(1.0), 0.0) == 0.0
    assert left(history(3.0), 5.0) == 0.0
    assert left(history(0.8), 0.9) is None
    assert left(history(0.0), 0.0) is None
    assert evenly_spread(1.0, 0.0, 30) == 0.0
    assert evenly_spread(0.8, 0.999, 30) is None
    assert evenly_spread(0.8, 1.0, 30) == pytest.approx(30)
    assert left([], 50.0) is None


def test_good_turns_that_expire_take_their_budget_along() -> None:
    """Traffic stops after a failure: what was allowed by old good turns goes when they do."""
    buckets = [Bucket(0, 60, Counts(900_000, 0)), Bucket(NOW - 59, 60, Counts(100_000, 500))]
    found = left(buckets, 0.0, per_min=0.0)
    assert found == pytest.approx(60 * 500 / 900)


def test_a_bucket_across_the_windows_edge_counts_with_the_part_inside() -> None:
    small = Objective("small", 0.9, 30)
    buckets = [Bucket(0, 60, Counts(600, 30))]
    inside = minutes_left(small, buckets, 59, events_per_min=10, failed_share=0.2)
    assert inside == pytest.approx(evenly_spread(0.5, 2.0, 30))


def test_what_cannot_be_projected() -> None:
    with pytest.raises(CountsInvalid, match="the bucket from minute 0 has 2 failures of 1 events"):
        left([Bucket(0, 60, Counts(1, 2))], 1.0)
    asked: list[Callable[[], object]] = [
        lambda: minutes_left(SLO, [], NOW, events_per_min=-1, failed_share=0),
        lambda: minutes_left(SLO, [], NOW, events_per_min=1, failed_share=1.5),
        lambda: evenly_spread(-1, 1, 30),
        lambda: evenly_spread(0, float("inf"), 30),
        lambda: evenly_spread(0, 1, 0),
    ]
    for ask in asked:
        with pytest.raises(FigureOutOfRange):
            ask()
