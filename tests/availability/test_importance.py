"""Where redundancy pays: the design's figures and laws."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from availability.chain import Chain, KOf, Part, Series
from availability.errors import FigureOutOfRange, PartUnknown
from availability.importance import duplicated, greedy_duplication, importance, importances, what_if
from tests.availability.support import EXAMPLE, LB, MODEL, REPLICAS, TOOL, chains, pair


def test_minutes_bought() -> None:
    found = {one.name: one for one in importances(EXAMPLE)}
    assert {name: round(one.minutes_bought, 1) for name, one in found.items()} == {
        "load balancer": 4.3,
        "replicas": 21.5,
        "session store": 21.5,
        "model API": 43.1,
        "tool API": 43.1,
    }
    model = found["model API"]
    assert model.birnbaum == pytest.approx(EXAMPLE.availability() / 0.999)
    assert model.minutes_bought == pytest.approx(model.birnbaum * (1 - 0.999) * 43_200)
    assert [one.name for one in importances(EXAMPLE)][-1] == "load balancer"


def test_greedy_duplication() -> None:
    preferred = ("tool API", "model API", "replicas", "session store", "load balancer")
    steps = greedy_duplication(EXAMPLE, 0.999, candidates=preferred, coverage=0.95, beta=0.05)
    assert [step.name for step in steps] == list(preferred)
    assert [round(step.minutes_per_30d, 1) for step in steps[:4]] == [94.9, 56.0, 36.5, 17.1]
    assert [step.meets for step in steps] == [False, False, True, True, True]
    assert sum(step.minutes_saved for step in steps) == pytest.approx(
        EXAMPLE.minutes_per_30d - steps[-1].minutes_per_30d
    )


def test_parts_that_save_the_same_are_taken_in_the_order_given() -> None:
    assert [step.name for step in greedy_duplication(EXAMPLE, 0.999)] == [
        "model API",
        "tool API",
        "replicas",
        "session store",
        "load balancer",
    ]


def test_doubling_what_cannot_help_ends_the_steps() -> None:
    assert greedy_duplication(Chain(Part("perfect", 1.0)), 0.999) == ()
    assert greedy_duplication(EXAMPLE, 0.999, coverage=0.0) == ()


def test_a_doubled_part_keeps_its_calls_and_its_degraded_answers() -> None:
    chain = EXAMPLE.replaced({"tool API": replace(TOOL, calls=2, accepted=0.8)})
    once = 1 - 0.2 * (1 - (1 - 0.001**2))
    assert duplicated(chain, "tool API").availability() == pytest.approx(0.9999 * 0.9995**2 * 0.999 * once**2)


def test_a_group_can_be_doubled_and_shared_parts_stay_shared() -> None:
    copies = tuple(Part(f"replica {i}", 0.99) for i in range(3))
    chain = Chain(Series("turn", (KOf("replicas", copies, 2), LB)))
    one = Chain(KOf("replicas", copies, 2)).availability()
    assert duplicated(chain, "replicas").availability() == pytest.approx((1 - (1 - one) ** 2) * 0.9999)
    shared = Chain(Series("turn", (LB, Series("again", (LB, REPLICAS)))))
    assert duplicated(shared, "load balancer").availability() == pytest.approx((1 - 0.0001**2) * 0.9995)


def test_what_if() -> None:
    found = what_if(EXAMPLE, parts={"model API": pair(MODEL)})
    assert found.minutes_saved == pytest.approx(43.07, abs=0.005)
    assert found.minutes_per_30d == pytest.approx(90.70, abs=0.005)
    worse = what_if(EXAMPLE, values={"tool API": 0.99})
    assert worse.minutes_saved < 0
    both = what_if(EXAMPLE, parts={"model API": pair(MODEL)}, values={"model API 1": 0.5, "tool API": 1.0})
    assert both.after == pytest.approx(0.9999 * 0.9995**2 * (1 - 0.5 * 0.001))
    assert what_if(EXAMPLE).minutes_saved == 0.0


@settings(deadline=None)
@given(chains(), st.data())
def test_importance_lies_between_0_and_1(chain: Chain, data: st.DataObject) -> None:
    found = importance(chain, data.draw(st.sampled_from(chain.names)))
    assert -1e-12 <= found.birnbaum <= 1 + 1e-12
    assert found.minutes_bought >= -1e-6


def test_unknown_names_and_targets_out_of_range() -> None:
    for ask in (
        lambda: importance(EXAMPLE, "modle"),
        lambda: what_if(EXAMPLE, values={"modle": 0.5}),
        lambda: duplicated(EXAMPLE, "modle"),
    ):
        with pytest.raises(PartUnknown, match="name one of"):
            ask()
    with pytest.raises(FigureOutOfRange, match=r"the target is 99\.9"):
        greedy_duplication(EXAMPLE, 99.9)
