"""The board that the gateways of one region share, in their region's Redis.

    stanchion:board:{<region>}:breakers      a hash: a breaker's name → state, time, whether it was open before
    stanchion:board:{<region>}:holds         a hash: a hold's name → reason, end, time
    stanchion:board:{<region>}:probe:<name>  a lease: holder, whether it was given up once, who wants it

The braces put all of it into one slot. Values are short texts, times Unix seconds. What is over is removed by whoever reads
it, a hash that nobody writes to ends by itself, and a lease has its own time. Nothing else needs any of this: it may be deleted
at any time, and is written again as far as it is still known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import quote

from redis.exceptions import RedisError

from gateway.shared.scripts import LEASE, PRUNE, PUBLISH_HOLD, PUBLISH_NEWS
from llm.classes import ErrorClass
from llm.shared_holds import HoldNews
from llm.shared_probes import Phase
from llm.shared_state import BreakerNews
from sessions.errors import StoreUnavailable
from sessions.redis.link import Command, Link, Lost, connections

ANSWER_S = 0.5
"""What Redis may take to answer, and to be connected to. Only the task that syncs ever waits for it."""

_NEWS_LIFE_S = 86_400.0
"""A breaker that opened or closed so long ago is no news: one that starts now begins closed."""

_HOLDS_LIFE_S = 31 * 86_400.0

_REASONS = frozenset(one.value for one in ErrorClass)

_Value = TypeVar("_Value")


class BoardLost(OSError):
    """The board cannot be asked now, or gave no answer: what was told may have arrived or not, which makes no difference."""


class RedisBoard:
    """The board of `region`, for breakers, holds and probes. `wall` is Unix time. It has to be closed.

    Every call comes to an end within a second and a half or so, and raises BoardLost for whatever goes wrong.
    """

    def __init__(self, url: str, region: str, wall: Callable[[], float]) -> None:
        """Raises ValueError for what is no URL of a Redis."""
        self._link = Link(
            connections(url, ANSWER_S), most=1, timeout_s=ANSWER_S, wait_s=ANSWER_S, connect_timeout_s=ANSWER_S
        )
        self._prefix = f"stanchion:board:{{{quote(region, safe='')}}}:"
        self._wall = wall

    async def latest(self) -> Mapping[str, BreakerNews]:
        """The news of the last day. See `BreakerBoard`."""
        return await self._read("breakers", _news, lambda news: self._wall() - news.at >= _NEWS_LIFE_S)

    async def publish(self, name: str, news: BreakerNews) -> None:
        """See `BreakerBoard`. What is older than a day is no news, and passed over."""
        if self._wall() - news.at < _NEWS_LIFE_S:
            life = round(_NEWS_LIFE_S * 1000)
            await self._run(
                PUBLISH_NEWS, ["breakers"], name, news.state, repr(news.at), str(int(news.again)), str(life)
            )

    async def holds(self) -> Mapping[str, HoldNews]:
        """See `HoldBoard`."""
        return await self._read("holds", _hold, lambda news: news.until <= self._wall())

    async def publish_hold(self, name: str, news: HoldNews) -> None:
        """See `HoldBoard`."""
        life = round(_HOLDS_LIFE_S * 1000)
        await self._run(PUBLISH_HOLD, ["holds"], name, news.reason.value, repr(news.until), repr(news.at), str(life))

    async def lease(self, who: str, phases: Mapping[str, Phase], ttl_s: float) -> Mapping[str, str]:
        """See `ProbeBoard`. `who` has no blanks in it."""
        keys = [f"probe:{name}" for name in phases]
        holders = await self._run(LEASE, keys, who, str(round(ttl_s * 1000)), *phases.values())
        if not isinstance(holders, list) or len(holders) != len(keys):
            raise BoardLost("the region's Redis answered something else than leases: check what it is")
        return {name: _text(holder) for name, holder in zip(phases, holders, strict=True)}

    async def close(self) -> None:
        """No more calls."""
        await self._link.close()

    async def _read(
        self, name: str, parsed: Callable[[str], _Value | None], is_over: Callable[[_Value], bool]
    ) -> dict[str, _Value]:
        """A hash, without what cannot be read, and what is over, which is removed."""
        flat = await self._ask(("HGETALL", self._prefix + name))
        if not isinstance(flat, list):
            raise BoardLost("the region's Redis answered something else than a hash: check what it is")
        values: dict[str, _Value] = {}
        over: list[bytes] = []
        for field, text in zip(flat[::2], flat[1::2], strict=True):
            value = parsed(_text(text))
            if value is None:
                continue  # of another version, it may be
            if is_over(value):
                over += [field, text]
            else:
                values[_text(field)] = value
        if over:
            await self._run(PRUNE, [name], *over)
        return values

    async def _run(self, script: str, keys: list[str], *args: str | bytes) -> object:
        return await self._ask(("EVAL", script, len(keys), *(self._prefix + key for key in keys), *args))

    async def _ask(self, command: Command) -> object:
        try:
            (answer,) = await self._link.ask(command)
        except Lost as error:
            raise BoardLost(
                f"the region's Redis did not answer within {ANSWER_S:g} s, or closed the connection"
            ) from error
        except StoreUnavailable as error:
            why = type(error.__cause__).__name__ if error.__cause__ is not None else type(error).__name__
            raise BoardLost(f"the region's Redis cannot be reached ({why}): check that it runs, and its URL") from error
        if isinstance(answer, RedisError):
            kind = str(answer).split(" ")[0][:40] or type(answer).__name__
            raise BoardLost(
                f"the region's Redis refused ({kind}): its user needs EVAL, HGETALL and the keys stanchion:*"
            ) from answer
        return answer


def _news(text: str) -> BreakerNews | None:
    match text.split(" "):
        case ["open" | "closed" as state, at, "0" | "1" as again]:
            moment = _moment(at)
            return (
                None if moment is None else BreakerNews("open" if state == "open" else "closed", moment, again == "1")
            )
    return None


def _hold(text: str) -> HoldNews | None:
    match text.split(" "):
        case [reason, until, at] if reason in _REASONS:
            end, began = _moment(until), _moment(at)
            return None if end is None or began is None else HoldNews(ErrorClass(reason), end, began)
    return None


def _moment(text: str) -> float | None:
    try:
        moment = float(text)
    except ValueError:
        return None
    return moment if math.isfinite(moment) else None


def _text(data: object) -> str:
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else str(data)
