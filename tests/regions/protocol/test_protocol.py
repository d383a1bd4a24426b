"""The model holds in any order of steps, and shows each rule that is taken away."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, find, given, settings

from tests.regions.protocol.model import Faults
from tests.regions.protocol.steps import Step, breaks, play, steps

SEARCH = settings(max_examples=20_000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
HOLD = settings(max_examples=1500, deadline=None, derandomize=True)


@HOLD
@given(steps(clocks=True, restarts=True))
def test_no_order_of_steps_breaks_a_promise(taken: list[Step]) -> None:
    play(Faults(), taken)


@HOLD
@given(steps(clocks=True, restarts=False))
def test_no_order_of_steps_loses_what_a_peer_has_confirmed(taken: list[Step]) -> None:
    play(Faults(sync=True), taken)


@HOLD
@given(steps(clocks=False, restarts=True))
def test_the_stores_fence_alone_holds_while_no_clock_is_set(taken: list[Step]) -> None:
    play(Faults(no_writer_lease=True), taken)


@HOLD
@given(steps(clocks=True, restarts=True))
def test_the_writers_lease_alone_makes_up_for_clocks_and_late_grants(taken: list[Step]) -> None:
    play(Faults(no_mark=True, relative_ttl=True), taken)


SEEDED = {
    "a relative lease": (Faults(relative_ttl=True, no_writer_lease=True), False, False),
    "no wait for the lease": (Faults(no_wait=True), False, False),
    "a grant without the register": (Faults(no_register=True, no_writer_lease=True), False, False),
    "epochs counted by the stores": (Faults(own_epochs=True), False, False),
    "no binding to an identity": (Faults(no_identity=True), False, True),
    "clocks that run apart by a fifth": (Faults(clock_rate=0.8), False, False),
    "a clock that is set back under writes": (Faults(no_mark=True, no_writer_lease=True), True, False),
    "an idle shard's clock that is set back": (Faults(no_writer_lease=True), True, False),
    "events without ids": (Faults(no_event_ids=True), False, False),
    "sync without confirmation": (Faults(sync=True, no_confirmation=True), False, False),
}


@pytest.mark.parametrize("name", SEEDED)
def test_a_seeded_bug_is_found(name: str) -> None:
    """`find` raises where no order of steps breaks a promise."""
    faults, clocks, restarts = SEEDED[name]
    found = find(
        steps(clocks=clocks, restarts=restarts),
        lambda taken: breaks(faults, taken),
        settings=SEARCH,
        random=Random(1),
    )
    whole = Faults(sync=faults.sync)
    assert not breaks(whole, found), "it is the missing rule that does it"


def test_steps_get_somewhere() -> None:
    """A shard is written, is taken over, and is written again: else nothing above means anything."""
    taken: list[Step] = [("serve", 0), ("replicate", 0), ("take_over", 1), ("serve", 1), ("ask", 0)]
    world = play(Faults(), taken)
    assert world.acknowledged == 3
    assert world.register.epoch == 2


IDLE: list[Step] = [
    ("serve", 0),  # the last write, and a renewal
    ("tick", 4.0),
    ("set_back", 4.0),  # not behind the mark that was left: nothing shows it
    ("take_over", 1),  # another store is open, and acknowledges
    ("tick", 0.5), ("write", 0), ("deliver", 0),  # a gateway that has not heard of it still asks the old one
]  # fmt: skip
"""The clock of a store is set back while nobody writes, so that it finds its lease to run on for longer than others wait."""


def test_an_idle_shards_store_whose_clock_was_set_back_acknowledges_nothing() -> None:
    world = play(Faults(), IDLE)
    assert len(world.stores[0].events) == 2, "the old store has taken one more"
    assert world.acknowledged == 2, "and the writer has not passed that on"
    assert breaks(Faults(no_writer_lease=True), IDLE), "without the writer's own lease it would have"
