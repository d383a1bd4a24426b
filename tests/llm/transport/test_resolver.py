"""Names that change, and names that cannot be resolved for a while."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

import pytest
from aiohappyeyeballs import AddrInfoType

from llm.transport.resolver import FAILED_S, LAST_GOOD_S, Resolver
from tests.fakes.behaviours import answer, sse, wait
from tests.fakes.chat import text_chunk
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.llm.transport.driving import GUARD_S, client, read_all, until


def at(port: int) -> Sequence[AddrInfoType]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]


class Names:
    """A resolver of the machine: it says `now`, fails with it if it is an error, and hangs while `go` is not set."""

    def __init__(self, now: Sequence[AddrInfoType] | Exception) -> None:
        self.now, self.asked, self.running = now, 0, 0
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self, host: str, port: int, *, type: int) -> Sequence[AddrInfoType]:  # noqa: A002 - as getaddrinfo
        assert (host, port, type) == ("provider.test", 443, socket.SOCK_STREAM)
        self.asked += 1
        self.running += 1
        try:
            await self.go.wait()
        finally:
            self.running -= 1
        if isinstance(self.now, Exception):
            raise self.now
        return self.now


FAILED = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


def resolver(names: Names, clock: ManualClock) -> Resolver:
    return Resolver("provider.test", 443, names, clock.now)


async def test_each_answer_is_a_new_one() -> None:
    names, clock = Names(at(1)), ManualClock()
    one = resolver(names, clock)
    for port in range(1, 4):
        names.now = at(port)
        assert await one.addresses(GUARD_S) == at(port)
    assert (names.asked, one.stale) == (3, 0)


@pytest.mark.parametrize("error", [FAILED, OSError(24, "Too many open files"), UnicodeError("label too long")])
async def test_a_failed_lookup_is_answered_by_the_last_good_one_and_counted(error: Exception) -> None:
    names, clock = Names(at(1)), ManualClock()
    one = resolver(names, clock)
    await one.addresses(GUARD_S)
    names.now = error
    for stale in range(1, 4):
        assert await one.addresses(GUARD_S) == at(1)
        assert one.stale == stale
    names.now = at(2)
    clock.advance(FAILED_S)
    assert await one.addresses(GUARD_S) == at(2)
    assert one.stale == 3


async def test_no_address_at_all_is_a_failed_lookup() -> None:
    names, clock = Names([]), ManualClock()
    one = resolver(names, clock)
    with pytest.raises(socket.gaierror):
        await one.addresses(GUARD_S)
    names.now = at(1)
    assert await one.addresses(GUARD_S) == at(1)
    names.now = []
    assert await one.addresses(GUARD_S) == at(1)
    assert one.stale == 1


async def test_G04_a_failed_lookup_is_not_remembered_longer_than_five_seconds() -> None:
    assert FAILED_S <= 5.0
    names, clock = Names(at(1)), ManualClock()
    one = resolver(names, clock)
    await one.addresses(GUARD_S)
    names.now = FAILED
    await one.addresses(GUARD_S)
    assert names.asked == 2
    clock.advance(FAILED_S - 0.01)
    await one.addresses(GUARD_S)
    assert names.asked == 2  # so long it is not asked again
    clock.advance(0.01)
    await one.addresses(GUARD_S)
    assert names.asked == 3


async def test_without_a_last_good_answer_each_lookup_is_a_new_one() -> None:
    names, clock = Names(FAILED), ManualClock()
    one = resolver(names, clock)
    for asked in range(1, 4):
        with pytest.raises(socket.gaierror):
            await one.addresses(GUARD_S)
        assert names.asked == asked
    names.now = at(1)
    assert await one.addresses(GUARD_S) == at(1)
    assert one.stale == 0


async def test_the_last_good_answer_holds_for_a_bounded_time_from_the_first_failure_on() -> None:
    names, clock = Names(at(1)), ManualClock()
    one = resolver(names, clock)
    await one.addresses(GUARD_S)
    clock.advance(LAST_GOOD_S * 10)  # nobody asked: that says nothing about the address
    names.now = FAILED
    assert await one.addresses(GUARD_S) == at(1)
    clock.advance(LAST_GOOD_S - 0.01)
    assert await one.addresses(GUARD_S) == at(1)
    clock.advance(0.01)
    with pytest.raises(socket.gaierror):
        await one.addresses(GUARD_S)
    assert one.stale == 2
    names.now = at(2)
    assert await one.addresses(GUARD_S) == at(2)
    names.now = FAILED
    assert await one.addresses(GUARD_S) == at(2)  # the time begins anew


async def test_a_lookup_that_hangs_is_answered_by_the_last_good_one_and_goes_on() -> None:
    names, clock = Names(at(1)), ManualClock()
    one = resolver(names, clock)
    await one.addresses(0.03)
    names.go.clear()
    names.now = at(2)
    assert await one.addresses(0.03) == at(1)
    assert await one.addresses(0.03) == at(1)  # without waiting once more
    clock.advance(FAILED_S)
    assert await one.addresses(0.03) == at(1)
    assert (names.asked, names.running, one.stale) == (2, 1, 3)  # and it is one lookup, not three
    names.go.set()
    await until(lambda: not names.running)
    names.now = at(3)
    assert await one.addresses(0.03) == at(3)


async def test_those_who_ask_at_once_share_a_lookup_and_one_may_leave() -> None:
    names, clock = Names(at(1)), ManualClock()
    one = resolver(names, clock)
    names.go.clear()
    asking = [asyncio.create_task(one.addresses(GUARD_S)) for _ in range(10)]
    await until(lambda: names.running == 1)
    asking[0].cancel()
    await asyncio.wait(asking[:1])
    names.go.set()
    assert await asyncio.gather(*asking[1:]) == [at(1)] * 9
    assert names.asked == 1


async def test_a_close_leaves_those_who_wait_their_lookup_and_then_nothing() -> None:
    names, clock = Names(at(1)), ManualClock()
    one = resolver(names, clock)
    names.go.clear()
    asking = [asyncio.create_task(one.addresses(GUARD_S)) for _ in range(2)]
    await until(lambda: names.running == 1)
    one.close()
    asking[0].cancel()
    await asyncio.wait(asking[:1])
    assert names.running == 1
    asking[1].cancel()
    await asyncio.wait(asking[1:])
    await until(lambda: not names.running)
    names.go.set()
    assert await one.addresses(GUARD_S) == at(1)  # who comes late is served all the same


async def test_a_close_ends_a_lookup_that_nobody_waits_for() -> None:
    names, clock = Names(at(1)), ManualClock()
    one = resolver(names, clock)
    await one.addresses(0.03)
    names.go.clear()
    await one.addresses(0.03)
    assert names.running == 1
    one.close()
    await until(lambda: not names.running)


# with connections


class Moving:
    """A name that stands for one provider after the other; None: it cannot be resolved."""

    def __init__(self, to: Upstream | None) -> None:
        self.to = to

    async def __call__(self, *_: object, **__: object) -> Sequence[AddrInfoType]:
        if self.to is None:
            raise FAILED
        return at(self.to.port)


async def test_G04_a_change_of_address_is_followed_within_the_age_and_a_stream_is_not_cut() -> None:
    clock, go = ManualClock(), asyncio.Event()
    async with Upstream("old", default=sse(text_chunk("a"), wait(go), text_chunk("b"))) as old, Upstream("new") as new:
        name = Moving(old)
        async with client(
            "http://provider.test/v1", getaddrinfo=name, now=clock.now, max_connection_age_s=10.0, max_connections=9
        ) as c:
            async with c.send(c.request()) as stream:
                assert await stream.read_any()
                old.default = answer()
                await c.ask()
                name.to = new
                clock.advance(9.9)
                await c.ask()  # young: the old address may still be asked
                assert (old.attempts, new.attempts) == (3, 0)
                clock.advance(0.1)
                for _ in range(5):
                    await c.ask()
                assert (old.attempts, new.attempts) == (3, 5)
                go.set()
                assert await read_all(stream) == text_chunk("b")
            await c.ask()
            assert (old.attempts, new.attempts) == (3, 6)
            assert new.requests[0].header("host") == "provider.test"


async def test_G04_while_the_name_cannot_be_resolved_connections_go_to_the_last_address() -> None:
    clock = ManualClock()
    async with Upstream("p") as p:
        name = Moving(p)
        async with client("http://provider.test/v1", getaddrinfo=name, now=clock.now, max_connection_age_s=0.0) as c:
            await c.ask()
            name.to = None
            for second in range(20):
                assert (await c.ask()).status == 200
                assert c.counters().stale_lookups == second + 1
                clock.advance(1.0)
            name.to = p
            clock.advance(5.0)
            await c.ask()
            assert c.counters().stale_lookups == 20
            name.to = None
            clock.advance(LAST_GOOD_S)
            await c.ask()
            clock.advance(LAST_GOOD_S)
            error = await c.refused()
            assert (error.kind, error.message) == ("connect", "the provider's host name cannot be resolved")
