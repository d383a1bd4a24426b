"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

_SAME_INSTANT_S = 1e-9
"""Sums of steps (ten times 0.1) miss the time of a timer by rounding; a nanosecond is no delay for it."""


@dataclass(order=True)
class _Timer:
    when: float
    number: int  # timers of one instant run in the order in which they were set
    callback: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """`stanchion.clock.Clock` under the control of a test. `now` and `wall` are seconds and move together.

    `advance` is for pure code: it runs the due callbacks and returns. `run` is for code with tasks: between
    two instants it lets the event loop settle, so that whoever slept goes on before time does. Neither waits
    for real time, so bytes that are still on their way through a socket have to be awaited by the test
    itself.
    """

    def __init__(self, now: float = 1000.0, wall: float = 1_800_000_000.0) -> None:
        self._now = now
        self._wall_offset = wall - now
        self._timers: list[_Timer] = []
        self._set = 0

    def now(self) -> float:
        return self._now

    def wall(self) -> float:
        return self._now + self._wall_offset

    def call_at(self, when: float, callback: Callable[[], None]) -> _Timer:
        """Run `callback` when time gets to `when`; one in the past runs at the next step, even of 0 s."""
        timer = _Timer(when, self._set, callback)
        self._set += 1
        heapq.heappush(self._timers, timer)
        return timer

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.Event()
        timer = self.call_at(self._now + seconds, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    @property
    def pending(self) -> int:
        """Timers that neither ran nor were cancelled: 0 at the end shows that nothing was left behind."""
        return sum(timer.callback is not None for timer in self._timers)

    def advance(self, seconds: float) -> None:
        """Move time by `seconds` and run what falls due, in order of time, each with `now` at its own time.

        A callback that sets a timer within the span gets it run too. What a callback raises comes out here.
        """
        end = self._end(seconds)
        while (instant := self._next_instant(end)) is not None:
            self._run_instant(instant)
        self._now = max(self._now, end)

    async def run(self, seconds: float) -> None:
        """`advance` for tasks: before, between and after the instants the event loop settles."""
        end = self._end(seconds)
        await settle()
        while (instant := self._next_instant(end)) is not None:
            self._run_instant(instant)
            await settle()
        self._now = max(self._now, end)
        await settle()

    def _end(self, seconds: float) -> float:
        if seconds < 0:
            raise ValueError(f"time cannot go back by {-seconds} s")
        return self._now + seconds

    def _next_instant(self, end: float) -> float | None:
        while self._timers and self._timers[0].callback is None:
            heapq.heappop(self._timers)
        if self._timers and self._timers[0].when <= end + _SAME_INSTANT_S:
            return self._timers[0].when
        return None

    def _run_instant(self, instant: float) -> None:
        """Run all timers of one instant, as an event loop does in one turn."""
        self._now = max(self._now, instant)
        while self._timers and self._timers[0].when <= instant:
            timer = heapq.heappop(self._timers)
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()


async def settle(turns: int = 25) -> None:
    """Let the running event loop turn `turns` times, enough for a chain of tasks that wake each other."""
    for _ in range(turns):
        await asyncio.sleep(0)
