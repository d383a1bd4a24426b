"""What spare parts are worth: k of n, rescues that fail, shared causes, correlation, maintenance in turns.

Plain functions on availabilities a and unavailabilities q = 1 − a, all shares of turns between 0 and 1. Every function
raises FigureOutOfRange for a share outside that range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from availability.errors import FigureOutOfRange
from availability.figures import MINUTES_PER_30_DAYS, share


def k_of_n(k: int, availabilities: Sequence[float]) -> float:
    """At least `k` of the parts are up; their availabilities may differ.

    By convolution: the distribution of how many are up grows by one part at a time (Barlow and Heidtmann, 1984).
    """
    distribution = [1.0]
    for availability in availabilities:
        share("an availability", availability)
        down = [p * (1.0 - availability) for p in distribution] + [0.0]
        up = [0.0] + [p * availability for p in distribution]
        distribution = [a + b for a, b in zip(down, up, strict=True)]
    return min(math.fsum(distribution[max(k, 0) :]), 1.0)


def failover(
    availabilities: Sequence[float], *, coverage: float = 1.0, beta: float = 0.0, switch_share: float = 0.0
) -> float:
    """Availability of parts that are tried in order, each rescuing the one before it.

    A turn succeeds when the first part is up, or when its failure is rescued (c), before too late (1 − r), by a next part
    that the same cause has not taken along (1 − β) and that is up: A = a₁ + q₁·c(1−r)(1−β)·A₂, where A₂ is the same sum
    of the parts after the first. With r = 0 that is U = q₁[1 − c(1 − P(B|A))] with P(B|A) = β + (1−β)q₂, and with
    β = 0 as well U = q₁(1−c) + c·q₁q₂.

    Coverage: Bouricius, Carter and Schneider (1969). r = τ/MTTR: a part fails q/MTTR times per unit of time and each
    rescue loses τ, which is λcτ with λ = q/((1−q)·MTTR) but for a factor of 1 − q.
    """
    rescued = (
        share("the coverage", coverage) * (1.0 - share("beta", beta)) * (1.0 - share("the switch share", switch_share))
    )
    total = 0.0
    for availability in reversed(availabilities):
        total = share("an availability", availability) + (1.0 - availability) * rescued * total
    return total


def common_cause(q: float, beta: float, copies: int = 2) -> float:
    """Unavailability of equal copies of which one is enough: βq + ((1−β)q)ⁿ.

    β-factor model (Fleming, 1975; IEC 61508-6, annex D): a share β of all failures strikes every copy at once.
    """
    share("beta", beta)
    return min(beta * share("an unavailability", q) + ((1.0 - beta) * q) ** copies, 1.0)


def split_common_cause(availability: float, beta: float) -> tuple[float, float]:
    """A part's own availability and that of the cause it shares with its copies: 1 − (1−β)q and 1 − βq.

    Put the copies with the first figure into a group, and a part with the second in series with that group.
    """
    q = 1.0 - share("an availability", availability)
    share("beta", beta)
    return 1.0 - (1.0 - beta) * q, 1.0 - beta * q


def joint_failure(q1: float, q2: float, correlation: float) -> float:
    """Probability that both are down: q₁q₂ + ρ√(q₁(1−q₁)q₂(1−q₂)), kept between what is possible at all (Fréchet).

    `correlation`: of the two states, −1 to 1.
    """
    share("an unavailability", q1)
    share("an unavailability", q2)
    if not -1.0 <= correlation <= 1.0:
        raise FigureOutOfRange("the correlation", correlation, "a number between -1 and 1")
    joint = q1 * q2 + correlation * math.sqrt(q1 * (1.0 - q1) * q2 * (1.0 - q2))
    return min(max(joint, q1 + q2 - 1.0, 0.0), min(q1, q2))


def correlation(q1: float, q2: float, joint: float) -> float | None:
    """Correlation of two parts' states, from how often each and both are down; None where a part never changes.

    Raises FigureOutOfRange for a `joint` that the two cannot have: more than either, or less than q₁ + q₂ − 1.
    """
    share("an unavailability", q1)
    share("an unavailability", q2)
    low, high = max(q1 + q2 - 1.0, 0.0), min(q1, q2)
    if not low - 1e-12 <= joint <= high + 1e-12:
        raise FigureOutOfRange("the joint unavailability", joint, f"a share between {low:g} and {high:g}")
    spread = math.sqrt(q1 * (1.0 - q1) * q2 * (1.0 - q2))
    return min(max((joint - q1 * q2) / spread, -1.0), 1.0) if spread > 0.0 else None


def beta_from_conditional(conditional: float, q2: float) -> float:
    """The β for which `failover` has this P(B|A): (P − q₂)/(1 − q₂), and 0 where B fails less often than usual then.

    For equal parts it is the correlation of their states.
    """
    share("a conditional failure", conditional)
    if share("an unavailability", q2) == 1.0:
        return 0.0
    return max((conditional - q2) / (1.0 - q2), 0.0)


def staggered(availabilities: Sequence[float], planned_min: Sequence[float]) -> float:
    """Availability of parts of which one is enough, whose maintenance is never at the same time.

    `planned_min`: minutes per 30 days for each. Conditioned on which part is being maintained: the others carry the
    turn alone. Raises FigureOutOfRange when the maintenance of all does not fit into the month.
    """
    if sum(planned_min) > MINUTES_PER_30_DAYS or any(minutes < 0 for minutes in planned_min):
        raise FigureOutOfRange("planned maintenance", list(planned_min), "minutes of 0 or more, 43 200 in all at most")
    shares = [minutes / MINUTES_PER_30_DAYS for minutes in planned_min]
    downs = [1.0 - share("an availability", availability) for availability in availabilities]
    total = (1.0 - math.fsum(shares)) * math.prod(downs)
    for position, under_way in enumerate(shares):
        total += under_way * math.prod(downs[:position] + downs[position + 1 :])
    return 1.0 - total
