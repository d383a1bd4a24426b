"""The same pair under Redis Sentinel, which is what people would use instead: three sentinels, one in each place, and gateways
that write to whatever the sentinels call the master. Only in network namespaces, because sentinels tell each other addresses.

`down-after-milliseconds` is the lease, so that both wait equally long before they take a store for dead. With `guarded`, the
stores take no writes without a replica that answered lately (`min-replicas-to-write 1`, `min-replicas-max-lag 2`), as Redis'
manual advises against writes that are lost behind a partition.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Any

from aiohttp import web
from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.partition.cluster import REGIONS, Region
from tests.partition.links import Place
from tests.partition.plain import PlainCluster, PlainGateway, ask, client, parser, serve, stores_of
from tests.partition.processes import Process

_MODULE = "tests.partition.sentinel"
_NAME = "sessions"
_PORT = 26379
_PLACES: tuple[Place, ...] = ("west", "east", "third")
_FAILOVER_TIMEOUT_MS = 5000
_ASK_EVERY_S = 0.1


async def _master(sentinel: Redis) -> dict[str, str]:
    """What it holds of the master. Raises RedisError and OSError."""
    row = await ask(sentinel, "SENTINEL", "MASTER", _NAME)
    return {key.decode(): value.decode() for key, value in row.items()}


class SentinelGateway(PlainGateway):
    """`sentinels`: clients, the nearest first. `hosts`: where each region's store is."""

    def __init__(self, stores: dict[Region, Redis], sentinels: list[Redis], hosts: dict[str, Region]) -> None:
        super().__init__(stores)
        self._sentinels, self._hosts = sentinels, hosts

    async def watch(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(_ASK_EVERY_S)

    async def _look(self) -> None:
        """Ask the nearest sentinel that answers and holds the master for well, as clients of Redis do."""
        for sentinel in self._sentinels:
            with suppress(RedisError, OSError):
                row = await _master(sentinel)
                if "down" not in row["flags"]:
                    self.primary, self.epoch = self._hosts[row["ip"]], int(row["config-epoch"]) + 1
                    return

    async def _append(self, request: web.Request) -> web.Response:
        response = await super()._append(request)
        if response.status == 500:  # the primary did not take it
            await self._look()
        return response


class SentinelCluster(PlainCluster):
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

    def _make_beside(self, region: Region) -> Process:
        return self._make_sentinel(region)

    def _make_sentinel(self, place: Place) -> Process:
        config = self.folder / f"sentinel-{place}.conf"
        lines = (
            f"port {_PORT}", f"bind {self.links.bind(place)}", f"dir {self.folder}", "protected-mode no",
            f"sentinel monitor {_NAME} {self.links.bind('west')} {self._ports['west'].redis} 2",
            f"sentinel down-after-milliseconds {_NAME} {self.lease_s * 1000:.0f}",
            f"sentinel failover-timeout {_NAME} {_FAILOVER_TIMEOUT_MS}",
            f"sentinel parallel-syncs {_NAME} 1",
        )  # fmt: skip
        config.write_text("\n".join(lines) + "\n", "utf-8")
        command = [*self.links.run_in(place), "redis-server", str(config), "--sentinel"]
        return Process(command, self.folder / f"sentinel-{place}.log")

    def gateway_command(self, region: Region) -> list[str]:
        nearest = sorted(_PLACES, key=lambda place: (place != region, place == "third"))
        return [
            *self.plain_command(_MODULE, region),
            "--sentinels", *(self._sentinel_url(place) for place in nearest),
            "--hosts", *(self.links.bind(one) for one in REGIONS),
        ]  # fmt: skip

    async def agreed(self, rows: dict[Region, dict[str, Any]]) -> dict[str, Any] | None:
        """Sentinels see to it that the other store follows."""
        row = rows["west"]
        well = row == rows["east"] and await self.replicates(row["primary"], order=False) and await self._known()
        return row if well else None

    async def _known(self) -> bool:
        """Whether every sentinel knows the other two and the replica: before that, there is nobody to promote."""
        for place in _PLACES:
            async with client(self._sentinel_url(place)) as sentinel:
                row = await _master(sentinel)
                if (row["flags"], row["num-other-sentinels"], row["num-slaves"]) != ("master", "2", "1"):
                    return False
        return True

    def _sentinel_url(self, place: Place) -> str:
        return f"redis://{self.links.bind(place)}:{_PORT}"


class GuardedSentinelCluster(SentinelCluster):
    guarded = True


def main() -> int:
    made = parser(_MODULE)
    made.add_argument("--sentinels", nargs=3, required=True)
    made.add_argument("--hosts", nargs=2, required=True)
    options = made.parse_args()
    hosts: dict[str, Region] = dict(zip(options.hosts, REGIONS, strict=True))
    gateway = SentinelGateway(stores_of(options.stores), [client(url) for url in options.sentinels], hosts)
    asyncio.run(serve(gateway, options.host, options.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
