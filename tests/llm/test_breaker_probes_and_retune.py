"""More than one good probe, a probe that is lost, and other numbers for a breaker in use."""

from __future__ import annotations

import pytest

from llm.breaker import BreakerView, CircuitBreaker, State
from llm.errors import BreakerOpen
from llm.policy import BreakerPolicy
from tests.fakes.clock import ManualClock
from tests.lab import NoJitter
from tests.llm.test_window_and_breaker import POLICY, F, N, S, attempt, half_open, made

# More than one good probe.


def two_needed(clock: ManualClock, heard: list[State] | None = None) -> CircuitBreaker:
    policy = POLICY.model_copy(update={"successes": 2})
    changes = heard if heard is not None else []
    breaker = CircuitBreaker("p", policy, clock.now, NoJitter(), lambda changed: changes.append(changed.settled))
    attempt(breaker, F, F, F, F, F)
    clock.advance(10)
    return breaker


def test_C06_the_second_good_probe_closes() -> None:
    heard: list[State] = []
    breaker = two_needed(ManualClock(), heard)
    attempt(breaker, S)
    assert (breaker.view().state, breaker.view().retry_in_s, breaker.is_open) == ("open", 0, False)
    probe = breaker.admit()
    assert (probe.probe, breaker.state) == (True, "half_open"), "the next request is the next probe at once"
    with pytest.raises(BreakerOpen):
        breaker.admit()
    breaker.settle(probe, S)
    assert breaker.view() == BreakerView("closed", 0, 0, 0.0)
    assert heard == ["open", "closed"]


def test_C06_a_failure_between_good_probes_opens_anew_and_they_count_from_the_start() -> None:
    clock = ManualClock()
    breaker = two_needed(clock)
    attempt(breaker, S)
    clock.advance(3)
    attempt(breaker, F)
    assert (breaker.view().state, breaker.view().retry_in_s) == ("open", 10)
    clock.advance(10)
    attempt(breaker, S)
    assert breaker.view().state == "open"
    attempt(breaker, S)
    assert breaker.view().state == "closed"


def test_a_probe_that_says_nothing_does_not_undo_a_good_one() -> None:
    breaker = two_needed(ManualClock())
    attempt(breaker, S, N, S)
    assert breaker.view().state == "closed"


def test_the_next_opening_needs_as_many_good_probes_again() -> None:
    clock = ManualClock()
    breaker = two_needed(clock)
    attempt(breaker, S, S, F, F, F, F, F)
    clock.advance(10)
    attempt(breaker, S)
    assert breaker.view().state == "open"


# A lease that nobody gives back, and what nobody reads.


def test_a_probe_that_never_comes_back_loses_its_place() -> None:
    clock = ManualClock()
    breaker, lost = half_open(clock)
    clock.advance(599)
    assert (breaker.view().state, breaker.is_open) == ("half_open", True)
    clock.advance(1)
    assert (breaker.view().state, breaker.is_open) == ("open", False)
    another = breaker.admit()
    assert another.probe
    breaker.settle(lost, S)
    assert breaker.view().state == "half_open", (
        "what comes back after all neither closes it nor frees the other's place"
    )
    breaker.settle(another, S)
    assert breaker.view().state == "closed"


def test_successes_that_nobody_counts_take_no_room() -> None:
    clock = ManualClock()
    breaker = made(clock)
    for _ in range(1000):
        clock.advance(3)
        attempt(breaker, S)
    assert len(breaker._window._buckets) <= 21


# Other numbers for a live breaker.


def test_retune_judges_the_next_failure_by_the_new_numbers() -> None:
    breaker = made(ManualClock())
    attempt(breaker, F, F)
    breaker.retune(POLICY.model_copy(update={"minimum": 3}))
    assert breaker.view() == BreakerView("closed", 2, 2, 0.0)
    attempt(breaker, F)
    assert breaker.view() == BreakerView("open", 3, 3, 10.0)


def test_retune_changes_the_share() -> None:
    breaker = made(ManualClock())
    breaker.retune(POLICY.model_copy(update={"failure_ratio": 0.9}))
    attempt(breaker, S, F, F, F, F)
    assert breaker.view().state == "closed"


def test_retune_drops_samples_that_a_smaller_window_does_not_hold_and_keeps_the_others() -> None:
    clock = ManualClock()
    breaker = made(clock)
    attempt(breaker, F, F)
    clock.advance(20)
    attempt(breaker, S)
    breaker.retune(POLICY.model_copy(update={"window": 15.0}))
    assert breaker.view() == BreakerView("closed", 1, 0, 0.0)
    breaker.retune(POLICY.model_copy(update={"window": 600.0}))
    clock.advance(500)
    assert breaker.view().samples == 1


def test_retune_drops_for_good() -> None:
    clock = ManualClock()
    breaker = made(clock)
    attempt(breaker, F, F)
    clock.advance(20)
    breaker.retune(POLICY.model_copy(update={"window": 15.0}))
    breaker.retune(POLICY)
    assert breaker.view().samples == 0


def test_retune_counts_in_slices_of_the_new_window() -> None:
    clock = ManualClock()
    breaker = made(clock, BreakerPolicy(window=600, minimum=5))
    breaker.retune(BreakerPolicy(window=10, minimum=99))
    for _ in range(5):
        attempt(breaker, F)
        clock.advance(2)
    seen = []
    for _ in range(5):
        seen.append(breaker.view().samples)
        clock.advance(2)
    assert seen == [4, 3, 2, 1, 0]


def test_retune_leaves_a_running_cool_down_and_a_running_attempt_alone() -> None:
    clock = ManualClock()
    breaker = made(clock)
    late = breaker.admit()
    breaker.retune(POLICY.model_copy(update={"minimum": 1}))
    breaker.settle(late, F)
    assert breaker.view() == BreakerView("open", 1, 1, 10.0), "its sample counts"
    clock.advance(4)
    breaker.retune(POLICY.model_copy(update={"minimum": 1, "cooldown": 1.0}))
    assert breaker.view().retry_in_s == 6
    clock.advance(6)
    probe = breaker.admit()
    breaker.retune(POLICY)
    assert breaker.view().state == "half_open"
    breaker.settle(probe, F)
    assert breaker.view().retry_in_s == 10


def test_retune_changes_how_many_good_probes_are_needed_and_keeps_those_it_has() -> None:
    breaker = two_needed(ManualClock())
    attempt(breaker, S)
    breaker.retune(POLICY.model_copy(update={"successes": 3}))
    attempt(breaker, S)
    assert breaker.view().state == "open"
    breaker.retune(POLICY)
    attempt(breaker, S)
    assert breaker.view().state == "closed"
