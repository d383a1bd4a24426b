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
    """The machine's clock and the running event loop's timers. It has to be made inside a running loop.

    `now` is not the loop's own clock: uvloop reads that once a turn and in whole milliseconds, too coarse for what the
    gateway itself takes. So a timer may fire a little before `now` says so; who minds looks again (as a limit does).
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(max(when - time.monotonic(), 0.0), callback)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0))
