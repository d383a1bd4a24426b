"""What replicas tell each other of their holds: a 429 that one of them met keeps the others from asking too.

Only holds are told, never their end:

- A hold ends by its time, and that is told with it. Of two the longer one stands, here and on the board: a hint never
  shortens what somebody else was told.
- A success ends no hold, so there is nothing to tell of one.
- A key that was changed is another name on the board. Replicas that still have the old key rightly keep its hold.
- Settings that bring a key or a target back end its hold in the process that read them. That is that process's own decision
  by its own settings; it passes over what the board has from before it, and hears what is noted later. The others read the
  settings too, and decide for themselves.

So a hold outlives a restart: the replica learns it again. What has to end early (an account that was paid) ends with the entry
on the board and in each process, or with a new key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from llm.classes import ErrorClass
from llm.holds import Hold, HoldKey, Holds, key_of, keys_of
from llm.shared_names import hold_name
from llm.spec import TargetSpec

_LONGEST_S = 31 * 86_400.0
"""No hold is believed for longer, so what was cleared before that is of no more interest."""


class HoldNews(NamedTuple):
    """A hold that was noted `at`, until `until` (Unix seconds)."""

    reason: ErrorClass
    until: float
    at: float


def longer(news: HoldNews, other: HoldNews | None) -> bool:
    """Whether `news` takes the place of `other`."""
    return other is None or news.until > other.until


class HoldBoard(Protocol):
    """Where the longest hold of each name stands. Both may raise OSError, and must come to an end by themselves."""

    async def holds(self) -> Mapping[str, HoldNews]:
        """Those that are not over."""

    async def publish_hold(self, name: str, news: HoldNews) -> None:
        """Write `news` if it is `longer` than what stands there, in one atomic step."""


class SharedHolds:
    """The holds of one process at a board. `wall` is Unix time; a clock that is wrong makes holds as wrong as itself.

    It listens to `holds` from the beginning; `follow` says which targets there are, `sync` exchanges. `noted` is called when
    there is something that the others should hear.
    """

    def __init__(
        self, holds: Holds, board: HoldBoard, wall: Callable[[], float], noted: Callable[[], None] | None = None
    ) -> None:
        self._holds, self._board, self._wall, self._noted = holds, board, wall, noted
        self._of: dict[HoldKey, tuple[str, TargetSpec]] = {}
        self._known: dict[HoldKey, HoldNews] = {}
        self._cleared: dict[HoldKey, float] = {}
        holds.grown, holds.cleared = self._grown, self._ended

    def close(self) -> None:
        """Listen no more. What was learned stays until its time."""
        self._holds.grown = self._holds.cleared = None

    def follow(self, targets: Iterable[TargetSpec]) -> None:
        """These targets are the ones of now; what is known of others is forgotten."""
        self._of = {key: (hold_name(target, key), target) for target in targets for key in keys_of(target)}
        self._known = {key: news for key, news in self._known.items() if key in self._of}
        since = self._wall() - _LONGEST_S
        self._cleared = {key: at for key, at in self._cleared.items() if at > since}

    async def sync(self) -> None:
        """Take over what is longer than what this process knows, and publish what it knows longer.

        Raises what the board raises. What was not published then is when it can be.
        """
        theirs, now = await self._board.holds(), self._wall()
        for key, (name, target) in tuple(self._of.items()):
            ours, other = self._known.get(key), theirs.get(name)
            if ours is not None and ours.until <= now:
                del self._known[key]
                ours = None
            if other is not None and not self._counts(key, target, other, now):
                other = None
            if other is not None and longer(other, ours):
                self._known[key] = other
                self._holds.learn(target, other.reason, other.until - now)
            elif ours is not None and longer(ours, other):
                await self._board.publish_hold(name, ours)

    def _counts(self, key: HoldKey, target: TargetSpec, news: HoldNews, now: float) -> bool:
        """Whether the news is of this key, not over, and of after what ended it here."""
        return news.until > now and key_of(target, news.reason) == key and news.at > self._cleared.get(key, 0.0)

    def _grown(self, key: HoldKey, hold: Hold) -> None:
        now = self._wall()
        news = HoldNews(hold.reason, now + self._holds.seconds_left(hold), now)
        if key in self._of and longer(news, self._known.get(key)):
            self._known[key] = news
            if self._noted is not None:
                self._noted()

    def _ended(self, key: HoldKey) -> None:
        self._known.pop(key, None)
        self._cleared[key] = self._wall()
