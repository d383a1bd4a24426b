"""Hedging: where the first target takes long, a second one is asked beside it, and the first answer wins.

The extra attempts are budgeted, as a share of the route's requests: where everything is slow, asking twice would only make
it slower (Dean and Barroso, "The Tail at Scale", 2013).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from stanchion.clock import Clock

_SAVED = 10.0
"""Hedges that a quiet route may have saved up."""

T = TypeVar("T")


class HedgeBudget:
    """Every request adds `share` of a hedge, up to ten of them; a hedge takes one. It starts as after ten requests, with
    one at most."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._saved = min(1.0, share * _SAVED)

    def earn(self) -> None:
        self._saved = min(self._saved + self._share, _SAVED)

    def take(self) -> bool:
        """Whether another hedge may start; it is paid for then."""
        if self._saved < 1.0 - 1e-9:
            return False
        self._saved -= 1.0
        return True


class Race(Generic[T]):
    """At most two runs of `leg`, told their number (0, 1), the second one after `after_s` seconds if it `may_start`.

    The first result wins; what loses is cancelled and has ended before `run` returns. A result that came all the same goes
    to `discard`. An exception of one run is raised only when no other is left to win, or when it was `conclusive`.
    """

    def __init__(
        self,
        leg: Callable[[int], Awaitable[T]],
        may_start: Callable[[], bool],
        discard: Callable[[T], Awaitable[None]],
        clock: Clock,
        conclusive: Callable[[], bool] = lambda: False,
    ) -> None:
        self._leg, self._may_start, self._discard, self._clock = leg, may_start, discard, clock
        self._conclusive = conclusive

    async def run(self, after_s: float) -> T:
        """Raises what the last run raised when none has a result; the runs are over on every ending."""
        due: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_at(self._clock.now() + after_s, lambda: due.set_result(None))
        legs: list[asyncio.Future[T]] = [asyncio.ensure_future(self._leg(0))]
        won: asyncio.Future[T] | None = None
        try:
            both: set[asyncio.Future[Any]] = {legs[0], due}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not legs[0].done() and self._may_start():
                legs.append(asyncio.ensure_future(self._leg(1)))
            won = await _first(legs, self._conclusive)
        finally:
            timer.cancel()
            losers = [leg for leg in legs if leg is not won]
            for leg in losers:
                leg.cancel()
            cancelled = await _over(losers)
            cancelled = await self._discarded(losers) or cancelled
            if cancelled is not None:
                if won is not None:
                    await self._discarded([won])
                raise cancelled
        return won.result()

    async def _discarded(self, legs: list[asyncio.Future[T]]) -> asyncio.CancelledError | None:
        """Discard what these legs have come to, all of it, whatever cancels the wait for that."""
        tasks = [asyncio.ensure_future(self._discard(leg.result())) for leg in legs if _has_result(leg)]
        cancelled = await _over(tasks)
        for task in tasks:
            task.result()
        return cancelled


async def _over(running: Sequence[asyncio.Future[T]]) -> asyncio.CancelledError | None:
    """Wait until these are over. A cancellation of the wait itself does not shorten it; it is returned."""
    cancelled: asyncio.CancelledError | None = None
    while left := [one for one in running if not one.done()]:
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


async def _first(legs: list[asyncio.Future[T]], conclusive: Callable[[], bool]) -> asyncio.Future[T]:
    """The first leg with a result, else the one that failed last, or so that the others cannot do better."""
    left = set(legs)
    while True:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        for leg in legs:
            if _has_result(leg):
                return leg
        if not left or conclusive():
            return done.pop()


def _has_result(leg: asyncio.Future[T]) -> bool:
    return leg.done() and not leg.cancelled() and leg.exception() is None
