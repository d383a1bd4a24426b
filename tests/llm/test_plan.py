"""The pure decisions of a fallback."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm import plan
from llm.attempt import AttemptRecord, Trail
from llm.classes import RULES, ErrorClass, Onward, Skip
from llm.commit import FIRST_OUTPUT, Commit
from llm.errors import Failure, RouteFailed
from llm.plan import Blocked
from llm.policy import RetryPolicy, TimeoutsPolicy
from llm.request import Limits
from llm.spec import RouteSpec
from tests.lab import NoJitter
from tests.llm.making import call, request, route, stop, target

TIMEOUTS = TimeoutsPolicy(connect=3, first_output=10, idle=15, total=120)


def limits(
    left_s: float,
    *,
    others_left: bool,
    stream: bool,
    timeouts: TimeoutsPolicy = TIMEOUTS,
    deadline_s: float = 120,
    commit: Commit = FIRST_OUTPUT,
) -> Limits:
    one = stop(target(), timeouts)
    of = route(one, deadline_s=deadline_s)
    return plan.limits(of, one, call(stream=stream), commit, left_s, others_left=others_left)


# Who fits.


@pytest.mark.parametrize(
    ("window", "limit", "capabilities", "fields", "skip"),
    [
        (None, None, None, {"tools": [{}]}, None),
        (1000, None, None, {}, None),
        (5, None, None, {}, Skip.CONTEXT_WINDOW),
        (None, 10, None, {}, Skip.REQUEST_LIMIT),
        (None, 10_000, None, {}, None),
        (None, None, frozenset({"tools"}), {"tools": [{}]}, None),
        (None, None, frozenset({"vision"}), {"tools": [{}]}, Skip.CAPABILITY),
        (None, None, frozenset(), {}, None),
        (5, 10, frozenset(), {"tools": [{}]}, Skip.CONTEXT_WINDOW),
    ],
)
def test_who_can_serve_a_call(
    window: int | None,
    limit: int | None,
    capabilities: frozenset[str] | None,
    fields: dict[str, Any],
    skip: Skip | None,
) -> None:
    found = plan.unfit(target(window=window, limit=limit, capabilities=capabilities), request(None, **fields))
    assert (found and found[0]) == skip


@pytest.mark.parametrize(
    ("onward", "failed", "other", "skip"),
    [
        ("any", (None, None), (None, None), None),
        ("larger_window", (128, None), (200, None), None),
        ("larger_window", (128, None), (128, None), Skip.CONTEXT_WINDOW),
        ("larger_window", (128, None), (64, None), Skip.CONTEXT_WINDOW),
        ("larger_window", (128, None), (None, None), Skip.CONTEXT_WINDOW),
        ("larger_window", (None, None), (200, None), None),
        ("larger_window", (None, None), (2, None), Skip.CONTEXT_WINDOW),
        ("larger_limit", (None, 100), (None, 101), None),
        ("larger_limit", (None, 100), (None, 100), Skip.REQUEST_LIMIT),
        ("larger_limit", (None, 100), (None, None), Skip.REQUEST_LIMIT),
        ("larger_limit", (None, None), (None, 10_000), None),
        ("larger_limit", (None, None), (None, 10), Skip.REQUEST_LIMIT),
    ],
)
def test_who_cures_an_error(
    onward: Onward, failed: tuple[int | None, int | None], other: tuple[int | None, int | None], skip: Skip | None
) -> None:
    first, second = target("a", window=failed[0], limit=failed[1]), target("b", window=other[0], limit=other[1])
    assert plan.cures(onward, first, second, call()) is skip


# Limits.


@pytest.mark.parametrize(
    ("left", "others", "stream", "first_output", "total", "cut"),
    [
        (200, False, False, None, 120, 200),
        (200, True, False, 10, 120, 190),
        (60, False, False, None, 120, 60),
        (60, True, False, 10, 120, 50),
        (12, True, False, 10, 120, 6),
        (60, True, True, 10, 120, 60),
        (60, False, True, None, 120, 60),
        (120, False, True, None, 120, 120),
        (130, True, False, 10, 120, 120),
        (129, True, False, 10, 120, 119),
    ],
)
def test_the_limits_of_an_attempt(
    left: float, others: bool, stream: bool, first_output: float | None, total: float, cut: float
) -> None:
    found = limits(left, others_left=others, stream=stream)
    assert (found.first_output_s, found.total_s, found.deadline_cut_s, found.idle_s) == (first_output, total, cut, 15)


def test_what_is_left_of_the_deadline_does_not_shorten_the_connect_limit() -> None:
    """It would blame the target for a caller's haste; the deadline's own cut does not."""
    assert limits(60, others_left=False, stream=False).connect_s == 3
    assert limits(0.5, others_left=False, stream=False).connect_s == 3
    assert limits(0.5, others_left=False, stream=False).deadline_cut_s == 0.5


def test_the_time_that_is_fair_is_bounded_by_the_routes_own_deadline_and_not_by_a_callers() -> None:
    assert limits(0.1, others_left=True, stream=False).fair_s == 10
    assert limits(0.1, others_left=True, stream=False, deadline_s=4).fair_s == 2
    short = TimeoutsPolicy(first_output=10, total=1)
    assert limits(60, others_left=False, stream=False, timeouts=short).fair_s == 1


def test_the_linger_is_the_routes() -> None:
    one = stop(target())
    spec = route(one)
    spec = RouteSpec("r", spec.stops, (), 60, spec.stream.model_copy(update={"linger": 0.5}))
    assert plan.limits(spec, one, call(), FIRST_OUTPUT, 60, others_left=False).linger_s == 0.5


@given(st.floats(0.01, 500), st.floats(0.01, 100), st.floats(0.01, 200), st.booleans(), st.booleans())
def test_an_attempt_ends_within_the_deadline_and_a_plain_one_leaves_the_next_its_time(
    left: float, first_output: float, total: float, others: bool, stream: bool
) -> None:
    timeouts = TimeoutsPolicy(first_output=first_output, total=total)
    found = limits(left, others_left=others, stream=stream, timeouts=timeouts)
    assert found.deadline_cut_s is not None
    end = min(found.total_s, found.deadline_cut_s)
    assert end <= left
    assert end <= total
    if others and not stream:
        assert left - end >= min(first_output, left / 2) - 1e-9
        assert end >= min(total, left / 2) - 1e-9


# Retries.

C = ErrorClass


@pytest.mark.parametrize(
    ("error_class", "hint", "tries", "wait"),
    [
        (C.CONNECT, None, 1, 0.0),
        (C.CONNECT, None, 2, 0.25),
        (C.OVERLOADED, None, 1, 0.125),
        (C.OVERLOADED, None, 2, 0.25),
        (C.OVERLOADED, None, 3, None),
        (C.OVERLOADED, 2.0, 1, 2.0),
        (C.OVERLOADED, 3.5, 1, None),
        (C.SERVER_ERROR, None, 1, 0.125),
        (C.RATE_LIMITED, None, 1, None),
        (C.RATE_LIMITED, 1.5, 1, 1.5),
        (C.RATE_LIMITED, 3.1, 1, None),
        (C.RATE_LIMITED, 10800, 1, None),
        (C.RATE_LIMITED, 0.0, 1, 0.0),
        (C.QUOTA_EXHAUSTED, 0.1, 1, None),
        (C.TIMEOUT_FIRST_TOKEN, None, 1, None),
        (C.TIMEOUT_TOTAL, None, 1, None),
        (C.CONTENT_POLICY, None, 1, None),
        (C.MODEL_UNAVAILABLE, None, 1, None),
        (C.BAD_UPSTREAM_RESPONSE, None, 1, None),
        (C.BAD_REQUEST, None, 1, None),
        (C.DEADLINE, None, 1, None),
    ],
)
def test_when_to_try_again_here(error_class: ErrorClass, hint: float | None, tries: int, wait: float | None) -> None:
    failure = Failure(error_class, "m", retry_after_s=hint)
    policy = RetryPolicy(attempts=2, max_wait=3)
    assert plan.retry_wait(failure, tries, policy, 60, NoJitter()) == wait


def test_no_retry_that_would_begin_after_the_deadline() -> None:
    failure = Failure(C.RATE_LIMITED, "m", retry_after_s=2)
    policy = RetryPolicy(attempts=2, max_wait=3)
    assert plan.retry_wait(failure, 1, policy, 2.1, NoJitter()) == 2
    assert plan.retry_wait(failure, 1, policy, 2.0, NoJitter()) is None


@given(
    st.sampled_from(list(ErrorClass)),
    st.none() | st.floats(0, 1e9),
    st.integers(1, 12),
    st.integers(0, 10),
    st.floats(0, 30),
    st.floats(0, 60),
    st.integers(),
)
def test_a_wait_is_never_longer_than_allowed(
    error_class: ErrorClass, hint: float | None, tries: int, attempts: int, max_wait: float, left: float, seed: int
) -> None:
    failure = Failure(error_class, "m", retry_after_s=hint)
    wait = plan.retry_wait(failure, tries, RetryPolicy(attempts=attempts, max_wait=max_wait), left, Random(seed))
    if wait is None:
        return
    assert RULES[error_class].retry_here != "never"
    assert tries <= attempts
    assert 0 <= wait <= max_wait
    assert wait < left


# What to tell at the end.

BUSY = Failure(C.RATE_LIMITED, "busy", 429, retry_after_s=7)


def tried(name: str, failure: Failure) -> AttemptRecord:
    return AttemptRecord(name, failure.error_class.value, 0.1, failure=failure)


def skipped(name: str, skip: Skip) -> AttemptRecord:
    return plan.passed_over(name, skip, f"{name}: {skip}", 0.0)


def conclude(
    *records: AttemptRecord, last: Failure | None = None, blocked: tuple[Blocked, ...] = (), deadline: bool = False
) -> RouteFailed:
    return plan.conclude(Trail(list(records)), last, blocked, deadline=deadline)


def test_the_deadline_comes_first() -> None:
    found = conclude(tried("p", BUSY), last=BUSY, deadline=True)
    assert (found.deadline, found.final, found.failure) == (True, False, BUSY)


@pytest.mark.parametrize(
    ("records", "last", "final"),
    [
        ([tried("p", BUSY)], BUSY, True),
        ([tried("p", BUSY), tried("p", BUSY)], BUSY, True),
        ([tried("p", BUSY), skipped("s", Skip.CONTEXT_WINDOW)], BUSY, True),
        ([skipped("s", Skip.CAPABILITY), tried("p", BUSY)], BUSY, True),
        ([skipped("s", Skip.HOLD), tried("p", BUSY)], BUSY, False),
        ([tried("p", BUSY), tried("s", BUSY)], BUSY, False),
        ([tried("p", Failure(C.MODEL_UNAVAILABLE, "m", 404))], Failure(C.MODEL_UNAVAILABLE, "m", 404), True),
        ([tried("p", Failure(C.OVERLOADED, "m", 529))], Failure(C.OVERLOADED, "m", 529), True),
        ([tried("p", Failure(C.OVERLOADED, "m", 503))], Failure(C.OVERLOADED, "m", 503), False),
        ([tried("p", Failure(C.CREDENTIAL, "m", 401))], Failure(C.CREDENTIAL, "m", 401), False),
        ([tried("p", Failure(C.CONNECT, "m"))], Failure(C.CONNECT, "m"), False),
        ([tried("p", BUSY), tried("s", Failure(C.BAD_REQUEST, "m", 400))], Failure(C.BAD_REQUEST, "m", 400), True),
        ([tried("p", Failure(C.CONTENT_POLICY, "m", 400))], Failure(C.CONTENT_POLICY, "m", 400), True),
        ([tried("p", Failure(C.CONTEXT_LENGTH, "m", 400))], Failure(C.CONTEXT_LENGTH, "m", 400), True),
    ],
)
def test_when_the_providers_own_status_is_the_answer(records: list[AttemptRecord], last: Failure, final: bool) -> None:
    assert conclude(*records, last=last).final is final


def test_the_wait_is_the_earliest_of_what_blocks() -> None:
    blocked = (Blocked(Skip.HOLD, "p", 7, C.RATE_LIMITED), Blocked(Skip.BREAKER, "s", 20))
    records = (skipped("p", Skip.HOLD), skipped("s", Skip.BREAKER))
    found = conclude(*records, blocked=blocked)
    assert (found.retry_after_s, found.rate_limits_only, found.failure) == (7, False, None)


def test_after_an_attempt_the_wait_is_the_holds_or_the_hint() -> None:
    held = Blocked(Skip.HOLD, "p", 5, C.RATE_LIMITED)
    assert conclude(tried("p", BUSY), last=BUSY, blocked=(held,)).retry_after_s == 5
    assert conclude(tried("p", BUSY), last=BUSY).retry_after_s == 7


@pytest.mark.parametrize(
    ("blocked", "only", "wait"),
    [
        ([Blocked(Skip.HOLD, "p", 7, C.RATE_LIMITED), Blocked(Skip.HOLD, "s", 4, C.RATE_LIMITED)], True, 4),
        ([Blocked(Skip.QUOTA, "p", 3), Blocked(Skip.HOLD, "s", 4, C.RATE_LIMITED)], True, 3),
        ([Blocked(Skip.QUOTA, "p", None, never=True), Blocked(Skip.HOLD, "s", 4, C.RATE_LIMITED)], True, 4),
        ([Blocked(Skip.HOLD, "p", 600, C.QUOTA_EXHAUSTED), Blocked(Skip.HOLD, "s", 4, C.RATE_LIMITED)], False, 4),
        ([Blocked(Skip.BREAKER, "p", 0), Blocked(Skip.HOLD, "s", 4, C.RATE_LIMITED)], False, 0),
        ([], False, 7),
    ],
)
def test_after_attempts_too_it_may_be_only_rate_limits(blocked: list[Blocked], only: bool, wait: float) -> None:
    found = conclude(tried("p", BUSY), tried("s", BUSY), last=BUSY, blocked=tuple(blocked))
    assert (found.rate_limits_only, found.retry_after_s, found.final) == (only, wait, False)


def test_after_attempts_a_place_in_flight_has_a_time_too() -> None:
    failure = Failure(C.SERVER_ERROR, "m", 500)
    found = conclude(tried("p", failure), last=failure, blocked=(Blocked(Skip.QUOTA, "p", None),))
    assert (found.rate_limits_only, found.retry_after_s) == (True, 1)


@pytest.mark.parametrize(
    ("blocked", "only"),
    [
        ([Blocked(Skip.HOLD, "a", 1, C.RATE_LIMITED), Blocked(Skip.QUOTA, "b", 2)], True),
        ([Blocked(Skip.HOLD, "a", 1, C.QUOTA_EXHAUSTED)], False),
        ([Blocked(Skip.HOLD, "a", 1, C.RATE_LIMITED), Blocked(Skip.BREAKER, "b", 2)], False),
        ([Blocked(Skip.QUOTA, "a", None, never=True), Blocked(Skip.HOLD, "b", 2, C.RATE_LIMITED)], True),
    ],
)
def test_when_it_is_only_rate_limits(blocked: list[Blocked], only: bool) -> None:
    found = conclude(*(skipped("x", block.skip) for block in blocked), blocked=tuple(blocked))
    assert (found.rate_limits_only, found.never_fits) == (only, False)


def test_what_never_fits() -> None:
    blocked = (Blocked(Skip.QUOTA, "a", None, never=True),)
    assert conclude(skipped("a", Skip.QUOTA), blocked=blocked).never_fits


def test_what_no_target_can_serve() -> None:
    found = conclude(skipped("a", Skip.CAPABILITY), skipped("b", Skip.CONTEXT_WINDOW))
    assert (found.unfit, found.retry_after_s) == (Skip.CONTEXT_WINDOW, None)
    assert "a: " in found.message


def test_a_target_that_is_free_again_is_worth_another_request() -> None:
    assert conclude(skipped("a", Skip.BREAKER)).retry_after_s == 0
