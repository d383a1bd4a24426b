"""Multi-window, multi-burn-rate alerts, and why one that looks due is held back.

The Site Reliability Workbook, chapter 5, table 5-8: each rule needs a long window, which shows that it matters, and a
short one, which shows that it is still going on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from availability.budget import DataState, Note, Objective, burn_rate, data_state
from availability.counts import Counts, TimeSeries
from availability.errors import FigureOutOfRange
from availability.estimate import jeffreys_lower
from availability.figures import positive

Severity = Literal["page", "ticket"]


@dataclass(frozen=True)
class Rule:
    """Fires when both windows burn at `burn` or faster. `name` is unique among the rules in use."""

    name: str
    severity: Severity
    long_min: int
    short_min: int
    burn: float

    def __post_init__(self) -> None:
        positive(f"the burn rate of {self.name!r}", self.burn)
        if not 1 <= self.short_min < self.long_min:
            wanted = f"minutes, 1 or more and fewer than the long window's {self.long_min}"
            raise FigureOutOfRange(f"the short window of {self.name!r}", self.short_min, wanted)


RULES = (
    Rule("fast", "page", 60, 5, 14.4),
    Rule("slow", "page", 360, 30, 6.0),
    Rule("day", "ticket", 1440, 120, 3.0),
    Rule("trickle", "ticket", 4320, 360, 1.0),
)
"""For a window of 30 days they fire after 2, 5, 10 and 10 % of the budget are spent."""


@dataclass(frozen=True)
class Gate:
    """How much has to be seen in the long window before a rule may fire.

    `minimum_events`: fewer say nothing, however many failed. `minimum_failures`: from this many on no more is asked. With
    fewer, the one-sided lower bound (Jeffreys) of the failed share at `confidence` has to lie above the threshold.
    On low traffic lower the minimum, to 0 if need be: the bound still keeps a single failure from paging.
    """

    minimum_events: int = 50
    minimum_failures: int = 5
    confidence: float = 0.99

    def __post_init__(self) -> None:
        if self.minimum_events < 0 or self.minimum_failures < 0:
            least = min(self.minimum_events, self.minimum_failures)
            raise FigureOutOfRange("the least number of events or failures", least, "0 or more")
        if not 0.5 < self.confidence < 1.0:
            raise FigureOutOfRange("the confidence of the gate", self.confidence, "a share above 0.5 and below 1")


class AlertState(StrEnum):
    """`ok`: no burn that matters. `firing`: tell somebody. All others hold back: nothing can be said, and the state says
    why. `source_gone` and `instrumentation_fault` are worth an alert of their own."""

    OK = "ok"
    FIRING = "firing"
    TOO_FEW_EVENTS = "too_few_events"
    TOO_FEW_FAILURES = "too_few_failures"
    NO_DATA = "no_data"
    INSTRUMENTATION_FAULT = "instrumentation_fault"
    SOURCE_GONE = "source_gone"


@dataclass(frozen=True)
class Alert:
    """What one rule says now. `burn_long`, `burn_short`: burn rates, None without data. `reason`: one sentence."""

    rule: Rule
    state: AlertState
    burn_long: float | None
    burn_short: float | None
    reason: str
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class DataAlert:
    """The data itself is at fault: alerts on burn are blind meanwhile. `reason`: what it is and where to look."""

    state: Literal[DataState.INSTRUMENTATION_FAULT, DataState.SOURCE_GONE]
    severity: Severity
    reason: str


_SILENT = "whoever counts has not been heard of: look whether it runs, since an outage would look the same"
_FAULTY = "more good or failed events than events were counted: look at what counts them"
_NOTHING = "nothing that counts has happened in the long window"


def data_alert(counts: Counts, *, source_gone: bool = False) -> DataAlert | None:
    """A page when the source is silent, a ticket when its counts cannot be, None while the data can be used."""
    state = data_state(counts, source_gone=source_gone)
    if state is DataState.SOURCE_GONE:
        return DataAlert(state, "page", _SILENT)
    return DataAlert(state, "ticket", _FAULTY) if state is DataState.INSTRUMENTATION_FAULT else None


def judge(
    rule: Rule,
    objective: Objective,
    long: Counts,
    short: Counts,
    *,
    gate: Gate | None = None,
    observed_min: int | None = None,
    source_gone: bool = False,
) -> Alert:
    """Whether a rule fires, from the sums of its two windows.

    `observed_min`: minutes since counting began, None when that was long ago; a long window that is not full yet gets a
    note and is judged by what it has. Only the long window is gated; a short one without events shows nothing going on.
    """
    gate = gate or Gate()
    burn_long, burn_short = burn_rate(objective, long), burn_rate(objective, short)
    notes: tuple[Note, ...] = ("window_not_full",) if observed_min is not None and observed_min < rule.long_min else ()

    def alert(state: AlertState, reason: str) -> Alert:
        return Alert(rule, state, burn_long, burn_short, reason, notes)

    if source_gone:
        return alert(AlertState.SOURCE_GONE, _SILENT)
    if not (long.sound and short.sound):
        return alert(AlertState.INSTRUMENTATION_FAULT, _FAULTY)
    if burn_long is None:
        return alert(AlertState.NO_DATA, _NOTHING)
    if burn_long < rule.burn:
        return alert(AlertState.OK, f"burn {burn_long:.3g} is below {rule.burn:g} in the long window")
    if long.total < gate.minimum_events:
        return alert(AlertState.TOO_FEW_EVENTS, f"{long.total} events, and {gate.minimum_events} are needed to tell")
    if burn_short is None or burn_short < rule.burn:
        now = "nothing happened" if burn_short is None else f"burn {burn_short:.3g} is below {rule.burn:g}"
        return alert(AlertState.OK, f"{now} in the short window: it is over")
    if long.bad < gate.minimum_failures:
        threshold = rule.burn * objective.allowed_share
        bound = jeffreys_lower(long.bad, long.total, gate.confidence)
        if bound <= threshold:
            reason = f"{long.bad} of {long.total} failed, which a share of {threshold:.3g} may do by chance"
            return alert(AlertState.TOO_FEW_FAILURES, reason)
    return alert(AlertState.FIRING, f"burn {burn_long:.3g} and {burn_short:.3g} in both windows, {rule.burn:g} or more")


def judge_all(
    objective: Objective,
    series: TimeSeries,
    now: int,
    *,
    rules: Sequence[Rule] = RULES,
    gate: Gate | None = None,
    source_gone: bool = False,
) -> tuple[Alert, ...]:
    """All rules on one series at the minute `now`, with one pass over its buckets. Counting began with the first bucket."""
    sums: Mapping[int, Counts] = series.window_sums(now, [m for rule in rules for m in (rule.long_min, rule.short_min)])
    observed = None if series.first_minute is None else now - series.first_minute + 1
    return tuple(
        judge(
            rule,
            objective,
            sums[rule.long_min],
            sums[rule.short_min],
            gate=gate,
            observed_min=observed,
            source_gone=source_gone,
        )
        for rule in rules
    )
