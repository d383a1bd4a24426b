"""Readings and writes of a register that overtake each other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from regions.authority.base import Register
from regions.errors import AuthorityNonsense
from regions.record import ShardRecord
from regions.topology import NodeSpec, ShardSpec
from regions.views import RegisterView
from regions.watch import ShardWatch, register_name
from tests.fakes.authority import MemoryAuthority

SPEC = ShardSpec("eu", "eu-west", {"eu-west": NodeSpec("eu-west", "redis://127.0.0.1:1/0")})
FIRST = ShardRecord(1, "eu-west", "store-a", renew_n=1)


class SlowAuthority(MemoryAuthority):
    """Its readings find what there is when they arrive, and are on their way back until `back` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.back = asyncio.Event()
        self.found = asyncio.Event()
        self.slow = False

    async def read(self, name: str) -> Register | None:
        found = await super().read(name)
        if self.slow:
            self.found.set()
            await self.back.wait()
        return found

    async def swap(self, name: str, expected: str | None, value: bytes) -> str:
        revision = await super().swap(name, expected, value)
        if self.slow:
            await asyncio.sleep(0)
        return revision


@pytest.fixture
def ticks() -> Iterator[float]:
    return iter(float(n) for n in range(1, 1000))


async def test_a_write_stands_over_a_reading_that_began_later_and_found_what_was_before(
    ticks: Iterator[float],
) -> None:
    """The very first record of a shard: a reading goes out while it is written, and comes back with nothing."""
    authority = SlowAuthority()
    watch = ShardWatch(SPEC, authority, lambda: next(ticks), 1.0)
    empty = await watch.refresh()
    assert empty.record is None

    authority.slow = True
    writing = asyncio.ensure_future(_swap_when_read(watch, authority, empty))
    reading = asyncio.ensure_future(watch.refresh())
    written = await writing
    assert written.record == FIRST
    authority.back.set()
    assert (await reading).record is None, "it is what was found"
    assert watch.view == written, "and is over"

    authority.slow = False
    assert (await watch.refresh()).record == FIRST
    renewed = await watch.swap(written, FIRST.renewed(5, 0.0))
    assert renewed.record is not None
    assert renewed.record.gseq == 5


async def _swap_when_read(watch: ShardWatch, authority: SlowAuthority, empty: RegisterView) -> RegisterView:
    await authority.found.wait()
    return await watch.swap(empty, FIRST)


async def test_what_a_write_returns_is_what_it_wrote_even_under_a_later_reading(ticks: Iterator[float]) -> None:
    """A reading that began after the write did and is back before it: the writer goes on from its own record."""

    class Overtaken(MemoryAuthority):
        async def swap(self, name: str, expected: str | None, value: bytes) -> str:
            await watch.read()  # began later, and finds nothing yet
            return await super().swap(name, expected, value)

    watch = ShardWatch(SPEC, Overtaken(), lambda: next(ticks), 1.0)
    empty = await watch.refresh()
    written = await watch.swap(empty, FIRST)
    assert written.record == FIRST
    assert watch.record == FIRST


async def test_a_fault_in_what_is_read_is_told_and_ends_nothing(ticks: Iterator[float]) -> None:
    class Faulty(MemoryAuthority):
        async def read(self, name: str) -> Register | None:
            raise RuntimeError("secret")

    watch = ShardWatch(SPEC, Faulty(), lambda: next(ticks), 1.0)
    assert register_name("eu") == watch.name
    with pytest.raises(AuthorityNonsense, match="a fault: RuntimeError at "):
        await watch.refresh()
    assert "secret" not in watch.error
