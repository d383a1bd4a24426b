"""An `Llm` behind its target's quota: reserved before the attempt, settled once with what was really used."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from llm.answer import Llm, LlmStream
from llm.around import Around
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
        self._inner, self.quota, self.estimate = inner, quota, estimate

    def generate(self, request: LlmRequest) -> _Reserved:
        return _Reserved(self._inner.generate(request), self, request)


class _Reserved(Around):
    __slots__ = ("_call", "_metered", "_priority", "_reservation", "_stream")

    def __init__(self, inner: AbstractAsyncContextManager[LlmStream], metered: Metered, request: LlmRequest) -> None:
        super().__init__(inner)
        self._metered, self._call, self._priority = metered, request.call, request.priority
        self._stream: LlmStream | None = None

    def before(self) -> None:
        call, metered = self._call, self._metered
        expected = call.input_tokens + metered.estimate.expect(call.output_cap, call.choices)
        try:
            self._reservation = metered.quota.reserve(expected, self._priority)
        except QuotaRefused as refused:
            raise QuotaShort(str(refused), refused.retry_after_s, never=refused.never) from None

    def began(self, stream: LlmStream) -> LlmStream:
        self._stream = stream
        return stream

    def after(self, error: BaseException | None) -> None:
        used = self._used(error)
        if used is None:
            self._reservation.release()
        else:
            self._reservation.settle(used)

    def _used(self, error: BaseException | None) -> int | None:
        """What the attempt cost, by the provider's count, else by what was seen of it; None if nothing was sent."""
        progress = self._stream.progress if self._stream is not None else None
        if progress is not None and progress.usage is not None:
            if progress.ended:
                self._metered.estimate.learn(progress.usage.output_tokens, self._call.choices)
            return progress.usage.total
        if progress is not None and progress.output_seen:
            return self._call.input_tokens + progress.output_tokens_seen
        if isinstance(error, AttemptFailed):
            return None if error.failure.error_class in _UNSENT else 0
        return self._call.input_tokens
