"""All shards of an install as one gateway has them: made from the settings, started, asked, and closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from regions.authority.base import Authority
from regions.crash import CrashPoint, nowhere
from regions.errors import AuthorityError, RegionsError, UnknownShard
from regions.journal import Journal
from regions.keeper import Keeper, Tell
from regions.node import Node
from regions.observer import Observer
from regions.promotion import Promoter
from regions.sharded import Sessions, Shard
from regions.slots import settle_callers, settle_map
from regions.topology import ShardSpec, SlotMap
from regions.watch import ShardWatch
from regions.writer import RegionalShard
from stanchion.clock import Clock
from stanchion.faults import place_of

_RETRY_S = 2.0


@dataclass(frozen=True, slots=True)
class ShardParts:
    """One shard with all that this gateway has of it."""

    spec: ShardSpec
    nodes: Mapping[str, Node]
    observer: Observer
    promoter: Promoter
    keeper: Keeper


class Install:
    """The shards of an install, in one gateway of the region `own`. `start` begins and `close` ends it.

    `now`: a clock that is not set and counts while the machine sleeps. `name`: this gateway, as records name it.
    `placements`: for each placement its shards; `callers`: for each caller its placement. Both are settled with the
    authority's record in the background, so that a gateway starts while the authority is away; until then sessions cannot be
    found. `told`: hears of decisions and of what is wrong. `problem`: what has to be put right by people, else empty.
    """

    def __init__(
        self,
        own: str,
        specs: Mapping[str, ShardSpec],
        nodes: Mapping[str, Mapping[str, Node]],
        authority: Authority,
        placements: Mapping[str, tuple[str, ...]],
        callers: Mapping[str, str],
        *,
        clock: Clock,
        now: Callable[[], float],
        name: str,
        exports: Path,
        told: Tell,
        crash: CrashPoint = nowhere,
    ) -> None:
        self.authority, self.journal = authority, Journal(authority)
        self.problem = ""
        self.parts: dict[str, ShardParts] = {}
        self._placements, self._callers = placements, callers
        self._clock, self._told = clock, told
        self._maps: dict[str, SlotMap] = {}
        self._settling: asyncio.Task[None] | None = None
        shards: dict[str, Shard] = {}
        for shard, spec in specs.items():
            interval_s = spec.renew_s / 2
            watch = ShardWatch(spec, authority, now, interval_s)
            observer = Observer(spec, own, nodes[shard], watch, clock, now, interval_s)
            promoter = Promoter(observer, self.journal, clock, now, crash)
            keeper = Keeper(
                observer, promoter, self.journal, clock, now,
                name=name, exports=exports, interval_s=interval_s, told=told,
            )  # fmt: skip
            self.parts[shard] = ShardParts(spec, nodes[shard], observer, promoter, keeper)
            shards[shard] = RegionalShard(observer, clock, now)
        self.sessions = Sessions(shards, self._maps)

    def part(self, shard: str) -> ShardParts:
        """Raises UnknownShard."""
        if (part := self.parts.get(shard)) is None:
            raise UnknownShard(f"there is no shard {shard!r}: the shards are {', '.join(self.parts)}")
        return part

    def start(self) -> None:
        self._settling = asyncio.ensure_future(self._settle())
        for part in self.parts.values():
            part.keeper.start()

    async def close(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
            await asyncio.gather(self._settling, return_exceptions=True)
        await asyncio.gather(*(part.keeper.close() for part in self.parts.values()))
        for part in self.parts.values():
            for node in part.nodes.values():
                await node.close()
        await self.authority.close()

    async def _settle(self) -> None:
        while True:
            try:
                await settle_callers(self.authority, self._callers)
                maps = {
                    name: await settle_map(self.authority, name, shards) for name, shards in self._placements.items()
                }
            except AuthorityError as error:
                self.problem = str(error)
            except RegionsError as error:
                if str(error) != self.problem:
                    self._told("", "placements", str(error))
                self.problem = str(error)
            except Exception as error:  # noqa: BLE001 - a fault must not end it without a word
                self.problem = f"a fault: {type(error).__name__} at {place_of(error)}"
                self._told("", "placements", self.problem)
            else:
                self.problem = ""
                self._maps.update(maps)
                return
            await self._clock.sleep(_RETRY_S)
