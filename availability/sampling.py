"""Intervals by drawing: for a whole chain, and for time lost in bursts. The generator is handed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean

from availability.chain import Chain
from availability.errors import CountsInvalid, FigureOutOfRange
from availability.estimate import CONFIDENCE, Interval, incident_count
from availability.figures import not_negative

DRAWS = 2000


@dataclass(frozen=True)
class Trials:
    """What was counted of one part: calls that went well, and calls that failed."""

    ok: int
    failed: int

    def __post_init__(self) -> None:
        if self.ok < 0 or self.failed < 0:
            raise CountsInvalid(f"{self.ok} good and {self.failed} failed calls cannot be", "counts only grow from 0")


@dataclass(frozen=True)
class ChainEstimate:
    """`point`: the chain's availability with each part's counted share; None while a part has no calls yet.
    `interval`: of that availability, 0 to 1. It is not centred on the point."""

    point: float | None
    interval: Interval


def chain_interval(
    chain: Chain,
    observed: Mapping[str, Trials],
    random: Random,
    *,
    draws: int = DRAWS,
    confidence: float = CONFIDENCE,
) -> ChainEstimate:
    """How sure the sum of a chain is: quantiles over draws aᵢ ~ Beta(ok + ½, failed + ½) of the parts in `observed`.

    Parts that are not in `observed` keep their availability: they are assumed, and what is assumed has no interval.
    The mean of the draws is no estimate (each prior adds half a failure), so none is given. Raises PartUnknown,
    ChainInvalid for a group in `observed`, FigureOutOfRange.
    """
    _checked(draws, confidence)
    totals = [
        chain.availability(
            values={name: random.betavariate(seen.ok + 0.5, seen.failed + 0.5) for name, seen in observed.items()}
        )
        for _ in range(draws)
    ]
    point = None
    if all(seen.ok + seen.failed for seen in observed.values()):
        point = chain.availability(values={name: seen.ok / (seen.ok + seen.failed) for name, seen in observed.items()})
    return ChainEstimate(point, _quantiles(totals, confidence))


def incident_minutes(minutes: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Minutes lost in a period like the one with these incidents; None without an incident.

    Failures are bursty, so it is the incidents that are counted, not the turns in them: Garwood's limits of their
    number times their mean length. How much the lengths differ is left out; see `incident_bootstrap`.
    """
    if not minutes:
        return None
    count = incident_count(len(minutes), confidence)
    mean = fmean(not_negative("an incident's length", length) for length in minutes)
    return Interval(count.low * mean, count.high * mean)


def incident_bootstrap(
    minutes: Sequence[float], random: Random, *, draws: int = DRAWS, confidence: float = CONFIDENCE
) -> Interval | None:
    """As `incident_minutes`, with the spread of the lengths: each draw takes a rate of incidents from
    Gamma(n + ½) and the mean of n lengths drawn with replacement (Efron and Tibshirani, 1993). None without an incident.
    """
    _checked(draws, confidence)
    if not minutes:
        return None
    for length in minutes:
        not_negative("an incident's length", length)
    n = len(minutes)
    totals = [random.gammavariate(n + 0.5, 1.0) * fmean(random.choices(minutes, k=n)) for _ in range(draws)]
    return _quantiles(totals, confidence)


def day_bootstrap(
    minutes_per_day: Sequence[float],
    random: Random,
    *,
    days: int = 30,
    draws: int = DRAWS,
    confidence: float = CONFIDENCE,
) -> Interval | None:
    """Minutes lost in `days` days, from what each observed day lost: sums of days drawn with replacement.

    Days with nothing lost belong in, else the sum is too high. None without a day. With few bad days it is too narrow:
    a month without an incident would make it 0 to 0.
    """
    _checked(draws, confidence)
    if not minutes_per_day:
        return None
    for lost in minutes_per_day:
        not_negative("minutes lost in a day", lost)
    totals = [sum(random.choices(minutes_per_day, k=days)) for _ in range(draws)]
    return _quantiles(totals, confidence)


def _checked(draws: int, confidence: float) -> None:
    if draws < 1:
        raise FigureOutOfRange("the number of draws", draws, "1 or more, such as 2000")
    if not 0.0 < confidence < 1.0:
        raise FigureOutOfRange("the confidence", confidence, "a share above 0 and below 1, such as 0.95")


def _quantiles(values: list[float], confidence: float) -> Interval:
    ordered = sorted(values)
    tail = (1.0 - confidence) / 2.0
    return Interval(_quantile(ordered, tail), _quantile(ordered, 1.0 - tail))


def _quantile(ordered: Sequence[float], p: float) -> float:
    """Linear between the two nearest values (Hyndman and Fan, type 7)."""
    place = p * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
