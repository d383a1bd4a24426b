"""How sure one may be of a share that was counted, such as failed turns of all turns.

All functions take how often something happened (`hits`) out of how many times it could have (`trials`), and raise
CountsInvalid for counts that cannot be. Without a single trial every interval is 0 to 1: nothing is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from availability.errors import CountsInvalid, FigureOutOfRange
from availability.figures import MINUTES_PER_30_DAYS
from availability.special import beta_quantile, poisson_limits

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """From `low` to `high`, in the unit of what was asked for."""

    low: float
    high: float

    def as_minutes_per_30d(self) -> Interval:
        """For an interval of a failed share: equivalent minutes of full outage in 30 days."""
        return Interval(self.low * MINUTES_PER_30_DAYS, self.high * MINUTES_PER_30_DAYS)


NOTHING_KNOWN = Interval(0.0, 1.0)


def wilson(hits: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """Score interval: centre (p + z²/2n)/(1 + z²/n), half-width z√(p(1−p)/n + z²/4n²)/(1 + z²/n) (Wilson, 1927).

    The one to show: its real coverage is near the nominal one for all but the smallest counts.
    """
    tail = _tail(hits, trials, confidence)
    if trials == 0:
        return NOTHING_KNOWN
    z = NormalDist().inv_cdf(1.0 - tail)
    p = hits / trials
    scale = 1.0 + z * z / trials
    centre = (p + z * z / (2 * trials)) / scale
    half = z * math.sqrt(p * (1.0 - p) / trials + z * z / (4.0 * trials * trials)) / scale
    return Interval(
        0.0 if hits == 0 else max(centre - half, 0.0),
        1.0 if hits == trials else min(centre + half, 1.0),
    )


def clopper_pearson(hits: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """Exact interval (Clopper and Pearson, 1934): its coverage is never below the nominal one, so it is wide."""
    tail = _tail(hits, trials, confidence)
    return Interval(
        0.0 if hits == 0 else beta_quantile(tail, hits, trials - hits + 1),
        1.0 if hits == trials else beta_quantile(1.0 - tail, hits + 1, trials - hits),
    )


def jeffreys(hits: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """Quantiles of Beta(hits + ½, misses + ½), with 0 and 1 as the ends where nothing or all was hit.

    Brown, Cai and DasGupta, Interval Estimation for a Binomial Proportion (2001).
    """
    tail = _tail(hits, trials, confidence)
    a, b = hits + 0.5, trials - hits + 0.5
    return Interval(
        0.0 if hits == 0 else beta_quantile(tail, a, b),
        1.0 if hits == trials else beta_quantile(1.0 - tail, a, b),
    )


def jeffreys_lower(hits: int, trials: int, confidence: float = 0.99) -> float:
    """One-sided: the share that the true one exceeds with `confidence`. 0 without a hit."""
    return jeffreys(hits, trials, 2.0 * confidence - 1.0).low


def clean_turns_needed(q: float, confidence: float = CONFIDENCE) -> int:
    """Turns without one failure that are needed to show a failure share of at most `q`: (1−q)ⁿ ≤ 1 − confidence.

    Raises FigureOutOfRange unless `q` lies above 0 and below 1.
    """
    if not 0.0 < q < 1.0:
        raise FigureOutOfRange("the failure share to show", q, "a share above 0 and below 1")
    _tail(0, 0, confidence)
    return math.ceil(math.log(1.0 - confidence) / math.log1p(-q))


def incident_count(incidents: int, confidence: float = CONFIDENCE) -> Interval:
    """How many incidents such a period may be expected to have, when it had this many (Garwood, 1936)."""
    tail = _tail(incidents, incidents, confidence)
    return Interval(*poisson_limits(incidents, tail))


def _tail(hits: int, trials: int, confidence: float) -> float:
    if not 0 <= hits <= trials:
        raise CountsInvalid(f"{hits} of {trials} cannot be", "look for events that are counted in one place only")
    if not 0.0 < confidence < 1.0:
        raise FigureOutOfRange("the confidence", confidence, "a share above 0 and below 1, such as 0.95")
    return (1.0 - confidence) / 2.0
