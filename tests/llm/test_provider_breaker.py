"""When a whole provider is left alone."""

from __future__ import annotations

from typing import cast

import pytest

from llm.answer import Llm
from llm.breaker import CircuitBreaker, Guarded
from llm.classes import ErrorClass, Verdict
from llm.errors import AttemptFailed, Failure
from llm.policy import BreakerPolicy
from llm.provider_breaker import ProviderBreaker, connection_verdict, target_verdict
from tests.fakes.clock import ManualClock
from tests.lab import NoJitter
from tests.llm.making import request
from tests.llm.test_window_and_breaker import Inner

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


def test_a_third_bad_model_past_the_providers_cool_down_starts_another_one() -> None:
    clock = ManualClock()
    provider = made(clock)
    first, second, third = (provider.target(name, f"of {name}", POLICY) for name in ("a", "b", "c"))
    late = [third.admit(), third.admit()]
    fail(first)
    fail(second)
    clock.advance(12)
    assert not provider.breaker.is_open
    for ticket in late:
        third.settle(ticket, Verdict.FAILURE)
    assert (provider.breaker.state, provider.breaker.view().retry_in_s) == ("open", 10)


async def test_a_probe_that_opens_its_target_again_does_not_close_the_provider_before() -> None:
    clock = ManualClock()
    heard: list[tuple[str, str]] = []
    provider = made(clock, heard)
    first = provider.target("a", "m1", POLICY)
    fail(first)
    fail(provider.target("b", "m2", POLICY))
    clock.advance(10)
    heard.clear()
    both = ((provider.breaker, connection_verdict), (first, target_verdict))
    inner = Inner(error=AttemptFailed(Failure(ErrorClass.SERVER_ERROR, "m")))
    with pytest.raises(AttemptFailed):
        async with Guarded(cast(Llm, inner), *both).generate(request()):
            pytest.fail("the attempt fails on entering")
    assert heard == [("provider p", "open"), ("a", "open")]
    assert provider.breaker.view().retry_in_s == 10


def test_a_forgotten_target_is_neither_counted_nor_heard() -> None:
    heard: list[tuple[str, str]] = []
    provider = made(ManualClock(), heard)
    gone, left = provider.target("a", "m1", POLICY), provider.target("b", "m2", POLICY)
    late = [gone.admit(), gone.admit()]
    fail(gone)
    heard.clear()
    provider.forget("a")
    provider.forget("a")
    for ticket in late:
        gone.settle(ticket, Verdict.FAILURE)
    gone.trip()
    fail(left)
    assert (heard, provider.breaker.state) == ([("b", "open")], "closed")


def test_a_target_in_the_place_of_another_is_the_one_that_counts() -> None:
    heard: list[tuple[str, str]] = []
    provider = made(ManualClock(), heard)
    old = provider.target("a", "m1", POLICY)
    provider.target("a", "m3", POLICY)
    fail(provider.target("b", "m2", POLICY))
    fail(old)
    assert (heard, provider.breaker.state) == ([("b", "open")], "closed")


def test_retune_gives_the_provider_other_numbers() -> None:
    provider = made(ManualClock())
    provider.retune(BreakerPolicy(minimum=3, cooldown=20))
    fail(provider.breaker)
    assert provider.breaker.state == "closed"
    fail(provider.breaker, 1)
    assert provider.breaker.view().retry_in_s == 20


def test_what_another_replica_saw_counts_but_opens_no_provider_by_itself() -> None:
    provider = made(ManualClock())
    first, second = provider.target("a", "m1", POLICY), provider.target("b", "m2", POLICY)
    first.apply("open", 1.0)
    second.apply("open", 1.0)
    assert (first.state, second.state, provider.breaker.state) == ("open", "open", "closed")
    fail(provider.target("c", "m3", POLICY))
    assert provider.breaker.state == "open"


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
