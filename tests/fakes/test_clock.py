"""The manual clock: order, reach and bookkeeping of its timers."""

from __future__ import annotations

import asyncio

import pytest

from stanchion.clock import Clock
from tests.fakes.clock import ManualClock, settle


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_both_readings_stand_still_and_move_together(clock: ManualClock) -> None:
    as_interface: Clock = clock
    assert (as_interface.now(), as_interface.wall()) == (1000.0, 1_800_000_000.0)
    clock.advance(2.5)
    assert (clock.now(), clock.wall()) == (1002.5, 1_800_000_002.5)


def test_timers_run_in_order_each_at_its_own_time(clock: ManualClock) -> None:
    ran: list[tuple[str, float]] = []
    for name, when in (("late", 1003.0), ("first", 1001.0), ("second", 1001.0), ("beyond", 1005.5)):
        clock.call_at(when, lambda name=name: ran.append((name, clock.now())))  # type: ignore[misc]
    clock.advance(5)
    assert ran == [("first", 1001.0), ("second", 1001.0), ("late", 1003.0)]
    assert clock.now() == 1005.0
    assert clock.pending == 1


def test_a_timer_set_by_a_callback_runs_within_the_same_span(clock: ManualClock) -> None:
    ran: list[float] = []

    def again() -> None:
        ran.append(clock.now())
        clock.call_at(clock.now() + 1, again)

    clock.call_at(1001.0, again)
    clock.advance(3)
    assert ran == [1001.0, 1002.0, 1003.0]


def test_a_cancelled_timer_does_not_run_and_is_not_pending(clock: ManualClock) -> None:
    ran: list[str] = []
    timer = clock.call_at(1001.0, lambda: ran.append("x"))
    timer.cancel()
    timer.cancel()
    assert clock.pending == 0
    clock.advance(2)
    assert ran == []


def test_a_timer_in_the_past_runs_at_the_next_step(clock: ManualClock) -> None:
    ran: list[float] = []
    clock.call_at(10.0, lambda: ran.append(clock.now()))
    assert ran == []
    clock.advance(0)
    assert ran == [1000.0]


def test_many_small_steps_reach_a_timer_at_their_sum(clock: ManualClock) -> None:
    ran: list[float] = []
    clock.call_at(1001.0, lambda: ran.append(clock.now()))
    for _ in range(10):
        clock.advance(0.1)
    assert ran == [1001.0]


def test_time_does_not_go_back(clock: ManualClock) -> None:
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(-1)


def test_an_error_of_a_callback_comes_out(clock: ManualClock) -> None:
    def broken() -> None:
        raise KeyError("broken")

    clock.call_at(1001.0, broken)
    with pytest.raises(KeyError, match="broken"):
        clock.advance(1)
    clock.advance(1)  # and it is not run again


async def test_sleepers_go_on_in_order_at_their_times(clock: ManualClock) -> None:
    woke: list[tuple[str, float]] = []

    async def sleeper(name: str, *naps: float) -> None:
        for nap in naps:
            await clock.sleep(nap)
            woke.append((name, clock.now()))

    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper("slow", 2.0, 2.0))
        group.create_task(sleeper("fast", 1.0, 2.0))
        await clock.run(3.5)
        assert woke == [("fast", 1001.0), ("slow", 1002.0), ("fast", 1003.0)]
        assert clock.pending == 1
        await clock.run(0.5)
    assert woke[-1] == ("slow", 1004.0)


async def test_run_lets_a_woken_chain_settle_before_time_goes_on(clock: ManualClock) -> None:
    """A task that was woken through others still sees the time of the timer."""
    queue: asyncio.Queue[str] = asyncio.Queue()
    seen: list[float] = []

    async def producer() -> None:
        await clock.sleep(1)
        await queue.put("x")

    async def consumer() -> None:
        await queue.get()
        seen.append(clock.now())

    tasks = [asyncio.create_task(producer()), asyncio.create_task(consumer())]
    await clock.run(60)
    assert seen == [1001.0]
    await asyncio.gather(*tasks)


async def test_a_cancelled_sleeper_leaves_no_timer(clock: ManualClock) -> None:
    task = asyncio.create_task(clock.sleep(5))
    await settle()
    assert clock.pending == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.pending == 0


async def test_sleeping_for_no_time_still_yields(clock: ManualClock) -> None:
    order: list[str] = []

    async def other() -> None:
        order.append("other")

    task = asyncio.create_task(other())
    await clock.sleep(0)
    order.append("sleeper")
    await task
    assert order == ["other", "sleeper"]
