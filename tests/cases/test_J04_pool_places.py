"""Every ending of an attempt gives its place in the pool back, and a pool that is full is nobody's failure but ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from tests.cases.drive import MODES, attempts, breaker, said, start, until
from tests.fakes.behaviours import answer, gate, silent, sse, status
from tests.fakes.chat import role_chunk, text_chunk
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.gateway.wire import chat_request, wire
from tests.lab import Answer, Json, Lab, config, lab

PLACES = 10
TIMES = 30


def values(p: Upstream, s: Upstream, pool_wait: str = "60s") -> Json:
    """Nothing but the pool stands in the way of an attempt: no hold, no breaker, no retry."""
    return config(
        {"p": p, "s": s},
        provider_p={"max_connections": PLACES, "pool_wait": pool_wait},
        defaults={
            "holds": {"rate_limit": "0s"},
            "breaker": {"minimum": 10_000},
            "retry": {"attempts": 0},
            "timeouts": {"first_output": "2s"},
        },
    )


def in_use(g: Lab, provider: str = "p") -> int:
    return g.service.engine.providers[provider].transport.counters().in_use


def waiting(g: Lab, provider: str = "p") -> int:
    return g.service.engine.providers[provider].transport.counters().waiting


async def serves(g: Lab, p: Upstream) -> None:
    """Nothing is in use, and so many normal streams as there are places begin at once: none of them is lost."""
    await until(lambda: in_use(g) == 0)
    p.default = answer()
    for served in await asyncio.gather(*(g.chat(stream=True) for _ in range(PLACES))):
        assert said(served, stream=True) == "hello from p"
        assert served.trail == ["p class=success"]
    assert (in_use(g), waiting(g)) == (0, 0)


async def test_J04_streams_that_are_refused_give_their_place_back() -> None:
    async with Upstream("p", default=status(429)) as p, Upstream("s") as s, lab(values(p, s)) as g:
        for served in await asyncio.gather(*(g.chat(stream=True) for _ in range(TIMES))):
            assert served.trail == ["p class=rate_limited", "s class=success"]
        assert p.attempts == TIMES
        assert p.connections_made <= PLACES
        await serves(g, p)


@pytest.mark.parametrize("output", [False, True], ids=["before-output", "after-output"])
async def test_J04_streams_whose_caller_leaves_give_their_place_back(output: bool) -> None:
    behaviour = sse(role_chunk(), text_chunk("once"), silent()) if output else silent()
    async with Upstream("p", default=behaviour) as p, Upstream("s") as s, lab(values(p, s), ManualClock()) as g:
        for number in range(1, TIMES // PLACES + 1):
            async with AsyncExitStack() as callers:
                wires = [await callers.enter_async_context(wire(g)) for _ in range(PLACES)]
                for w in wires:
                    w.send(chat_request(stream=True))
                await p.wait_for_requests(number * PLACES)
                if output:
                    for w in wires:
                        await w.head()
                        await w.until_seen(b"once")
                assert in_use(g) == PLACES
                for w in wires:
                    w.abort()
                await until(lambda: in_use(g) == 0)
        await serves(g, p)
        assert (await breaker(g, "p"))[2] == 0
        assert s.attempts == 0


async def test_J04_streams_whose_first_output_does_not_come_give_their_place_back() -> None:
    clock = ManualClock()
    async with Upstream("p", default=silent()) as p, Upstream("s") as s, lab(values(p, s), clock) as g:
        for number in range(1, TIMES // PLACES + 1):
            asked = [start(g.chat(stream=True)) for _ in range(PLACES)]
            await p.wait_for_requests(number * PLACES)
            await until(lambda: in_use(g) == PLACES)
            await clock.run(2.0)
            for served in await asyncio.gather(*asked):
                assert served.trail == ["p class=timeout_first_token", "s class=success"]
        await serves(g, p)


@pytest.mark.parametrize("stream", MODES)
@pytest.mark.parametrize("name", ["good", "refused", "broken"])
async def test_J04_whoever_leaves_at_whatever_moment_gives_the_place_back(name: str, stream: bool) -> None:
    """The caller is gone some turns of the loop after its request was sent: from before it is read until after its end,
    and so while the provider's answer is being closed too."""
    behaviours = {"good": answer(), "refused": status(429), "broken": sse(role_chunk(), text_chunk("a"))}
    async with Upstream("p", default=behaviours[name]) as p, Upstream("s") as s, lab(values(p, s)) as g:
        for turns in range(80):
            async with wire(g) as w:
                w.send(chat_request(stream=stream))
                for _ in range(turns):
                    await asyncio.sleep(0)
                w.abort()
        await until(lambda: not g.service.in_flight)
        assert p.attempts > TIMES
        await serves(g, p)


@asynccontextmanager
async def full(g: Lab, p: Upstream, waiters: int = 0, model: str = "r") -> AsyncIterator[list[asyncio.Task[Answer]]]:
    """All places of P are taken, and so many requests wait for one; at the end all of them are answered."""
    go = asyncio.Event()
    p.default = gate(go, answer())
    asked = [start(g.chat(model, stream=True)) for _ in range(PLACES + waiters)]
    await p.wait_for_requests(PLACES)
    await until(lambda: waiting(g) == waiters)
    assert in_use(g) == PLACES
    yield asked
    go.set()
    for served in await asyncio.gather(*asked):
        assert said(served, stream=True) == "hello from p"


@pytest.mark.parametrize("stream", MODES)
async def test_J04_a_full_pool_is_local_capacity_and_the_next_target_serves(stream: bool) -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(values(p, s, pool_wait="50ms")) as g:
        async with full(g, p):
            for _ in range(5):
                served = await g.chat(stream=stream)
                assert said(served, stream=stream) == "hello from s"
                assert served.trail == ["p class=local_capacity", "s class=success"]
            assert await breaker(g, "p") == ("closed", 0, 0)
            assert await attempts(g, "p", "local_capacity") == 5
            assert p.attempts == PLACES
        assert await breaker(g, "p") == ("closed", PLACES, 0)
        await serves(g, p)


async def test_J04_a_full_pool_of_the_only_target_is_503() -> None:
    async with Upstream("p") as p, Upstream("s") as s:
        made = values(p, s, pool_wait="50ms")
        made["routes"]["r"]["targets"] = ["p"]
        async with lab(made) as g:
            async with full(g, p):
                refused = await g.chat()
                assert (refused.status, refused.error["class"]) == (503, "local_capacity")
                assert "max_connections" in refused.error["message"]
                assert refused.trail == ["p class=local_capacity"]
            assert await breaker(g, "p") == ("closed", PLACES, 0)
            await serves(g, p)


async def test_J04_who_waits_for_a_place_is_served_when_one_comes_back() -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(values(p, s)) as g:
        async with full(g, p, waiters=5):
            assert p.attempts == PLACES
        assert (p.attempts, s.attempts, p.connections_made) == (PLACES + 5, 0, PLACES)


async def test_J04_the_full_pool_of_one_provider_does_not_delay_another() -> None:
    """Those of the other one are all answered while nobody of the first has moved."""
    async with Upstream("p") as p, Upstream("s") as s:
        made = values(p, s)
        made["routes"] = {"r": {"targets": ["p"]}, "q": {"targets": ["s"]}}
        async with lab(made) as g:
            async with full(g, p, waiters=5) as stuck:
                for served in await asyncio.gather(*(g.chat("q", stream=True) for _ in range(TIMES))):
                    assert said(served, stream=True) == "hello from s"
                assert not any(task.done() for task in stuck)
                assert (in_use(g), waiting(g), in_use(g, "s")) == (PLACES, 5, 0)
