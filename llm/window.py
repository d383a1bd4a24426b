"""The sliding window of a breaker, in the storage interface of pybreaker.

pybreaker opens a closed breaker when the storage's `counter` reaches `fail_max`, after each failure. Here `fail_max` is 1
and the counter is 1 exactly when the window holds enough samples and enough of them failed, or enough in a row at its end:
after hours of health a share alone would notice an outage only when failures outnumber what went well before. A success
arrives as `reset_counter`. Times are monotonic and injected; pybreaker's own wall clock is not used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime

import pybreaker

_BUCKETS = 20


class SlidingWindow(pybreaker.CircuitBreakerStorage):
    """Samples of the last `window_s` seconds, counted in twenty buckets.

    `opened` is called at each opening, while `state` is still the one before. `generation` grows with every change of
    state and every probe: a result that began under an earlier one is not a sample any more. `closed` is `state` in the
    form that every request reads.
    """

    def __init__(
        self,
        *,
        window_s: float,
        minimum: int,
        failure_ratio: float,
        consecutive: int,
        now: Callable[[], float],
        opened: Callable[[], None],
    ) -> None:
        super().__init__("sliding-window")
        self._window_s, self._minimum, self._failure_ratio, self._now = window_s, minimum, failure_ratio, now
        self._consecutive, self._row = consecutive, 0
        self._width = window_s / _BUCKETS
        self._buckets: deque[list[float]] = deque()  # [start, good, failed]
        self._state = pybreaker.STATE_CLOSED
        self.closed = True
        self.generation = 0
        self._successes = 0
        self._opened = opened

    def retune(self, *, window_s: float, minimum: int, failure_ratio: float, consecutive: int) -> None:
        """Other numbers from now on. Samples older than the window are gone, to within a twentieth of the old one; state
        and generation stay, and the next failure is the first to be judged by the new numbers."""
        self._window_s, self._minimum, self._failure_ratio = window_s, minimum, failure_ratio
        self._consecutive = consecutive
        self._width = window_s / _BUCKETS
        self._recent()

    @property
    def samples(self) -> int:
        return int(sum(good + failed for _, good, failed in self._recent()))

    @property
    def failures(self) -> int:
        return int(sum(failed for _, _, failed in self._recent()))

    @property
    def state(self) -> str:
        return self._state

    @state.setter
    def state(self, state: str) -> None:
        if state != self._state:
            self._state = state
            self.generation += 1
            self.closed = state == pybreaker.STATE_CLOSED
            if self.closed:
                self._buckets.clear()
                self._row = 0

    def increment_counter(self) -> None:
        self._bucket()[2] += 1
        self._row += 1

    def reset_counter(self) -> None:
        self._bucket()[1] += 1
        self._row = 0

    @property
    def counter(self) -> int:
        samples, failures = self.samples, self.failures
        row = min(self._row, failures)  # those that are still in the window
        return int(samples >= self._minimum and (failures >= self._failure_ratio * samples or row >= self._consecutive))

    def increment_success_counter(self) -> None:
        self._successes += 1

    def reset_success_counter(self) -> None:
        """pybreaker calls it as a breaker opens, closes and half-opens."""
        self._successes = 0

    @property
    def success_counter(self) -> int:
        """Good probes in a row."""
        return self._successes

    @property
    def opened_at(self) -> datetime | None:
        return None

    @opened_at.setter
    def opened_at(self, _: datetime) -> None:
        self._opened()

    def _recent(self) -> deque[list[float]]:
        since = self._now() - self._window_s
        while self._buckets and self._buckets[0][0] <= since:
            self._buckets.popleft()
        return self._buckets

    def _bucket(self) -> list[float]:
        now = self._now()
        if not self._buckets or now >= self._buckets[-1][0] + self._width:
            self._recent()  # where nobody reads and nothing fails, this alone keeps the buckets few
            self._buckets.append([now, 0, 0])
        return self._buckets[-1]
