"""The month that availability is told in, and the ranges that figures have to keep."""

from __future__ import annotations

import math

from availability.errors import FigureOutOfRange

MINUTES_PER_30_DAYS = 43_200
"""The month of every figure in minutes: 30 days of 1 440 minutes."""


def minutes_per_30d(availability: float) -> float:
    """Minutes of failed turns in 30 days at this availability (0 to 1).

    It is the failed share of turns times 43 200, so these are equivalent minutes of full outage: an outage while few
    turns run counts for less than the clock says. Raises FigureOutOfRange.
    """
    return (1.0 - share("the availability", availability)) * MINUTES_PER_30_DAYS


def share(what: str, value: float) -> float:
    """`value` if it lies between 0 and 1. Raises FigureOutOfRange, also for NaN."""
    if not 0.0 <= value <= 1.0:
        raise FigureOutOfRange(what, value, "a share between 0 and 1")
    return value


def positive(what: str, value: float) -> float:
    """`value` if it is finite and above 0. Raises FigureOutOfRange."""
    if not (math.isfinite(value) and value > 0.0):
        raise FigureOutOfRange(what, value, "a finite number above 0")
    return value


def not_negative(what: str, value: float) -> float:
    """`value` if it is finite and 0 or more. Raises FigureOutOfRange."""
    if not (math.isfinite(value) and value >= 0.0):
        raise FigureOutOfRange(what, value, "a finite number, 0 or more")
    return value
