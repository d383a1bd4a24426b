"""The stream guard: an answer is held back until it is committed, so that a failure before that is seen by nobody.

Role-only deltas, pings, comments and filter results are no output. What commits an answer is the request's `commit`: its
first output, so many tokens, a time after the first output, or the end. From then on it is passed on as it arrives, and a
failure is raised to whoever reads.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType

from llm.answer import NOTHING, Batch, Llm, LlmStream
from llm.classify import bad_response
from llm.commit import Commit
from llm.errors import AttemptFailed
from llm.request import LlmRequest
from stanchion.clock import Clock

OPENING_LIMIT = 1_000_000
"""Bytes of a stream without any output that are held."""

ANSWER_LIMIT = 16_000_000
"""Bytes of output that are held at most. A longer answer is committed there: it is far beyond what a model says at once."""


class StreamGuard:
    """Entered only when the answer is committed: before that every failure is raised on entering."""

    def __init__(self, inner: Llm, clock: Clock) -> None:
        self._inner, self._clock = inner, clock

    def generate(self, request: LlmRequest) -> _Held:
        return _Held(self._inner.generate(request), request.commit, self._clock)


class _Held:
    __slots__ = ("_clock", "_commit", "_inner")

    def __init__(self, inner: AbstractAsyncContextManager[LlmStream], commit: Commit, clock: Clock) -> None:
        self._inner, self._commit, self._clock = inner, commit, clock

    async def __aenter__(self) -> CommittableStream:
        stream = await self._inner.__aenter__()
        try:
            return await self._committed(stream)
        except BaseException as error:
            await self._inner.__aexit__(type(error), error, error.__traceback__)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)

    async def _committed(self, stream: LlmStream) -> CommittableStream:
        """The answer, read up to its commit, or to its end where it comes to none before. Raises AttemptFailed."""
        held: list[bytes] = []
        size, output = 0, False
        until: float | None = None
        while True:
            batch = await stream.read(until)
            if batch is None:
                break
            held.append(batch.data)
            size += len(batch.data)
            output = output or batch.output
            if not output:
                if size > OPENING_LIMIT:
                    raise AttemptFailed(
                        bad_response(f"the provider sent {OPENING_LIMIT} bytes of stream without any output")
                    )
                continue
            if not stream.stream or size > ANSWER_LIMIT or self._reached(stream):
                break
            if self._commit.kind == "time":
                until = self._time_at(stream)
        first = Batch(held[0] if len(held) == 1 else b"".join(held), output)
        return CommittableStream(stream, first, over=batch is None)

    def _reached(self, stream: LlmStream) -> bool:
        """Whether an answer that has output is committed now."""
        commit = self._commit
        if commit.kind == "first_output":
            return True
        if commit.kind == "tokens":
            return stream.progress.output_tokens_seen >= commit.tokens
        return commit.kind == "time" and self._clock.now() >= self._time_at(stream)

    def _time_at(self, stream: LlmStream) -> float:
        first = stream.progress.first_output_at
        return (self._clock.now() if first is None else first) + self._commit.time_s


class CommittableStream:
    """A stream whose beginning has been read already, or all of it (`over`)."""

    __slots__ = ("_first", "_stream", "over", "progress", "stream")

    def __init__(self, stream: LlmStream, first: Batch, *, over: bool) -> None:
        self._stream, self._first, self.over = stream, first, over
        self.progress, self.stream = stream.progress, stream.stream

    async def read(self, until: float | None = None) -> Batch | None:
        first = self._first
        if first.data:
            self._first = NOTHING
            return first
        if self.over:
            return None
        return await self._stream.read(until)
