"""What replicas tell each other of their breakers: openings and closings, left on a board that all of them read.

Breakers stay each replica's own; the board only spreads what one of them saw. So a request never waits for the board, a
replica that starts publishes nothing, and while the board is lost every breaker goes on from the state it has: an open one
until its own next probe. Each replica draws its own jitter; which of them sends the probe is settled in
`llm/shared_probes.py`, and where nothing settles it each sends its own, the first that is done telling the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from llm.breaker import CircuitBreaker, State


class BreakerNews(NamedTuple):
    """A breaker opened or closed `at` (Unix seconds). `again`: it was open before, and an attempt failed."""

    state: State
    at: float
    again: bool = False


def supersedes(news: BreakerNews, other: BreakerNews | None) -> bool:
    """Whether `news` takes the place of `other`. Of two first openings the earlier one stands: its cool-down is over first."""
    if other is None:
        return True
    if news.state == other.state == "open" and not news.again:
        return False
    return news.at > other.at


class BreakerBoard(Protocol):
    """Where the last news of each breaker stands. Both may raise OSError, and must come to an end by themselves."""

    async def latest(self) -> Mapping[str, BreakerNews]:
        """By the name of the breaker."""

    async def publish(self, name: str, news: BreakerNews) -> None:
        """Write `news` if it `supersedes` what stands there, in one atomic step."""


class SharedBreakers:
    """The breakers of one process at a board. `wall` is Unix time; clocks have to agree to well within a cool-down.

    `told` only remembers; `sync` exchanges, and is for a task of its
    own that calls it every second or so.
    """

    def __init__(self, board: BreakerBoard, wall: Callable[[], float]) -> None:
        self._board, self._wall = board, wall
        self._breakers: dict[str, tuple[str, CircuitBreaker]] = {}
        self._known: dict[str, BreakerNews] = {}

    def join(self, breaker: CircuitBreaker, board_name: str | None = None) -> None:
        """The breaker has part from the next `sync` on; its state and counters are not touched by this.

        `board_name`: what it is called on the board, by which replicas whose settings differ do not take it for another.
        """
        self._breakers[breaker.name] = (board_name or breaker.name, breaker)

    def leave(self, name: str) -> None:
        self._breakers.pop(name, None)
        self._known.pop(name, None)

    def told(self, name: str, state: str) -> bool:
        """A breaker of this process opened or closed. Whether that is news: what it only learned from the board is none."""
        _, breaker = self._breakers.get(name, ("", None))
        if breaker is None or breaker.learned:
            return False
        self._known[name] = BreakerNews(breaker.settled, self._wall(), breaker.reopened)
        return True

    async def sync(self) -> None:
        """Take over what others know better, and publish what this process does: its own, and what the board has lost.

        Raises what the board raises. What was not published then is when it can be.
        """
        theirs = await self._board.latest()
        for name, (board_name, breaker) in tuple(self._breakers.items()):
            ours, other = self._known.get(name), theirs.get(board_name)
            if other is not None and supersedes(other, ours):
                self._known[name] = other
                breaker.apply(other.state, self._wall() - other.at, again=other.again)
            elif ours is not None and supersedes(ours, other):
                await self._board.publish(board_name, ours)
