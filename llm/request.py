"""A request as the decorators hand it down: the caller's original, its deadline, and the limits of one attempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from llm.commit import FIRST_OUTPUT, Commit


class Call(Protocol):
    """What the caller asked for, read once by its dialect. `body_for` may be asked any number of times."""

    @property
    def model(self) -> str: ...

    @property
    def stream(self) -> bool: ...

    @property
    def size(self) -> int:
        """Bytes of the caller's body."""

    @property
    def input_tokens(self) -> int:
        """An estimate from the size; see the dialect."""

    @property
    def output_cap(self) -> int | None:
        """Largest number of output tokens of one choice that a provider may honour; None where nothing caps it."""

    @property
    def choices(self) -> int:
        """How many answers are asked for at once."""

    @property
    def needs(self) -> frozenset[str]:
        """Capabilities that the answer cannot do without."""

    def body_for(self, model: str) -> bytes:
        """The body to send to a provider of the same dialect."""


class Limits(NamedTuple):
    """Bounds of one attempt, in seconds; `first_output_s` is None where it does not apply.

    `deadline_cut_s` is the time after which the request's deadline ends the attempt, None where there is none; `total_s`
    grows by the time that the caller takes to read, the deadline does not. `fair_s` is how long an attempt has to have
    run for such a cut to be the target's fault. `linger_s` is how long the connection may be held after the finish reason.
    """

    connect_s: float
    first_output_s: float | None
    idle_s: float
    total_s: float
    deadline_cut_s: float | None = None
    fair_s: float = 0.0
    linger_s: float = 2.0


@dataclass(frozen=True, slots=True)
class LlmRequest:
    """One request. `deadline_at` is on the clock's `now` scale; `limits` is set by whoever starts an attempt.

    `residency`: the only regions that may see it, None for all.
    """

    id: str
    call: Call
    deadline_at: float
    priority: str = "interactive"
    traceparent: str | None = None
    commit: Commit = FIRST_OUTPUT
    residency: frozenset[str] | None = None
    limits: Limits | None = None

    def within(self, limits: Limits, commit: Commit | None = None) -> LlmRequest:
        """The same request under the limits of one attempt, and its commit where that is another."""
        return LlmRequest(
            self.id, self.call, self.deadline_at, self.priority, self.traceparent, commit or self.commit,
            self.residency, limits,
        )  # fmt: skip
