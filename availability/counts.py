"""Counts in minute buckets: merged so that nothing counts twice, rolled up to hours, and summed over windows.

Each process writes how much it has counted in a minute so far, never what came on top. So records may be written again,
arrive twice or out of order, and be copied between regions: of two records of one key the larger is the newer.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from availability.errors import CountsInvalid, FigureOutOfRange

HOUR_MIN = 60


class Counts(NamedTuple):
    """`total`: events that count (what is excluded is in neither figure). `bad`: those of them that failed.

    What they are is the component's matter: turns of a route, calls that reached a tool, primary failures (`bad`: not
    rescued). A source outside may report more good events than events, which makes `bad` negative: see `sound`.
    """

    total: int = 0
    bad: int = 0

    @classmethod
    def of_good(cls, good: int, total: int) -> Counts:
        """From good events and all events, as many sources tell them."""
        return cls(total, total - good)

    @property
    def sound(self) -> bool:
        """Whether these can be counts at all: 0 ≤ bad ≤ total."""
        return 0 <= self.bad <= self.total

    def plus(self, other: Counts) -> Counts:
        return Counts(self.total + other.total, self.bad + other.bad)

    def larger(self, other: Counts) -> Counts:
        """The newer of two absolute counts of the same thing: each figure only grows."""
        return Counts(max(self.total, other.total), max(self.bad, other.bad))


class MinuteKey(NamedTuple):
    """Whose counts. `minute`: Unix time over 60, rounded down. `boot`: a new one at every start of the process, so that
    a restart within the minute adds to what the process before it had counted."""

    minute: int
    component: str
    region: str
    node: str
    boot: str


class HourKey(NamedTuple):
    """`hour`: Unix time over 3600, rounded down."""

    hour: int
    component: str
    region: str


class Bucket(NamedTuple):
    """Counts of one component in the `span_min` minutes from the minute `start` on."""

    start: int
    span_min: int
    counts: Counts


def merge(*records: Mapping[MinuteKey, Counts]) -> dict[MinuteKey, Counts]:
    """All records as one: of the same key the larger figures. In any order and any number of times the result is the
    same, so stores and regions can be read and copied without care."""
    merged: dict[MinuteKey, Counts] = {}
    for several in records:
        for key, counts in several.items():
            known = merged.get(key)
            merged[key] = counts if known is None else known.larger(counts)
    return merged


def roll_up(records: Mapping[MinuteKey, Counts]) -> dict[HourKey, Counts]:
    """Sums per hour, component and region of merged records.

    The records have to hold every minute of the hours in them. A roll-up replaces the one before it and is never added
    to it; when a late record arrives, its hour is rolled up anew.
    """
    hours: dict[HourKey, Counts] = {}
    for key, counts in records.items():
        hour = HourKey(key.minute // HOUR_MIN, key.component, key.region)
        hours[hour] = hours.get(hour, Counts()).plus(counts)
    return hours


def time_series(
    minutes: Mapping[MinuteKey, Counts],
    hours: Mapping[HourKey, Counts] | None = None,
    *,
    fine_from: int | None = None,
    region: str | None = None,
) -> dict[str, TimeSeries]:
    """The series of each component, over all regions or one, from merged minutes and from roll-ups.

    `fine_from`: the minute, at a full hour, from which the minutes are used; before it the hours are. None: as soon as
    the last rolled-up hour ends. Raises FigureOutOfRange for a `fine_from` that is not at a full hour.
    """
    hours = hours or {}
    if fine_from is None:
        fine_from = (max((key.hour for key in hours), default=-1) + 1) * HOUR_MIN if hours else 0
    if fine_from % HOUR_MIN:
        raise FigureOutOfRange("the first minute that is not rolled up", fine_from, "a multiple of 60")
    sums: dict[str, dict[tuple[int, int], Counts]] = {}
    for hour, counts in hours.items():
        start = hour.hour * HOUR_MIN
        if start < fine_from and region in (None, hour.region):
            of = sums.setdefault(hour.component, {})
            of[start, HOUR_MIN] = of.get((start, HOUR_MIN), Counts()).plus(counts)
    for key, counts in minutes.items():
        if (not hours or key.minute >= fine_from) and region in (None, key.region):
            of = sums.setdefault(key.component, {})
            of[key.minute, 1] = of.get((key.minute, 1), Counts()).plus(counts)
    return {
        name: TimeSeries(Bucket(start, span, counts) for (start, span), counts in of.items())
        for name, of in sums.items()
    }


class TimeSeries:
    """One component's buckets in order of time. They may have gaps (nothing was counted) but must not overlap.

    Raises CountsInvalid for buckets that overlap.
    """

    __slots__ = ("_starts", "buckets")

    def __init__(self, buckets: Iterable[Bucket]) -> None:
        self.buckets: Sequence[Bucket] = tuple(sorted(buckets))
        self._starts = [bucket.start for bucket in self.buckets]
        for one, following in pairwise(self.buckets):
            if one.start + one.span_min > following.start:
                problem = f"the buckets from minute {one.start} and {following.start} overlap"
                raise CountsInvalid(problem, "merge the records first, and give each minute once")

    @property
    def first_minute(self) -> int | None:
        """The minute that the oldest bucket begins with; None without a bucket."""
        return self._starts[0] if self._starts else None

    def window_sums(self, now: int, windows_min: Sequence[int]) -> dict[int, Counts]:
        """For each window the sum of its buckets; the minute `now` is the last one in every window.

        One pass over the buckets of the longest window, whatever the number of windows. A window sum is a sum of
        counts: ratios are taken from it, never averaged. A bucket of an hour counts while any of its minutes does, so
        the edge of a long window is up to an hour too generous.
        """
        sums: dict[int, Counts] = {}
        total = bad = 0
        position = bisect_right(self._starts, now)
        for window in sorted(set(windows_min)):
            first = now - window + 1
            while position and self.buckets[position - 1].start + self.buckets[position - 1].span_min > first:
                position -= 1
                counts = self.buckets[position].counts
                total += counts.total
                bad += counts.bad
            sums[window] = Counts(total, bad)
        return sums

    def window(self, now: int, window_min: int) -> Counts:
        """The sum of one window."""
        return self.window_sums(now, (window_min,))[window_min]


def increase(samples: Iterable[float], *, from_zero: bool = False) -> float:
    """How much a counter grew over its samples, oldest first. A drop is a restart: it has grown from 0 to the new value.

    `from_zero`: the counter is known to be new, so the first sample counts too; otherwise its growth before that sample
    is unknown, and a counter that is born at 1 hides its first event. Never negative. A restart that has already
    passed the old value cannot be seen in samples; minute buckets with a boot id have no such gap. The rule is that of
    Prometheus's `increase`, without its extrapolation. Raises FigureOutOfRange for a sample that is negative, infinite
    or NaN.
    """
    grown = 0.0
    before = 0.0 if from_zero else None
    for sample in samples:
        if not (math.isfinite(sample) and sample >= 0.0):
            raise FigureOutOfRange(
                "a counter's sample", sample, "a finite number, 0 or more; leave out what is missing"
            )
        if before is not None:
            grown += sample - before if sample >= before else sample
        before = sample
    return grown
