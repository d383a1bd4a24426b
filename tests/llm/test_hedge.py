"""The race of two legs and the budget that pays for the second one."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest

from llm.hedge import HedgeBudget, Race
from tests.fakes.clock import ManualClock


class Legs:
    """Legs that a test ends one by one, in the order in which they started."""

    def __init__(self, *, may_start: bool = True) -> None:
        self.clock = ManualClock()
        self.started: list[asyncio.Future[str]] = []
        self.cancelled: list[int] = []
        self.discarded: deque[str] = deque()
        self.may_start = may_start
        self.slow_to_leave: asyncio.Event | None = None

    async def leg(self, number: int) -> str:
        assert number == len(self.started)
        self.started.append(asyncio.get_running_loop().create_future())
        try:
            return await self.started[number]
        except asyncio.CancelledError:
            self.cancelled.append(number)
            if self.slow_to_leave is not None:
                await self.slow_to_leave.wait()
            raise

    async def discard(self, result: str) -> None:
        self.discarded.append(result)

    def race(self) -> asyncio.Task[str]:
        one = Race(self.leg, lambda: self.may_start, self.discard, self.clock)
        return asyncio.ensure_future(one.run(2.0))


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_quick_first_leg_is_alone() -> None:
    legs = Legs()
    race = legs.race()
    await settle()
    legs.started[0].set_result("first")
    assert await race == "first"
    assert len(legs.started) == 1
    assert legs.clock.pending == 0


async def test_the_second_leg_starts_after_the_time_and_may_win() -> None:
    legs = Legs()
    race = legs.race()
    await settle()
    await legs.clock.run(1.9)
    assert len(legs.started) == 1
    await legs.clock.run(0.2)
    assert len(legs.started) == 2
    legs.started[1].set_result("second")
    assert await race == "second"
    assert legs.cancelled == [0]


async def test_the_first_leg_may_win_after_all() -> None:
    legs = Legs()
    race = legs.race()
    await settle()
    await legs.clock.run(2.1)
    legs.started[0].set_result("first")
    assert await race == "first"
    assert legs.cancelled == [1]


async def test_without_leave_there_is_no_second_leg() -> None:
    legs = Legs(may_start=False)
    race = legs.race()
    await settle()
    await legs.clock.run(50)
    assert len(legs.started) == 1
    legs.started[0].set_result("first")
    assert await race == "first"


@pytest.mark.parametrize("failing", [0, 1])
async def test_one_leg_that_fails_leaves_the_other_its_time(failing: int) -> None:
    legs = Legs()
    race = legs.race()
    await settle()
    await legs.clock.run(2.1)
    legs.started[failing].set_exception(ValueError("no"))
    await settle()
    assert not race.done()
    legs.started[1 - failing].set_result("yes")
    assert await race == "yes"
    assert legs.cancelled == []


async def test_a_first_leg_that_fails_in_time_is_the_answer() -> None:
    """What a leg does after its failure (the next target) is the leg's own business; there is nothing to hedge."""
    legs = Legs()
    race = legs.race()
    await settle()
    legs.started[0].set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await race
    assert len(legs.started) == 1


async def test_the_failure_that_came_last_is_raised_when_both_fail() -> None:
    legs = Legs()
    race = legs.race()
    await settle()
    await legs.clock.run(2.1)
    legs.started[1].set_exception(ValueError("second"))
    await settle()
    legs.started[0].set_exception(ValueError("first"))
    with pytest.raises(ValueError, match="first"):
        await race


async def test_two_results_at_once_are_one_answer_and_one_discarded() -> None:
    legs = Legs()
    race = legs.race()
    await settle()
    await legs.clock.run(2.1)
    legs.started[0].set_result("first")
    legs.started[1].set_result("second")
    assert await race == "first"
    assert list(legs.discarded) == ["second"]


async def test_cancelled_it_ends_both_and_waits_for_them() -> None:
    legs = Legs()
    legs.slow_to_leave = asyncio.Event()
    race = legs.race()
    await settle()
    await legs.clock.run(2.1)
    race.cancel()
    await settle()
    race.cancel()  # a second one must not leave a leg behind
    await settle()
    assert sorted(legs.cancelled) == [0, 1]
    assert not race.done()
    legs.slow_to_leave.set()
    with pytest.raises(asyncio.CancelledError):
        await race


async def test_cancelled_at_the_moment_of_a_result_it_discards_it() -> None:
    legs = Legs()
    race = legs.race()
    await settle()
    legs.started[0].set_result("first")
    await asyncio.sleep(0)  # the leg has its result, the race does not know yet
    race.cancel()
    with pytest.raises(asyncio.CancelledError):
        await race
    assert list(legs.discarded) == ["first"]


async def test_cancelled_while_the_loser_leaves_it_discards_the_winner_too() -> None:
    legs = Legs()
    legs.slow_to_leave = asyncio.Event()
    race = legs.race()
    await settle()
    await legs.clock.run(2.1)
    legs.started[0].set_result("first")
    await settle()
    race.cancel()
    await settle()
    legs.slow_to_leave.set()
    with pytest.raises(asyncio.CancelledError):
        await race
    assert list(legs.discarded) == ["first"]


def test_the_budget_is_a_share_of_the_requests() -> None:
    budget = HedgeBudget(0.05)
    taken = 0
    for _ in range(1000):
        budget.earn()
        taken += budget.take()
    assert 49 <= taken <= 51


def test_a_quiet_route_saves_ten_hedges_at_most() -> None:
    budget = HedgeBudget(0.5)
    for _ in range(1000):
        budget.earn()
    assert sum(budget.take() for _ in range(100)) == 10


def test_everything_may_be_hedged() -> None:
    budget = HedgeBudget(1.0)
    for _ in range(50):
        budget.earn()
        assert budget.take()
