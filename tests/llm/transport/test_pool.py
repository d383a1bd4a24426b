"""Places: at most `max_connections` at once, a bounded wait for one, and every provider its own."""

from __future__ import annotations

import asyncio

import pytest

from llm.transport.base import TransportError
from tests.fakes.behaviours import answer, garbage, gate, reset, silent, status
from tests.fakes.upstream import Upstream
from tests.llm.transport.driving import client, until


async def test_fifty_at_once_over_five_connections_are_all_served() -> None:
    async with Upstream("p") as p, client(p.base_url, max_connections=5, pool_wait_s=60.0) as c:
        most = 0

        async def ask() -> int:
            nonlocal most
            async with c.send(c.request()) as answered:
                most = max(most, c.places_taken)
                while await answered.read_any():
                    pass
                return answered.status

        assert await asyncio.gather(*(ask() for _ in range(50))) == [200] * 50
        assert most == 5
        assert p.connections_made == 5
        assert p.attempts == 50


async def test_a_full_pool_is_a_capacity_failure_after_its_wait() -> None:
    go = asyncio.Event()
    async with Upstream("p", default=gate(go, answer())) as p:
        async with client(p.base_url, max_connections=2, pool_wait_s=0.05) as c:
            held = [asyncio.create_task(c.ask()) for _ in range(2)]
            await p.wait_for_requests(2)
            error = await c.refused()
            assert error.kind == "capacity"
            assert error.message == "all 2 connections to the provider are in use (max_connections)"
            assert c.places_taken == 2
            go.set()
            assert [told.status for told in await asyncio.gather(*held)] == [200, 200]
            assert (await c.ask()).status == 200
            assert (p.attempts, p.connections_made) == (3, 2)


async def test_those_who_wait_are_served_in_turn() -> None:
    go = asyncio.Event()
    async with Upstream("p") as p, client(p.base_url, max_connections=1, pool_wait_s=60.0) as c:
        p.script(gate(go, answer()))
        held = asyncio.create_task(c.ask(b"0"))
        await p.wait_for_requests(1)
        waiting = []
        for number in range(1, 4):
            waiting.append(asyncio.create_task(c.ask(str(number).encode())))
            await until(lambda: len(c._places._waiters or ()) == len(waiting))
        go.set()
        await asyncio.gather(held, *waiting)
        assert [seen.body for seen in p.requests] == [b"0", b"1", b"2", b"3"]
        assert p.connections_made == 1


async def test_the_full_pool_of_one_provider_does_not_delay_another() -> None:
    """The other one is asked while all those of the first still wait."""
    async with Upstream("p", default=silent()) as p, Upstream("s") as s:
        async with client(p.base_url, max_connections=1, pool_wait_s=60.0) as c, client(s.base_url) as other:
            stuck = [asyncio.create_task(c.ask()) for _ in range(5)]
            await p.wait_for_requests(1)
            assert [(await other.ask()).status for _ in range(10)] == [200] * 10
            assert not any(task.done() for task in stuck)
            for task in stuck:
                task.cancel()
            await asyncio.gather(*stuck, return_exceptions=True)


@pytest.mark.parametrize("name", ["refused", "reset", "garbage", "error", "left"])
async def test_thirty_failures_leave_every_place(name: str) -> None:
    behaviours = {"reset": reset(), "garbage": garbage(), "error": status(429), "left": answer(), "refused": answer()}
    async with Upstream("p", default=behaviours[name]) as p:
        async with client(p.base_url, max_connections=10, pool_wait_s=0.0) as c:
            if name == "refused":
                await p.stop()
            for _ in range(30):
                if name == "error":
                    assert (await c.ask()).status == 429
                elif name == "left":
                    async with c.send(c.request()):
                        pass
                else:
                    with pytest.raises(TransportError):
                        await c.ask()
                assert c.places_taken == 0
            if name == "refused":
                await p.start()
            p.default = answer()
            assert (await c.ask()).status == 200
