"""What promotion without a fence is tried on: a gateway in each region that appends to a list, in whichever store it takes for
the primary and in whatever it takes for the epoch. How it comes to those is for `naive.py` and `sentinel.py` to say.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import aiohttp
from aiohttp import web
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from tests.partition.cluster import NAMES, REGIONS, Cluster, Region, other


async def ask(store: Redis, *words: str | int) -> Any:
    return await store.execute_command(*words)  # type: ignore[no-untyped-call]


def client(url: str) -> Redis:
    """Of a store; what is not answered is not repeated behind the gateway's back."""
    return Redis.from_url(url, socket_timeout=0.5, socket_connect_timeout=0.5, retry=Retry(NoBackoff(), 0))


def stores_of(urls: Sequence[str]) -> dict[Region, Redis]:
    return {region: client(url) for region, url in zip(REGIONS, urls, strict=True)}


class PlainGateway(ABC):
    """`stores`: a client of each region's store."""

    def __init__(self, stores: dict[Region, Redis]) -> None:
        self._stores = stores
        self.primary: Region = "west"
        self.epoch = 1

    def app(self) -> web.Application:
        app = web.Application()
        one = "/v1/apps/{app}/users/{user}/sessions"
        app.router.add_post(one, self._create)
        app.router.add_get(one + "/{session}", self._read)
        app.router.add_post(one + "/{session}/events", self._append)
        app.router.add_get("/primary", self._state)
        app.router.add_post("/primary", self._told)
        return app

    @abstractmethod
    async def watch(self) -> None:
        """Keep `primary` and `epoch`, for ever."""

    async def _create(self, request: web.Request) -> web.Response:
        return web.json_response({}, status=201)

    async def _append(self, request: web.Request) -> web.Response:
        (event,) = (await request.json())["events"]
        primary, epoch = self.primary, self.epoch
        try:
            name = request.match_info["session"]
            number = await ask(self._stores[primary], "RPUSH", name, f"{epoch} {event['event_id']}")
        except (RedisError, OSError) as error:
            return web.json_response({"error": {"code": "failed", "message": str(error)}}, status=500)
        answer = {"epoch": epoch, "position": f"{epoch}-{number}", "duplicate": False}
        headers = {"x-stanchion-store-region": NAMES[primary], "x-stanchion-epoch": str(epoch)}
        return web.json_response(answer, status=201, headers=headers)

    async def _read(self, request: web.Request) -> web.Response:
        rows = await ask(self._stores[self.primary], "LRANGE", request.match_info["session"], 0, -1)
        events = []
        for number, row in enumerate(rows, 1):
            epoch, _, event_id = row.decode().partition(" ")
            events.append({"event_id": event_id, "position": f"{epoch}-{number}"})
        return web.json_response({"events": events, "more": False})

    async def _state(self, request: web.Request) -> web.Response:
        return web.json_response({"primary": self.primary, "epoch": self.epoch})

    async def _told(self, request: web.Request) -> web.Response:
        told = await request.json()
        self.primary, self.epoch = told["primary"], told["epoch"]
        return web.json_response({})


class PlainCluster(Cluster, ABC):
    """The same processes, with such gateways."""

    @abstractmethod
    async def agreed(self, rows: dict[Region, dict[str, Any]]) -> dict[str, Any] | None:
        """What both gateways hold, of what each was found to hold; None while they or the stores are not yet well."""

    async def well(self, seconds: float = 60.0) -> dict[str, Any]:
        end = time.monotonic() + seconds
        rows: dict[Region, dict[str, Any]] = {}
        while time.monotonic() < end:
            with suppress(aiohttp.ClientError, TimeoutError, RedisError, OSError):
                rows = {region: await self._asked(region) for region in REGIONS}
                if row := await self.agreed(rows):
                    return {"epoch": row["epoch"], "holder": NAMES[row["primary"]], "promotions": []}
            await asyncio.sleep(0.1)
        logs = "\n".join(self.gateways[region].tail(1500) for region in REGIONS)
        raise AssertionError(f"the pair did not become well within {seconds:g} s: {rows}\n{logs}")

    async def replicates(self, primary: Region, *, order: bool) -> bool:
        """Whether the other store follows; with `order` it is told to, if it does not."""
        host, port = self._address[other(primary), f"redis-{primary}"]  # type: ignore[index]
        async with client(
            f"redis://{self.links.bind(other(primary))}:{self._ports[other(primary)].redis}/0"
        ) as replica:
            role = await ask(replica, "ROLE")
            if role[0] == b"slave" and role[1] == host.encode() and role[2] == port:
                return bool(role[3] == b"connected")
            if order:
                await ask(replica, "REPLICAOF", host, port)
        return False

    def plain_command(self, module: str, region: Region) -> list[str]:
        """What starts the gateway, with the options that `parser` reads."""
        stores = [self._url(region, f"redis-{one}", "redis") for one in REGIONS]  # type: ignore[arg-type]
        return [
            sys.executable, "-m", module, "--stores", *stores,
            "--host", self.links.bind(region), "--port", str(self._ports[region].http),
        ]  # fmt: skip

    async def _asked(self, region: Region) -> dict[str, Any]:
        async with self.http.get(f"{self.url(region)}/primary") as response:
            row: dict[str, Any] = await response.json()
            return row


async def serve(gateway: PlainGateway, host: str, port: int) -> None:
    runner = web.AppRunner(gateway.app())
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    await gateway.watch()


def parser(module: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog=f"python -m {module}")
    made.add_argument("--stores", nargs=2, required=True)
    made.add_argument("--host", required=True)
    made.add_argument("--port", type=int, required=True)
    return made
