"""Promotion as it is done without a fence: whoever does not reach the primary makes its own store one. What the checker has to
find fault with.

A gateway in each region writes to the store that it takes for the primary. When that does not answer for a while, it has its
own store stop following, and writes there, in what it takes for a new epoch.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import aiohttp
from aiohttp import web
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from tests.partition.checker import Stored
from tests.partition.cluster import NAMES, REGIONS, Cluster, Region, other


async def ask(store: Redis, *words: str | int) -> Any:
    return await store.execute_command(*words)  # type: ignore[no-untyped-call]


class NaiveGateway:
    """`stores`: a client of each region's store. `patience_s`: for so long the primary may be silent."""

    def __init__(self, own: Region, stores: dict[Region, Redis], patience_s: float) -> None:
        self._own, self._stores, self._patience_s = own, stores, patience_s
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

    async def watch(self) -> None:
        """For ever."""
        heard = time.monotonic()
        while True:
            with suppress(RedisError, OSError):
                await self._stores[self.primary].ping()
                heard = time.monotonic()
            if time.monotonic() - heard > self._patience_s and self.primary != self._own:
                with suppress(RedisError, OSError):
                    await ask(self._stores[self._own], "REPLICAOF", "NO", "ONE")
                    self.primary, self.epoch = self._own, self.epoch + 1
            await asyncio.sleep(self._patience_s / 5)

    async def failed(self) -> None:
        """Told of a write that the primary did not answer."""

    async def _create(self, request: web.Request) -> web.Response:
        return web.json_response({}, status=201)

    async def _append(self, request: web.Request) -> web.Response:
        (event,) = (await request.json())["events"]
        primary, epoch = self.primary, self.epoch
        try:
            name = request.match_info["session"]
            number = await ask(self._stores[primary], "RPUSH", name, f"{epoch} {event['event_id']}")
        except (RedisError, OSError) as error:
            await self.failed()
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


class NaiveCluster(Cluster):
    """The same processes, with such gateways. An operator has the older side follow the newer one when a fault is over."""

    def gateway_command(self, region: Region) -> list[str]:
        stores = [self._url(region, f"redis-{one}", "redis") for one in REGIONS]  # type: ignore[arg-type]
        return [
            sys.executable, "-m", "tests.partition.naive", "--own", region, "--stores", *stores,
            "--host", self.links.bind(region), "--port", str(self._ports[region].http),
            "--patience", str(self.lease_s),
        ]  # fmt: skip

    def role(self, region: Region) -> list[str]:
        return ["replicaof 127.0.0.1 1"] if region == "east" else []

    async def well(self, seconds: float = 60.0) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with suppress(aiohttp.ClientError, TimeoutError):
                rows = {region: await self.asked(region) for region in REGIONS}
                newest = max(rows.values(), key=lambda row: int(row["epoch"]))
                primary: Region = newest["primary"]
                for region in REGIONS:
                    if rows[region] != newest:
                        async with self.http.post(f"{self.url(region)}/primary", json=newest):
                            pass
                if await self.replicates(primary):
                    return {"epoch": newest["epoch"], "holder": NAMES[primary], "promotions": []}
            await asyncio.sleep(0.1)
        raise AssertionError("the naive pair did not become well")

    async def stored(self, sessions: set[str]) -> Stored:
        region = await self.holder()
        return Stored({session: await self._events(region, session) for session in sessions})

    async def asked(self, region: Region) -> dict[str, Any]:
        async with self.http.get(f"{self.url(region)}/primary") as response:
            row: dict[str, Any] = await response.json()
            return row

    async def replicates(self, primary: Region) -> bool:
        """Whether the other store follows; it is told to, if it does not."""
        host, port = self._address[other(primary), f"redis-{primary}"]  # type: ignore[index]
        redis = Redis(host=self.links.bind(other(primary)), port=self._ports[other(primary)].redis)
        try:
            role = await ask(redis, "ROLE")
            if role[0] == b"slave" and role[1] == host.encode() and role[2] == port:
                return bool(role[3] == b"connected")
            await ask(redis, "REPLICAOF", host, port)
        finally:
            await redis.aclose()
        return False


def client(url: str) -> Redis:
    """Of a store; what is not answered is not repeated behind the gateway's back."""
    return Redis.from_url(url, socket_timeout=0.5, socket_connect_timeout=0.5, retry=Retry(NoBackoff(), 0))


async def serve(gateway: NaiveGateway, host: str, port: int) -> None:
    runner = web.AppRunner(gateway.app())
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    await gateway.watch()


def parser(name: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog=f"python -m {name}")
    made.add_argument("--own", choices=REGIONS, required=True)
    made.add_argument("--stores", nargs=2, required=True)
    made.add_argument("--host", required=True)
    made.add_argument("--port", type=int, required=True)
    made.add_argument("--patience", type=float, required=True)
    return made


def stores_of(urls: Sequence[str]) -> dict[Region, Redis]:
    return {region: client(url) for region, url in zip(REGIONS, urls, strict=True)}


def main() -> int:
    options = parser("tests.partition.naive").parse_args()
    gateway = NaiveGateway(options.own, stores_of(options.stores), options.patience)
    asyncio.run(serve(gateway, options.host, options.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
