"""Promotion as it is done without a fence: whoever does not reach the primary makes its own store one. What the checker has to
find fault with.

When the store that a gateway takes for the primary does not answer for a while, it has its own store stop following, and writes
there, in what it takes for a new epoch.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.partition.cluster import REGIONS, Region
from tests.partition.plain import PlainCluster, PlainGateway, ask, parser, serve, stores_of

_MODULE = "tests.partition.naive"


class NaiveGateway(PlainGateway):
    """`patience_s`: for so long the primary may be silent."""

    def __init__(self, own: Region, stores: dict[Region, Redis], patience_s: float) -> None:
        super().__init__(stores)
        self._own, self._patience_s = own, patience_s

    async def watch(self) -> None:
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


class NaiveCluster(PlainCluster):
    """An operator has the older side follow the newer one when a fault is over."""

    def gateway_command(self, region: Region) -> list[str]:
        return [*self.plain_command(_MODULE, region), "--own", region, "--patience", str(self.lease_s)]

    def role(self, region: Region) -> list[str]:
        return ["replicaof 127.0.0.1 1"] if region == "east" else []

    async def agreed(self, rows: dict[Region, dict[str, Any]]) -> dict[str, Any] | None:
        newest = max(rows.values(), key=lambda row: int(row["epoch"]))
        for region in REGIONS:
            if rows[region] != newest:
                async with self.http.post(f"{self.url(region)}/primary", json=newest):
                    pass
        return newest if await self.replicates(newest["primary"], order=True) else None


def main() -> int:
    made = parser(_MODULE)
    made.add_argument("--own", choices=REGIONS, required=True)
    made.add_argument("--patience", type=float, required=True)
    options = made.parse_args()
    gateway = NaiveGateway(options.own, stores_of(options.stores), options.patience)
    asyncio.run(serve(gateway, options.host, options.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
