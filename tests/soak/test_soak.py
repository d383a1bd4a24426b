"""The short form of the soak; `make soak` is the long one."""

from __future__ import annotations

from tests.soak.judge import judge
from tests.soak.soak import soak


async def test_nothing_grows_and_nothing_is_left_unanswered_under_random_faults() -> None:
    report = await soak(20.0, seed=20)
    assert judge(report) == [], report.text()
