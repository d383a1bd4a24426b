"""Holds grow and never shrink, and reach exactly as far as their reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.classes import ErrorClass
from llm.errors import Failure
from llm.holds import Holds
from llm.policy import HoldsPolicy
from llm.spec import Credential, TargetSpec
from tests.fakes.clock import ManualClock
from tests.llm.making import provider, target

ONE, TWO = Credential("one", "k1"), Credential("two", "k2")
P = provider("p", ONE, TWO)
HELD = target("held", of=P, credential=ONE, model="m1")
SAME_KEY_AND_MODEL = target("twin", of=P, credential=ONE, model="m1")
SAME_KEY = target("same-key", of=P, credential=ONE, model="m2")
SAME_MODEL = target("same-model", of=P, credential=TWO, model="m1")
OTHER_KEY = target("other-key", of=P, credential=TWO, model="m2")
OTHER_PROVIDER = target("other", of=provider("q", ONE), credential=ONE, model="m1")
MONTH_S = 30 * 86_400.0
ALL = (HELD, SAME_KEY_AND_MODEL, SAME_KEY, SAME_MODEL, OTHER_KEY, OTHER_PROVIDER)


def failure(error_class: ErrorClass, hint: float | None = None) -> Failure:
    return Failure(error_class, "m", retry_after_s=hint)


def left(holds: Holds, spec: TargetSpec = HELD) -> float | None:
    hold = holds.of(spec)
    return None if hold is None else holds.seconds_left(hold)


@pytest.mark.parametrize(
    ("error_class", "reached"),
    [
        (ErrorClass.QUOTA_EXHAUSTED, {"held", "twin", "same-key"}),
        (ErrorClass.CREDENTIAL, {"held", "twin", "same-key"}),
        (ErrorClass.RATE_LIMITED, {"held", "twin"}),
        (ErrorClass.MODEL_UNAVAILABLE, {"held", "twin", "same-model"}),
        (ErrorClass.OVERLOADED, {"held"}),
        (ErrorClass.SERVER_ERROR, set()),
        (ErrorClass.CONNECT, set()),
        (ErrorClass.TIMEOUT_TOTAL, set()),
        (ErrorClass.BAD_REQUEST, set()),
        (ErrorClass.CONTENT_POLICY, set()),
        (ErrorClass.CONTEXT_LENGTH, set()),
        (ErrorClass.LOCAL_CAPACITY, set()),
    ],
)
def test_how_far_a_hold_reaches(error_class: ErrorClass, reached: set[str]) -> None:
    holds = Holds(ManualClock().now)
    holds.note(HELD, failure(error_class, 5))
    assert {each.name for each in ALL if holds.of(each) is not None} == reached


@pytest.mark.parametrize(
    ("error_class", "hint", "seconds"),
    [
        (ErrorClass.RATE_LIMITED, None, 30),
        (ErrorClass.RATE_LIMITED, 2, 2),
        (ErrorClass.RATE_LIMITED, 0.028, 0.028),
        (ErrorClass.RATE_LIMITED, 0, None),
        (ErrorClass.RATE_LIMITED, 10800, 10800),
        (ErrorClass.QUOTA_EXHAUSTED, None, 600),
        (ErrorClass.QUOTA_EXHAUSTED, 1, 600),
        (ErrorClass.QUOTA_EXHAUSTED, 7200, 7200),
        (ErrorClass.CREDENTIAL, None, 300),
        (ErrorClass.MODEL_UNAVAILABLE, None, 300),
        (ErrorClass.OVERLOADED, None, None),
        (ErrorClass.OVERLOADED, 4, 4),
        # Hints that are not believed to the end.
        (ErrorClass.OVERLOADED, MONTH_S, 600),
        (ErrorClass.RATE_LIMITED, MONTH_S, 86_400),
        (ErrorClass.CREDENTIAL, MONTH_S, 86_400),
        (ErrorClass.MODEL_UNAVAILABLE, MONTH_S, 86_400),
        (ErrorClass.QUOTA_EXHAUSTED, MONTH_S, MONTH_S),
        (ErrorClass.QUOTA_EXHAUSTED, 2 * MONTH_S, MONTH_S),
        # Hints that are below the least.
        (ErrorClass.CREDENTIAL, 0, 300),
        (ErrorClass.MODEL_UNAVAILABLE, 0, 300),
        (ErrorClass.MODEL_UNAVAILABLE, 301, 301),
    ],
)
def test_how_long_a_hold_lasts(error_class: ErrorClass, hint: float | None, seconds: float | None) -> None:
    holds = Holds(ManualClock().now)
    holds.note(HELD, failure(error_class, hint))
    assert left(holds) == (None if seconds is None else pytest.approx(seconds))


def test_the_times_are_settings() -> None:
    spec = target(holds=HoldsPolicy(rate_limit=1, quota=2, credential=3, model=4, overloaded=5))
    classes = ["RATE_LIMITED", "QUOTA_EXHAUSTED", "CREDENTIAL", "MODEL_UNAVAILABLE", "OVERLOADED"]
    for seconds, name in enumerate(classes, start=1):
        holds = Holds(ManualClock().now)
        holds.note(spec, failure(ErrorClass[name]))
        assert left(holds, spec) == seconds


def test_a_configured_time_above_what_is_believed_stands() -> None:
    spec = target(holds=HoldsPolicy(overloaded=3600))
    for hint in (None, MONTH_S):
        holds = Holds(ManualClock().now)
        holds.note(spec, failure(ErrorClass.OVERLOADED, hint))
        assert left(holds, spec) == 3600


def test_A01_a_late_short_hint_does_not_shorten() -> None:
    clock = ManualClock()
    holds = Holds(clock.now)
    holds.note(HELD, failure(ErrorClass.QUOTA_EXHAUSTED))
    clock.advance(10)
    for late in (ErrorClass.QUOTA_EXHAUSTED, ErrorClass.RATE_LIMITED):
        holds.note(HELD, failure(late, 1))
    hold = holds.of(HELD)
    assert hold is not None
    assert (hold.reason, holds.seconds_left(hold)) == (ErrorClass.QUOTA_EXHAUSTED, 600)


def test_the_longest_hold_is_shown_and_the_next_one_after_it() -> None:
    clock = ManualClock()
    holds = Holds(clock.now)
    holds.note(HELD, failure(ErrorClass.RATE_LIMITED, 20))
    holds.note(HELD, failure(ErrorClass.OVERLOADED, 5))
    hold = holds.of(HELD)
    assert hold is not None
    assert hold.reason is ErrorClass.RATE_LIMITED
    clock.advance(20)
    assert holds.of(HELD) is None


def test_a_hold_ends_at_its_time() -> None:
    clock = ManualClock()
    holds = Holds(clock.now)
    noted = holds.note(HELD, failure(ErrorClass.RATE_LIMITED, 7))
    assert noted is not None
    clock.advance(6.9)
    assert left(holds) == pytest.approx(0.1)
    clock.advance(0.1)
    assert holds.of(HELD) is None
    assert holds.seconds_left(noted) == 0


def test_a_new_key_frees_from_what_the_old_one_was_refused_for() -> None:
    new_one = Credential("one", "k-new")
    renewed = target("held", of=provider("p", new_one, TWO), credential=new_one, model="m1")
    holds = Holds(ManualClock().now)
    holds.note(HELD, failure(ErrorClass.CREDENTIAL))
    holds.note(SAME_MODEL, failure(ErrorClass.CREDENTIAL))
    holds.note(HELD, failure(ErrorClass.RATE_LIMITED))
    holds.key_changed("p", ONE, new_one)
    assert left(holds, renewed) == 30, "a rate limit stays"
    assert left(holds, SAME_MODEL) == 300, "the other credential has nothing to do with it"
    holds.note(HELD, failure(ErrorClass.QUOTA_EXHAUSTED))
    assert left(holds, renewed) == 30, "an attempt with the old key says nothing of the new one"
    holds.key_changed("p", new_one, ONE)
    assert left(holds) == 30


def test_what_held_a_target_alone_goes_with_it() -> None:
    holds = Holds(ManualClock().now)
    holds.note(HELD, failure(ErrorClass.OVERLOADED, 60))
    holds.note(HELD, failure(ErrorClass.RATE_LIMITED, 20))
    assert left(holds) == 60
    holds.forget(HELD)
    assert left(holds) == 20


@given(
    st.lists(
        st.tuples(
            st.floats(0, 400),
            st.sampled_from(
                [ErrorClass.RATE_LIMITED, ErrorClass.QUOTA_EXHAUSTED, ErrorClass.CREDENTIAL, ErrorClass.SERVER_ERROR]
            ),
            st.none() | st.floats(0, 2000),
        ),
        max_size=20,
    )
)
def test_an_end_never_moves_forward(steps: list[tuple[float, ErrorClass, float | None]]) -> None:
    clock = ManualClock()
    holds = Holds(clock.now)
    end = 0.0
    for pause, error_class, hint in steps:
        clock.advance(pause)
        holds.note(HELD, failure(error_class, hint))
        hold = holds.of(HELD)
        if end > clock.now():
            assert hold is not None
            assert hold.until >= end
        end = 0.0 if hold is None else hold.until
