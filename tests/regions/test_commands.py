"""`status`, `switchover`, `promote` and `replay-lost` as an operator runs them, against gateways that are real processes."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp

from tests.cli.running import stanchion
from tests.regions.pair import until
from tests.regions.two_gateways import TwoGateways, Writer


def cut(file: Path) -> None:
    """Without its last line."""
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))


async def test_an_operators_day(two: TwoGateways, session: aiohttp.ClientSession) -> None:
    await two.replicate()
    await two.until_open(session, "us-east")
    admin = ("--admin", two.admin("us-east"))
    status = await stanchion("status", *admin)
    assert "shard eu: epoch 1 in eu-west, async, open" in status.out
    assert "us-east: replica at 0, 0 writes" in status.out

    nobody = await stanchion("switchover", "eu", "--to", "us-east", *admin)
    assert (nobody.code, "--yes" in nobody.err) == (2, True)
    alive = await stanchion("promote", "eu", "--to", "us-east", "--yes", *admin)
    assert alive.code == 1
    assert "is well: `stanchion switchover eu --to us-east`" in alive.err
    unknown = await stanchion("promote", "asia", "--to", "us-east", "--yes", *admin)
    assert (unknown.code, "the shards are eu" in unknown.err) == (1, True)
    elsewhere = await stanchion("promote", "eu", "--to", "mars", "--yes", *admin)
    assert (elsewhere.code, "eu-west, us-east" in elsewhere.err) == (1, True)
    without = await stanchion("promote", "eu", "--to", "us-east", "--force", *admin)
    assert (without.code, "--reason" in without.err) == (2, True)

    moved = await stanchion("switchover", "eu", "--to", "us-east", "--yes", *admin)
    assert moved.code == 0, moved.text
    assert "nothing is lost" in moved.out
    assert "done: epoch 2 of eu is open in us-east" in moved.out
    await two.until_open(session, "us-east", 2)
    again = await stanchion("switchover", "eu", "--to", "us-east", "--yes", "--json", *admin)
    assert again.code == 1
    assert json.loads(again.out)["code"] == "already"

    back = await stanchion("switchover", "eu", "--to", "eu-west", "--yes", "--json", *admin)
    assert back.code == 0, back.text
    assert json.loads(back.out)["epoch"] == 3
    await two.until_open(session, "us-east", 3)

    writer = Writer(session, two.url("us-east"), "s1")
    await writer.begin()
    await until(lambda: len(writer.acknowledged) > 20)
    two.kill("eu-west")
    forced = await stanchion("promote", "eu", "--to", "us-east", "--force", "--reason", "a drill", "--yes", *admin)
    assert forced.code in (0, 1), forced.text  # the gateway may have been first
    await until(lambda: any(epoch == 4 for _, epoch, _, _ in writer.acknowledged))
    await writer.end()
    two.start("eu-west")
    row = await two.until_open(session, "us-east", 4)
    file = Path(row["promotions"][0]["lost"]["file"])
    shown = await stanchion("replay-lost", str(file))
    assert shown.code == 0, shown.text
    assert "lost of eu when epoch 3 in eu-west was left" in shown.out
    cut(file)
    broken = await stanchion("replay-lost", str(file))
    assert (broken.code, "has no end" in broken.err) == (2, True)


async def test_a_shard_that_takes_no_writes_is_told_by_status(two: TwoGateways, session: aiohttp.ClientSession) -> None:
    await two.replicate()
    await two.until_open(session, "eu-west")
    two.etcd.kill(0)

    async def closed() -> bool:
        return (await stanchion("status", "--admin", two.admin("eu-west"))).code == 1

    for _ in range(50):
        if await closed():
            break
    status = await stanchion("status", "--admin", two.admin("eu-west"))
    assert status.code == 1
    assert "takes no writes: the authority cannot be asked" in status.out
