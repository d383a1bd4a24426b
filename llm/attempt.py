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
    """The records of one request, in the order in which the attempts began, and the seconds it waited between them."""

    records: list[AttemptRecord] = field(default_factory=list)
    waited_s: float = 0.0

    def add(self, record: AttemptRecord) -> None:
        """Write down an attempt that is over, before those of a hedge that began after it, or a target passed over."""
        records = self.records
        place = len(records)
        if record.skip is None:
            later = (at for at, other in enumerate(records) if other.skip is None and other.began > record.began)
            place = next(later, place)
        records.insert(place, record)

    @property
    def busy_s(self) -> float:
        """Seconds in which at least one attempt was under way."""
        busy, until = 0.0, float("-inf")
        for record in self.records:
            end = record.began + record.seconds
            if record.skip is None and end > until:
                busy += end - max(record.began, until)
                until = end
        return busy

    def as_header(self) -> str:
        return trail_header(self.records)

    def as_json(self) -> list[dict[str, object]]:
        return [record.as_json() for record in self.records]
