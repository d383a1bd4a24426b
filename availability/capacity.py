"""Quota as availability: whether the others can carry the load of the one that fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from availability.errors import PartUnknown
from availability.figures import not_negative, positive

WARN_AT = 0.8
PAGE_AT = 1.0

Level = Literal["ok", "warn", "page"]


@dataclass(frozen=True)
class Headroom:
    """What happens when `lost` fails at peak load.

    `now`: load over the quota of all, 0 and up. `after`: load over the quota that is left, None when nothing is left.
    `coverage_cap`: the share of the load that can be rescued at most, 0 to 1. `level`: of `after`; nothing left pages.
    """

    lost: str
    now: float
    after: float | None
    coverage_cap: float
    level: Level


def headroom(peak: float, quotas: Mapping[str, float], lost: str) -> Headroom:
    """Utilisation after the failure of `lost`: Uᵢ = peak load / (total quota − quotaᵢ).

    `peak` and `quotas` in one unit, per region: requests per minute, or tokens per minute (ask for each and take the
    worse). At Uᵢ above 1 only 1/Uᵢ of the load fits, and that caps coverage. Raises PartUnknown for a `lost` without a
    quota, FigureOutOfRange for a negative load and for quotas that are not above 0.
    """
    not_negative("the peak load", peak)
    for name, quota in quotas.items():
        positive(f"the quota of {name!r}", quota)
    if lost not in quotas:
        raise PartUnknown(lost, quotas)
    left = sum(quota for name, quota in quotas.items() if name != lost)
    now = peak / sum(quotas.values())
    if left == 0:
        return Headroom(lost, now, None, 0.0, "page")
    after = peak / left
    level: Level = "page" if after >= PAGE_AT else "warn" if after >= WARN_AT else "ok"
    return Headroom(lost, now, after, min(1.0, 1.0 / after) if after > 0 else 1.0, level)
