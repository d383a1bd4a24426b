"""The breaker on a manual clock: what opens it, who probes, and that nothing ever leaves it stuck."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from random import Random
from types import TracebackType
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.answer import Llm, LlmStream, Progress
from llm.breaker import BreakerView, CircuitBreaker, Guarded, State, Ticket
from llm.classes import ErrorClass, Verdict
from llm.errors import AttemptFailed, BreakerOpen, Failure
from llm.policy import BreakerPolicy
from llm.provider_breaker import target_verdict
from llm.request import LlmRequest
from llm.window import SlidingWindow
from tests.fakes.clock import ManualClock
from tests.lab import NoJitter
from tests.llm.making import request

S, F, N = Verdict.SUCCESS, Verdict.FAILURE, Verdict.NEUTRAL
POLICY = BreakerPolicy(window=60, minimum=5, failure_ratio=0.5, cooldown=10)


class Fixed(Random):
    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def random(self) -> float:
        return self.value


def made(clock: ManualClock, policy: BreakerPolicy = POLICY, random: Random | None = None) -> CircuitBreaker:
    return CircuitBreaker("p", policy, clock.now, random or NoJitter())


def attempt(breaker: CircuitBreaker, *verdicts: Verdict) -> None:
    for verdict in verdicts:
        breaker.settle(breaker.admit(), verdict)


def opened(clock: ManualClock) -> CircuitBreaker:
    breaker = made(clock)
    attempt(breaker, F, F, F, F, F)
    assert breaker.view().state == "open"
    return breaker


def half_open(clock: ManualClock) -> tuple[CircuitBreaker, Ticket]:
    breaker = opened(clock)
    clock.advance(10)
    probe = breaker.admit()
    assert probe.probe
    return breaker, probe


# What opens it.


def test_a_new_breaker_has_no_samples() -> None:
    assert made(ManualClock()).view() == BreakerView("closed", 0, 0, 0.0)


def test_C01_one_of_one_opens_nothing_and_three_of_five_do() -> None:
    clock = ManualClock()
    breaker = made(clock)
    clock.advance(3600)
    attempt(breaker, F)
    assert breaker.view() == BreakerView("closed", 1, 1, 0.0)
    attempt(breaker, S, F, S)
    assert breaker.view() == BreakerView("closed", 4, 2, 0.0)
    attempt(breaker, F)
    assert breaker.view() == BreakerView("open", 5, 3, 10.0)


@pytest.mark.parametrize(
    ("minimum", "ratio", "verdicts", "state"),
    [
        (5, 0.5, [F] * 4, "closed"),
        (5, 0.5, [F] * 5, "open"),
        (4, 0.5, [S, S, F, F], "open"),
        (4, 0.51, [S, S, F, F], "closed"),
        (1, 0.5, [F], "open"),
        (1, 1.0, [S, F], "closed"),
        (2, 0.01, [S] * 99 + [F], "open"),
        (2, 0.01, [S] * 100 + [F], "closed"),
        (5, 0.5, [F, F, F, F, N, N, N], "closed"),
        (5, 0.5, [F, F, F, F, S], "closed"),
        (5, 0.5, [S] * 300 + [F] * 4, "closed"),
        (5, 0.5, [S] * 300 + [F] * 5, "open"),
        (5, 0.5, [S] * 300 + [F, F, N, F, F, F], "open"),
        (5, 0.5, [S] * 300 + [F, F, F, S, F, F], "closed"),
        (9, 0.5, [F] * 8, "closed"),
        (9, 0.9, [S, S, S, S, F, F, F, F, F], "open"),
    ],
)
def test_the_share_and_the_minimum(minimum: int, ratio: float, verdicts: list[Verdict], state: State) -> None:
    breaker = made(ManualClock(), BreakerPolicy(minimum=minimum, failure_ratio=ratio))
    attempt(breaker, *verdicts)
    assert breaker.view().state == state


def test_a_neutral_outcome_is_no_sample() -> None:
    breaker = made(ManualClock())
    attempt(breaker, *[N] * 20)
    assert breaker.view() == BreakerView("closed", 0, 0, 0.0)


def test_samples_leave_the_window() -> None:
    clock = ManualClock()
    breaker = made(clock)
    attempt(breaker, F, F, F, F)
    clock.advance(60)
    assert breaker.view().samples == 0
    attempt(breaker, F)
    assert breaker.view() == BreakerView("closed", 1, 1, 0.0)


@given(st.lists(st.tuples(st.floats(0, 20), st.booleans()), max_size=60))
def test_the_window_counts_what_is_young(samples: list[tuple[float, bool]]) -> None:
    """Exact but for the width of one bucket, a twentieth of the window."""
    clock = ManualClock()
    window = SlidingWindow(window_s=60, minimum=1, failure_ratio=1, consecutive=9, now=clock.now, opened=lambda: None)
    noted: list[tuple[float, bool]] = []
    for pause, failed in samples:
        clock.advance(pause)
        (window.increment_counter if failed else window.reset_counter)()
        noted.append((clock.now(), failed))
        ages = [(clock.now() - at, bad) for at, bad in noted]
        assert sum(age < 57 - 1e-6 for age, _ in ages) <= window.samples <= sum(age < 60 + 1e-6 for age, _ in ages)
        bad_ages = [age for age, bad in ages if bad]
        assert sum(age < 57 - 1e-6 for age in bad_ages) <= window.failures <= sum(age < 60 + 1e-6 for age in bad_ages)


# Open, and the way back.


def test_an_open_breaker_says_when_to_come_back() -> None:
    clock = ManualClock()
    breaker = opened(clock)
    clock.advance(4)
    with pytest.raises(BreakerOpen, match="breaker of p is open") as caught:
        breaker.admit()
    assert caught.value.retry_after_s == 6
    assert breaker.is_open
    assert breaker.view().retry_in_s == 6


def test_past_its_cool_down_it_reads_open_until_a_probe_is_in_flight() -> None:
    clock = ManualClock()
    breaker = opened(clock)
    clock.advance(1000)
    assert (breaker.view().state, breaker.view().retry_in_s) == ("open", 0.0)
    assert not breaker.is_open
    probe = breaker.admit()
    assert probe.probe
    assert breaker.view().state == "half_open"
    assert breaker.is_open


def test_one_probe_at_a_time() -> None:
    breaker, probe = half_open(ManualClock())
    for _ in range(49):
        with pytest.raises(BreakerOpen) as caught:
            breaker.admit()
        assert caught.value.retry_after_s == 0
    breaker.settle(probe, S)
    assert not breaker.admit().probe


def test_a_good_probe_closes_and_begins_anew() -> None:
    breaker, probe = half_open(ManualClock())
    breaker.settle(probe, S)
    assert (breaker.view().state, breaker.view().failures, breaker.is_open) == ("closed", 0, False)
    attempt(breaker, F)
    assert breaker.view().state == "closed"


def test_a_bad_probe_opens_for_a_whole_cool_down() -> None:
    clock = ManualClock()
    breaker, probe = half_open(clock)
    clock.advance(3)
    breaker.settle(probe, F)
    assert (breaker.view().state, breaker.view().retry_in_s) == ("open", 10.0)


def test_a_probe_that_says_nothing_gives_its_place_to_the_next() -> None:
    breaker, probe = half_open(ManualClock())
    breaker.settle(probe, N)
    assert (breaker.view().state, breaker.view().retry_in_s) == ("open", 0.0)
    assert breaker.admit().probe


@pytest.mark.parametrize("verdict", list(Verdict))
def test_late_results_of_the_closed_time_are_ignored(verdict: Verdict) -> None:
    clock = ManualClock()
    breaker = made(clock)
    late = [breaker.admit() for _ in range(9)]
    attempt(breaker, F, F, F, F, F)
    view = breaker.view()
    for ticket in late[:3]:
        breaker.settle(ticket, verdict)
    assert breaker.view() == view
    clock.advance(10)
    probe = breaker.admit()
    for ticket in late[3:6]:
        breaker.settle(ticket, verdict)
    assert breaker.view().state == "half_open"
    breaker.settle(probe, S)
    for ticket in late[6:]:
        breaker.settle(ticket, verdict)
    assert (breaker.view().state, breaker.view().failures) == ("closed", 0)


@given(st.floats(0, 1, exclude_max=True))
def test_the_cool_down_has_up_to_a_quarter_of_jitter(value: float) -> None:
    breaker = made(ManualClock(), random=Fixed(value))
    attempt(breaker, F, F, F, F, F)
    assert 10 <= breaker.view().retry_in_s <= 12.5
    assert breaker.view().retry_in_s == pytest.approx(10 * (1 + value / 4))


def test_each_opening_draws_its_own_jitter() -> None:
    clock, random = ManualClock(), Fixed(0.0)
    breaker = made(clock, random=random)
    attempt(breaker, F, F, F, F, F)
    clock.advance(10)
    random.value = 0.8
    attempt(breaker, F)
    assert breaker.view().retry_in_s == pytest.approx(12)


def test_trip_opens_whatever_the_window_says() -> None:
    clock = ManualClock()
    breaker = made(clock)
    breaker.trip()
    assert breaker.view() == BreakerView("open", 0, 0, 10.0)
    clock.advance(5)
    breaker.trip()
    assert breaker.view().retry_in_s == 5, "in its cool-down it is not opened again"


@pytest.mark.parametrize("asked", [False, True])
def test_trip_past_the_cool_down_starts_another_one(asked: bool) -> None:
    clock = ManualClock()
    breaker = opened(clock)
    clock.advance(17)
    if asked:
        attempt(breaker, N)
    breaker.trip()
    assert breaker.view().retry_in_s == 10
    with pytest.raises(BreakerOpen):
        breaker.admit()


def test_trip_under_probe_starts_a_cool_down_and_the_probe_says_nothing_more() -> None:
    clock = ManualClock()
    breaker, probe = half_open(clock)
    clock.advance(3)
    breaker.trip()
    breaker.settle(probe, S)
    assert (breaker.view().state, breaker.view().retry_in_s) == ("open", 10)


def test_the_listener_hears_every_change_once() -> None:
    clock = ManualClock()
    heard: list[State] = []
    breaker = CircuitBreaker("p", POLICY, clock.now, NoJitter(), lambda changed: heard.append(changed.state))
    attempt(breaker, S, F, F, F, F)
    clock.advance(10)
    attempt(breaker, N, F)
    clock.advance(10)
    attempt(breaker, S, S)
    assert heard == ["open", "open", "closed"]


def test_a_probe_under_way_is_no_news() -> None:
    clock = ManualClock()
    heard: list[State] = []
    breaker = CircuitBreaker("p", POLICY, clock.now, NoJitter(), lambda changed: heard.append(changed.settled))
    late = breaker.admit()
    attempt(breaker, F, F, F, F, F)
    clock.advance(10)
    probe = breaker.admit()
    breaker.settle(late, F)
    breaker.settle(probe, N)
    for _ in range(50):
        attempt(breaker, N)
    assert heard == ["open"]
    breaker.settle(breaker.admit(), S)
    assert heard == ["open", "closed"]


def test_a_trip_while_a_probe_is_under_way_is_told_as_open() -> None:
    clock = ManualClock()
    heard: list[State] = []
    breaker = CircuitBreaker("p", POLICY, clock.now, NoJitter(), lambda changed: heard.append(changed.settled))
    attempt(breaker, F, F, F, F, F)
    clock.advance(10)
    breaker.admit()
    breaker.trip()
    assert heard == ["open", "open"]


def test_how_long_an_open_breaker_is_a_sign_of_now() -> None:
    clock = ManualClock()
    breaker = made(clock)
    assert not breaker.is_failing
    attempt(breaker, F, F, F, F, F)
    clock.advance(59)
    assert (breaker.is_failing, breaker.is_open) == (True, False), "it opened within the window"
    clock.advance(1)
    assert not breaker.is_failing
    probe = breaker.admit()
    assert breaker.is_failing
    breaker.settle(probe, S)
    assert not breaker.is_failing


def test_a_long_cool_down_outlasts_the_window() -> None:
    clock = ManualClock()
    breaker = made(clock, BreakerPolicy(window=60, minimum=5, cooldown=600))
    attempt(breaker, F, F, F, F, F)
    clock.advance(599)
    assert breaker.is_failing
    clock.advance(1)
    assert not breaker.is_failing


# An `Llm` behind it.


class Inner:
    """An `Llm` whose attempts end as told: `error` on entering or reading, or whole."""

    def __init__(self, *, ended: bool = True, error: BaseException | None = None) -> None:
        self.progress, self.stream, self._error = Progress(ended=ended), True, error
        self.asked = 0

    def generate(self, asked: LlmRequest) -> AbstractAsyncContextManager[LlmStream]:
        return cast(AbstractAsyncContextManager[LlmStream], self)

    async def __aenter__(self) -> Inner:
        self.asked += 1
        if self._error is not None:
            raise self._error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is held."""


def guarded(inner: Inner, *breakers: CircuitBreaker) -> Guarded:
    return Guarded(cast(Llm, inner), *((breaker, target_verdict) for breaker in breakers))


def failed(error_class: ErrorClass) -> AttemptFailed:
    return AttemptFailed(Failure(error_class, "m"))


@pytest.mark.parametrize(
    ("inner", "samples", "failures"),
    [
        (Inner(), 1, 0),
        (Inner(ended=False), 0, 0),
        (Inner(error=failed(ErrorClass.SERVER_ERROR)), 1, 1),
        (Inner(error=failed(ErrorClass.BAD_REQUEST)), 0, 0),
        (Inner(error=asyncio.CancelledError()), 0, 0),
        (Inner(error=RuntimeError("a fault of our own")), 0, 0),
    ],
)
async def test_what_an_ending_says(inner: Inner, samples: int, failures: int) -> None:
    breaker = made(ManualClock())
    try:
        async with guarded(inner, breaker).generate(request()):
            pass
    except (AttemptFailed, asyncio.CancelledError, RuntimeError) as error:
        assert error is inner._error  # noqa: PT017 - some endings raise, some do not
    assert breaker.view() == BreakerView("closed", samples, failures, 0.0)


@pytest.mark.parametrize(
    ("error", "failures"),
    [
        (failed(ErrorClass.BAD_UPSTREAM_RESPONSE), 1),
        (asyncio.CancelledError(), 0),
        (ConnectionResetError(), 0),
        (GeneratorExit(), 0),
    ],
)
async def test_what_an_ending_within_the_answer_says(error: BaseException, failures: int) -> None:
    breaker = made(ManualClock())
    with pytest.raises(type(error)):
        async with guarded(Inner(ended=False), breaker).generate(request()):
            raise error
    assert breaker.view() == BreakerView("closed", failures, failures, 0.0)


@pytest.mark.parametrize("error", [None, asyncio.CancelledError(), failed(ErrorClass.RATE_LIMITED), RuntimeError()])
async def test_a_probes_place_is_given_back_on_every_ending(error: BaseException | None) -> None:
    clock = ManualClock()
    breaker = opened(clock)
    clock.advance(10)
    inner = Inner(ended=False, error=error)
    try:
        async with guarded(inner, breaker).generate(request()):
            assert breaker.view().state == "half_open"
    except (AttemptFailed, asyncio.CancelledError, RuntimeError) as raised:
        assert raised is error  # noqa: PT017 - some endings raise, some do not
    assert breaker.view().state == "open"
    assert not breaker.is_open


async def test_an_open_breaker_asks_nobody_and_frees_those_before_it() -> None:
    clock = ManualClock()
    first = opened(clock)
    clock.advance(5)
    second = opened(clock)
    clock.advance(5)
    inner = Inner()
    with pytest.raises(BreakerOpen):
        async with guarded(inner, first, second).generate(request()):
            pytest.fail("an open breaker let a request through")
    assert inner.asked == 0
    assert (first.view().state, first.is_open) == ("open", False), "its probe's place is free"
    assert first.admit().probe


async def test_a_listener_that_fails_keeps_no_probes_place() -> None:
    def fail(changed: CircuitBreaker) -> None:
        if changed.state == "closed":
            raise RuntimeError("a fault of our own")

    clock = ManualClock()
    breakers = [CircuitBreaker(name, POLICY, clock.now, NoJitter(), fail) for name in ("provider", "target")]
    for breaker in breakers:
        breaker.trip()
    clock.advance(10)
    with pytest.raises(RuntimeError):
        async with guarded(Inner(), *breakers).generate(request()):
            assert [breaker.state for breaker in breakers] == ["half_open", "half_open"]
    assert [breaker.state for breaker in breakers] == ["closed", "closed"]
