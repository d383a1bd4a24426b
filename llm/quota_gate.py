"""An `Llm` behind its target's quota: reserved before the attempt, settled once with what was really used."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from llm.answer import Llm, LlmStream
from llm.classes import ErrorClass
from llm.errors import AttemptFailed, QuotaShort
from llm.request import LlmRequest
from quota.errors import QuotaRefused
from quota.estimate import OutputEstimate
from quota.target_quota import TargetQuota

_UNSENT = frozenset({ErrorClass.LOCAL_CAPACITY, ErrorClass.CONNECT})
"""Failures of requests that no provider has counted."""


class Metered:
    """Reserves input plus expected output. Raises QuotaShort at once when there is no room."""

    def __init__(self, inner: Llm, quota: TargetQuota, estimate: OutputEstimate) -> None:
        self._inner, self._quota, self._estimate = inner, quota, estimate

    @asynccontextmanager
    async def generate(self, request: LlmRequest) -> AsyncIterator[LlmStream]:
        call = request.call
        expected = call.input_tokens + self._estimate.expect(call.output_cap, call.choices)
        try:
            reservation = self._quota.reserve(expected, request.priority)
        except QuotaRefused as refused:
            raise QuotaShort(str(refused), refused.retry_after_s, never=refused.never) from None
        used: int | None = call.input_tokens
        stream: LlmStream | None = None
        try:
            async with self._inner.generate(request) as stream:
                yield stream
        except AttemptFailed as error:
            if error.failure.error_class in _UNSENT:
                used = None
            elif stream is None or not stream.progress.output_seen:
                used = 0
            raise
        finally:
            if stream is not None and (stream.progress.usage or stream.progress.output_seen):
                used = self._used(stream, call.input_tokens)
            if used is None:
                reservation.release()
            else:
                reservation.settle(used)

    def _used(self, stream: LlmStream, input_tokens: int) -> int:
        """What the answer cost, by the provider's count, else by what was seen of it."""
        progress = stream.progress
        if progress.usage is None:
            return input_tokens + progress.output_tokens_seen
        if progress.ended:
            self._estimate.learn(progress.usage.output_tokens)
        return progress.usage.total
