"""Whether two providers fail together: coverage as measured, and minutes in which both were seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from availability.counts import Counts
from availability.estimate import Interval, clopper_pearson, wilson
from availability.figures import share
from availability.redundancy import beta_from_conditional, correlation


@dataclass(frozen=True)
class Coverage:
    """ĉ: rescued turns of those whose primary failed, 0 to 1; None while no primary has failed. With Wilson's interval."""

    point: float | None
    interval: Interval


def coverage(rescued: int, primary_failed: int) -> Coverage:
    """Raises CountsInvalid for more rescues than failures."""
    interval = wilson(rescued, primary_failed)
    return Coverage(rescued / primary_failed if primary_failed else None, interval)


@dataclass(frozen=True)
class Cofailure:
    """`minutes`: those in which both were tried or probed; the other counts are of these. None is what no minute tells.

    `conditional`: P(B|A), the share of the first's bad minutes that were the second's too. `beta`: the β that gives
    `redundancy.failover` this P(B|A). `joint_minutes_per_30d`: Clopper-Pearson, so it is above 0 when nothing was seen.
    It treats minutes as independent, and they come in bursts: the truth is wider.
    """

    minutes: int
    first_down: int
    second_down: int
    both_down: int
    conditional: float | None
    correlation: float | None
    beta: float | None
    joint_minutes_per_30d: Interval


def cofailure(first: Mapping[int, Counts], second: Mapping[int, Counts], *, down_at: float = 0.5) -> Cofailure:
    """From attempts and probes per minute of two providers. `down_at`: the failed share from which a minute is bad.

    Minutes in which one of them was not tried tell nothing about both and are left out. Raises FigureOutOfRange.
    """
    share("the share from which a minute is bad", down_at)
    minutes = first_down = second_down = both_down = 0
    for minute, counts in first.items():
        other = second.get(minute, Counts())
        if counts.total <= 0 or other.total <= 0:
            continue
        a, b = (one.bad > 0 and one.bad / one.total >= down_at for one in (counts, other))
        minutes += 1
        first_down += a
        second_down += b
        both_down += a and b
    conditional = both_down / first_down if first_down else None
    q1, q2, joint = ((n / minutes if minutes else 0.0) for n in (first_down, second_down, both_down))
    return Cofailure(
        minutes=minutes,
        first_down=first_down,
        second_down=second_down,
        both_down=both_down,
        conditional=conditional,
        correlation=correlation(q1, q2, joint),
        beta=None if conditional is None else beta_from_conditional(conditional, q2),
        joint_minutes_per_30d=clopper_pearson(both_down, minutes).as_minutes_per_30d(),
    )
