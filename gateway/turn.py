"""The outcome record: one turn from its first byte to its last, from which metrics, log line and status are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from availability.outcome import Outcome
from llm.answer import Usage
from llm.attempt import SUCCESS, AttemptRecord
from llm.classes import CALLERS_FAULT
from llm.errors import RouteFailed


class OutcomeRecord(NamedTuple):
    """A turn that is over. `overhead_s` is what the gateway itself took: neither attempts nor waits between them."""

    request_id: str
    caller: str | None
    route: str | None
    stream: bool
    outcome: Outcome
    status: int
    duration_s: float
    overhead_s: float | None = None
    target: str | None = None
    model: str | None = None
    usage: Usage | None = None
    error_class: str | None = None
    records: Sequence[AttemptRecord] = ()


def answered(records: Sequence[AttemptRecord]) -> Outcome:
    """The outcome of a turn that was answered to its end."""
    tried = [record for record in records if record.skip is None]
    answering = next((record.target for record in tried if record.outcome == SUCCESS), None)
    return Outcome.SUCCESS if not tried or tried[0].target == answering else Outcome.RESCUED


def failed(error: RouteFailed) -> Outcome:
    """The outcome of a turn that nothing answered."""
    if error.deadline:
        return Outcome.DEADLINE
    if error.failure is None:
        return Outcome.REJECTED if error.never_fits or error.unfit else Outcome.NO_TARGET
    return Outcome.REJECTED if error.final and error.failure.error_class in CALLERS_FAULT else Outcome.FAILED


def overhead(duration_s: float, busy_s: float, waited_s: float) -> float:
    """Seconds of a turn that were neither the providers' (`Trail.busy_s`) nor the caller's."""
    return max(duration_s - busy_s - waited_s, 0.0)
