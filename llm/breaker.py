"""The circuit breaker: pybreaker's states under an admission that is right for asynchronous calls.

pybreaker (1.4) lets every call through as a probe, counts a cancelled call as a failure and knows only Tornado's
coroutines. Here one probe is in flight at a time and its place is given back on every ending, a cancelled attempt is no
sample, and a result counts only in the state that it began in. The cool-down is drawn anew at each opening between 1 and
1.25 times the setting, so that replicas do not probe in step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from random import Random
from typing import Literal, NamedTuple

import pybreaker

from llm.answer import Llm, LlmStream
from llm.around import Around
from llm.classes import ErrorClass, Verdict
from llm.errors import AttemptFailed, BreakerOpen
from llm.policy import BreakerPolicy
from llm.request import LlmRequest
from llm.window import SlidingWindow

State = Literal["closed", "open", "half_open"]
Judge = Callable[[ErrorClass], Verdict]
_JITTER = 0.25


@dataclass(frozen=True, slots=True)
class BreakerView:
    """What a breaker shows: its state, its samples, and seconds until a probe is let through (0: the next request is it)."""

    state: State
    samples: int
    failures: int
    retry_in_s: float


class Ticket(NamedTuple):
    """Leave to make one attempt."""

    generation: int
    probe: bool


class CircuitBreaker:
    """One breaker. `now` is monotonic seconds; `listener` is told when it has opened or closed (`settled`).

    A probe that is under way is no news, nor is one that ended without a sample.
    """

    def __init__(
        self,
        name: str,
        policy: BreakerPolicy,
        now: Callable[[], float],
        random: Random,
        listener: Callable[[CircuitBreaker], None] | None = None,
    ) -> None:
        self.name = name
        self._now, self._random, self._cooldown_s = now, random, policy.cooldown
        self._window_s = policy.window
        self._window = SlidingWindow(
            window_s=policy.window,
            minimum=policy.minimum,
            failure_ratio=policy.failure_ratio,
            now=now,
            opened=self._opened,
        )
        self._breaker = pybreaker.CircuitBreaker(
            fail_max=1, reset_timeout=0, state_storage=self._window, name=name, throw_new_error_on_trip=False
        )
        self._listener = listener
        self._told: State = "closed"
        self._opened_anew = False
        self._opened_at = 0.0
        self._retry_at = 0.0
        self._probing = False

    def admit(self) -> Ticket:
        """Leave for one attempt. Raises BreakerOpen."""
        if self._window.state == pybreaker.STATE_CLOSED:
            return Ticket(self._window.generation, False)
        wait = self._retry_at - self._now()
        if wait > 0 or self._probing:
            raise BreakerOpen(f"the breaker of {self.name} is open", max(wait, 0.0))
        self._probing = True
        self._breaker.half_open()
        return Ticket(self._window.generation, True)

    def settle(self, ticket: Ticket, verdict: Verdict) -> None:
        """The attempt of `ticket` is over; every ticket has to come back here once."""
        if ticket.probe:
            self._probing = False
        if ticket.generation == self._window.generation:
            self._sample(ticket, verdict)
        self._tell()

    def trip(self) -> None:
        """Open now, whatever the window says."""
        if self._window.state != pybreaker.STATE_OPEN:
            self._breaker.open()
            self._tell()

    @property
    def is_open(self) -> bool:
        """Whether a request would be turned away now."""
        if self._window.state == pybreaker.STATE_CLOSED:
            return False
        return self._probing or self._retry_at > self._now()

    @property
    def is_failing(self) -> bool:
        """Whether it is open for a fresh reason: in its cool-down, under probe, or opened within its window.

        One that nobody has asked for longer says nothing of now.
        """
        if self._window.state == pybreaker.STATE_CLOSED:
            return False
        return self.is_open or self._now() - self._opened_at < self._window_s

    @property
    def settled(self) -> State:
        """`closed` or `open`, whether or not a probe is in flight."""
        return "closed" if self._window.state == pybreaker.STATE_CLOSED else "open"

    @property
    def state(self) -> State:
        if self._window.state == pybreaker.STATE_CLOSED:
            return "closed"
        return "half_open" if self._probing else "open"

    def view(self) -> BreakerView:
        state = self.state
        retry_in = 0.0 if state == "closed" else max(self._retry_at - self._now(), 0.0)
        return BreakerView(state, self._window.samples, self._window.failures, retry_in)

    def _sample(self, ticket: Ticket, verdict: Verdict) -> None:
        if verdict is Verdict.NEUTRAL:
            if ticket.probe:
                self._window.state = pybreaker.STATE_OPEN  # nothing was learned: the next request probes
            return
        if verdict is Verdict.SUCCESS and not ticket.probe:
            self._window.reset_counter()  # all that pybreaker does with a success while closed
            return
        with contextlib.suppress(_Failed, pybreaker.CircuitBreakerError):
            self._breaker.call(_outcome, verdict)

    def _opened(self) -> None:
        self._opened_anew = True
        self._opened_at = self._now()
        self._retry_at = self._opened_at + self._cooldown_s * (1.0 + self._random.random() * _JITTER)

    def _tell(self) -> None:
        state = self.settled
        if state != self._told or self._opened_anew:
            self._told, self._opened_anew = state, False
            if self._listener is not None:
                self._listener(self)


class Guarded:
    """An `Llm` behind breakers. Each comes with a judge that says what an error class is a sample of."""

    def __init__(self, inner: Llm, *breakers: tuple[CircuitBreaker, Judge]) -> None:
        self._inner, self._breakers = inner, breakers

    def generate(self, request: LlmRequest) -> _Admitted:
        return _Admitted(self._inner.generate(request), self._breakers)


class _Admitted(Around):
    __slots__ = ("_breakers", "_stream", "_tickets")

    def __init__(
        self, inner: AbstractAsyncContextManager[LlmStream], breakers: tuple[tuple[CircuitBreaker, Judge], ...]
    ) -> None:
        super().__init__(inner)
        self._breakers = breakers
        self._tickets: list[Ticket] = []
        self._stream: LlmStream | None = None

    def before(self) -> None:
        try:
            for breaker, _ in self._breakers:
                self._tickets.append(breaker.admit())
        except BreakerOpen:
            self._settle(lambda _: Verdict.NEUTRAL)
            raise

    def began(self, stream: LlmStream) -> LlmStream:
        self._stream = stream
        return stream

    def after(self, error: BaseException | None) -> None:
        if isinstance(error, AttemptFailed):
            error_class = error.failure.error_class
            self._settle(lambda judge: judge(error_class))
            return
        whole = error is None and self._stream is not None and self._stream.progress.ended
        verdict = Verdict.SUCCESS if whole else Verdict.NEUTRAL
        self._settle(lambda _: verdict)

    def _settle(self, verdict: Callable[[Judge], Verdict]) -> None:
        for ticket, (breaker, judge) in zip(self._tickets, self._breakers, strict=False):
            breaker.settle(ticket, verdict(judge))


class _Failed(Exception):
    pass


def _outcome(verdict: Verdict) -> None:
    if verdict is Verdict.FAILURE:
        raise _Failed
