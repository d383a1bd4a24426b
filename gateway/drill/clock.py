"""A clock on which minutes pass in seconds, so that a fault of two minutes can be watched while a person waits."""

from __future__ import annotations

from collections.abc import Callable

from stanchion.clock import Clock, Timer


class FastClock:
    """`inner`, running `speed` times as fast. Whoever is handed it and takes times from it alone notices nothing.

    `wall` is the true time of day: what is written down there is compared with other clocks.
    """

    def __init__(self, inner: Clock, speed: float) -> None:
        self._inner, self._speed = inner, speed

    def now(self) -> float:
        return self._inner.now() * self._speed

    def wall(self) -> float:
        return self._inner.wall()

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        return self._inner.call_at(when / self._speed, callback)

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds / self._speed)
