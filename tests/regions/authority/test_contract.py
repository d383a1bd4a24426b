"""The contract of an authority, held against a file, etcd, a Redis, and the one in memory that other tests use."""

from __future__ import annotations

import asyncio

import pytest

from regions.authority.base import VALUE_BYTES, Authority, settled_swap
from regions.errors import AuthorityError, AuthorityUnavailable, SwapConflict, SwapInDoubt
from tests.regions.authority.conftest import AuthorityLab


async def test_what_was_never_written_is_not_there(authority: Authority) -> None:
    assert await authority.read("shards/eu") is None
    assert await authority.read_all("shards/") == {}


async def test_a_swap_writes_once_for_a_revision(authority: Authority) -> None:
    first = await authority.swap("shards/eu", None, b"one")
    with pytest.raises(SwapConflict):
        await authority.swap("shards/eu", None, b"again")
    second = await authority.swap("shards/eu", first, b"two")
    with pytest.raises(SwapConflict):
        await authority.swap("shards/eu", first, b"late")
    found = await authority.read("shards/eu")
    assert found is not None
    assert (found.value, found.revision) == (b"two", second)
    assert first != second


async def test_a_revision_is_never_used_twice(authority: Authority) -> None:
    seen = set()
    revision = None
    for value in (b"a", b"b", b"a", b"a"):
        revision = await authority.swap("x", revision, value)
        assert revision not in seen
        seen.add(revision)


async def test_any_bytes_are_kept(authority: Authority) -> None:
    value = bytes(range(256)) * 4
    await authority.swap("x", None, value)
    found = await authority.read("x")
    assert found is not None
    assert found.value == value


async def test_registers_are_read_by_the_beginning_of_their_names_and_in_order(authority: Authority) -> None:
    for name in ("b/2", "a/1", "b/10", "b", "c/1"):
        await authority.swap(name, None, name.encode())
    found = await authority.read_all("b/")
    assert list(found) == ["b/10", "b/2"]
    assert [one.value for one in found.values()] == [b"b/10", b"b/2"]


@pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 201, "a\n"])
async def test_other_names_are_refused(authority: Authority, name: str) -> None:
    if authority.where == "memory":
        pytest.skip("the one in memory takes any")
    with pytest.raises(ValueError, match="name"):
        await authority.read(name)
    with pytest.raises(ValueError, match="name"):
        await authority.swap(name, None, b"")


async def test_a_value_that_is_too_large_is_refused(authority: Authority) -> None:
    if authority.where == "memory":
        pytest.skip("the one in memory takes any")
    with pytest.raises(ValueError, match="bytes"):
        await authority.swap("x", None, b"x" * (VALUE_BYTES + 1))
    assert await authority.read("x") is None


async def test_of_many_who_swap_at_once_one_wins_each_time(authority: Authority) -> None:
    revision = await authority.swap("x", None, b"0")

    async def attempt(who: int) -> str | None:
        try:
            return await authority.swap("x", revision, str(who).encode())
        except SwapConflict:
            return None

    for _ in range(10):
        won = [one for one in await asyncio.gather(*(attempt(who) for who in range(8))) if one is not None]
        assert len(won) == 1
        revision = won[0]


async def test_a_cancelled_swap_leaves_a_usable_authority(authority: Authority) -> None:
    revision = await authority.swap("x", None, b"0")
    for _ in range(5):
        task = asyncio.ensure_future(authority.swap("x", revision, b"1"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        found = await authority.read("x")
        assert found is not None
        revision = found.revision
    assert await authority.swap("x", revision, b"2") != revision


async def test_closing_twice_does_no_harm(authority: Authority) -> None:
    await authority.close()
    await authority.close()


async def test_a_server_that_is_gone_answers_nothing_and_within_its_time(authority_lab: AuthorityLab) -> None:
    authority = authority_lab.authority
    if authority_lab.end is None:
        pytest.skip("there is no server")
    revision = await authority.swap("x", None, b"1")
    authority_lab.end()
    async with asyncio.timeout(10):
        with pytest.raises(AuthorityUnavailable):
            await authority.read("x")
        with pytest.raises(AuthorityError) as raised:
            await authority.swap("x", revision, b"2")
    assert isinstance(raised.value, AuthorityUnavailable | SwapInDoubt)


async def test_a_frozen_server_leaves_the_swap_in_doubt_and_a_read_settles_it(authority_lab: AuthorityLab) -> None:
    authority = authority_lab.authority
    if authority_lab.freeze is None or authority_lab.thaw is None:
        pytest.skip("there is no server")
    revision = await authority.swap("x", None, b"1")
    authority_lab.freeze()
    try:
        with pytest.raises(SwapInDoubt):
            await authority.swap("x", revision, b"2")
    finally:
        authority_lab.thaw()
    found = await authority.read("x")
    assert found is not None
    if found.value == b"1":  # it never came to be run: the very same may be asked again
        assert found.revision == revision
    else:
        assert found.value == b"2"
        with pytest.raises(SwapConflict):
            await authority.swap("x", revision, b"3")


class _LosesAnswers:
    """Does what it is asked, and the answer is lost."""

    def __init__(self, inner: Authority) -> None:
        self._inner = inner
        self.read, self.where = inner.read, inner.where

    async def swap(self, name: str, expected: str | None, value: bytes) -> str:
        await self._inner.swap(name, expected, value)
        raise SwapInDoubt("lost")

    async def read_all(self, prefix: str) -> dict[str, object]:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


async def test_a_lost_answer_is_settled_by_reading(authority: Authority) -> None:
    lossy = _LosesAnswers(authority)
    revision = await settled_swap(lossy, "x", None, b"mine")  # type: ignore[arg-type]
    found = await authority.read("x")
    assert found is not None
    assert (found.revision, found.value) == (revision, b"mine")
