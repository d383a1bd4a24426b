"""The breaker against a plain model of it: any order of attempts, endings, pauses, trips, news and other numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from llm.breaker import CircuitBreaker, Ticket
from llm.classes import Verdict
from llm.errors import BreakerOpen
from llm.policy import BreakerPolicy
from tests.fakes.clock import ManualClock

LEASE_S = 600.0

POLICIES = st.builds(
    BreakerPolicy,
    window=st.sampled_from([5.0, 30.0, 300.0]),
    minimum=st.integers(1, 6),
    failure_ratio=st.sampled_from([0.01, 0.5, 1.0]),
    consecutive=st.sampled_from([1, 3, 5, 1000]),
    cooldown=st.sampled_from([4.0, 10.0]),
    successes=st.integers(1, 3),
)


@dataclass(eq=False)
class Attempt:
    """One that was let through, in the `epoch` of the model at that time."""

    ticket: Ticket
    epoch: int
    probe: bool


@dataclass
class Model:
    """What a breaker is, as plainly as it can be said. Each sample is kept, with the start of the slice it fell into."""

    policy: BreakerPolicy
    closed: bool = True
    epoch: int = 0
    good_probes: int = 0
    samples: list[tuple[float, bool]] = field(default_factory=list)
    since: float = float("-inf")
    probe: Attempt | None = None
    probe_until: float = 0.0

    def probing(self, now: float) -> bool:
        return self.probe is not None and now < self.probe_until

    def note(self, now: float, failed: bool) -> None:
        last = self.samples[-1][0] if self.samples else float("-inf")
        start = last if now < last + self.policy.window / 20 else now
        self.samples.append((start, failed))

    def forget_old(self, now: float) -> None:
        self.samples = [sample for sample in self.samples if sample[0] > now - self.policy.window]

    @property
    def failures(self) -> int:
        return sum(failed for _, failed in self.samples)

    @property
    def too_bad(self) -> bool:
        total, row = len(self.samples), 0
        for _, failed in self.samples:
            row = row + 1 if failed else 0
        bad = self.failures >= self.policy.failure_ratio * total or row >= self.policy.consecutive
        return total >= self.policy.minimum and bad

    def change(self, *, closed: bool, at: float) -> None:
        self.closed, self.since, self.good_probes = closed, at, 0
        self.epoch += 1
        if closed:
            self.samples.clear()


class Machine(RuleBasedStateMachine):
    @initialize(policy=POLICIES, seed=st.integers(0, 99))
    def begin(self, policy: BreakerPolicy, seed: int) -> None:
        self.clock = ManualClock()
        self.heard: list[str] = []
        self.expected: list[str] = []
        self.breaker = CircuitBreaker(
            "p", policy, self.clock.now, Random(seed), lambda changed: self.heard.append(changed.settled)
        )
        self.model = Model(policy)
        self.attempts: list[Attempt] = []
        self.retry_at = 0.0

    def opens(self, at: float) -> None:
        """The model opens, with the cool-down that the breaker drew: never shorter than the setting."""
        self.model.change(closed=False, at=at)
        self.retry_at = self.breaker._retry_at
        cooldown = self.model.policy.cooldown
        assert at + cooldown - 1e-6 <= self.retry_at <= at + cooldown * 1.25 + 1e-6
        self.expected.append("open")

    def closes(self, at: float) -> None:
        self.model.change(closed=True, at=at)
        self.expected.append("closed")

    @rule(seconds=st.sampled_from([0.1, 0.2, 1.0, 4.0, 10.0, 12.5, 40.0, 700.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.model.forget_old(self.clock.now())

    @rule()
    def ask(self) -> None:
        model, now = self.model, self.clock.now()
        free = model.closed or (now >= self.retry_at and not model.probing(now))
        assert self.breaker.is_open == (not free)
        try:
            ticket = self.breaker.admit()
        except BreakerOpen as refused:
            assert not free
            told = refused.retry_after_s
            assert told == max(self.retry_at - now, 0.0)
            return
        assert free
        assert ticket.probe == (not model.closed)
        if ticket.probe:
            model.epoch += 1
        attempt = Attempt(ticket, model.epoch, ticket.probe)
        if ticket.probe:
            model.probe, model.probe_until = attempt, now + LEASE_S
        self.attempts.append(attempt)

    @precondition(lambda self: self.attempts)
    @rule(data=st.data(), verdict=st.sampled_from(Verdict))
    def an_attempt_ends(self, data: st.DataObject, verdict: Verdict) -> None:
        attempt = self.attempts.pop(data.draw(st.integers(0, len(self.attempts) - 1)))
        model, now = self.model, self.clock.now()
        self.breaker.settle(attempt.ticket, verdict)
        if attempt is model.probe:
            model.probe = None
        if attempt.epoch != model.epoch or verdict is Verdict.NEUTRAL:
            return
        model.note(now, verdict is Verdict.FAILURE)
        if attempt.probe and verdict is Verdict.SUCCESS:
            model.good_probes += 1
            if model.good_probes >= model.policy.successes:
                self.closes(now)
        elif verdict is Verdict.FAILURE and (attempt.probe or model.too_bad):
            self.opens(now)

    @rule()
    def trip(self) -> None:
        rests = not self.model.closed and self.clock.now() < self.retry_at
        self.breaker.trip()
        if not rests:
            self.opens(self.clock.now())

    @rule(policy=POLICIES)
    def other_numbers(self, policy: BreakerPolicy) -> None:
        self.breaker.retune(policy)
        self.model.policy = policy
        self.model.forget_old(self.clock.now())

    @rule(state=st.sampled_from(["open", "closed"]), age_s=st.sampled_from([0.0, 1.0, 5.0, 50.0]), again=st.booleans())
    def news(self, state: str, age_s: float, again: bool) -> None:
        model, now = self.model, self.clock.now()
        at = now - age_s
        if state == "closed":
            expected = at > model.since and not model.closed
        else:
            expected = at > model.since and not model.probing(now) and (model.closed or again)
        changed = self.breaker.apply("open" if state == "open" else "closed", age_s, again=again)
        assert changed == expected
        if not expected:
            return
        if state == "open":
            self.opens(at)
        else:
            self.closes(at)

    @invariant()
    def it_shows_what_the_model_is(self) -> None:
        model, now, view = self.model, self.clock.now(), self.breaker.view()
        state = "closed" if model.closed else "half_open" if model.probing(now) else "open"
        assert view.state == state
        assert self.breaker.settled == ("closed" if model.closed else "open")
        assert (view.samples, view.failures) == (len(model.samples), model.failures)
        assert view.retry_in_s == (0.0 if model.closed else max(self.retry_at - now, 0.0))

    @invariant()
    def never_two_probes(self) -> None:
        within = [attempt for attempt in self.attempts if attempt.probe and attempt is self.model.probe]
        others = [attempt for attempt in self.attempts if attempt.probe and attempt is not self.model.probe]
        assert len(within) <= 1
        assert not others or self.lost_a_lease, "a second probe is only let out for one that never came back"

    @property
    def lost_a_lease(self) -> bool:
        return self.clock.now() >= 1000.0 + LEASE_S

    @invariant()
    def its_listener_heard_every_change_once(self) -> None:
        assert self.heard == self.expected


TestBreakerMachine = Machine.TestCase
