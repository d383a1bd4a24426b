"""State and its scopes, and the counts."""

from __future__ import annotations

import math

import pytest

from sessions import errors
from sessions.limits import Limits
from sessions.model import Count, CountKey, SessionKey
from tests.sessions.conftest import OpenLab
from tests.sessions.labs import KEY, OTHER, Lab, append, create, events, granted

MINUTE = 30_000_000


async def test_state_is_shared_by_its_prefix(lab: Lab) -> None:
    store = lab.store
    elsewhere = SessionKey("shop", "bob", "s1")
    other_app = SessionKey("bank", "ann", "s1")
    for key in (KEY, OTHER, elsewhere, other_app):
        await create(store, key)
    given = {"app:a": 1, "user:u": [2, None], "temp:t": 3, "own": {"ü": "☃"}, "odd:x": 5}
    await store.append(KEY, events("e"), epoch=1, expected_version=0, state=given)
    mine = await store.state(KEY)
    assert (mine.app, mine.user) == ({"app:a": 1}, {"user:u": [2, None]})
    assert mine.session == {"own": {"ü": "☃"}, "odd:x": 5}
    assert mine.version == 1
    assert mine.merged() == {key: value for key, value in given.items() if key != "temp:t"}
    assert (await store.state(OTHER)).merged() == {"app:a": 1, "user:u": [2, None]}
    assert (await store.state(elsewhere)).merged() == {"app:a": 1}
    assert (await store.state(other_app)).merged() == {}
    shared = await store.shared_state("shop", "ann")
    assert (shared.merged(), shared.version) == ({"app:a": 1, "user:u": [2, None]}, None)
    assert (await store.shared_state("nobody", "x")).merged() == {}


async def test_a_value_is_replaced_as_a_whole_and_none_is_a_value(lab: Lab) -> None:
    await lab.store.create(KEY, epoch=1, write_id="w", state={"a": {"x": 1}, "b": 1, "c": 1})
    await lab.store.append(KEY, events("e"), epoch=1, expected_version=0, state={"a": {"y": 2}, "b": None})
    assert (await lab.store.state(KEY)).session == {"a": {"y": 2}, "b": None, "c": 1}


async def test_a_refused_or_repeated_append_changes_no_state(lab: Lab) -> None:
    await create(lab.store)
    await lab.store.append(KEY, events("e"), epoch=1, expected_version=0, state={"n": 1, "app:n": 1})
    with pytest.raises(errors.VersionConflict):
        await lab.store.append(KEY, events("f"), epoch=1, expected_version=0, state={"n": 2, "app:n": 2})
    repeat = await lab.store.append(KEY, events("e"), epoch=1, expected_version=0, state={"n": 3, "app:n": 3})
    assert repeat.duplicate
    assert (await lab.store.state(KEY)).merged() == {"n": 1, "app:n": 1}


async def test_numbers_keep_their_worth(lab: Lab) -> None:
    state = {"int": 2**70, "float": 0.1, "whole": 1.0, "no": False, "text": "1"}
    await lab.store.create(KEY, epoch=1, write_id="w", state=state)
    found = (await lab.store.state(KEY)).session
    assert found == state
    assert [type(found[key]) for key in state] == [int, float, float, bool, str]


@pytest.mark.parametrize("value", [math.nan, math.inf, object(), "\ud800", b"x", {1, 2}], ids=repr)
async def test_what_is_no_json_is_refused_not_changed(lab: Lab, value: object) -> None:
    await create(lab.store)
    with pytest.raises(errors.InvalidInput):
        await lab.store.append(KEY, events("e"), epoch=1, expected_version=0, state={"k": value})
    assert (await lab.store.info(KEY)).version == 0


async def test_the_size_of_a_scope_is_limited_over_all_its_writes(open_lab: OpenLab) -> None:
    lab = await open_lab(limits=Limits(state_bytes=20))
    store = lab.store
    await granted(store)
    await create(store)
    await create(store, OTHER)
    await store.append(KEY, events("1"), epoch=1, expected_version=0, state={"user:a": 123456})  # 12 bytes
    await store.append(OTHER, events("1"), epoch=1, expected_version=0, state={"user:b": 12})  # and 8
    with pytest.raises(errors.LimitExceeded) as over:
        await store.append(OTHER, events("2"), epoch=1, expected_version=1, state={"user:b": 123})
    assert (over.value.what, over.value.limit, over.value.actual) == ("state_bytes", 20, 21)
    answer = await store.append(OTHER, events("2"), epoch=1, expected_version=1, state={"user:a": 1, "user:b": 1234567})
    assert answer.version == 2
    assert (await store.state(KEY)).user == {"user:a": 1, "user:b": 1234567}


async def test_a_made_again_session_starts_with_no_state_and_its_whole_room(open_lab: OpenLab) -> None:
    lab = await open_lab(limits=Limits(state_bytes=10))
    await granted(lab.store)
    for _ in range(3):
        await lab.store.create(KEY, epoch=1, write_id="w", state={"k": "1234567"})
        await lab.store.delete(KEY, epoch=1)


def count(minute: int, node: str = "n", boot: str = "b", **numbers: int) -> Count:
    return Count(CountKey(minute, "gpt-eu", "eu", node, boot), numbers)


async def test_counts_are_absolute_and_the_greatest_stands(lab: Lab) -> None:
    await lab.store.add_counts([count(MINUTE, total=5, bad=1), count(MINUTE, boot="c", total=2)], epoch=1)
    await lab.store.add_counts([count(MINUTE, total=9, bad=1)], epoch=1)
    await lab.store.add_counts([count(MINUTE, total=7, bad=3, late=1)], epoch=1)  # late, and one more name
    assert await lab.store.read_counts(MINUTE, MINUTE + 1) == (
        count(MINUTE, total=9, bad=3, late=1),
        count(MINUTE, boot="c", total=2),
    )
    assert (await lab.store.fence()).gseq == 0


async def test_a_window_of_counts(lab: Lab) -> None:
    for minute in (MINUTE + 2, MINUTE, MINUTE + 1, MINUTE + 3):
        await lab.store.add_counts([count(minute, "b", total=minute), count(minute, "a", total=1)], epoch=1)
    window = await lab.store.read_counts(MINUTE + 1, MINUTE + 3)
    assert [(one.key.minute - MINUTE, one.key.node) for one in window] == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    assert await lab.store.read_counts(MINUTE + 3, MINUTE + 3) == ()
    assert await lab.store.drop_counts(MINUTE + 2, epoch=1) == 2
    assert await lab.store.drop_counts(MINUTE + 2, epoch=1) == 0
    assert {one.key.minute for one in await lab.store.read_counts(0, 2 * MINUTE)} == {MINUTE + 2, MINUTE + 3}


@pytest.mark.parametrize("numbers", [{"total": -1}, {"total": 2**53}, {"total": 1.5}, {"": 1}])
async def test_counts_that_are_no_counts(lab: Lab, numbers: dict[str, int]) -> None:
    with pytest.raises(errors.InvalidInput):
        await lab.store.add_counts([count(MINUTE, total=1), Count(count(MINUTE).key, numbers)], epoch=1)
    assert await lab.store.read_counts(0, 2 * MINUTE) == ()


async def test_counts_survive_a_deleted_session_and_a_new_epoch(lab: Lab) -> None:
    await create(lab.store)
    await append(lab.store, "a")
    await lab.store.add_counts([count(MINUTE, total=1)], epoch=1)
    await lab.store.delete(KEY, epoch=1)
    await granted(lab.store, epoch=2)
    assert await lab.store.read_counts(MINUTE, MINUTE + 1) == (count(MINUTE, total=1),)
