"""When a rolling budget will be spent, knowing that old failures leave the window while new ones come."""

from __future__ import annotations

from collections.abc import Iterable

from availability.budget import Objective
from availability.counts import Bucket
from availability.errors import CountsInvalid
from availability.figures import not_negative, positive, share


def evenly_spread(spent: float, burn: float, window_min: float) -> float | None:
    """Minutes until the budget is spent, for a history that is spread evenly: h = W(1 − S)/(b − S).

    `spent`: share S of the budget, 0 or more. `burn`: rate b from now on, 0 or more. While new failures spend b/W, old ones
    give back S/W. 0 when it is spent already; None when it never will be: at b below 1 the window settles at b, which is
    within the budget. Raises FigureOutOfRange.
    """
    not_negative("the spent share", spent)
    not_negative("the burn rate", burn)
    positive("the window", window_min)
    if spent >= 1.0:
        return 0.0
    return window_min * (1.0 - spent) / (burn - spent) if burn >= 1.0 else None


def minutes_left(
    objective: Objective,
    buckets: Iterable[Bucket],
    now: int,
    *,
    events_per_min: float,
    failed_share: float,
) -> float | None:
    """Minutes from the end of minute `now` until the budget is spent, expiring the real buckets one by one.

    From now on `events_per_min` come, evenly, of which `failed_share` fail (the recent rate: say so where it is shown).
    A bucket leaves the window evenly over its span; failures expire, and so do the events that allow them. 0 when the
    budget is spent already. None when it will not be within one window, after which it settles, and without an event
    in the window. Raises FigureOutOfRange, and CountsInvalid for counts that cannot be.
    """
    not_negative("the events per minute", events_per_min)
    share("the failed share", failed_share)
    window, allowed = objective.window_min, objective.allowed_share
    oldest = now + 1 - window
    over = 0.0  # failures beyond what the window's events allow; the budget is spent at 0
    changes: list[tuple[float, float]] = []  # minutes from now, and by how much `over` then changes its slope
    events = 0
    for start, span, counts in buckets:
        if not counts.sound:
            problem = f"the bucket from minute {start} has {counts.bad} failures of {counts.total} events"
            raise CountsInvalid(problem, "look at what counts them")
        begins, ends = max(start, oldest), min(start + span, now + 1)
        if begins >= ends:
            continue
        share_inside = (ends - begins) / span
        events += counts.total
        rate = (counts.bad - allowed * counts.total) / span
        over += rate * span * share_inside
        changes += [(begins - oldest, -rate), (ends - oldest, rate)]
    if not events:
        return None
    if over >= 0.0:
        return 0.0
    slope = events_per_min * (failed_share - allowed)
    at = 0.0
    for minute, change in [*sorted(changes), (float(window), 0.0)]:
        if slope > 0.0 and over + slope * (minute - at) >= -1e-9:
            return at + max(-over, 0.0) / slope
        over += slope * (minute - at)
        slope += change
        at = minute
    return None
