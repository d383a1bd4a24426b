"""The board in a real Redis: its scripts are the rules of the models' modules, and what is over goes."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from itertools import product

import pytest

from gateway.shared.board import BoardLost, RedisBoard
from llm.classes import ErrorClass
from llm.shared_holds import HoldNews, longer
from llm.shared_probes import ANYONE, Lease, Phase, decide
from llm.shared_state import BreakerNews, supersedes
from tests.fakes.clock import ManualClock
from tests.sessions.redis_server import RedisServer, until

DAY_S = 86_400.0
PHASES: tuple[Phase, ...] = ("near", "probing", "idle", "wanted")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def board(redis: RedisServer, region: str, clock: ManualClock) -> AsyncIterator[RedisBoard]:
    one = RedisBoard(redis.url, region, clock.wall)
    yield one
    await one.close()


def key(board: RedisBoard, name: str) -> str:
    return board._prefix + name


async def test_what_one_publishes_another_reads(
    redis: RedisServer, region: str, board: RedisBoard, clock: ManualClock
) -> None:
    at = clock.wall() + 0.123456789
    news, held = BreakerNews("open", at, again=True), HoldNews(ErrorClass.RATE_LIMITED, at + 60, at)
    await board.publish("target p#1", news)
    await board.publish_hold("rate one#2", held)
    other = RedisBoard(redis.url, region, clock.wall)
    elsewhere = RedisBoard(redis.url, f"not {region}", clock.wall)
    try:
        assert await other.latest() == {"target p#1": news}
        assert await other.holds() == {"rate one#2": held}
        assert (await elsewhere.latest(), await elsewhere.holds()) == ({}, {})
    finally:
        await other.close()
        await elsewhere.close()


async def test_the_script_for_news_is_the_rule(board: RedisBoard, clock: ManualClock) -> None:
    now = clock.wall()
    forms = [
        BreakerNews(state, now + moment, again)  # type: ignore[arg-type]
        for state, moment, again in product(("open", "closed"), (-2.5, -1e-6, 0.0, 9.75), (False, True))
    ]
    for number, (old, new) in enumerate(product(forms, forms)):
        await board.publish(f"n{number}", old)
        await board.publish(f"n{number}", new)
    stood = await board.latest()
    for number, (old, new) in enumerate(product(forms, forms)):
        assert stood[f"n{number}"] == (new if supersedes(new, old) else old), (old, new)


async def test_the_script_for_holds_is_the_rule(board: RedisBoard, clock: ManualClock) -> None:
    now = clock.wall()
    forms = [
        HoldNews(reason, now + left, now + at)
        for reason, left, at in product((ErrorClass.RATE_LIMITED, ErrorClass.QUOTA_EXHAUSTED), (1, 9.5, 100), (0, 1))
    ]
    for number, (old, new) in enumerate(product(forms, forms)):
        await board.publish_hold(f"n{number}", old)
        await board.publish_hold(f"n{number}", new)
    stood = await board.holds()
    for number, (old, new) in enumerate(product(forms, forms)):
        assert stood[f"n{number}"] == (new if longer(new, old) else old), (old, new)


async def test_the_script_for_leases_is_the_rule(redis: RedisServer, board: RedisBoard) -> None:
    leases = [
        Lease(holder, passed, wanted)
        for holder, passed, wanted in product(("a", "b", ANYONE), (False, True), ("", "a", "b", "c"))
    ]
    for before, phase in product((None, *leases), PHASES):
        stored = key(board, "probe:p")
        await redis.command("DEL", stored)
        if before is not None:
            value = f"{before.holder} {int(before.passed)} {before.wanted_by}"
            await redis.command("SET", stored, value, "PX", 60_000)
        after = decide(before, "a", phase)
        assert await board.lease("a", {"p": phase}, 5.0) == {"p": after.holder}
        text = (await redis.command("GET", stored)).decode()
        assert text == f"{after.holder} {int(after.passed)} {after.wanted_by}", (before, phase)
        lasts = await redis.command("PTTL", stored)
        anew = before is None or before.holder in ("a", ANYONE)
        assert (0 < lasts <= 5000) if anew else (5000 < lasts <= 60_000), (before, phase)


async def test_several_leases_are_asked_for_at_once(board: RedisBoard) -> None:
    assert await board.lease("a", {"p": "near", "q": "idle"}, 5.0) == {"p": "a", "q": "a"}
    assert await board.lease("b", {"q": "near", "r": "near"}, 5.0) == {"q": "a", "r": "b"}


async def test_a_lease_ends_by_itself(board: RedisBoard, redis: RedisServer) -> None:
    await board.lease("a", {"p": "near"}, 0.02)

    async def over() -> bool:
        return not await redis.command("EXISTS", key(board, "probe:p"))

    await until(over)
    assert await board.lease("b", {"p": "near"}, 5.0) == {"p": "b"}


async def test_what_is_over_is_removed(board: RedisBoard, redis: RedisServer, clock: ManualClock) -> None:
    now = clock.wall()
    await board.publish("old", BreakerNews("open", now))
    await board.publish_hold("short", HoldNews(ErrorClass.OVERLOADED, now + 10, now))
    await board.publish_hold("long", HoldNews(ErrorClass.QUOTA_EXHAUSTED, now + 10 * DAY_S, now))
    clock.advance(10)
    assert set(await board.holds()) == {"long"}
    assert set(await board.latest()) == {"old"}
    clock.advance(DAY_S)
    assert await board.latest() == {}
    await board.publish("old", BreakerNews("open", now))
    assert await redis.command("EXISTS", key(board, "breakers")) == 0
    assert await redis.command("HKEYS", key(board, "holds")) == [b"long"]


async def test_hashes_end_when_nobody_writes_them(board: RedisBoard, redis: RedisServer, clock: ManualClock) -> None:
    now = clock.wall()
    await board.publish("p", BreakerNews("open", now))
    await board.publish_hold("h", HoldNews(ErrorClass.OVERLOADED, now + 10, now))
    for name, days in (("breakers", 1), ("holds", 31)):
        left = await redis.command("TTL", key(board, name))
        assert (days - 0.01) * DAY_S < left <= days * DAY_S


@pytest.mark.parametrize(
    "garbage",
    ["", "open", "open x 0", "shut 1 0", "open 1 2", "open nan 0", "open inf 0", "rate_limited 1", "\xff"],
)
async def test_what_cannot_be_read_counts_as_nothing_and_is_written_over(
    garbage: str, board: RedisBoard, redis: RedisServer, clock: ManualClock
) -> None:
    now = clock.wall()
    for name in ("breakers", "holds"):
        await redis.command("HSET", key(board, name), "x", garbage)
    assert (await board.latest(), await board.holds()) == ({}, {})
    news, held = BreakerNews("open", now, again=True), HoldNews(ErrorClass.OVERLOADED, now + 1, now)
    await board.publish("x", news)
    await board.publish_hold("x", held)
    assert (await board.latest(), await board.holds()) == ({"x": news}, {"x": held})


async def test_a_reason_of_another_version_counts_by_its_end(
    board: RedisBoard, redis: RedisServer, clock: ManualClock
) -> None:
    now = clock.wall()
    await redis.command("HSET", key(board, "holds"), "x", f"unheard_of {now + 10} {now}")
    await board.publish_hold("x", HoldNews(ErrorClass.OVERLOADED, now + 9, now))
    assert await board.holds() == {}
    await board.publish_hold("x", HoldNews(ErrorClass.OVERLOADED, now + 11, now))
    assert len(await board.holds()) == 1


@pytest.mark.parametrize("garbage", ["", "a", "a 2 ", "a 1 b c", "\xff"])
async def test_a_lease_that_cannot_be_read_is_none(garbage: str, board: RedisBoard, redis: RedisServer) -> None:
    await redis.command("SET", key(board, "probe:p"), garbage)
    assert await board.lease("b", {"p": "idle"}, 5.0) == {"p": "b"}


async def test_whatever_goes_wrong_is_a_lost_board(board: RedisBoard, redis: RedisServer) -> None:
    await redis.command("SET", key(board, "breakers"), "no hash")
    with pytest.raises(BoardLost, match="refused \\(WRONGTYPE\\)"):
        await board.latest()
    with pytest.raises(BoardLost, match="refused"):
        await board.publish("p", BreakerNews("open", ManualClock().wall()))


async def test_nothing_listens(clock: ManualClock) -> None:
    board = RedisBoard("redis://user:hunter2@127.0.0.1:1/0", "r", clock.wall)
    with pytest.raises(BoardLost, match="cannot be reached") as lost:
        await board.latest()
    assert "hunter2" not in str(lost.value)
    await board.close()
    with pytest.raises(BoardLost):
        await board.latest()


async def test_one_that_hangs_is_given_up_and_asked_again(own_redis: RedisServer, clock: ManualClock) -> None:
    board = RedisBoard(own_redis.url, "r", clock.wall)
    assert await board.latest() == {}
    own_redis.signal(signal.SIGSTOP)
    for call in (board.latest, board.holds, lambda: board.lease("a", {"p": "near"}, 5.0)):
        began = time.monotonic()
        with pytest.raises(BoardLost, match=r"did not answer|cannot be reached \(TimeoutError\)"):
            await call()
        assert time.monotonic() - began < 10, "it ends by itself"
    own_redis.signal(signal.SIGCONT)
    async with asyncio.timeout(20):
        while True:
            try:
                assert await board.latest() == {}
                break
            except BoardLost:
                await asyncio.sleep(0.01)
    await board.close()


@pytest.mark.parametrize("url", ["", "http://h", "redis//h", "redis://h:port/0"])
def test_what_is_no_url_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="redis://") as refused:
        RedisBoard(url, "r", ManualClock().wall)
    assert not url or url not in str(refused.value)
