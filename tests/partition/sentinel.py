"""The same pair under Redis Sentinel, which is what people would use instead: three sentinels, one in each place, and gateways
that write to whatever the sentinels call the master. Only in network namespaces, because sentinels tell each other addresses.

`down-after-milliseconds` is the lease, so that both wait equally long before they take a store for dead. With `guarded`, the
stores take no writes without a replica that answered lately (`min-replicas-to-write 1`, `min-replicas-max-lag 2`), as Redis'
manual advises against writes that are lost behind a partition.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from typing import Any

import aiohttp
from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.partition.checker import Stored
from tests.partition.cluster import NAMES, REGIONS, Region, other
from tests.partition.links import Place
from tests.partition.naive import NaiveCluster, NaiveGateway, ask, client, parser, serve, stores_of
from tests.partition.processes import Process

NAME = "sessions"
PORT = 26379
_PLACES: tuple[Place, ...] = ("west", "east", "third")
_FAILOVER_TIMEOUT_MS = 5000
_ASK_EVERY_S = 0.1


async def _master(sentinel: Redis) -> dict[str, str]:
    """What it holds of the master. Raises RedisError and OSError."""
    row = await ask(sentinel, "SENTINEL", "MASTER", NAME)
    return {key.decode(): value.decode() for key, value in row.items()}


class SentinelGateway(NaiveGateway):
    """`sentinels`: clients, the nearest first. `hosts`: where each region's store is."""

    def __init__(
        self, own: Region, stores: dict[Region, Redis], sentinels: list[Redis], hosts: dict[str, Region]
    ) -> None:
        super().__init__(own, stores, 0.0)
        self._sentinels, self._hosts = sentinels, hosts

    async def watch(self) -> None:
        while True:
            await self.failed()
            await asyncio.sleep(_ASK_EVERY_S)

    async def failed(self) -> None:
        """Ask the nearest sentinel that answers and holds the master for well, as clients of Redis do."""
        for sentinel in self._sentinels:
            with suppress(RedisError, OSError):
                row = await _master(sentinel)
                if "down" not in row["flags"]:
                    self.primary, self.epoch = self._hosts[row["ip"]], int(row["config-epoch"]) + 1
                    return


class SentinelCluster(NaiveCluster):
    """`guarded`: see above."""

    guarded = False

    def role(self, region: Region) -> list[str]:
        lines = ["min-replicas-to-write 1", "min-replicas-max-lag 2"] if self.guarded else []
        if region == "east":
            lines.append(f"replicaof {self.links.bind('west')} {self._ports['west'].redis}")
        return lines

    def _make_etcd(self) -> Process:
        """What is in the third place: a sentinel."""
        return self._make_sentinel("third")

    def _make_sentinel(self, place: Place) -> Process:
        config = self.folder / f"sentinel-{place}.conf"
        lines = (
            f"port {PORT}", f"bind {self.links.bind(place)}", f"dir {self.folder}", "protected-mode no",
            f"sentinel monitor {NAME} {self.links.bind('west')} {self._ports['west'].redis} 2",
            f"sentinel down-after-milliseconds {NAME} {self.lease_s * 1000:.0f}",
            f"sentinel failover-timeout {NAME} {_FAILOVER_TIMEOUT_MS}",
            f"sentinel parallel-syncs {NAME} 1",
        )  # fmt: skip
        config.write_text("\n".join(lines) + "\n", "utf-8")
        command = [*self.links.run_in(place), "redis-server", str(config), "--sentinel"]
        return Process(command, self.folder / f"sentinel-{place}.log")

    def gateway_command(self, region: Region) -> list[str]:
        nearest = sorted(_PLACES, key=lambda place: (place != region, place == "third"))
        return [
            sys.executable, "-m", "tests.partition.sentinel", "--own", region,
            "--stores", *(f"redis://{self.links.bind(one)}:{self._ports[one].redis}/0" for one in REGIONS),
            "--sentinels", *(f"redis://{self.links.bind(one)}:{PORT}" for one in nearest),
            "--hosts", *(self.links.bind(one) for one in REGIONS),
            "--host", self.links.bind(region), "--port", str(self._ports[region].http), "--patience", "0",
        ]  # fmt: skip

    async def __aenter__(self) -> SentinelCluster:
        for region in REGIONS:
            self.beside[region] = self._make_sentinel(region)
            self.beside[region].start()
        await super().__aenter__()
        return self

    async def well(self, seconds: float = 60.0) -> dict[str, Any]:
        """Until gateways and sentinels agree, and the other store follows: sentinels see to that."""
        end = time.monotonic() + seconds
        rows: dict[Region, dict[str, Any]] = {}
        while time.monotonic() < end:
            with suppress(aiohttp.ClientError, TimeoutError, RedisError, OSError):
                rows = {region: await self.asked(region) for region in REGIONS}
                primary: Region = rows["west"]["primary"]
                if rows["west"] == rows["east"] and await self._follows(primary) and await self._known():
                    return {"epoch": rows["west"]["epoch"], "holder": NAMES[primary], "promotions": []}
            await asyncio.sleep(0.1)
        tails = {region: self.gateways[region].tail() for region in REGIONS}
        raise AssertionError(f"sentinels did not make the pair well within {seconds:g} s: {rows} {tails}")

    async def stored(self, sessions: set[str]) -> Stored:
        region = await self.holder()
        return Stored({session: await self._events(region, session) for session in sorted(sessions)})

    async def _follows(self, primary: Region) -> bool:
        async with client(self._store_url(other(primary))) as replica:
            role = await ask(replica, "ROLE")
            return bool(
                role[0] == b"slave" and role[1] == self.links.bind(primary).encode() and role[3] == b"connected"
            )

    async def _known(self) -> bool:
        """Whether every sentinel knows the other two and the replica: before that, there is nobody to promote."""
        for place in _PLACES:
            async with client(f"redis://{self.links.bind(place)}:{PORT}") as sentinel:
                row = await _master(sentinel)
                if (row["flags"], row["num-other-sentinels"], row["num-slaves"]) != ("master", "2", "1"):
                    return False
        return True

    def _store_url(self, region: Region) -> str:
        return f"redis://{self.links.bind(region)}:{self._ports[region].redis}/0"


class GuardedSentinelCluster(SentinelCluster):
    guarded = True


def main() -> int:
    made = parser("tests.partition.sentinel")
    made.add_argument("--sentinels", nargs=3, required=True)
    made.add_argument("--hosts", nargs=2, required=True)
    options = made.parse_args()
    hosts: dict[str, Region] = dict(zip(options.hosts, REGIONS, strict=True))
    gateway = SentinelGateway(options.own, stores_of(options.stores), [client(url) for url in options.sentinels], hosts)
    asyncio.run(serve(gateway, options.host, options.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
