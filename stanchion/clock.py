"""Time as an argument: the interface that everything here takes, and the real clock behind it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A callback that was scheduled and can still be called off."""

    def cancel(self) -> None:
        """Call the callback off; a second call, or one after it ran, does nothing."""


class Clock(Protocol):
    """Reads time and waits for it. `now` is monotonic and only good for differences; `wall` is Unix time."""

    def now(self) -> float:
        """Monotonic seconds."""

    def wall(self) -> float:
        """Seconds since the Unix epoch."""

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Run `callback` once when `now()` has reached `when`."""

    async def sleep(self, seconds: float) -> None:
        """Wait; zero or less still yields once to other tasks."""


class SystemClock:
    """The machine's clock and the running event loop's timers.

    `now` is the loop's own clock, so that a timer set for `now() + d` and a reading of `now` agree. It has to be made
    inside a running loop.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def now(self) -> float:
        return self._loop.time()

    def wall(self) -> float:
        return time.time()

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_at(when, callback)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0))
