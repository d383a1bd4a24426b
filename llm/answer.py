"""An answer as it arrives: batches of bytes that are fit to be passed on, and what is known of them.

`Llm.generate` is an asynchronous context: it is entered when the provider has begun a good answer, and whatever was
acquired for the attempt is given back when it is left, however it is left. Leaving it after `read` returned None is a
success; leaving it with an `AttemptFailed` is that failure; everything else (the caller left, another answer won) says
nothing about the provider.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from llm.request import LlmRequest


class Batch(NamedTuple):
    """Bytes for the caller, whole events only in a stream. `output`: they hold model output, not just framing."""

    data: bytes
    output: bool


NOTHING = Batch(b"", False)


@dataclass(slots=True)
class Usage:
    """Tokens as the provider counted them."""

    input_tokens: int
    output_tokens: int

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(slots=True)
class Progress:
    """What is known of an answer so far; one object from the provider up to the caller.

    `finishing`: every choice has its finish reason, only the terminator may be missing. `ended`: the answer is complete.
    `output_tokens_seen` is an estimate for answers whose usage never comes. `model` is the provider's own name for what
    answered. `first_output_at` is on the clock's `now` scale, in seconds.
    """

    finishing: bool = False
    ended: bool = False
    output_seen: bool = False
    output_tokens_seen: int = 0
    usage: Usage | None = None
    model: str | None = None
    finish_reason: str | None = None
    first_output_at: float | None = None


class LlmStream(Protocol):
    """An open answer."""

    @property
    def stream(self) -> bool:
        """Whether it comes as server-sent events; else it is one JSON body."""

    @property
    def progress(self) -> Progress: ...

    async def read(self, until: float | None = None) -> Batch | None:
        """The next batch, or None once the answer is complete. Raises AttemptFailed.

        With `until` (on the clock's `now` scale) an empty batch is returned when nothing has come by then; nothing is lost.
        """


class Llm(Protocol):
    """A model, or a decorator around one."""

    def generate(self, request: LlmRequest) -> AbstractAsyncContextManager[LlmStream]:
        """Ask. Entering raises AttemptFailed or NotAdmitted."""
