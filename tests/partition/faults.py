"""What is done to a cluster while clients write: each fault from its beginning to its end. `held` may be frozen or cut; when a
fault returns, everything that it took away is back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from tests.partition.cluster import Cluster, Region, other
from tests.partition.links import part

Fault = Callable[[Cluster, Region, float], Awaitable[None]]
"""Of the cluster, the region that holds the shard, and for how many seconds."""

LEASES = 3.0
"""Faults last at least so many leases: long enough for a failover."""


@asynccontextmanager
async def healed(cluster: Cluster) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await cluster.links.heal()


async def regions_apart(cluster: Cluster, held: Region, seconds: float) -> None:
    async with healed(cluster):
        await part(cluster.links, "west", "east")
        await asyncio.sleep(seconds)


async def holder_without_authority(cluster: Cluster, held: Region, seconds: float) -> None:
    async with healed(cluster):
        await part(cluster.links, held, "third")
        await asyncio.sleep(seconds)


async def holder_alone(cluster: Cluster, held: Region, seconds: float) -> None:
    async with healed(cluster):
        await part(cluster.links, held, "third")
        await part(cluster.links, held, other(held))
        await asyncio.sleep(seconds)


async def holder_unheard_by_authority(cluster: Cluster, held: Region, seconds: float) -> None:
    async with healed(cluster):
        await cluster.links.cut(held, "third")
        await asyncio.sleep(seconds)


async def authority_unheard_by_holder(cluster: Cluster, held: Region, seconds: float) -> None:
    """Its swaps are done, and it does not learn of it."""
    async with healed(cluster):
        await cluster.links.cut("third", held)
        await asyncio.sleep(seconds)


async def holder_unheard_by_other(cluster: Cluster, held: Region, seconds: float) -> None:
    async with healed(cluster):
        await cluster.links.cut(held, other(held))
        await asyncio.sleep(seconds)


async def flapping(cluster: Cluster, held: Region, seconds: float) -> None:
    end = asyncio.get_running_loop().time() + seconds
    async with healed(cluster):
        while asyncio.get_running_loop().time() < end:
            await part(cluster.links, held, "third")
            await cluster.links.cut(other(held), held)
            await asyncio.sleep(seconds / 8)
            await cluster.links.heal()
            await asyncio.sleep(seconds / 12)


async def store_unreached(cluster: Cluster, held: Region, seconds: float) -> None:
    async with healed(cluster):
        await cluster.links.cut_store(held)
        await asyncio.sleep(seconds)


async def store_frozen(cluster: Cluster, held: Region, seconds: float) -> None:
    cluster.stores[held].freeze()
    await asyncio.sleep(seconds)
    cluster.stores[held].thaw()


async def store_killed(cluster: Cluster, held: Region, seconds: float) -> None:
    cluster.stores[held].kill()
    await asyncio.sleep(seconds)
    cluster.stores[held].start()


async def store_restarted(cluster: Cluster, held: Region, seconds: float) -> None:
    """Back at once, with what its file has."""
    cluster.stores[held].kill()
    cluster.stores[held].start()
    await asyncio.sleep(seconds)


async def store_files_lost(cluster: Cluster, held: Region, seconds: float) -> None:
    cluster.stores[held].kill()
    cluster.lose_files(held)
    cluster.stores[held].start()
    await asyncio.sleep(seconds)


async def gateway_frozen(cluster: Cluster, held: Region, seconds: float) -> None:
    cluster.gateways[held].freeze()
    await asyncio.sleep(seconds)
    cluster.gateways[held].thaw()


async def gateway_killed(cluster: Cluster, held: Region, seconds: float) -> None:
    cluster.gateways[held].kill()
    await asyncio.sleep(seconds)
    cluster.gateways[held].start()


async def region_killed(cluster: Cluster, held: Region, seconds: float) -> None:
    processes = [one[held] for one in (cluster.gateways, cluster.beside, cluster.stores) if held in one]
    for process in processes:
        process.kill()
    await asyncio.sleep(seconds)
    for process in reversed(processes):
        process.start()


async def authority_killed(cluster: Cluster, held: Region, seconds: float) -> None:
    cluster.etcd.kill()
    await asyncio.sleep(seconds)
    cluster.etcd.start()


async def authority_frozen(cluster: Cluster, held: Region, seconds: float) -> None:
    cluster.etcd.freeze()
    await asyncio.sleep(seconds)
    cluster.etcd.thaw()


async def switchover(cluster: Cluster, held: Region, seconds: float) -> None:
    await cluster.order(other(held), "switchover", other(held))
    await asyncio.sleep(seconds / 4)


async def two_operators(cluster: Cluster, held: Region, seconds: float) -> None:
    """One moves the shard as planned, the other forces it over, at the same moment."""
    await asyncio.gather(
        cluster.order(held, "switchover", other(held)), cluster.order(other(held), "promote", other(held), force=True)
    )
    await asyncio.sleep(seconds / 4)


async def promoted_alive(cluster: Cluster, held: Region, seconds: float) -> None:
    """An operator promotes the other region although the holder is well, and cannot be told."""
    async with healed(cluster):
        await part(cluster.links, "west", "east")
        await cluster.order(other(held), "promote", other(held), force=True)
        await asyncio.sleep(seconds / 2)


def promoter_dies(point: str) -> Fault:
    """Whoever promotes dies before the step of that name, and is started again."""

    async def fault(cluster: Cluster, held: Region, seconds: float) -> None:
        promoter = other(held)
        gateway = cluster.gateways[promoter]
        gateway.kill()
        gateway.start(STANCHION_CRASH_AT=point)
        planned = point.startswith("switchover")
        with suppress(AssertionError):
            await cluster.well(10.0)
        if planned:
            await cluster.order(promoter, "switchover", promoter)
        else:
            cluster.stores[held].freeze()
        await asyncio.sleep(seconds / 2)
        gateway.kill()
        gateway.start()
        await asyncio.sleep(seconds / 2)
        cluster.stores[held].thaw()

    return fault


POINTS = (
    "failover:record", "failover:promote", "open:name", "open:grant", "open:record",
    "switchover:record", "switchover:revoke", "switchover:catch_up", "switchover:epoch", "switchover:follow",
)  # fmt: skip

FAULTS: dict[str, Fault] = {
    "regions apart": regions_apart,
    "holder alone": holder_alone,
    "holder without authority": holder_without_authority,
    "holder unheard by authority": holder_unheard_by_authority,
    "authority unheard by holder": authority_unheard_by_holder,
    "holder unheard by the other": holder_unheard_by_other,
    "flapping links": flapping,
    "store unreached": store_unreached,
    "store frozen": store_frozen,
    "store killed": store_killed,
    "store restarted": store_restarted,
    "store's files lost": store_files_lost,
    "gateway frozen": gateway_frozen,
    "gateway killed": gateway_killed,
    "region killed": region_killed,
    "authority killed": authority_killed,
    "authority frozen": authority_frozen,
    "switchover": switchover,
    "two operators": two_operators,
    "forced, holder well": promoted_alive,
    **{f"promoter dies at {point}": promoter_dies(point) for point in POINTS},
}
"""By name, in the order of the rounds."""
