"""The attempt record and the trail: what was tried, what was passed over, how each ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from llm.classes import Skip
from llm.errors import Failure

SUCCESS = "success"

Role = Literal["canary", "hedge"]


class AttemptRecord(NamedTuple):
    """One attempt, or one target passed over.

    `outcome` is `success` or an error class for an attempt, None for a target passed over (then `skip` says why).
    `seconds` is the time from the attempt's start to its end (to its commit, while a stream still runs); `began` is its
    start, on the clock's `now` scale. `role`: why it was made beside the route's own order.
    """

    target: str
    outcome: str | None
    seconds: float = 0.0
    skip: Skip | None = None
    failure: Failure | None = None
    message: str = ""
    began: float = 0.0
    role: Role | None = None

    @property
    def milliseconds(self) -> int:
        return round(self.seconds * 1000)

    def as_header(self) -> str:
        """`name;class=overloaded;ms=812` or `name;skip=context_window`."""
        if self.skip is not None:
            return f"{self.target};skip={self.skip.value}"
        return f"{self.target};class={self.outcome};ms={self.milliseconds}"

    def as_json(self) -> dict[str, object]:
        """The record as it stands in error bodies and logs."""
        if self.skip is not None:
            return {"target": self.target, "skip": self.skip.value}
        return {"target": self.target, "class": self.outcome, "ms": self.milliseconds}


def trail_header(records: Iterable[AttemptRecord]) -> str:
    """The records as the value of `x-stanchion-attempts`."""
    return ", ".join(record.as_header() for record in records)


@dataclass(slots=True)
class Trail:
    """The records of one request, in the order in which the attempts began or were passed over. `waits`: the times between
    attempts, as their begin on the clock's `now` scale and their length in seconds.
    """

    records: list[AttemptRecord] = field(default_factory=list)
    waits: list[tuple[float, float]] = field(default_factory=list)

    def add(self, record: AttemptRecord) -> None:
        """Write down an attempt that is over, before those of a hedge that began after it, or a target passed over."""
        self.records.insert(self._place_of(record), record)

    def with_record(self, record: AttemptRecord) -> tuple[AttemptRecord, ...]:
        """The records with one more in its place."""
        place = self._place_of(record)
        return (*self.records[:place], record, *self.records[place:])

    def _place_of(self, record: AttemptRecord) -> int:
        records = self.records
        if not records or records[-1].began <= record.began:
            return len(records)
        return next(at for at, other in enumerate(records) if other.began > record.began)

    @property
    def busy_s(self) -> float:
        """Seconds in which an attempt was under way or waited for."""
        spans = [(record.began, record.seconds) for record in self.records if record.skip is None]
        busy, until = 0.0, float("-inf")
        for began, seconds in sorted([*spans, *self.waits]):
            end = began + seconds
            if end > until:
                busy += end - max(began, until)
                until = end
        return busy

    def as_header(self) -> str:
        return trail_header(self.records)

    def as_json(self) -> list[dict[str, object]]:
        return [record.as_json() for record in self.records]
