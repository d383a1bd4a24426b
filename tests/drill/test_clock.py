"""The fast clock: what is handed it sees its own time, in every method alike."""

from __future__ import annotations

import asyncio

from gateway.drill.clock import FastClock
from tests.fakes.clock import ManualClock, settle


async def test_time_runs_faster() -> None:
    inner = ManualClock()
    clock = FastClock(inner, 10.0)
    began, wall = clock.now(), clock.wall()
    fired: list[float] = []
    clock.call_at(began + 30.0, lambda: fired.append(clock.now() - began))
    sleeping = asyncio.ensure_future(clock.sleep(40.0))
    await settle()
    await inner.run(2.9)
    assert not fired
    await inner.run(0.2)
    assert [round(at) for at in fired] == [30]
    assert not sleeping.done()
    await inner.run(1.0)
    await sleeping
    assert round(clock.now() - began) == 41
    assert round(clock.wall() - wall, 1) == 4.1


async def test_a_timer_can_be_called_off() -> None:
    inner = ManualClock()
    clock = FastClock(inner, 10.0)
    fired: list[None] = []
    clock.call_at(clock.now() + 10.0, lambda: fired.append(None)).cancel()
    await inner.run(5.0)
    assert not fired
