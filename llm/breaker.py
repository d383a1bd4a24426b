"""The circuit breaker: pybreaker's states under an admission that is right for asynchronous calls.

pybreaker (1.4) lets every call through as a probe, counts a cancelled call as a failure and knows only Tornado's
coroutines. Here one probe is in flight at a time and its place is given back on every ending, a cancelled attempt is no
sample, and a result counts only in the state that it began in. The cool-down is drawn anew at each opening between 1 and
1.25 times the setting, so that replicas do not probe in step. `successes` good probes in a row close it, one after
another.
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
_LEASE_S = 600.0
"""How long a probe keeps its place at most. Its limits and the deadline end every attempt far sooner; should one never come
back all the same, the target must not be lost until a restart."""


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

    A probe that is under way is no news, nor is one that ended without a sample, nor a good one that others have to
    follow. `retune` gives a live breaker other numbers. `apply` tells it what another replica saw: `learned` says that
    its last opening or closing was such news, `reopened` that the last opening was one of a breaker that was open.
    `may_probe` is asked when a request could be the probe, and answers at once; False turns the request away.
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
            consecutive=policy.consecutive,
            now=now,
            opened=self._opened,
        )
        self._breaker = pybreaker.CircuitBreaker(
            fail_max=1,
            reset_timeout=0,
            success_threshold=policy.successes,
            state_storage=self._window,
            name=name,
            throw_new_error_on_trip=False,
        )
        self._listener = listener
        self._told: State = "closed"
        self._opened_anew = False
        self._since = float("-inf")
        self._retry_at = 0.0
        self._probe: Ticket | None = None
        self._lease_until = 0.0
        self.learned = self.reopened = False
        self.may_probe: Callable[[], bool] = anyone

    def admit(self) -> Ticket:
        """Leave for one attempt. Raises BreakerOpen."""
        window = self._window
        if window.closed:
            return Ticket(window.generation, False)
        now = self._now()
        wait = self._retry_at - now
        if wait > 0 or self._probing or not self.may_probe():
            raise BreakerOpen(f"the breaker of {self.name} is open", max(wait, 0.0))
        if window.state == pybreaker.STATE_OPEN:
            self._breaker.half_open()
        else:  # another probe of the same half-open time; pybreaker would forget the good ones before it
            window.generation += 1
        self._probe = Ticket(window.generation, True)
        self._lease_until = now + _LEASE_S
        return self._probe

    def settle(self, ticket: Ticket, verdict: Verdict) -> None:
        """The attempt of `ticket` is over; every ticket has to come back here once."""
        if ticket == self._probe:
            self._probe = None
        if ticket.generation != self._window.generation or verdict is Verdict.NEUTRAL:
            return  # nothing was learned; after a probe the next request probes
        if verdict is Verdict.SUCCESS and not ticket.probe:
            self._window.reset_counter()  # all that pybreaker does with a success while closed
            return
        with contextlib.suppress(_Failed, pybreaker.CircuitBreakerError):
            self._breaker.call(_outcome, verdict)
        if ticket.probe and self._window.closed:
            self._since, self.learned = self._now(), False
        self._tell()

    def trip(self) -> None:
        """Open now, whatever the window says. One in its cool-down stays as it is; past it, or under probe, one begins anew."""
        if self._window.closed or self._retry_at <= self._now():
            self._breaker.open()
            self._tell()

    def retune(self, policy: BreakerPolicy) -> None:
        """Other numbers for a live breaker. State, generation, good probes, and the samples within the window stay.

        An open breaker keeps the time of its next probe. Nothing opens or closes by this: the next sample is the first
        that is judged by the new numbers.
        """
        self._window_s, self._cooldown_s = policy.window, policy.cooldown
        self._breaker.success_threshold = policy.successes
        self._window.retune(
            window_s=policy.window,
            minimum=policy.minimum,
            failure_ratio=policy.failure_ratio,
            consecutive=policy.consecutive,
        )

    def apply(self, state: State, age_s: float, *, again: bool = False) -> bool:
        """Take over what another replica saw of the same target: that it opened or closed, `age_s` seconds ago.

        Returns whether anything changed here. What happened here later stands. An opening counts its cool-down from when
        it happened there, whoever looks at it when; so as not to move the probe ever further away, one of a breaker that
        is open here counts only when it was open there too (`again`): then it stands for an attempt that failed. A probe
        of our own that is in flight speaks for itself.
        """
        at = self._now() - max(age_s, 0.0)
        if at <= self._since:
            return False
        if state == "closed":
            if self._window.closed:
                return False
            self._breaker.close()
        else:
            if self._probing or not (self._window.closed or again):
                return False
            self._breaker.open()
            self._retry_at += at - self._since
        self._since, self.learned = at, True
        self._tell()
        return True

    @property
    def is_open(self) -> bool:
        """Whether a request would be turned away now."""
        if self._window.closed:
            return False
        return self._resting or not self.may_probe()

    @property
    def is_failing(self) -> bool:
        """Whether it is open for a fresh reason: in its cool-down, under probe, or opened within its window.

        One that nobody has asked for longer says nothing of now.
        """
        if self._window.closed:
            return False
        return self._resting or self._now() - self._since < self._window_s

    @property
    def settled(self) -> State:
        """`closed` or `open`, whether or not a probe is in flight."""
        return "closed" if self._window.closed else "open"

    @property
    def state(self) -> State:
        """`half_open` only while a probe is in flight; past its cool-down, with none, a breaker is `open`."""
        if self._window.closed:
            return "closed"
        return "half_open" if self._probing else "open"

    def view(self) -> BreakerView:
        state = self.state
        retry_in = 0.0 if state == "closed" else max(self._retry_at - self._now(), 0.0)
        return BreakerView(state, self._window.samples, self._window.failures, retry_in)

    @property
    def _resting(self) -> bool:
        """In its cool-down or under probe, given that it is not closed."""
        return self._retry_at > self._now() or self._probing

    @property
    def _probing(self) -> bool:
        return self._probe is not None and self._now() < self._lease_until

    def _opened(self) -> None:
        """pybreaker opens; the state is still the one before."""
        self._opened_anew, self.learned, self.reopened = True, False, not self._window.closed
        self._since = self._now()
        self._retry_at = self._since + self._cooldown_s * (1.0 + self._random.random() * _JITTER)

    def _tell(self) -> None:
        state = self.settled
        if state != self._told or self._opened_anew:
            self._told, self._opened_anew = state, False
            if self._listener is not None:
                self._listener(self)


def anyone() -> bool:
    """The `may_probe` of a breaker that is not shared."""
    return True


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
        except BaseException:
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
        """Give every ticket back, the last one first: a target that opens may open its provider, whose own sample, that it
        could be reached, must not close it just before."""
        tickets = self._tickets
        try:
            while tickets:
                ticket = tickets.pop()
                breaker, judge = self._breakers[len(tickets)]
                breaker.settle(ticket, verdict(judge))
        finally:
            if tickets:  # a listener raised; the others' places are given back all the same
                self._settle(verdict)


class _Failed(Exception):
    pass


def _outcome(verdict: Verdict) -> None:
    if verdict is Verdict.FAILURE:
        raise _Failed
