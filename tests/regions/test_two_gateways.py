"""A region's death and return, and a planned switchover, seen from outside: gateways, stores and etcd are real processes."""

from __future__ import annotations

import asyncio
import json
import signal
from functools import partial
from pathlib import Path

import aiohttp

from tests.regions.pair import until
from tests.regions.two_gateways import TwoGateways, Writer, stored


def dense(positions: list[str]) -> bool:
    pairs = [tuple(map(int, one.split("-"))) for one in positions]
    return [seq for _, seq in pairs] == list(range(1, len(pairs) + 1)) and pairs == sorted(pairs)


def read_tail(file: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in Path(file).read_text("utf-8").splitlines()]


def busy(writers: list[Writer], epoch: int) -> bool:
    """Whether every writer has got some acknowledgements of the epoch."""
    return all(sum(each == epoch for _, each, _, _ in writer.acknowledged) > 20 for writer in writers)


async def test_a_switchover_under_load_loses_nothing_and_goes_back(
    two: TwoGateways, session: aiohttp.ClientSession
) -> None:
    await two.replicate()
    await two.until_open(session, "eu-west")
    await two.until_open(session, "us-east")
    writers = [Writer(session, two.url(region), f"s-{region}") for region in ("eu-west", "us-east")]
    for writer in writers:
        await writer.begin()
    for epoch, to in ((2, "us-east"), (3, "eu-west")):
        await until(partial(busy, writers, epoch - 1))
        ask = session.post(two.admin("us-east") + "/admin/v1/shards/eu/switchover", json={"to": to})
        async with ask as response:
            assert response.status == 200, await response.text()
            entry = await response.json()
        assert (entry["epoch"], entry["kind"], entry["to"], entry["loss_bound"]) == (epoch, "switchover", to, 0)
        await two.until_open(session, "us-east", epoch)
    await until(partial(busy, writers, 3))
    for writer in writers:
        await writer.end()
        found = await stored(session, two.url("eu-west"), writer.path)
        ids = [event_id for event_id, _ in found]
        assert {event_id for event_id, _, _, _ in writer.acknowledged} <= set(ids)
        assert len(ids) == len(set(ids))
        assert dense([position for _, position in found])


async def test_a_region_dies_the_other_takes_over_and_it_comes_back(
    two: TwoGateways, session: aiohttp.ClientSession
) -> None:
    await two.replicate()
    await two.until_open(session, "us-east")
    writer = Writer(session, two.url("us-east"), "s1")
    await writer.begin()
    await until(lambda: len(writer.acknowledged) > 50)
    two.kill("eu-west")
    two.redis["eu-west"].stop()
    await until(lambda: any(epoch == 2 for _, epoch, _, _ in writer.acknowledged))
    row = await two.shard(session, "us-east")
    assert (row["holder"], row["epoch"], row["possible_loss"]) == ("us-east", 2, True)
    async with session.get(two.url("us-east") + writer.path) as response:
        assert response.headers["x-stanchion-possible-loss"] == "true"
    two.redis["eu-west"].start()  # with its file, and nobody to tell it that its time is over
    two.start("eu-west")
    row = await two.until_open(session, "eu-west", 2)
    assert row["possible_loss"] is False
    assert row["nodes"]["eu-west"]["role"] == "replica"
    entry = row["promotions"][0]
    assert entry["lost"]["events"] >= 0
    assert {"detect", "decide", "fence_wait", "promote", "open"} <= entry["steps_s"].keys()
    await writer.end()
    found = await stored(session, two.url("us-east"), writer.path)
    tail = read_tail(entry["lost"]["file"])
    assert (tail[0]["kind"], tail[-1]["kind"]) == ("tail", "end")
    lost = {one["event_id"] for one in tail if one["kind"] == "event"}
    assert {event_id for event_id, _, _, _ in writer.acknowledged} <= {event_id for event_id, _ in found} | lost
    assert dense([position for _, position in found])


async def test_the_primary_that_is_only_frozen_acknowledges_nothing_after_another_has_opened(
    two: TwoGateways, session: aiohttp.ClientSession
) -> None:
    await two.replicate()
    await two.until_open(session, "eu-west")
    await two.until_open(session, "us-east")
    writers = [Writer(session, two.url(region), f"s-{region}") for region in ("eu-west", "us-east")]
    for writer in writers:
        await writer.begin()
    await until(lambda: all(len(one.acknowledged) > 30 for one in writers))
    two.gateways["eu-west"].send_signal(signal.SIGSTOP)
    two.redis["eu-west"].signal(signal.SIGSTOP)
    await until(lambda: any(epoch == 2 for _, epoch, _, _ in writers[1].acknowledged))
    two.redis["eu-west"].signal(signal.SIGCONT)
    two.gateways["eu-west"].send_signal(signal.SIGCONT)
    await two.until_open(session, "eu-west", 2)
    await until(lambda: any(epoch == 2 for _, epoch, _, _ in writers[0].acknowledged))
    opened = min(done for one in writers for _, epoch, _, done in one.acknowledged if epoch == 2)
    for writer in writers:
        await writer.end()
        assert not [1 for _, epoch, invoked, _ in writer.acknowledged if epoch == 1 and invoked > opened]
        found = await stored(session, two.url("eu-west"), writer.path)
        assert len(found) == len({event_id for event_id, _ in found})


async def test_of_two_operators_at_once_one_promotes_and_the_other_is_told(
    two: TwoGateways, session: aiohttp.ClientSession
) -> None:
    await two.replicate()
    await two.until_open(session, "eu-west")
    await two.until_open(session, "us-east")

    async def move(region: str) -> tuple[int, dict[str, object]]:
        ask = session.post(two.admin(region) + "/admin/v1/shards/eu/switchover", json={"to": "us-east"})
        async with ask as response:
            return response.status, await response.json()

    answers = sorted(await asyncio.gather(move("eu-west"), move("us-east")), key=lambda one: one[0])
    assert [status for status, _ in answers] == [200, 409]
    assert (await two.until_open(session, "us-east", 2))["holder"] == "us-east"


async def test_without_the_authority_writes_end_and_stale_reads_go_on_marked(
    two: TwoGateways, session: aiohttp.ClientSession
) -> None:
    """Case G01's variant: no majority, so nothing is promoted."""
    await two.replicate()
    await two.until_open(session, "eu-west")
    await two.until_open(session, "us-east")
    writer = Writer(session, two.url("eu-west"), "s1")
    await writer.begin()
    await until(lambda: len(writer.acknowledged) > 10)
    await writer.end()
    two.etcd.kill(0)

    async def append() -> tuple[int, str | None]:
        body = {"events": [{"event_id": "late", "body": 1}]}
        async with session.post(f"{two.url('eu-west')}{writer.path}/events", json=body) as response:
            return response.status, response.headers.get("Retry-After")

    async with asyncio.timeout(30):
        while (answer := await append())[0] == 201:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert answer[0] == 503
    assert answer[1] is not None
    async with session.get(f"{two.url('us-east')}{writer.path}?stale=allow") as response:
        assert response.status == 200
        assert response.headers["x-stanchion-stale"] == "true"
    async with session.get(f"{two.url('us-east')}{writer.path}") as response:
        assert response.status == 503
    async with session.post(two.admin("us-east") + "/admin/v1/shards/eu/promote", json={"to": "us-east"}) as response:
        assert response.status == 503
        assert "authority" in (await response.json())["error"]["message"]
