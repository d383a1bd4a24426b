"""When a whole provider is left alone."""

from __future__ import annotations

import pytest

from llm.breaker import CircuitBreaker
from llm.classes import ErrorClass, Verdict
from llm.policy import BreakerPolicy
from llm.provider_breaker import ProviderBreaker, connection_verdict, target_verdict
from tests.fakes.clock import ManualClock
from tests.lab import NoJitter

POLICY = BreakerPolicy(minimum=2, cooldown=10)


def fail(breaker: CircuitBreaker, times: int = 2) -> None:
    for _ in range(times):
        breaker.settle(breaker.admit(), Verdict.FAILURE)


def made(clock: ManualClock, heard: list[tuple[str, str]] | None = None) -> ProviderBreaker:
    changes = heard if heard is not None else []
    return ProviderBreaker("p", POLICY, clock.now, NoJitter(), lambda name, state: changes.append((name, state)))


def test_one_bad_model_opens_only_its_own() -> None:
    provider = made(ManualClock())
    first, second = provider.target("a", "m1", POLICY), provider.target("b", "m2", POLICY)
    fail(first)
    assert (first.state, second.state, provider.breaker.state) == ("open", "closed", "closed")


def test_two_targets_of_one_model_are_one_model() -> None:
    provider = made(ManualClock())
    for name in ("a", "b", "c"):
        fail(provider.target(name, "m1", POLICY))
    assert provider.breaker.state == "closed"


def test_two_bad_models_open_the_provider() -> None:
    heard: list[tuple[str, str]] = []
    provider = made(ManualClock(), heard)
    fail(provider.target("a", "m1", POLICY))
    fail(provider.target("b", "m2", POLICY))
    assert (provider.breaker.state, provider.breaker.view().retry_in_s) == ("open", 10)
    assert heard == [("a", "open"), ("provider p", "open"), ("b", "open")]


def test_a_model_that_came_back_does_not_count() -> None:
    clock = ManualClock()
    provider = made(clock)
    first, second = provider.target("a", "m1", POLICY), provider.target("b", "m2", POLICY)
    fail(first)
    clock.advance(10)
    first.settle(first.admit(), Verdict.SUCCESS)
    fail(second)
    assert provider.breaker.state == "closed"


def test_a_model_whose_probe_fails_again_counts() -> None:
    clock = ManualClock()
    provider = made(clock)
    first, second = provider.target("a", "m1", POLICY), provider.target("b", "m2", POLICY)
    fail(first)
    clock.advance(60)
    fail(second)
    assert not provider.breaker.is_open, "what failed a minute ago, and was not asked since, is no sign"
    fail(first, 1)
    assert provider.breaker.state == "open"


def test_a_model_that_opened_within_the_window_counts() -> None:
    clock = ManualClock()
    provider = made(clock)
    first, second = provider.target("a", "m1", POLICY), provider.target("b", "m2", POLICY)
    fail(first)
    clock.advance(15)  # the cool-down is over, the window of 30 s is not
    fail(second)
    assert provider.breaker.state == "open"


def test_a_stale_neighbour_does_not_take_a_good_model_along() -> None:
    clock = ManualClock()
    provider = made(clock)
    first, second = provider.target("a", "m1", POLICY), provider.target("b", "m2", POLICY)
    fail(first)
    clock.advance(30)
    fail(second)
    assert (first.state, second.state, provider.breaker.state) == ("open", "open", "closed")


def test_failing_connections_open_it_by_themselves() -> None:
    provider = made(ManualClock())
    breaker = provider.breaker
    for _ in range(2):
        breaker.settle(breaker.admit(), connection_verdict(ErrorClass.CONNECT))
    assert breaker.state == "open"


@pytest.mark.parametrize("error_class", list(ErrorClass))
def test_what_a_class_says_of_the_connection(error_class: ErrorClass) -> None:
    silent = {
        ErrorClass.LOCAL_CAPACITY,
        ErrorClass.DEADLINE,
        ErrorClass.CANCELLED,
        ErrorClass.TIMEOUT_FIRST_TOKEN,
        ErrorClass.TIMEOUT_IDLE,
        ErrorClass.TIMEOUT_TOTAL,
    }
    expected = (
        Verdict.FAILURE
        if error_class is ErrorClass.CONNECT
        else Verdict.NEUTRAL
        if error_class in silent
        else Verdict.SUCCESS
    )
    assert connection_verdict(error_class) is expected


def test_a_target_samples_what_its_rule_says() -> None:
    assert target_verdict(ErrorClass.SERVER_ERROR) is Verdict.FAILURE
    assert target_verdict(ErrorClass.RATE_LIMITED) is Verdict.NEUTRAL
