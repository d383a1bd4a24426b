"""The stream guard: opening frames are held back until the first output, so that a failure before it is seen by nobody.

Role-only deltas, pings, comments and filter results are no output. Once output has come the answer is committed: it is
passed on as it arrives, and a failure is raised to whoever reads.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType

from llm.answer import Batch, Llm, LlmStream
from llm.classify import bad_response
from llm.errors import AttemptFailed
from llm.request import LlmRequest

_HELD_LIMIT = 1_000_000


class OpeningHeld:
    """Entered only when the first output is there: before it every failure is raised on entering."""

    def __init__(self, inner: Llm) -> None:
        self._inner = inner

    def generate(self, request: LlmRequest) -> _Opening:
        return _Opening(self._inner.generate(request))


class _Opening:
    __slots__ = ("_inner",)

    def __init__(self, inner: AbstractAsyncContextManager[LlmStream]) -> None:
        self._inner = inner

    async def __aenter__(self) -> LlmStream:
        stream = await self._inner.__aenter__()
        try:
            return _Primed(stream, await _first_output(stream))
        except BaseException as error:
            await self._inner.__aexit__(type(error), error, error.__traceback__)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)


async def _first_output(stream: LlmStream) -> Batch:
    """Everything up to the first output, or to the end of an answer that has none. Raises AttemptFailed."""
    held: list[bytes] = []
    size = 0
    while True:
        batch = await stream.read()
        if batch is None:
            return Batch(b"".join(held), False)
        held.append(batch.data)
        if batch.output:
            return batch if len(held) == 1 else Batch(b"".join(held), True)
        size += len(batch.data)
        if size > _HELD_LIMIT:
            raise AttemptFailed(bad_response(f"the provider sent {_HELD_LIMIT} bytes of stream without any output"))


class _Primed:
    """A stream whose first batch has been read already."""

    __slots__ = ("_first", "_stream", "progress", "stream")

    def __init__(self, stream: LlmStream, first: Batch) -> None:
        self._stream, self._first = stream, first
        self.progress, self.stream = stream.progress, stream.stream

    async def read(self) -> Batch | None:
        first = self._first
        if first.data:
            self._first = Batch(b"", False)
            return first
        return await self._stream.read()
