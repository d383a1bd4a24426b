"""An `Llm` behind its target's quota: reserved before the attempt, settled once with what was really used."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from llm.answer import Llm, LlmStream
from llm.around import Around
from llm.classes import ErrorClass
from llm.errors import AttemptFailed, QuotaShort
from llm.request import Call, LlmRequest
from quota.errors import QuotaRefused
from quota.estimate import OutputEstimate
from quota.target_quota import TargetQuota

_UNSENT = frozenset({ErrorClass.LOCAL_CAPACITY, ErrorClass.CONNECT})
"""Failures of requests that no provider has counted."""

UNSEEN_TOKENS = 200_000
"""What may come on top of a request's bytes where its target declares no window (images, files and pages that it only names,
reasoning beyond its cap), and the longest answer that is believed where the caller set no cap."""

_MOST_CHOICES = 128
"""Answers at once that a provider gives at most."""


class Metered:
    """Reserves input plus expected output. Raises QuotaShort at once when there is no room."""

    def __init__(self, inner: Llm, quota: TargetQuota, estimate: OutputEstimate) -> None:
        self._inner, self.quota, self.estimate = inner, quota, estimate

    def expected(self, call: Call) -> int:
        """Tokens to reserve: the input, and the caller's own cap or what answers here are like.

        What was only learned makes no request unfit: it takes the whole bucket at most, and the rest is settled.
        """
        expected = call.input_tokens + self.estimate.expect(call.output_cap, call.choices)
        capacity = self.quota.token_capacity
        if call.output_cap is None and capacity is not None:
            return max(call.input_tokens, min(expected, int(capacity)))
        return expected

    def generate(self, request: LlmRequest) -> _Reserved:
        return _Reserved(self._inner.generate(request), self, request)


class _Reserved(Around):
    __slots__ = ("_call", "_metered", "_priority", "_reservation", "_stream")

    def __init__(self, inner: AbstractAsyncContextManager[LlmStream], metered: Metered, request: LlmRequest) -> None:
        super().__init__(inner)
        self._metered, self._call, self._priority = metered, request.call, request.priority
        self._stream: LlmStream | None = None

    def before(self) -> None:
        metered = self._metered
        try:
            self._reservation = metered.quota.reserve(metered.expected(self._call), self._priority)
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
        if progress is not None and progress.usage is not None and progress.usage.total <= self._most():
            if progress.ended:
                self._metered.estimate.learn(progress.usage.output_tokens, self._call.choices)
            return progress.usage.total
        if progress is not None and progress.output_seen:
            return self._call.input_tokens + progress.output_tokens_seen
        if isinstance(error, AttemptFailed):
            return None if error.failure.error_class in _UNSENT else 0
        return self._call.input_tokens

    def _most(self) -> int:
        """The largest count of tokens that is believed: one above it is a mistake, and would put the bucket in debt for ages.

        A token is a byte at least, so the input is no more than the body and what it may name.
        """
        call, window = self._call, self._metered.estimate.context_window
        answer = UNSEEN_TOKENS if call.output_cap is None else min(call.output_cap, UNSEEN_TOKENS)
        asked = call.size + UNSEEN_TOKENS if window is None else max(call.size, window)
        return max(self._reservation.tokens, asked + answer * min(call.choices, _MOST_CHOICES))
