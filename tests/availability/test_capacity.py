"""Quota as availability: the load that the rest has to carry."""

from __future__ import annotations

import pytest

from availability.capacity import headroom
from availability.errors import FigureOutOfRange, PartUnknown

QUOTAS = {"gpt-eu": 600.0, "claude-us": 400.0}


def test_half_used_now_is_too_much_after_the_first_fails() -> None:
    found = headroom(500, QUOTAS, "gpt-eu")
    assert (found.now, found.after, found.coverage_cap, found.level) == (0.5, 1.25, 0.8, "page")


@pytest.mark.parametrize(
    ("peak", "level", "cap"), [(0, "ok", 1), (319, "ok", 1), (320, "warn", 1), (399, "warn", 1), (400, "page", 1)]
)
def test_levels(peak: float, level: str, cap: float) -> None:
    found = headroom(peak, QUOTAS, "gpt-eu")
    assert (found.level, found.coverage_cap) == (level, cap)


def test_nothing_left_pages_and_has_no_figure() -> None:
    found = headroom(10, {"only": 100}, "only")
    assert (found.after, found.coverage_cap, found.level) == (None, 0.0, "page")


def test_what_cannot_be() -> None:
    with pytest.raises(PartUnknown, match="no part 'gpt'"):
        headroom(1, QUOTAS, "gpt")
    with pytest.raises(FigureOutOfRange):
        headroom(-1, QUOTAS, "gpt-eu")
    with pytest.raises(FigureOutOfRange, match="quota of 'gpt-eu'"):
        headroom(1, {"gpt-eu": 0}, "gpt-eu")
