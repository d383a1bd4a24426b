"""The task by which a gateway has part in its region's board, and what it says of it: a metric, and a line per change.

start_sharing(service, url)      begin; `close` what comes back
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator

from gateway.engine import Engine
from gateway.service import Service
from gateway.shared.board import RedisBoard
from llm.breaker import CircuitBreaker
from llm.shared_holds import SharedHolds
from llm.shared_names import provider_name, target_name
from llm.shared_probes import SharedProbes
from llm.shared_state import SharedBreakers
from stanchion.faults import place_of

SYNC_S = 1.0
_JITTER = 0.2
STORE = "board"
"""What the metric of degraded stores calls it."""


async def start_sharing(service: Service, url: str) -> Sharing:
    """Share breakers, holds and probes with the other gateways of the region through the Redis at `url`.

    It returns after a first exchange, so that a gateway begins with what the others know. A board that cannot be reached stops
    nobody: it is waited for a second or so at most. What comes back has to be closed. Raises ValueError for what is no URL of a
    Redis.
    """
    sharing = Sharing(service, RedisBoard(url, service.settings.gateway.region, service.clock.wall))
    sharing.follow(service.engine)
    service.sharing = sharing
    try:
        await sharing.sync()
    except BaseException:
        await sharing.close()
        raise
    sharing.begin()
    return sharing


class Sharing:
    """One gateway at the board of its region.

    It exchanges every second or so, and tells what it meets itself at once, so that the others have heard of it by their next
    exchange. `syncs` counts the timed exchanges that were tried; `degraded`: the last one failed; `telling`: there is news
    under way.
    """

    def __init__(self, service: Service, board: RedisBoard) -> None:
        self._service, self._board = service, board
        clock = service.clock
        self._breakers = SharedBreakers(board, clock.wall)
        self._probes = SharedProbes(board, secrets.token_hex(8), clock.now)
        self._holds = SharedHolds(service.engine.holds, board, clock.wall, self._noted)
        self._joined: dict[str, tuple[str, CircuitBreaker]] = {}
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._news = asyncio.Event()
        self._exchange = asyncio.Lock()
        self.syncs = 0
        self.degraded = False
        service.metrics.store_degraded(STORE, degraded=False)

    def told(self, name: str, state: str) -> None:
        """A breaker has opened or closed."""
        if self._breakers.told(name, state):
            self._noted()

    @property
    def telling(self) -> bool:
        """Whether something was met that the board has not been told yet, as far as it could be."""
        return self._news.is_set() or self._exchange.locked()

    def follow(self, engine: Engine) -> None:
        """This engine is the one that serves now: what is gone leaves, what is new joins, the rest stays as it is."""
        now = {breaker.name: (name, breaker, behind) for name, breaker, behind in _breakers_of(engine)}
        for local, joined in tuple(self._joined.items()):
            if local not in now or now[local][:2] != joined:
                del self._joined[local]
                self._breakers.leave(local)
                self._probes.leave(local)
        for local, (name, breaker, behind) in now.items():
            if local not in self._joined:
                self._joined[local] = (name, breaker)
                self._breakers.join(breaker, name)
                self._probes.join(breaker, name, behind)
        self._holds.follow(target.spec for target in engine.targets.values())

    def begin(self) -> None:
        """Exchange every second or so from now on."""
        self._tasks = (asyncio.ensure_future(self._run()), asyncio.ensure_future(self._tell()))

    async def sync(self) -> None:
        """One exchange. It raises nothing: a lost board is logged once, and once when it is back."""
        try:
            # breakers before the leases: whoever lets one go has told why
            await self._try(self._breakers.sync, self._holds.sync, self._probes.sync)
        finally:
            self.syncs += 1

    async def close(self) -> None:
        """Stop, and wait until it has. Breakers and holds keep what they have, and are this process's own."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._service.sharing is self:
            self._service.sharing = None
        for local in tuple(self._joined):
            self._breakers.leave(local)
            self._probes.leave(local)
        self._joined.clear()
        self._holds.close()
        await self._board.close()

    async def _run(self) -> None:
        while True:
            await self._service.clock.sleep(SYNC_S * (1.0 + self._service.random.random() * _JITTER))
            await self.sync()

    async def _tell(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await self._try(self._breakers.sync, self._holds.sync)

    async def _try(self, *steps: Callable[[], Awaitable[None]]) -> None:
        """The steps of one exchange, at which nothing else takes part."""
        async with self._exchange:
            try:
                for step in steps:
                    await step()
            except OSError as error:
                self._lost("warning", message=f"{error}; breakers and holds are this gateway's own until it is back")
            except Exception as error:  # noqa: BLE001 - a fault of the gateway's own: it goes on alone, and says so
                self._lost("error", message="the exchange failed", kind=type(error).__name__, where=place_of(error))
            else:
                if self.degraded:
                    self.degraded = False
                    self._service.metrics.store_degraded(STORE, degraded=False)
                    self._service.log.event("info", STORE, state="back")

    def _noted(self) -> None:
        self._news.set()

    def _lost(self, level: str, **said: str | None) -> None:
        self._probes.lost()
        if not self.degraded:
            self.degraded = True
            self._service.metrics.store_degraded(STORE, degraded=True)
            self._service.log.event(level, STORE, state="lost", **said)


def _breakers_of(engine: Engine) -> Iterator[tuple[str, CircuitBreaker, CircuitBreaker | None]]:
    """Each breaker with its name on the board, and the provider's that it is behind."""
    for provider in engine.providers.values():
        yield provider_name(provider.spec), provider.breaker.breaker, None
    for target in engine.targets.values():
        yield target_name(target.spec), target.breaker, target.provider_breaker
