"""Minute buckets: merging, roll-ups, windows, and counters that start anew."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from availability.counts import Bucket, Counts, HourKey, MinuteKey, TimeSeries, increase, merge, roll_up, time_series
from availability.errors import CountsInvalid, FigureOutOfRange

keys = st.builds(
    MinuteKey,
    st.integers(0, 200),
    st.sampled_from(["route:support", "tool:order-lookup"]),
    st.sampled_from(["eu", "us"]),
    st.sampled_from(["n1", "n2"]),
    st.sampled_from(["boot1", "boot2"]),
)
counted = st.builds(lambda bad, good: Counts(bad + good, bad), st.integers(0, 50), st.integers(0, 50))
records = st.dictionaries(keys, counted, max_size=30)


@settings(deadline=None)
@given(records, records, records)
def test_merging_is_the_same_in_any_order_and_any_number_of_times(
    a: dict[MinuteKey, Counts], b: dict[MinuteKey, Counts], c: dict[MinuteKey, Counts]
) -> None:
    once = merge(a, b, c)
    assert merge(c, a, b, a, c) == once
    assert merge(merge(a, b), merge(b, c)) == once
    assert merge(once, once) == once


def test_a_replayed_record_adds_nothing_and_a_restart_adds_its_own() -> None:
    first = MinuteKey(5, "route:support", "eu", "n1", "boot1")
    again = first._replace(boot="boot2")
    early, late = {first: Counts(3, 1)}, {first: Counts(7, 2)}
    copied = merge(late, early, late, {again: Counts(2, 2)})
    assert time_series(copied)["route:support"].window(5, 1) == Counts(9, 4)


@settings(deadline=None)
@given(records)
def test_rolled_up_hours_hold_the_same_counts(minutes: dict[MinuteKey, Counts]) -> None:
    fine, coarse = time_series(minutes), time_series({}, roll_up(minutes))
    assert {name: one.window(239, 240) for name, one in fine.items()} == {
        name: one.window(239, 240) for name, one in coarse.items()
    }


@settings(deadline=None)
@given(records, st.integers(0, 4))
def test_hours_and_minutes_together_count_each_minute_once(minutes: dict[MinuteKey, Counts], hour: int) -> None:
    both = time_series(minutes, roll_up(minutes), fine_from=hour * 60)
    for name, one in time_series(minutes).items():
        assert both[name].window(239, 240) == one.window(239, 240)


def test_minutes_behind_the_last_rolled_up_hour_are_used_by_themselves() -> None:
    minutes = {MinuteKey(m, "c", "eu", "n", "b"): Counts(1, 0) for m in range(150)}
    hours = roll_up({key: counts for key, counts in minutes.items() if key.minute < 120})
    one = time_series(minutes, hours)["c"]
    assert [bucket.span_min for bucket in one.buckets] == [60, 60] + [1] * 30
    assert one.window(149, 10) == Counts(10, 0)
    assert one.window(149, 31) == Counts(90, 0)  # an hour counts while any of its minutes does
    with pytest.raises(FigureOutOfRange, match="multiple of 60"):
        time_series(minutes, hours, fine_from=61)


def test_one_region_alone() -> None:
    minutes = {MinuteKey(1, "c", region, "n", "b"): Counts(2, 1) for region in ("eu", "us")}
    assert time_series(minutes, region="eu")["c"].window(1, 5) == Counts(2, 1)
    assert time_series({}, roll_up(minutes), region="us")["c"].window(1, 5) == Counts(2, 1)
    assert roll_up(minutes) == {HourKey(0, "c", "eu"): Counts(2, 1), HourKey(0, "c", "us"): Counts(2, 1)}


@settings(deadline=None)
@given(st.dictionaries(st.integers(0, 300), counted), st.integers(0, 320), st.lists(st.integers(1, 350), min_size=1))
def test_windows_are_plain_sums(buckets: dict[int, Counts], now: int, windows: list[int]) -> None:
    found = TimeSeries(Bucket(minute, 1, counts) for minute, counts in buckets.items()).window_sums(now, windows)
    for window in windows:
        inside = [counts for minute, counts in buckets.items() if now - window < minute <= now]
        assert found[window] == (sum(c.total for c in inside), sum(c.bad for c in inside))


def test_thirty_days_of_twenty_series() -> None:
    """Every minute of 30 days, rolled up but for the last day, against sums kept by hand."""
    random = Random(11)
    days, now = 30, 30 * 1440 - 1
    fine_from = (days - 1) * 1440
    for component in (f"c{i}" for i in range(20)):
        totals = [random.randrange(4) for _ in range(days * 1440)]
        bads = [random.randrange(n + 1) for n in totals]
        buckets = [
            Bucket(h * 60, 60, Counts(sum(totals[h * 60 : h * 60 + 60]), sum(bads[h * 60 : h * 60 + 60])))
            for h in range(fine_from // 60)
        ]
        buckets += [Bucket(m, 1, Counts(totals[m], bads[m])) for m in range(fine_from, now + 1)]
        found = TimeSeries(buckets).window_sums(now, (5, 30, 60, 120, 360, 1440, 4320, 43_200))
        for window, counts in found.items():
            assert counts == (sum(totals[-window:]), sum(bads[-window:])), (component, window)


def test_the_mean_of_ratios_is_not_the_ratio_of_sums() -> None:
    """A quiet good time must not outweigh a busy bad one."""
    busy, quiet = [Counts(1000, 100)] * 6, [Counts(10, 0)] * 6
    found = TimeSeries(Bucket(5 * i, 5, counts) for i, counts in enumerate(busy + quiet)).window(59, 60)
    mean_of_ratios = sum(Fraction(c.bad, c.total) for c in busy + quiet) / 12
    assert mean_of_ratios == Fraction(1, 20)
    assert Fraction(found.bad, found.total) == Fraction(600, 6060)


def test_buckets_must_not_overlap() -> None:
    with pytest.raises(CountsInvalid, match="minute 0 and 59 overlap: merge the records first"):
        TimeSeries([Bucket(0, 60, Counts(1, 0)), Bucket(59, 1, Counts(1, 0))])
    assert TimeSeries([]).first_minute is None
    assert TimeSeries([Bucket(7, 1, Counts())]).first_minute == 7


def test_good_events_beyond_the_total_are_seen() -> None:
    assert Counts.of_good(990, 1000) == Counts(1000, 10)
    assert Counts.of_good(990, 1000).sound
    assert not Counts.of_good(1001, 1000).sound
    assert not Counts(5, 6).sound
    assert not Counts(-1, 0).sound


def test_a_drop_is_a_reset() -> None:
    assert increase([5, 8, 2, 4]) == 7
    assert increase([5, 8, 2, 4], from_zero=True) == 12
    assert increase([1, 1]) == 0
    assert increase([1, 1], from_zero=True) == 1
    assert increase([]) == increase([3]) == 0
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(FigureOutOfRange, match="leave out what is missing"):
            increase([1.0, bad])


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=8), min_size=1, max_size=5))
def test_the_increase_never_counts_more_than_happened(lives: list[list[int]]) -> None:
    samples = [float(sum(life[: i + 1])) for life in lives for i in range(len(life))]
    happened = sum(sum(life) for life in lives)
    assert 0 <= increase(samples) <= increase(samples, from_zero=True) <= happened
    assert increase(samples[: len(lives[0])], from_zero=True) == sum(lives[0])
