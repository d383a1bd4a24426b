"""Two whole gateways at a real Redis: what one meets the other knows, and what a lost Redis changes."""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from gateway.shared.sharing import SYNC_S, Sharing, start_sharing
from llm.shared_probes import LEASE_S
from tests.cases.drive import GUARD_S, breaker, said, start, until
from tests.fakes.behaviours import Behaviour, answer, gate, status
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.lab import Json, Lab, config, lab
from tests.sessions.redis_server import RedisServer

KEY = "sk-canary-provider-5d1f"


def values(redis: RedisServer, region: str, p: Upstream, s: Upstream, **parts: object) -> Json:
    """Settings that share, with the targets `p` and `s`. Two failures open a breaker for 10 s."""
    parts.setdefault("defaults", {"breaker": {"minimum": 2, "cooldown": "10s"}, "retry": {"attempts": 0}})
    made = config({"p": p, "s": s}, provider_p={"api_key": KEY}, **parts)
    made["gateway"] |= {"region": region, "shared_state": redis.url}
    return made


class Region:
    """Gateways of one region on one clock, which stops for their exchanges."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.stack = AsyncExitStack()
        self._began: dict[Lab, float] = {}

    async def __aenter__(self) -> Region:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stack.aclose()

    async def gateway(self, settings: Json) -> Lab:
        began = self.clock.now()
        made = await self.stack.enter_async_context(lab(settings, self.clock))
        self._began[made] = began
        return made

    async def pass_time(self, seconds: float) -> None:
        """Step by step, so that every exchange that falls due is over before time goes on."""
        end = self.clock.now() + seconds
        while (left := end - self.clock.now()) > 1e-9:
            await self.clock.run(min(left, SYNC_S / 2))
            await self.synced()

    async def synced(self) -> None:
        for gateway, began in self._began.items():
            due = 1 + math.floor((self.clock.now() - began) / SYNC_S + 1e-6)
            await until(lambda gateway=gateway, due=due: sharing(gateway).syncs >= due)  # type: ignore[misc]
        for gateway in self._began:
            await until(lambda gateway=gateway: not sharing(gateway).telling)  # type: ignore[misc]


def sharing(gateway: Lab) -> Sharing:
    found = gateway.server._sharing
    assert found is not None
    return found


def leases(gateway: Lab) -> set[str]:
    """Who holds the leases that it heard of."""
    return set(sharing(gateway)._probes._holders.values())


@asynccontextmanager
async def two(redis: RedisServer, region: str, **parts: object) -> AsyncIterator[tuple[Region, Upstream, Lab, Lab]]:
    """Two gateways in front of `p` and `s`."""
    async with Upstream("p") as p, Upstream("s") as s, Region() as world:
        made = values(redis, region, p, s, **parts)
        yield world, p, await world.gateway(made), await world.gateway(made)


async def opened(p: Upstream, g: Lab) -> None:
    """Have the breaker of `p` open at one gateway."""
    p.script(status(500), status(500))
    for _ in range(2):
        await g.chat()
    assert (await breaker(g, "p"))[0] == "open"


async def rush(world: Region, p: Upstream, then: Behaviour, *gateways: Lab) -> list[str]:
    """50 requests at once, of which one is at `p` for a second. What they were told."""
    go, before = asyncio.Event(), p.attempts
    p.script(gate(go, then))
    running = [start(g.chat()) for g in gateways * (50 // len(gateways))]
    await until(lambda: sum(one.done() for one in running) == 49)
    assert p.attempts == before + 1
    await world.pass_time(1.0)
    go.set()
    async with asyncio.timeout(GUARD_S):
        answers = await asyncio.gather(*running)
    assert p.attempts == before + 1
    return sorted(said(one, stream=False) for one in answers)


async def everything(redis: RedisServer) -> bytes:
    """All that is in the Redis."""
    found: list[bytes] = []
    for key in await redis.command("KEYS", "*"):
        read = {b"hash": "HGETALL", b"string": "GET"}[await redis.command("TYPE", key)]
        value = await redis.command(read, key)
        found += [key, *(value if isinstance(value, list) else [value])]
    return b"\n".join(found)


async def test_what_one_opened_the_other_stops_asking_within_a_second(redis: RedisServer, region: str) -> None:
    async with two(redis, region) as (world, p, first, second):
        await opened(p, first)
        await world.pass_time(SYNC_S)
        assert (await second.chat()).trail == ["p skip=breaker", "s class=success"]
        assert p.attempts == 2
        assert (await second.target("p"))["breaker"]["retry_in_s"] == 9
        told = [line for line in second.log if line["event"] == "breaker"]
        assert [(line["of"], line["state"]) for line in told] == [("p", "open")]


async def test_C05_one_of_fifty_at_two_gateways_probes(redis: RedisServer, region: str) -> None:
    async with two(redis, region) as (world, p, first, second):
        await opened(p, first)
        await world.pass_time(10.0)
        assert await rush(world, p, status(500), first, second) == ["hello from s"] * 50
        await world.pass_time(SYNC_S)
        for g in (first, second):
            shown = (await g.target("p"))["breaker"]
            assert (shown["state"], shown["retry_in_s"]) == ("open", 9), "a whole cool-down, for both"
        await world.pass_time(9.0)
        assert await rush(world, p, answer(), first, second) == ["hello from p"] + ["hello from s"] * 49
        await world.pass_time(SYNC_S)
        for g in (first, second):
            assert await breaker(g, "p") == ("closed", 0, 0)
            assert said(await g.chat(), stream=False) == "hello from p"


async def test_C05_long_after_the_cool_down_still_one_of_fifty_probes(redis: RedisServer, region: str) -> None:
    async with two(redis, region) as (world, p, first, second):
        await opened(p, first)
        await world.pass_time(40.0)
        assert await rush(world, p, status(500), first, second) == ["hello from s"] * 50


async def test_a_gateway_that_is_asked_gets_the_probe_from_one_that_is_not(redis: RedisServer, region: str) -> None:
    async with two(redis, region) as (world, p, first, second):
        await opened(p, first)
        await world.pass_time(10.0)
        holder, other = (first, second) if sharing(first)._probes._me in leases(first) else (second, first)
        assert not holder.service.engine.targets["p"].breaker.is_open
        assert said(await other.chat(), stream=False) == "hello from s"
        await world.pass_time(3.0)
        assert said(await other.chat(), stream=False) == "hello from p"
        assert p.attempts == 3


async def test_a_route_with_one_target_is_not_kept_waiting_by_a_lease(redis: RedisServer, region: str) -> None:
    """Requests so far apart that each falls on the gateway that has just given its lease away."""
    async with two(redis, region, route={"targets": ["p"]}) as (world, p, first, second):
        await opened(p, first)
        await world.pass_time(10.0)
        holder = next(g for g in (first, second) if not g.service.engine.targets["p"].breaker.is_open)
        other = second if holder is first else first
        refused = 0
        for g in (other, holder, other, holder):
            asked = await g.chat()
            if asked.status == 200:
                break
            assert (asked.status, asked.headers["retry-after"]) == (503, "1")
            refused += 1
            await world.pass_time(60.0)
        assert (refused, p.attempts) == (2, 3)


async def test_a_gateway_that_starts_begins_with_what_the_others_know(redis: RedisServer, region: str) -> None:
    async with Upstream("p") as p, Upstream("s") as s, Region() as world:
        made = values(redis, region, p, s)
        first = await world.gateway(made)
        await opened(p, first)
        await world.pass_time(3.0)
        second = await world.gateway(made)
        assert (await second.chat()).trail == ["p skip=breaker", "s class=success"]
        assert (await second.target("p"))["breaker"]["retry_in_s"] == 7
        assert p.attempts == 2


@pytest.mark.parametrize("successes", [1, 2])
async def test_C06_the_probe_goes_out_after_the_first_opening_whoever_starts_when(
    redis: RedisServer, region: str, successes: int
) -> None:
    policy = {"minimum": 2, "cooldown": "4s", "successes": successes}
    async with Upstream("p") as p, Upstream("s") as s, Region() as world:
        made = values(redis, region, p, s, defaults={"breaker": policy, "retry": {"attempts": 0}})
        gateways = [await world.gateway(made), await world.gateway(made)]
        await opened(p, gateways[0])
        for past in (1.0, 3.0):
            await world.pass_time(past - (world.clock.now() - 1000))
            gateways.append(await world.gateway(made))
            for g in gateways:
                shown = (await g.target("p"))["breaker"]
                assert (shown["state"], shown["retry_in_s"]) == ("open", 4 - past)
        await world.pass_time(0.9)
        for g in gateways:
            assert said(await g.chat(), stream=False) == "hello from s"
        await world.pass_time(0.1)
        assert p.attempts == 2
        for number in range(successes):
            told = [said(await g.chat(), stream=False) for g in gateways]
            assert told.count("hello from p") >= 1
            if number < successes - 1:
                assert p.attempts == 2 + told.count("hello from p")
        await world.pass_time(SYNC_S)
        before = p.attempts
        for g in gateways:
            assert (await breaker(g, "p"))[0] == "closed"
            assert said(await g.chat(), stream=False) == "hello from p"
        assert p.attempts == before + len(gateways)


async def test_a_rate_limit_that_one_met_holds_the_other(redis: RedisServer, region: str) -> None:
    async with two(redis, region) as (world, p, first, second):
        p.script(status(429, headers={"Retry-After": "30"}))
        assert said(await first.chat(), stream=False) == "hello from s"
        await world.pass_time(SYNC_S)
        assert (await second.chat()).trail == ["p skip=hold", "s class=success"]
        assert p.attempts == 1
        assert (await second.target("p"))["hold"] == {
            "reason": "rate_limited",
            "scope": "credential",
            "seconds_left": 29.0,
        }
        await world.pass_time(29.0)
        assert said(await second.chat(), stream=False) == "hello from p"


async def test_a_shorter_hint_shortens_neither(redis: RedisServer, region: str) -> None:
    async with two(redis, region) as (world, p, first, second):
        p.script(status(429, headers={"Retry-After": "30"}), status(429, headers={"Retry-After": "2"}))
        await first.chat()
        await second.chat()
        assert p.attempts == 2
        for _ in range(5):
            await world.pass_time(SYNC_S)
        for g in (first, second):
            assert (await g.target("p"))["hold"]["seconds_left"] == 25
            assert (await g.chat()).trail == ["p skip=hold", "s class=success"]


async def test_another_region_at_the_same_redis_hears_nothing(redis: RedisServer, region: str) -> None:
    async with Upstream("p") as p, Upstream("s") as s, Region() as world:
        first = await world.gateway(values(redis, region, p, s))
        other = await world.gateway(values(redis, f"not-{region}", p, s))
        await opened(p, first)
        await world.pass_time(2.0)
        assert said(await other.chat(), stream=False) == "hello from p"


async def test_I04_no_secret_is_in_redis(own_redis: RedisServer, region: str) -> None:
    async with two(own_redis, region) as (world, p, first, second):
        p.script(status(500), status(500), status(401))
        trails = [(await first.chat()).trail for _ in range(2)]
        await world.pass_time(12.0)
        for g in (first, second):
            trails.append((await g.chat()).trail)
        await world.pass_time(2.0)
        found = await everything(own_redis)
        for shown in (b"target p#", b"credential default#", b"probe:"):
            assert shown in found, ("otherwise it proves nothing", trails)
        for secret in (KEY, "sk-s", p.base_url, str(p.port)):
            assert secret.encode() not in found


async def test_redis_lost_and_back(own_redis: RedisServer, region: str) -> None:
    async with two(own_redis, region) as (world, p, first, second):
        both = (first, second)
        for g in both:
            assert await g.metric("stanchion_store_degraded", store="board") == 0
        await opened(p, first)
        await world.pass_time(SYNC_S)
        own_redis.stop()
        await world.pass_time(4.0)
        for g in both:
            assert await g.metric("stanchion_store_degraded", store="board") == 1
            assert (await g.chat()).trail == ["p skip=breaker", "s class=success"], "as it was last known"
            said_of_it = [(line["level"], line["state"]) for line in g.log if line["event"] == "board"]
            assert said_of_it == [("warning", "lost")], "once, however often it fails"
        await world.pass_time(5.0)
        p.script(status(500), status(500))
        for g in both:
            await g.chat()
        assert p.attempts == 4, "each probes by itself"

        own_redis.start()
        await world.pass_time(2.0)
        for g in both:
            assert await g.metric("stanchion_store_degraded", store="board") == 0
            assert [line["state"] for line in g.log if line["event"] == "board"] == ["lost", "back"]
        await world.pass_time(8.0)
        assert await rush(world, p, answer(), first, second) == ["hello from p"] + ["hello from s"] * 49
        await world.pass_time(SYNC_S)
        for g in both:
            assert (await breaker(g, "p"))[0] == "closed"


async def test_what_was_met_while_redis_was_lost_is_told_when_it_is_back(own_redis: RedisServer, region: str) -> None:
    async with two(own_redis, region) as (world, p, first, second):
        own_redis.stop()
        await world.pass_time(2.0)
        p.script(status(429, headers={"Retry-After": "60"}))
        await first.chat()
        assert said(await second.chat(), stream=False) == "hello from p"
        own_redis.start()
        await world.pass_time(2.0)
        assert (await second.chat()).trail == ["p skip=hold", "s class=success"]


async def test_no_request_waits_for_a_redis_that_hangs(own_redis: RedisServer, region: str) -> None:
    async with two(own_redis, region) as (world, p, first, second):
        await opened(p, first)
        await world.pass_time(9.5)
        own_redis.signal(signal.SIGSTOP)
        before = [sharing(g).syncs for g in (first, second)]
        await world.clock.run(SYNC_S)
        for g in (first, second):
            answered = start(g.chat())
            await until(answered.done)
            assert answered.result().status == 200
        assert [sharing(g).syncs for g in (first, second)] == before, "the exchange still hangs"
        assert p.attempts == 3, "the lease holds meanwhile"
        await world.synced()
        for g in (first, second):
            assert await g.metric("stanchion_store_degraded", store="board") == 1
        own_redis.signal(signal.SIGCONT)


async def test_a_redis_that_cannot_be_reached_stops_no_start(own_redis: RedisServer, region: str) -> None:
    own_redis.stop()
    async with two(own_redis, region) as (world, _, first, second):
        for g in (first, second):
            assert said(await g.chat(), stream=False) == "hello from p"
            assert await g.metric("stanchion_store_degraded", store="board") == 1
            assert str(own_redis.port) not in g.out.getvalue().replace(g.url, "")
        own_redis.start()
        await world.pass_time(2.0)
        assert await first.metric("stanchion_store_degraded", store="board") == 0


async def test_a_fault_of_its_own_is_logged_once_and_it_goes_on(
    redis: RedisServer, region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crash() -> None:
        raise RuntimeError(KEY)

    async with two(redis, region) as (world, p, first, second):
        with monkeypatch.context() as patched:
            patched.setattr(sharing(first)._breakers, "sync", crash)
            await world.pass_time(3.0)
            assert await first.metric("stanchion_store_degraded", store="board") == 1
            (line,) = [line for line in first.log if line["event"] == "board"]
            assert (line["level"], line["state"], line["kind"]) == ("error", "lost", "RuntimeError")
            assert KEY not in first.out.getvalue()
        await opened(p, second)
        await world.pass_time(2.0)
        assert (await breaker(first, "p"))[0] == "open"


async def test_a_reload_lets_go_of_what_is_gone_and_takes_in_what_is_new(redis: RedisServer, region: str) -> None:
    async with Upstream("p") as p, Upstream("q") as q, Upstream("s") as s, Region() as world:
        made = values(redis, region, p, s)
        other = config({"q": q, "s": s}, defaults=made["defaults"], gateway=made["gateway"])
        first, second = await world.gateway(made), await world.gateway(made)
        kept = first.service.engine.targets["s"].breaker
        gone = first.service.engine.targets["p"].breaker
        for g in (first, second):
            assert (await g.reload(other)).status == 200
        assert first.service.engine.targets["s"].breaker is kept
        assert set(sharing(first)._joined) == {"provider q", "provider s", "q", "s"}
        assert gone.may_probe(), "it is on its own"

        q.script(status(500), status(500))
        for _ in range(2):
            await first.chat()
        gone.trip()
        await world.pass_time(SYNC_S)
        assert (await second.chat()).trail == ["q skip=breaker", "s class=success"]
        assert b"target p#" not in await everything(redis) or region

        q.script(status(429, headers={"Retry-After": "30"}))
        await world.pass_time(9.0)
        await asyncio.gather(first.chat(), second.chat())
        await world.pass_time(SYNC_S)
        assert [(await g.target("q"))["hold"]["reason"] for g in (first, second)] == ["rate_limited"] * 2


async def test_while_settings_are_rolled_out_a_moved_target_is_another_one(redis: RedisServer, region: str) -> None:
    async with Upstream("p") as p, Upstream("q") as q, Upstream("s") as s, Region() as world:
        first = await world.gateway(values(redis, region, p, s))
        second = await world.gateway(values(redis, region, p, s))
        moved = values(redis, region, q, s)
        assert (await second.reload(moved)).status == 200
        await opened(p, first)
        await world.pass_time(2.0)
        assert (await breaker(first, "p"))[0] == "open"
        assert said(await second.chat(), stream=False) == "hello from q"
        assert (await first.reload(moved)).status == 200
        await world.pass_time(2.0)
        assert said(await first.chat(), stream=False) == "hello from q"


async def test_it_can_be_started_by_hand_and_ends_without_a_trace(redis: RedisServer, region: str) -> None:
    async with Upstream("p") as p, Upstream("s") as s, Region() as world:
        made = values(redis, region, p, s)
        del made["gateway"]["shared_state"]
        async with lab(made, world.clock) as alone:
            assert alone.service.sharing is None
            held = await start_sharing(alone.service, redis.url)
            shared = await world.gateway(values(redis, region, p, s))
            await opened(p, shared)
            await world.pass_time(SYNC_S)
            await until(lambda: held.syncs >= 2)
            assert (await breaker(alone, "p"))[0] == "open"
            pending = world.clock.pending
            await held.close()
            assert alone.service.sharing is None
            assert world.clock.pending < pending
            await world.clock.run(LEASE_S + 10)
            assert not alone.service.engine.targets["p"].breaker.is_open, "it probes by itself"


async def test_a_start_that_is_broken_off_leaves_nothing(own_redis: RedisServer, region: str) -> None:
    async with Upstream("p") as p, Upstream("s") as s:
        made = values(own_redis, region, p, s)
        del made["gateway"]["shared_state"]
        async with lab(made, ManualClock()) as g:
            own_redis.signal(signal.SIGSTOP)
            starting = asyncio.ensure_future(start_sharing(g.service, own_redis.url))
            await until(lambda: g.service.sharing is not None)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            assert g.service.sharing is None


async def test_a_running_gateway_cannot_share_elsewhere(redis: RedisServer, region: str) -> None:
    async with Upstream("p") as p, Upstream("s") as s, Region() as world:
        made = values(redis, region, p, s)
        g = await world.gateway(made)
        made["gateway"]["shared_state"] = "redis://user:hunter2@127.0.0.1:1/0"
        refused = await g.reload(made)
        assert refused.status == 422
        (problem,) = refused.json["problems"]
        assert problem["path"] == "gateway.shared_state"
        assert "restart it" in problem["message"]
        assert "hunter2" not in refused.body.decode()
