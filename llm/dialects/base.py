"""What a provider needs of a wire format."""

from __future__ import annotations

from typing import Protocol

from llm.answer import Batch, Progress
from llm.errors import Failure
from llm.request import Call


class AnswerReader(Protocol):
    """Reads one streamed answer. It keeps `progress` and says what goes on to the caller."""

    progress: Progress

    def feed(self, data: bytes) -> Batch:
        """Take bytes as they came. Raises AttemptFailed; what was good before the fault is kept for `take_good`."""

    def take_good(self) -> Batch:
        """What `feed` had read before it raised, once."""

    def end(self) -> Batch:
        """The body ended, or lingers after its finish. Raises AttemptFailed when the answer is not complete."""


class Dialect(Protocol):
    """A provider's wire format."""

    name: str

    def path(self, call: Call) -> str:
        """What comes after the base URL."""

    def auth(self, api_key: str) -> tuple[tuple[str, str], ...]:
        """The headers that carry the key."""

    def reader(self, call: Call) -> AnswerReader: ...

    def read_plain(self, body: bytes, call: Call, progress: Progress) -> Batch:
        """Check a whole answer and note its usage in `progress`. Raises AttemptFailed."""

    def failure(self, status: int, headers: dict[str, str], body: bytes, wall: float) -> Failure:
        """What an answer with a bad status is."""
