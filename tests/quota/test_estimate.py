"""Expected output: the caller's cap, else what the target's answers were lately."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quota.estimate import TRUSTED_ANSWERS, OutputEstimate


def test_the_callers_cap_is_reserved_in_full_for_each_answer() -> None:
    estimate = OutputEstimate()
    for _ in range(100):
        estimate.learn(5)
    assert estimate.expect(1000) == 1000
    assert estimate.expect(1000, n=3) == 3000


def test_without_cap_and_answers_it_is_the_default() -> None:
    assert OutputEstimate().expect(None) == 512
    assert OutputEstimate(default=100).expect(None, n=2) == 200


def test_a_few_short_answers_do_not_lower_it_and_long_ones_raise_it() -> None:
    estimate = OutputEstimate()
    for _ in range(TRUSTED_ANSWERS - 1):
        estimate.learn(5)
    assert estimate.expect(None) == 512
    estimate.learn(5)
    assert estimate.expect(None) == 5
    raised = OutputEstimate()
    raised.learn(4000)
    assert raised.expect(None) == 4000


def test_it_is_the_ninth_decile() -> None:
    estimate = OutputEstimate()
    for tokens in range(100, 0, -1):
        estimate.learn(tokens)
    assert estimate.expect(None) == 90


def test_old_answers_are_forgotten() -> None:
    estimate = OutputEstimate(window=20)
    for tokens in [9000] * 20 + [10] * 20:
        estimate.learn(tokens)
    assert estimate.expect(None) == 10


def test_no_answer_is_expected_to_be_longer_than_the_models_window() -> None:
    estimate = OutputEstimate(context_window=300)
    assert (estimate.expect(None), estimate.expect(10_000), estimate.expect(10_000, n=2)) == (300, 300, 600)


def test_several_answers_in_one_request_are_learned_as_single_ones() -> None:
    estimate = OutputEstimate(default=0)
    estimate.learn(301, n=3)
    assert estimate.expect(None) == 101


def test_numbers_that_make_no_sense_count_as_the_least() -> None:
    estimate = OutputEstimate(default=0)
    estimate.learn(-5, n=0)
    assert (estimate.expect(None), estimate.expect(-1), estimate.expect(10, n=0)) == (0, 0, 10)


@pytest.mark.parametrize(("default", "window"), [(-1, 1), (1, 0)])
def test_settings_that_make_no_sense_are_refused(default: int, window: int) -> None:
    with pytest.raises(ValueError, match="or more"):
        OutputEstimate(default=default, window=window)


@settings(deadline=None)
@given(st.lists(st.integers(0, 5000), min_size=1, max_size=120), st.integers(1, 40))
def test_it_is_the_quantile_of_the_last_window(answers: list[int], window: int) -> None:
    estimate = OutputEstimate(default=0, window=window)
    for tokens in answers:
        estimate.learn(tokens)
    last = sorted(answers[-window:])
    assert estimate.expect(None) == last[math.ceil(len(last) * 9 / 10) - 1]
