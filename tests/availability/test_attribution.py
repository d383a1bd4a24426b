"""Attribution: the product equals the measured success exactly, whatever is correlated."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from availability.attribution import UNATTRIBUTED, Attribution, Turn, attribute, attribute_counts
from availability.errors import CountsInvalid, PartUnknown

ORDER = ("load balancer", "replicas", "session store", "model", "tool")

ended_at = st.lists(st.none() | st.integers(0, len(ORDER) - 1), max_size=60)
any_turn = st.builds(
    lambda reached, ok, faults: Turn(frozenset(reached), ok, tuple(f for f in faults if f in reached)),
    st.sets(st.sampled_from(ORDER)),
    st.booleans(),
    st.lists(st.sampled_from(ORDER), max_size=3),
)


@settings(deadline=None)
@given(ended_at)
def test_turns_that_pass_the_parts_in_order(ends: list[int | None]) -> None:
    """Each reaches all up to the one that it fails at: then the plain âᵢ multiply to the measured success."""
    turns = [
        Turn(frozenset(ORDER), True) if end is None else Turn(frozenset(ORDER[: end + 1]), False, (ORDER[end],))
        for end in ends
    ]
    found = attribute(ORDER, turns)
    if not turns:
        assert found.success is None
        return
    plain = [step.conditional for step in found.steps[:-1] if step.conditional is not None]
    assert math.prod(plain, start=Fraction(1)) == found.success == Fraction(ends.count(None), len(ends))
    assert all(step.at_risk == step.reached for step in found.steps)


@settings(deadline=None)
@given(st.lists(any_turn, max_size=60))
def test_any_stream_of_turns(turns: list[Turn]) -> None:
    """Parts skipped, called in loops, several faults, or none known."""
    found = attribute(ORDER, turns)
    good = sum(turn.ok for turn in turns)
    expected = Fraction(good, len(turns)) if turns else None
    assert found.success == expected
    assert found.product == expected
    assert sum(step.failed for step in found.steps) == len(turns) - good


def test_a_failed_turn_is_charged_to_its_first_fault() -> None:
    everything = frozenset(ORDER)
    turns = [Turn(everything, True, ("model",))] * 6 + [Turn(everything, False, ("tool", "model"))] * 3
    turns += [Turn(frozenset(ORDER[:4]), False, ("model",))] * 2 + [Turn(everything, False)]
    found = attribute(ORDER, turns)
    assert {step.name: step.failed for step in found.steps if step.failed} == {"model": 2, "tool": 3, UNATTRIBUTED: 1}
    assert found.success == Fraction(6, 12)


def test_a_part_that_few_turns_use_counts_for_those_only() -> None:
    found = attribute_counts(
        ("model", "tool"), turns=100, failures=4, reached={"model": 100, "tool": 40}, failed={"tool": 4}
    )
    tool = found.steps[1]
    assert tool.conditional == Fraction(36, 40)
    assert tool.factor == 1 - Fraction(40, 100) * (1 - Fraction(36, 40)) == found.success


def test_no_turn_is_no_figure() -> None:
    assert attribute(ORDER, []) == Attribution(0, attribute(ORDER, []).steps)
    assert attribute(ORDER, []).product is None
    assert attribute(ORDER, []).steps[0].conditional is None


def test_sums_that_cannot_be() -> None:
    with pytest.raises(PartUnknown, match="no part 'modle'"):
        attribute(ORDER, [Turn(frozenset({"modle"}), False, ("modle",))])
    with pytest.raises(CountsInvalid, match="failed at 'tool' without reaching it"):
        attribute(ORDER, [Turn(frozenset({"model"}), False, ("tool",))])
    with pytest.raises(CountsInvalid, match="charge it to its first fault only"):
        attribute_counts(ORDER, turns=10, failures=1, reached={"tool": 5}, failed={"tool": 2})
    with pytest.raises(CountsInvalid, match="when it is first called"):
        attribute_counts(ORDER, turns=10, failures=3, reached={"tool": 2}, failed={"tool": 3})
