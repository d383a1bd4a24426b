"""The error budget of an objective over its window, and how fast it burns.

Google, The Site Reliability Workbook, chapters 2 (Implementing SLOs) and 5 (Alerting on SLOs). A figure that nothing was
measured for is None and comes with a state that says why. No figure here is ever NaN or infinite.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Literal

from availability.counts import Counts
from availability.errors import FigureOutOfRange
from availability.figures import MINUTES_PER_30_DAYS

SOURCE_GONE_AFTER_S = 300.0
"""Five minute buckets without a sign of life; one late writer is no alarm."""

Note = Literal["window_not_full", "gap_in_source"]
"""`window_not_full`: counting began inside the window. `gap_in_source`: the source was gone for a part of it."""


class DataState(StrEnum):
    """What stands behind a figure. `no_data`: nothing happened that counts. `instrumentation_fault`: counts that cannot
    be, such as more good events than events. `source_gone`: whoever counts has not been heard of, so a quiet time and an
    outage look alike."""

    OK = "ok"
    NO_DATA = "no_data"
    INSTRUMENTATION_FAULT = "instrumentation_fault"
    SOURCE_GONE = "source_gone"


@dataclass(frozen=True)
class Objective:
    """`target`: share of turns that have to succeed, above 0 and below 1 (1 has no budget to burn). `window_min`: the
    rolling window in minutes, 1 or more. Raises FigureOutOfRange."""

    name: str
    target: float
    window_min: int = MINUTES_PER_30_DAYS

    def __post_init__(self) -> None:
        if not 0.0 < self.target < 1.0:
            wanted = "a share above 0 and below 1, such as 99.9%"
            raise FigureOutOfRange(f"the target of {self.name!r}", self.target, wanted)
        if self.window_min < 1:
            raise FigureOutOfRange(f"the window of {self.name!r}", self.window_min, "one minute or more")

    @property
    def allowed_share(self) -> float:
        """The share that may fail, 1 − target."""
        return float(self.allowed_exact)

    @property
    def allowed_exact(self) -> Fraction:
        """The same as it is written: 1/1000 for 0.999, so that a burn of just 14.4 is 14.4."""
        return 1 - Fraction(repr(self.target))

    @property
    def budget_minutes(self) -> float:
        """The budget in equivalent minutes of full outage per 30 days: 43.2 for 99.9 %."""
        return self.allowed_share * MINUTES_PER_30_DAYS


@dataclass(frozen=True)
class Budget:
    """An objective's budget. Shares of the budget are 1 for all of it.

    `availability`: 0 to 1. `allowed`: failed events that the window's events allow, not rounded. `spent`, `left`: shares
    of `allowed`; `left` is below 0 when more was spent. `burn`: failed share over the allowed share; 1 spends exactly the
    budget over the window. `equivalent_minutes`: failed share times 43 200: minutes of full outage at average load, so
    show it under that label only. All of them are None unless events that count were counted and the counts are sound.
    """

    objective: Objective
    state: DataState
    counts: Counts
    availability: float | None
    allowed: float | None
    spent: float | None
    left: float | None
    burn: float | None
    equivalent_minutes: float | None
    notes: tuple[Note, ...] = ()


def data_state(counts: Counts, *, source_gone: bool = False) -> DataState:
    """What may be said from these counts."""
    if source_gone:
        return DataState.SOURCE_GONE
    if not counts.sound:
        return DataState.INSTRUMENTATION_FAULT
    return DataState.OK if counts.total else DataState.NO_DATA


def burn_rate(objective: Objective, counts: Counts) -> float | None:
    """Failed share over the allowed share; None where nothing was counted, or nothing sound."""
    if not counts.sound or not counts.total:
        return None
    return float(Fraction(counts.bad, counts.total) / objective.allowed_exact)


def budget(
    objective: Objective,
    counts: Counts,
    *,
    observed_min: int | None = None,
    source_gone: bool = False,
    gap: bool = False,
) -> Budget:
    """The budget from the sum of the window's counts.

    `observed_min`: minutes since counting began; fewer than the window's get a note. None: it began before the window.
    `source_gone`: the source is silent now (see `source_is_gone`); figures are of what came before. `gap`: it was silent
    in a part of the window. A silent or idle time adds no events, good or bad: it leaves the budget as it was.
    """
    state = data_state(counts, source_gone=source_gone)
    notes: list[Note] = []
    if observed_min is not None and observed_min < objective.window_min:
        notes.append("window_not_full")
    if gap or source_gone:
        notes.append("gap_in_source")
    burn = burn_rate(objective, counts)
    if burn is None:
        return Budget(objective, state, counts, None, None, None, None, None, None, tuple(notes))
    failed = counts.bad / counts.total
    return Budget(
        objective=objective,
        state=state,
        counts=counts,
        availability=(counts.total - counts.bad) / counts.total,
        allowed=counts.total * objective.allowed_share,
        spent=burn,
        left=1.0 - burn,
        burn=burn,
        equivalent_minutes=failed * MINUTES_PER_30_DAYS,
        notes=tuple(notes),
    )


def source_is_gone(last_seen_s: float | None, now_s: float, after_s: float = SOURCE_GONE_AFTER_S) -> bool:
    """Whether the source of counts has been silent for longer than `after_s` seconds, or was never heard (None).

    A source gives a sign of life at least once a minute, also when nothing happens: it writes its counts, even if 0.
    """
    return last_seen_s is None or now_s - last_seen_s > after_s
