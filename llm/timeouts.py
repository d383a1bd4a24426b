"""The limits of one attempt: first output, idle between outputs, total. They count output, not bytes.

A limit runs only while the provider is waited for: a caller who reads slowly does not make a provider late.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from types import TracebackType

from llm.answer import NOTHING, Batch
from llm.classes import ErrorClass
from llm.errors import AttemptFailed, Failure
from llm.provider import Provider, ProviderStream
from llm.request import Limits, LlmRequest
from stanchion.clock import Clock, Timer

_AFTER_DONE_S = 0.25
"""How long the end of the body is waited for after the terminator, so that the connection can be used again."""


class Timeouts:
    """Bounds every wait of the provider inside it; `request.limits` are the bounds.

    A limit wakes the task that waits: an attempt may be begun in one task and read in another, but not in two at once.
    """

    def __init__(self, inner: Provider, clock: Clock) -> None:
        self._inner, self._clock = inner, clock

    def generate(self, request: LlmRequest) -> _Timed:
        assert request.limits is not None, "an attempt has limits"  # noqa: S101 - a programming error, not input
        watch = _Watch(self._clock, request.limits, output_counts=request.call.stream)
        return _Timed(self._inner.generate(request), watch)


class _Timed:
    __slots__ = ("_inner", "_watch")

    def __init__(self, inner: AbstractAsyncContextManager[ProviderStream], watch: _Watch) -> None:
        self._inner, self._watch = inner, watch

    async def __aenter__(self) -> TimedStream:
        watch = self._watch
        watch.begin()
        try:
            stream = await self._inner.__aenter__()
        except BaseException as error:
            watch.close()
            if isinstance(error, asyncio.CancelledError):
                watch.raise_if_tripped()
            raise
        finally:
            watch.end()
        return TimedStream(stream, watch)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.close()
        await self._inner.__aexit__(kind, error, trace)


class TimedStream:
    """A provider's stream under its limits."""

    __slots__ = ("_ended_at", "_finished", "_finishing_at", "_inner", "_watch", "progress", "stream")

    def __init__(self, inner: ProviderStream, watch: _Watch) -> None:
        self._inner, self._watch = inner, watch
        self.progress, self.stream = inner.progress, inner.stream
        self._finished = False
        self._finishing_at: float | None = None
        self._ended_at: float | None = None

    async def read(self, until: float | None = None) -> Batch | None:
        watch, progress = self._watch, self.progress
        while True:
            if self._finished or (progress.ended and not self.stream):
                return None
            lingering = self.stream and (progress.finishing or progress.ended)
            watch.begin(self._linger() if lingering else None, until)
            try:
                batch = await self._inner.read()
            except asyncio.CancelledError:
                if not watch.tripped():
                    raise
                if watch.due_only:
                    return NOTHING
                if not lingering:
                    raise watch.error() from None
                self._finished = True
                batch = self._inner.finish()
                return batch if batch and batch.data else None
            finally:
                watch.end()
            if batch is None:
                return None
            if batch.output:
                watch.output()
                if progress.first_output_at is None:
                    progress.first_output_at = watch.now()
            if batch.data:
                return batch
            # the stream is at another stage now: the next wait has another limit

    def _linger(self) -> float:
        """Seconds left of the wait for the terminator, or for the end of the body after it; pings do not lengthen it."""
        now = self._watch.now()
        if self.progress.ended:
            self._ended_at = now if self._ended_at is None else self._ended_at
            return self._ended_at + _AFTER_DONE_S - now
        self._finishing_at = now if self._finishing_at is None else self._finishing_at
        return self._finishing_at + self._watch.linger_s - now


class _Watch:
    """One lazy timer over the waits of an attempt: it is set when none runs early enough, and re-set when it fires early."""

    def __init__(self, clock: Clock, limits: Limits, *, output_counts: bool) -> None:
        self._clock, self._limits, self._output_counts = clock, limits, output_counts
        self.linger_s, self.now = limits.linger_s, clock.now
        self._started = clock.now()
        cut = limits.deadline_cut_s
        self._total_at = self._started + limits.total_s
        self._cut_at = float("inf") if cut is None else self._started + cut
        self._ended_at = self._started
        self._output_seen = False
        self._waited = 0.0
        self._wait_began = 0.0
        self._limit_at = 0.0
        self._kind: ErrorClass | None = None
        self.kind: ErrorClass | None = None
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._task: asyncio.Task[object] | None = None
        self._waiting = False
        self.due_only = False
        self._cancelling = 0
        self._tripped = False

    def begin(self, own_limit_s: float | None = None, until: float | None = None) -> None:
        """A wait begins. `own_limit_s` replaces the idle limit: nothing of the answer is missing any more.

        `until` ends the wait without being a limit (`due_only`).
        """
        now = self._wait_began = self._clock.now()
        self._total_at += now - self._ended_at  # the caller's own time is none of the provider's; the deadline goes on
        self._limit_at, self._kind = min(self._total_at, self._cut_at), ErrorClass.TIMEOUT_TOTAL
        if own_limit_s is not None:
            self._bound(now + own_limit_s, None)
        elif self._output_counts:
            if self._output_seen:
                self._bound(now + self._limits.idle_s - self._waited, ErrorClass.TIMEOUT_IDLE)
            elif self._limits.first_output_s is not None:
                self._bound(now + self._limits.first_output_s - self._waited, ErrorClass.TIMEOUT_FIRST_TOKEN)
        self.due_only = until is not None and until < self._limit_at
        if until is not None and self.due_only:
            self._limit_at = until
        self._waiting = True
        task = self._task = asyncio.current_task()
        assert task is not None, "an attempt runs in a task"  # noqa: S101 - a programming error, not input
        self._cancelling = task.cancelling()
        if self._timer is None or self._timer_at > self._limit_at:
            self._arm()

    def end(self) -> None:
        self._waiting = False
        self._ended_at = self._clock.now()
        self._waited += self._ended_at - self._wait_began

    def output(self) -> None:
        """Output came: the idle limit starts anew."""
        self._output_seen, self._waited = True, 0.0

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def tripped(self) -> bool:
        """Whether the cancellation that just arrived was this watch's own, and nobody else's as well."""
        if not self._tripped:
            return False
        self._tripped = False
        return self._task is not None and self._task.uncancel() <= self._cancelling

    def raise_if_tripped(self) -> None:
        if self.tripped():
            raise self.error() from None

    def error(self) -> AttemptFailed:
        """The failure that the limit which fired is."""
        limits = self._limits
        callers_s = self._total_at - limits.total_s - self._started
        ran = self._clock.now() - self._started - callers_s
        if self.kind is ErrorClass.TIMEOUT_FIRST_TOKEN:
            return _failed(self.kind, f"no output from the provider within {limits.first_output_s:g} s")
        if self.kind is ErrorClass.TIMEOUT_IDLE:
            return _failed(self.kind, f"no further output from the provider for {limits.idle_s:g} s")
        if self._cut_at <= self._total_at:
            fair = ran >= limits.fair_s - 0.001 and callers_s <= ran  # else it was the caller who took the time
            kind = ErrorClass.TIMEOUT_TOTAL if fair else ErrorClass.DEADLINE
            return _failed(kind, f"the request's deadline came {ran:.3g} s into the attempt")
        return _failed(
            ErrorClass.TIMEOUT_TOTAL,
            f"the provider did not complete the answer within {limits.total_s:.3g} s",
        )

    def _bound(self, at: float, kind: ErrorClass | None) -> None:
        if at < self._limit_at:
            self._limit_at, self._kind = at, kind

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self._limit_at
        self._timer = self._clock.call_at(self._timer_at, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if not self._waiting:
            return  # nobody waits; the next wait sets the timer again
        if self._clock.now() < self._limit_at:
            self._arm()
            return
        self._tripped, self.kind = True, self._kind
        if self._task is not None:
            self._task.cancel()


def _failed(kind: ErrorClass, message: str) -> AttemptFailed:
    return AttemptFailed(Failure(kind, message))
