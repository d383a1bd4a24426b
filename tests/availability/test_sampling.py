"""Intervals by drawing: coverage of a chain's interval, bursts, and the same figures for the same generator."""

from __future__ import annotations

from random import Random

import pytest

from availability.chain import AnyOf, Chain, Part, Series
from availability.errors import ChainInvalid, CountsInvalid, FigureOutOfRange, PartUnknown
from availability.estimate import Interval
from availability.sampling import Trials, chain_interval, day_bootstrap, incident_bootstrap, incident_minutes
from tests.availability.support import EXAMPLE

PARTS = {"store": 0.99, "gpt": 0.95, "claude": 0.9}
CHAIN = Chain(
    Series(
        "turn",
        (
            Part("store", PARTS["store"]),
            AnyOf("model", (Part("gpt", PARTS["gpt"]), Part("claude", PARTS["claude"])), coverage=0.8),
        ),
    )
)


def test_the_interval_of_a_chain_covers_what_it_says() -> None:
    random = Random(7)
    truth = CHAIN.availability()
    runs, held = 400, 0
    for _ in range(runs):
        counts = {name: sum(random.random() < a for _ in range(600)) for name, a in PARTS.items()}
        observed = {name: Trials(ok, 600 - ok) for name, ok in counts.items()}
        found = chain_interval(CHAIN, observed, random, draws=200).interval
        held += found.low <= truth <= found.high
    assert 0.93 <= held / runs <= 0.97


def test_the_point_is_the_counted_share_and_not_the_mean_of_the_draws() -> None:
    observed = {"model API": Trials(1000, 0), "tool API": Trials(998, 2)}
    found = chain_interval(EXAMPLE, observed, Random(1))
    assert found.point == pytest.approx(0.9999 * 0.9995**2 * 1.0 * 0.998)
    assert found.interval.low < (found.point or 0)
    assert (found.point or 1) < found.interval.high
    assert found == chain_interval(EXAMPLE, observed, Random(1))


def test_a_part_without_calls_leaves_the_point_open() -> None:
    found = chain_interval(EXAMPLE, {"model API": Trials(0, 0)}, Random(1))
    assert found.point is None
    assert found.interval.low < 0.01
    assert found.interval.high > 0.99


def test_assumed_parts_have_no_interval() -> None:
    found = chain_interval(EXAMPLE, {}, Random(1), draws=10)
    assert found.interval == Interval(EXAMPLE.availability(), EXAMPLE.availability())


def test_three_incidents_of_14_minutes() -> None:
    found = incident_minutes([14.4] * 3)
    assert found is not None
    assert found.low == pytest.approx(8.9, abs=0.05)
    assert found.high == pytest.approx(126, abs=0.5)
    assert incident_minutes([]) is None


def test_the_bootstrap_of_incidents_knows_the_spread_of_their_lengths() -> None:
    even = incident_bootstrap([14.4] * 3, Random(3), draws=4000)
    uneven = incident_bootstrap([1.0, 1.0, 41.2], Random(3), draws=4000)
    assert even is not None
    assert uneven is not None
    assert even.low == pytest.approx(14.4 * 0.845, rel=0.1)  # χ²(7)/2 at 2.5 % and 97.5 %
    assert even.high == pytest.approx(14.4 * 8.006, rel=0.1)
    assert uneven.low < even.low < even.high < uneven.high
    assert incident_bootstrap([], Random(3)) is None


def test_the_bootstrap_of_days_is_wider_when_failures_come_in_bursts() -> None:
    spread = day_bootstrap([1.44] * 30, Random(5))
    bursts = day_bootstrap([14.4] * 3 + [0.0] * 27, Random(5))
    assert spread is not None
    assert bursts is not None
    assert spread.low == pytest.approx(43.2)
    assert spread.high == pytest.approx(43.2)
    assert bursts.low == pytest.approx(0.0)
    assert 80 < bursts.high < 105  # seven of binomial(30, 0.1)
    assert day_bootstrap([], Random(5)) is None


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(CountsInvalid, match="counts only grow from 0"):
        Trials(-1, 0)
    with pytest.raises(PartUnknown):
        chain_interval(EXAMPLE, {"nobody": Trials(1, 1)}, Random(1))
    with pytest.raises(ChainInvalid, match="is a group"):
        chain_interval(EXAMPLE, {"turn": Trials(1, 1)}, Random(1))
    with pytest.raises(FigureOutOfRange, match="number of draws"):
        chain_interval(EXAMPLE, {}, Random(1), draws=0)
    with pytest.raises(FigureOutOfRange, match="confidence"):
        day_bootstrap([1.0], Random(1), confidence=0.0)
    with pytest.raises(FigureOutOfRange, match="length"):
        incident_minutes([-1.0])
