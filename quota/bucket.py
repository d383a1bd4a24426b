"""One token bucket. No clock of its own: each call is told the time, in monotonic seconds."""

from __future__ import annotations

TOLERANCE_S = 1e-6
"""What a microsecond refills counts as there. It covers the rounding of times and levels, so that a wait that was
computed here is never a hair too short, and lies far below any wait that matters."""


class Bucket:
    """Holds up to `capacity` units and refills at `rate_per_s`, starting full.

    The level is below zero only by use that exceeded its reservation (`correct`), or by `TOLERANCE_S` of refill.
    Reading changes nothing: the level is kept for the time of the last change, so that readings add no rounding.
    """

    __slots__ = ("_at", "_level", "_tolerance", "capacity", "rate_per_s")

    def __init__(self, *, capacity: float, rate_per_s: float, now: float) -> None:
        _check(capacity, rate_per_s)
        self.capacity = capacity
        self.rate_per_s = rate_per_s
        self._tolerance = rate_per_s * TOLERANCE_S
        self._level = capacity
        self._at = now

    def level(self, now: float) -> float:
        """What is left at `now`. A time before the last change counts as the time of that change."""
        return min(self.capacity, self._level + self.rate_per_s * max(now - self._at, 0.0))

    def never_fits(self, amount: float) -> bool:
        """Whether `amount` is more than a full bucket holds."""
        return amount > self.capacity + self._tolerance

    def wait_s(self, amount: float, now: float) -> float:
        """Seconds until `amount` fits if nobody takes anything; 0 if it fits now. Not for what never fits.

        An amount of 0 fits as soon as the bucket is out of debt.
        """
        short = amount - self.level(now)
        return short / self.rate_per_s if short > self._tolerance else 0.0

    def take(self, amount: float, now: float) -> None:
        """Take what fits; the caller has asked `wait_s` at the same `now`."""
        self._change(-amount, now)

    def correct(self, amount: float, now: float) -> None:
        """Give back what was not used (above 0), or take what was used beyond the reservation (below 0).

        The level does not rise above the capacity, and may fall below zero.
        """
        self._change(amount, now)

    def retune(self, *, capacity: float, rate_per_s: float, now: float) -> None:
        """Another size and rate from `now` on. The level stays, except that it is never above the capacity: a larger bucket
        is not filled by this. Raises ValueError as the constructor does, and changes nothing then."""
        _check(capacity, rate_per_s)
        self._change(0, now)  # what has been refilled until now was refilled at the rate of then
        self.capacity, self.rate_per_s = capacity, rate_per_s
        self._tolerance = rate_per_s * TOLERANCE_S

    def _change(self, amount: float, now: float) -> None:
        self._level = min(self.capacity, self.level(now) + amount)
        self._at = max(self._at, now)


def _check(capacity: float, rate_per_s: float) -> None:
    if not (capacity > 0 and rate_per_s > 0):
        raise ValueError(f"a bucket needs a capacity and a rate above 0, not {capacity} and {rate_per_s}/s")
