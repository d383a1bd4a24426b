"""A target's quota against a model in exact fractions, over any order of reservations, endings and pauses."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from quota.errors import QuotaRefused
from quota.policy import QuotaPolicy
from quota.target_quota import Level, Reservation, TargetQuota

_EARLY_S = 0.05
"""Closer to the exact time than this, the model leaves it open whether a reservation fits."""
_SLACK = 0.01
"""Requests or tokens by which floats may differ from fractions; the tolerance at 600 000 tokens a minute."""

policies = st.builds(
    QuotaPolicy,
    requests_per_minute=st.none() | st.integers(1, 6000),
    tokens_per_minute=st.none() | st.integers(60, 600_000),
    burst=st.sampled_from([0.5, 1.0, 10.0, 60.0]),
    concurrency=st.none() | st.integers(1, 4),
)


class ModelBucket:
    """A bucket whose level is a fraction that is brought forward with every tick."""

    def __init__(self, per_minute: int, burst: float, at_least: int) -> None:
        self.rate = Fraction(per_minute, 60)
        self.capacity = max(self.rate * Fraction(burst), Fraction(at_least))
        self.level = self.capacity

    def retune(self, per_minute: int, burst: float, at_least: int) -> None:
        self.rate = Fraction(per_minute, 60)
        self.capacity = max(self.rate * Fraction(burst), Fraction(at_least))
        self.change(0)

    def change(self, amount: int | Fraction) -> None:
        self.level = min(self.capacity, self.level + amount)

    def wait_s(self, amount: int) -> float:
        return float(max((amount - self.level) / self.rate, Fraction(0)))


def ask(target: TargetQuota, tokens: int) -> Reservation | QuotaRefused:
    try:
        return target.reserve(tokens)
    except QuotaRefused as refusal:
        return refusal


def retuned(bucket: ModelBucket | None, per_minute: int | None, burst: float, at_least: int) -> ModelBucket | None:
    if per_minute is None:
        return None
    if bucket is None:
        return ModelBucket(per_minute, burst, at_least)
    bucket.retune(per_minute, burst, at_least)
    return bucket


class Held(NamedTuple):
    """A reservation, and the buckets that it was taken from."""

    reservation: Reservation
    tokens: int
    from_requests: ModelBucket | None
    from_tokens: ModelBucket | None


class QuotaMachine(RuleBasedStateMachine):
    """Balance = capacity - real use + refill; a refusal changes nothing; only the first settlement counts."""

    @initialize(policy=policies, start_ms=st.integers(0, 10**10))
    def begin(self, policy: QuotaPolicy, start_ms: int) -> None:
        self.ms = start_ms
        self.policy = policy
        self.target = TargetQuota(policy, lambda: self.ms / 1000)
        self.requests = retuned(None, policy.requests_per_minute, policy.burst, 1)
        self.tokens = retuned(None, policy.tokens_per_minute, policy.burst, 0)
        self.held: list[Held] = []
        self.over: list[Reservation] = []

    def buckets(self, tokens: int) -> list[tuple[ModelBucket, int]]:
        asked = [(self.requests, 1), (self.tokens, tokens)]
        return [(bucket, amount) for bucket, amount in asked if isinstance(bucket, ModelBucket)]

    @rule(policy=policies)
    def other_limits(self, policy: QuotaPolicy) -> None:
        self.policy = policy
        self.target.retune(policy)
        self.requests = retuned(self.requests, policy.requests_per_minute, policy.burst, 1)
        self.tokens = retuned(self.tokens, policy.tokens_per_minute, policy.burst, 0)

    @rule(ms=st.integers(0, 90_000))
    def time_passes(self, ms: int) -> None:
        self.ms += ms
        for bucket, _ in self.buckets(0):
            bucket.change(bucket.rate * Fraction(ms, 1000))

    @rule(data=st.data())
    def reserve(self, data: st.DataObject) -> None:
        size = int(self.tokens.capacity) if isinstance(self.tokens, ModelBucket) else 1000
        tokens = data.draw(st.integers(0, size) | st.integers(0, 2 * size))
        asked = self.buckets(tokens)
        never = any(amount > bucket.capacity for bucket, amount in asked)
        full = self.policy.concurrency is not None and len(self.held) >= self.policy.concurrency
        wait_s = max((bucket.wait_s(amount) for bucket, amount in asked), default=0.0)
        before = self.target.levels()
        outcome = ask(self.target, tokens)
        if isinstance(outcome, QuotaRefused):
            assert self.target.levels() == before
            assert outcome.never == never
            if never or full:
                assert outcome.retry_after_s is None
                assert never or outcome.kind == "concurrency"
            else:
                assert outcome.retry_after_s is not None
                assert outcome.retry_after_s > 0
                assert abs(outcome.retry_after_s - wait_s) < _EARLY_S
            return
        assert not never
        assert not full
        assert wait_s < _EARLY_S
        for bucket, amount in asked:
            bucket.change(-amount)
        self.held.append(Held(outcome, tokens, self.requests, self.tokens))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        held = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        used = data.draw(st.integers(0, held.tokens) | st.integers(0, 2 * held.tokens + 10))
        held.reservation.settle(used)
        if self.requests is not None and self.requests is not held.from_requests:
            self.requests.change(-1)  # it came after the reservation, which took nothing from it
        if self.tokens is not None:
            self.tokens.change((held.tokens if self.tokens is held.from_tokens else 0) - used)
        self.over.append(held.reservation)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        held = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        held.reservation.release()
        for bucket, amount in self.buckets(held.tokens):
            if bucket in (held.from_requests, held.from_tokens):
                bucket.change(amount)
        self.over.append(held.reservation)

    @precondition(lambda self: self.over)
    @rule(data=st.data(), used=st.integers(0, 10**6))
    def end_again(self, data: st.DataObject, used: int) -> None:
        before = self.target.levels()
        reservation = data.draw(st.sampled_from(self.over))
        reservation.settle(used)
        reservation.release()
        assert self.target.levels() == before

    @invariant()
    def levels_are_those_of_the_model(self) -> None:
        levels = self.target.levels()
        assert levels.in_flight == len(self.held)
        for level, bucket in ((levels.requests, self.requests), (levels.tokens, self.tokens)):
            assert (level is None) == (bucket is None)
            if isinstance(level, Level) and isinstance(bucket, ModelBucket):
                assert level.level <= level.capacity
                assert abs(level.level - float(bucket.level)) < _SLACK


QuotaMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
test_any_order_of_reservations_and_endings = QuotaMachine.TestCase


@settings(deadline=None)
@given(
    policy=policies.filter(lambda policy: policy.requests_per_minute or policy.tokens_per_minute),
    start=st.floats(0, 1e8),
    steps=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 2), st.floats(0, 20)), max_size=15),
    share=st.floats(0, 1),
)
def test_it_fits_exactly_after_the_time_that_a_refusal_gives_and_not_50_ms_before(
    policy: QuotaPolicy, start: float, steps: list[tuple[float, float, float]], share: float
) -> None:
    """`steps`: shares of the bucket to reserve and to use, and the pause in seconds after it."""
    now = start
    target = TargetQuota(policy.model_copy(update={"concurrency": None}), lambda: now)
    size = (policy.tokens_per_minute or 0) * policy.burst / 60
    for part, use, pause_s in steps:
        earlier = ask(target, int(part * size))
        if isinstance(earlier, Reservation):
            earlier.settle(int(use * size))
        now += pause_s
    wanted = int(share * size)
    if not wanted and policy.requests_per_minute is None:
        return  # nothing is limited that it would take
    level = target.levels().tokens
    if level is not None and level.level >= 1:
        ask(target, int(level.level))
    while isinstance(outcome := ask(target, wanted), Reservation):
        pass
    assert outcome.retry_after_s is not None
    fits_at = now + outcome.retry_after_s
    if fits_at - _EARLY_S > now:
        now = fits_at - _EARLY_S
        early = ask(target, wanted)
        assert isinstance(early, QuotaRefused)
        assert early.retry_after_s is not None
        assert abs(now + early.retry_after_s - fits_at) < 1e-3
    now = fits_at
    assert isinstance(ask(target, wanted), Reservation)
