"""The chain algebra: the design's figures, and laws on random trees."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from availability.chain import MOST_SHARED, AnyOf, Chain, KOf, Node, Part, Series
from availability.errors import AvailabilityError, ChainInvalid, FigureOutOfRange, PartUnknown
from tests.availability.support import (
    EXAMPLE,
    LB,
    MODEL,
    REPLICAS,
    STORE,
    TOOL,
    by_brute_force,
    chains,
    pair,
    shares,
)

BASE = EXAMPLE.minutes_per_30d


def minutes(*changes: Node) -> float:
    return EXAMPLE.replaced({change.name: change for change in changes}).minutes_per_30d


def test_the_example() -> None:
    assert EXAMPLE.availability() == pytest.approx(0.9969035, abs=5e-8)
    assert pytest.approx(133.77, abs=0.005) == BASE


def test_second_copies_of_the_weakest_parts() -> None:
    two_models = minutes(pair(MODEL))
    assert two_models == pytest.approx(90.70, abs=0.005)
    assert BASE - two_models == pytest.approx(43.07, abs=0.005)
    assert two_models > 43.2
    assert minutes(pair(MODEL), pair(TOOL)) == pytest.approx(47.6, abs=0.05)
    assert minutes(pair(MODEL), pair(TOOL), pair(STORE)) == pytest.approx(26.0, abs=0.05)


def test_calls_per_turn() -> None:
    assert minutes(replace(MODEL, calls=3), replace(TOOL, calls=2)) == pytest.approx(262.8, abs=0.05)
    assert minutes(replace(TOOL, calls=0.4)) == pytest.approx(107.9, abs=0.05)
    assert minutes(replace(TOOL, calls=2.4)) == pytest.approx(
        (1 - EXAMPLE.availability() / 0.999 * 0.999**2 * (1 - 0.4 * 0.001)) * 43_200
    )
    assert minutes(replace(TOOL, calls=0)) == pytest.approx(minutes(replace(TOOL, availability=1.0)))


@pytest.mark.parametrize(
    ("coverage", "beta", "chain_minutes", "saved"),
    [
        (1, 0, 90.70, 43.07),
        (0.95, 0, 92.85, 40.91),
        (0.90, 0, 95.01, 38.76),
        (0.80, 0, 99.31, 34.45),
        (0.95, 0.05, 94.90, 38.87),
        (0.90, 0.10, 98.88, 34.88),
    ],
)
def test_redundancy_as_it_is(coverage: float, beta: float, chain_minutes: float, saved: float) -> None:
    found = minutes(pair(MODEL, coverage=coverage, beta=beta))
    assert found == pytest.approx(chain_minutes, abs=0.005)
    assert BASE - found == pytest.approx(saved, abs=0.005)


def test_degraded_answers() -> None:
    lesser = replace(TOOL, accepted=0.8)
    assert minutes(lesser) == pytest.approx(99.3, abs=0.05)
    assert minutes(lesser, pair(MODEL)) == pytest.approx(56.2, abs=0.05)


def test_planned_maintenance_counts_beside_failures() -> None:
    assert Chain(Part("store", 1.0, planned_min=30)).minutes_per_30d == pytest.approx(30)
    assert Chain(Part("store", 0.999, planned_min=43_200)).availability() == 0.0


def test_a_shared_part_is_not_multiplied_in_twice() -> None:
    network = Part("network", 0.99)
    routes = tuple(Series(f"route {i}", (network, Part(f"model {i}", 0.9))) for i in (1, 2))
    both = Chain(AnyOf("model", routes))
    assert both.availability() == pytest.approx(0.99 * (1 - 0.1**2))
    assert both.availability() < 1 - (1 - 0.99 * 0.9) ** 2  # what multiplying it in twice gives
    assert Chain(Series("turn", (network, Part("tool", 0.9), network))).availability() == pytest.approx(0.99 * 0.9)
    assert both.availability({"network": False}) == 0.0
    assert both.availability({"network": True, "model 1": False}) == pytest.approx(0.9)


def test_the_components_of_a_sum() -> None:
    lines = EXAMPLE.components()
    assert [line.name for line in lines] == ["load balancer", "replicas", "session store", "model API", "tool API"]
    assert [round(line.minutes_per_30d, 2) for line in lines] == [4.32, 21.6, 21.6, 43.2, 43.2]
    assert Chain(MODEL).components()[0].name == "model API"


@settings(deadline=None)
@given(chains())
def test_conditioning_equals_the_sum_over_all_states(chain: Chain) -> None:
    assert chain.availability() == pytest.approx(by_brute_force(chain), abs=1e-9)


@settings(deadline=None)
@given(chains(), st.data())
def test_a_better_part_never_makes_the_chain_worse(chain: Chain, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(chain.root.leaves)))
    part = chain.node(name)
    assert isinstance(part, Part)
    better = data.draw(st.floats(part.availability, 1.0))
    assert 0.0 <= chain.availability() <= chain.availability(values={name: better}) + 1e-12 <= 1.0 + 1e-12


@settings(deadline=None)
@given(chains(plain=True), st.data())
def test_a_group_lies_between_series_and_parallel(chain: Chain, data: st.DataObject) -> None:
    others = data.draw(st.lists(shares, min_size=1, max_size=4))
    parts = (chain.root, *(Part(f"other {i}", a) for i, a in enumerate(others)))
    each = [Chain(part).availability() for part in parts]
    series, parallel = (Chain(kind("all", parts)).availability() for kind in (Series, AnyOf))
    between = [Chain(KOf("all", parts, k)).availability() for k in range(1, len(parts) + 1)]
    assert parallel >= max(each) - 1e-12
    assert series <= min(each) + 1e-12
    assert all(more <= fewer + 1e-12 for fewer, more in itertools.pairwise(between))
    assert between[0] == pytest.approx(parallel, abs=1e-12)
    assert between[-1] == pytest.approx(series, abs=1e-12)


@settings(deadline=None)
@given(chains(), st.data())
def test_any_node_can_be_conditioned_on(chain: Chain, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(chain.names))
    up, down = chain.availability({name: True}), chain.availability({name: False})
    assert down <= chain.availability() + 1e-12
    assert chain.availability() <= up + 1e-12


def test_a_group_called_several_times_may_share_within_itself_only() -> None:
    network = Part("network", 0.99)
    routes = tuple(Series(f"route {i}", (network, Part(f"model {i}", 0.9))) for i in (1, 2))
    once = 0.99 * 0.99
    assert Chain(AnyOf("model", routes, calls=3)).availability() == pytest.approx(once**3)
    with pytest.raises(
        ChainInvalid, match=r"'network' stands in 'model', called 3 times, and elsewhere: set the calls"
    ):
        Chain(Series("turn", (AnyOf("model", routes, calls=3), network)))


def test_what_contradicts_itself_is_refused() -> None:
    with pytest.raises(ChainInvalid, match="'model API' stands for two different parts: rename"):
        Chain(Series("turn", (MODEL, Part("model API", 0.9))))
    with pytest.raises(ChainInvalid, match="has no parts"):
        Series("turn", ())
    with pytest.raises(ChainInvalid, match="empty name"):
        Part("", 0.9)
    with pytest.raises(ChainInvalid, match="needs 3 of 2: set k between 1 and 2"):
        KOf("replicas", (LB, REPLICAS), 3)
    with pytest.raises(ChainInvalid, match="is a group"):
        EXAMPLE.availability(values={"turn": 0.5})
    with pytest.raises(PartUnknown, match="no part 'modle': name one of load balancer, model API"):
        EXAMPLE.availability({"modle": True})
    with pytest.raises(PartUnknown):
        EXAMPLE.replaced({"modle": MODEL})
    many = Series("all", tuple(Part(f"p{i}", 0.9) for i in range(MOST_SHARED + 1)))
    with pytest.raises(ChainInvalid, match="shares 17 parts"):
        Chain(AnyOf("any", (many, KOf("two", many.parts, 2)))).availability()


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan"), float("inf")])
def test_figures_out_of_range_are_refused(bad: float) -> None:
    for make in (
        lambda: Part("model", bad),
        lambda: Part("model", 0.9, planned_min=bad * 43_200),
        lambda: Part("model", 0.9, accepted=bad),
        lambda: AnyOf("model", (MODEL,), coverage=bad),
        lambda: AnyOf("model", (MODEL,), beta=bad),
        lambda: AnyOf("model", (MODEL,), switch_share=bad),
        lambda: EXAMPLE.availability(values={"model API": bad}),
    ):
        with pytest.raises(FigureOutOfRange, match="give"):
            make()
    with pytest.raises(AvailabilityError, match="calls per turn of 'model'"):
        Part("model", 0.9, calls=-1)
