"""Sessions and their events: creating, appending, reading, listing, deleting, looking up."""

from __future__ import annotations

import asyncio

import pytest

from sessions import errors
from sessions.limits import Limits
from sessions.model import Event, Position, SessionKey
from tests.sessions.conftest import OpenLab
from tests.sessions.labs import KEY, OTHER, Lab, append, create, events, granted, stored_ids


async def test_an_event_comes_back_as_it_was_given(lab: Lab) -> None:
    body = '{"text": "ünï ☃ 😀", "n": 1.0}'.encode() + b"\x00\xff\r\n"
    event = Event("e:1/%", body, invocation_id="inv", author="agent ü", tag="adk-py/2")
    await create(lab.store)
    answer = await lab.store.append(KEY, [event], epoch=1, expected_version=0)
    (stored,) = (await lab.store.read(KEY)).events
    assert stored.event == event
    assert (stored.position, stored.version, stored.gseq) == (answer.last, 1, answer.gseq)
    assert stored.at_ms == (await lab.store.fence()).now_ms


async def test_a_session_is_at_version_zero_and_grows_by_one_with_each_append(lab: Lab) -> None:
    created = await create(lab.store)
    assert (created.version, created.duplicate) == (0, False)
    assert (await append(lab.store, "a", "b", "c", expected=0)).version == 1
    await lab.move(7)
    assert (await append(lab.store, "d", expected=1)).version == 2
    info = await lab.store.info(KEY)
    assert (info.key, info.version, info.events, info.event_bytes) == (KEY, 2, 4, 8)
    assert info.last == Position(1, 4)
    assert info.updated_ms == info.created_ms + 7


async def test_creating_twice_is_told_apart_from_a_repeated_creation(lab: Lab) -> None:
    first = await lab.store.create(KEY, epoch=1, write_id="w1", state={"n": 1})
    await append(lab.store, "a")
    again = await lab.store.create(KEY, epoch=1, write_id="w1", state={"n": 1})
    assert again.duplicate
    assert (again.version, again.gseq) == (first.version, first.gseq)
    with pytest.raises(errors.SessionExists) as exists:
        await lab.store.create(KEY, epoch=1, write_id="w2", state={"n": 2})
    assert exists.value.version == 1
    assert (await lab.store.state(KEY)).session == {"n": 1}


async def test_names_that_look_alike_are_different_sessions(lab: Lab) -> None:
    keys = [
        SessionKey("a", "b", "c:d"),
        SessionKey("a", "b:c", "d"),
        SessionKey("a:b", "c", "d"),
        SessionKey("a", "b", "c%3Ad"),
        SessionKey("{x}", "ü", "*?[a]"),
    ]
    for number, key in enumerate(keys):
        await create(lab.store, key)
        await append(lab.store, f"only-{number}", key=key)
    for number, key in enumerate(keys):
        assert await stored_ids(lab.store, key) == [f"only-{number}"]


async def test_what_is_not_there(lab: Lab) -> None:
    for ask in (lab.store.info(KEY), lab.store.read(KEY), lab.store.state(KEY)):
        with pytest.raises(errors.SessionNotFound):
            await ask
    with pytest.raises(errors.SessionNotFound):
        await append(lab.store, "a")
    assert await lab.store.lookup(KEY, "a") is None
    assert (await lab.store.fence()).gseq == 0


async def test_absent_is_said_only_under_a_grant_and_present_by_anyone(lab: Lab) -> None:
    await create(lab.store)
    await append(lab.store, "a")
    await lab.new_identity()
    assert await stored_ids(lab.store) == ["a"]
    found = await lab.store.lookup(KEY, "a")
    assert found is not None
    assert (found.position, found.version, found.gseq) == (Position(1, 1), 1, 2)
    for ask in (lab.store.lookup(KEY, "b"), lab.store.info(OTHER), lab.store.read(OTHER), lab.store.state(OTHER)):
        with pytest.raises(errors.NotGranted):
            await ask
    await granted(lab.store, epoch=2)
    assert await lab.store.lookup(KEY, "b") is None
    with pytest.raises(errors.SessionNotFound):
        await lab.store.info(OTHER)


async def test_reading_by_position(lab: Lab) -> None:
    await create(lab.store)
    for number in range(1, 4):
        await append(lab.store, f"{number}a", f"{number}b")
    await granted(lab.store, epoch=3)
    await append(lab.store, "4a", "4b", epoch=3)

    async def ids(**asked: object) -> tuple[list[str], bool]:
        page = await lab.store.read(KEY, **asked)  # type: ignore[arg-type]
        return [stored.event.event_id for stored in page.events], page.more

    everything = ["1a", "1b", "2a", "2b", "3a", "3b", "4a", "4b"]
    assert await ids() == (everything, False)
    assert await ids(limit=3) == (["1a", "1b", "2a"], True)
    assert await ids(limit=8) == (everything, False)
    assert await ids(after=Position(1, 3), limit=2) == (["2b", "3a"], True)
    assert await ids(after=Position(1, 3), until=Position(1, 5)) == (["2b", "3a"], False)
    assert await ids(after=Position(1, 99)) == (["4a", "4b"], False)
    assert await ids(after=Position(3, 8)) == ([], False)
    assert await ids(newest=True, limit=3) == (["3b", "4a", "4b"], True)
    assert await ids(newest=True, limit=3, until=Position(1, 6)) == (["2b", "3a", "3b"], True)
    assert await ids(newest=True, after=Position(1, 6), limit=9) == (["4a", "4b"], False)
    page = await lab.store.read(KEY, limit=1)
    assert (page.info.version, page.info.last) == (4, Position(3, 8))
    with pytest.raises(errors.InvalidInput):
        await lab.store.read(KEY, limit=0)


async def test_a_page_is_never_longer_than_the_limit(open_lab: OpenLab) -> None:
    lab = await open_lab(limits=Limits(page_events=2))
    await granted(lab.store)
    await create(lab.store)
    await append(lab.store, "a", "b", "c")
    page = await lab.store.read(KEY, limit=50)
    assert len(page.events) == 2
    assert page.more


@pytest.mark.parametrize("ids", [("b", "a"), ("a",), ("b",), ("a", "b", "c"), ("a", "c"), ("x", "a")])
async def test_ids_that_are_stored_in_part_or_otherwise_are_refused(lab: Lab, ids: tuple[str, ...]) -> None:
    await create(lab.store)
    await append(lab.store, "a", "b")
    await append(lab.store, "c")
    before = await lab.store.info(KEY)
    with pytest.raises(errors.EventIdsMixed) as mixed:
        await append(lab.store, *ids)
    assert mixed.value.asked == len(ids)
    assert mixed.value.stored == len([one for one in ids if one != "x"])
    assert await lab.store.info(KEY) == before


async def test_the_same_event_id_in_two_sessions_is_two_events(lab: Lab) -> None:
    await create(lab.store)
    await create(lab.store, OTHER)
    await append(lab.store, "a")
    answer = await append(lab.store, "a", key=OTHER)
    assert not answer.duplicate
    assert answer.last == Position(1, 1)


async def test_partial_events_are_never_stored(lab: Lab) -> None:
    await create(lab.store)
    with pytest.raises(errors.InvalidInput, match="partial"):
        await lab.store.append(KEY, [Event("a", b"{}"), Event("b", b"{}", partial=True)], epoch=1, expected_version=0)
    assert await stored_ids(lab.store) == []
    assert (await lab.store.info(KEY)).version == 0


@pytest.mark.parametrize(
    "given",
    [(), events("a", "a"), events(""), events("a\0b"), events("\ud800")],
    ids=["none", "twice", "no-id", "nul", "surrogate"],
)
async def test_events_that_nobody_could_store(lab: Lab, given: tuple[Event, ...]) -> None:
    await create(lab.store)
    with pytest.raises(errors.InvalidInput):
        await lab.store.append(KEY, given, epoch=1, expected_version=0)
    assert await stored_ids(lab.store) == []


@pytest.mark.parametrize("key", [SessionKey("", "u", "s"), SessionKey("a", "\udfff", "s"), SessionKey("a", "u", "\0")])
async def test_session_names_that_nobody_could_store(lab: Lab, key: SessionKey) -> None:
    with pytest.raises(errors.InvalidInput):
        await create(lab.store, key)


LIMITS = Limits(
    name_bytes=8, event_bytes=10, append_events=3, append_bytes=15, session_events=4, session_bytes=30, state_bytes=20
)


@pytest.mark.parametrize(
    ("given", "what", "actual"),
    [
        (events("x" * 9), "name_bytes", 9),
        (events("a", body=b"x" * 11), "event_bytes", 11),
        (events("a", "b", "c", "d", body=b""), "append_events", 4),
        (events("a", "b", body=b"x" * 8), "append_bytes", 16),
        (events("a", "b", "c", body=b""), "session_events", 5),
        (events("a", body=b"x" * 10), "session_bytes", 33),
    ],
)
async def test_a_limit_is_told_with_its_number_and_nothing_is_stored(
    open_lab: OpenLab, given: tuple[Event, ...], what: str, actual: int
) -> None:
    lab = await open_lab(limits=LIMITS)
    await granted(lab.store)
    await create(lab.store)
    first: tuple[Event, ...] = (Event("0", b"x" * 9),)
    if what == "session_bytes":
        await lab.store.append(KEY, (Event("1", b"x" * 7), Event("2", b"x" * 7)), epoch=1, expected_version=None)
    else:
        first = (Event("0", b""), Event("1", b""))
    await lab.store.append(KEY, first, epoch=1, expected_version=None)
    before = await lab.store.read(KEY)
    with pytest.raises(errors.LimitExceeded) as over:
        await lab.store.append(KEY, given, epoch=1, expected_version=None, state={"k": 1})
    assert (over.value.what, over.value.limit, over.value.actual) == (what, getattr(LIMITS, what), actual)
    assert await lab.store.read(KEY) == before
    assert (await lab.store.state(KEY)).session == {}


async def test_a_deleted_session_is_gone_with_a_reason_and_its_ids_are_free(lab: Lab) -> None:
    await lab.store.create(KEY, epoch=1, write_id="w", state={"mine": 1, "user:ours": 2})
    await append(lab.store, "a", "b")
    await lab.move(5)
    gone = await lab.store.delete(KEY, epoch=1)
    assert (gone.existed, gone.gseq) == (True, 3)
    with pytest.raises(errors.SessionGone) as told:
        await lab.store.read(KEY)
    assert told.value.reason == "deleted"
    assert told.value.at_ms == (await lab.store.fence()).now_ms
    with pytest.raises(errors.SessionGone):
        await append(lab.store, "c")
    assert await lab.store.lookup(KEY, "a") is None
    assert (await lab.store.list_sessions("shop")).sessions == ()
    again = await lab.store.delete(KEY, epoch=1)
    assert (again.existed, again.gseq) == (False, 3)
    assert (await lab.store.shared_state("shop", "ann")).user == {"user:ours": 2}


async def test_a_session_made_again_goes_on_above_the_old_versions_and_positions(lab: Lab) -> None:
    """A writer that still has the deleted session in hand must not be taken for a current one."""
    await lab.store.create(KEY, epoch=1, write_id="w", state={"mine": 1})
    await append(lab.store, "a", "b", expected=0)
    await lab.store.delete(KEY, epoch=1)
    created = await lab.store.create(KEY, epoch=1, write_id="w")
    assert not created.duplicate
    assert created.version == 2
    with pytest.raises(errors.VersionConflict):
        await append(lab.store, "c", expected=1)
    answer = await append(lab.store, "a", expected=2)
    assert not answer.duplicate
    assert answer.last == Position(1, 3)
    page = await lab.store.read(KEY, after=Position(1, 2))
    assert [stored.event.event_id for stored in page.events] == ["a"]
    assert (await lab.store.info(KEY)).events == 1
    assert (await lab.store.state(KEY)).session == {}


async def test_idle_sessions_expire_when_told_to_the_longest_idle_first(lab: Lab) -> None:
    keys = [SessionKey("shop", "ann", f"s{number}") for number in range(4)]
    for key in keys:
        await create(lab.store, key)
        await lab.move(100)
    await append(lab.store, "kept", key=keys[0])
    now_ms = (await lab.store.fence()).now_ms
    before_ms = now_ms - 150  # the fourth was made 100 ms ago
    assert await lab.store.expire(epoch=1, idle_before_ms=before_ms, limit=1) == (keys[1],)
    assert await lab.store.expire(epoch=1, idle_before_ms=before_ms) == (keys[2],)
    assert await lab.store.expire(epoch=1, idle_before_ms=before_ms) == ()
    assert [info.key for info in (await lab.store.list_sessions("shop")).sessions] == [keys[0], keys[3]]
    with pytest.raises(errors.SessionGone) as told:
        await append(lab.store, "a", key=keys[1])
    assert told.value.reason == "expired"
    assert (await lab.store.fence()).gseq == 7


async def test_listing_by_app_and_user_page_by_page(lab: Lab) -> None:
    keys = {SessionKey("shop", user, f"s{number}") for user in ("ann", "ann:b", "bob") for number in range(3)}
    for key in keys:
        await create(lab.store, key)
    await create(lab.store, SessionKey("shop2", "ann", "s0"))
    await append(lab.store, "a", key=SessionKey("shop", "bob", "s1"))
    seen: list[SessionKey] = []
    while True:
        listing = await lab.store.list_sessions("shop", after=seen[-1] if seen else None, limit=4)
        seen += [info.key for info in listing.sessions]
        if not listing.more:
            break
    assert len(seen) == len(keys)
    assert set(seen) == keys
    of_ann = await lab.store.list_sessions("shop", user="ann", limit=3)
    assert {info.key for info in of_ann.sessions} == {key for key in keys if key.user == "ann"}
    assert not of_ann.more
    rest = await lab.store.list_sessions("shop", user="bob", after=SessionKey("shop", "bob", "s0"))
    assert [(info.key.session, info.version) for info in rest.sessions] == [("s1", 1), ("s2", 0)]
    assert (await lab.store.list_sessions("none")).sessions == ()


async def test_f03_two_writers_at_one_version_exactly_one_wins_and_its_events_are_contiguous(lab: Lab) -> None:
    store, other = lab.store, await lab.another()
    await create(store)
    for number in range(7):
        await append(store, f"before-{number}", expected=number)
    for turn in range(7, 27):
        both = await asyncio.gather(
            append(store, *(f"{turn}-a{number}" for number in range(4)), expected=turn),
            append(other, *(f"{turn}-b{number}" for number in range(4)), expected=turn),
            return_exceptions=True,
        )
        won = [answer for answer in both if not isinstance(answer, BaseException)]
        lost = [answer for answer in both if isinstance(answer, errors.VersionConflict)]
        assert [answer.version for answer in won] == [turn + 1]
        assert [(error.version, error.expected) for error in lost] == [(turn + 1, turn)]
    ids = (await stored_ids(store))[7:]
    turns = [ids[start : start + 4] for start in range(0, len(ids), 4)]
    for turn, four in enumerate(turns, start=7):
        writer = four[0][-2]
        assert four == [f"{turn}-{writer}{number}" for number in range(4)]


async def test_f03_quick_appends_of_one_writer_are_never_stale(lab: Lab) -> None:
    """All within the same millisecond of the store: versions are integers, not times."""
    await create(lab.store)
    for version in range(30):
        assert (await append(lab.store, f"e{version}", expected=version)).version == version + 1
    page = await lab.store.read(KEY)
    assert len({stored.at_ms for stored in page.events}) == 1
    assert len(page.events) == 30


async def test_f03_after_a_failed_append_the_repeat_stores_the_events_once(open_lab: OpenLab) -> None:
    """The store fails in the middle, over a limit that only it can know; nothing of the append is left."""
    lab = await open_lab(limits=Limits(state_bytes=100))
    await granted(lab.store)
    await create(lab.store)
    await append(lab.store, "a", expected=0)
    before = (await lab.store.read(KEY), await lab.store.state(KEY), (await lab.store.fence()).gseq)
    await lab.store.create(OTHER, epoch=1, write_id="w", state={"user:filled": "x" * 80})
    four = events("1", "2", "3", "4")
    too_much = {"app:x": 1, "user:more": "y" * 20, "own": 2}
    with pytest.raises(errors.LimitExceeded):
        await lab.store.append(KEY, four, epoch=1, expected_version=1, state=too_much)
    after = (await lab.store.read(KEY), await lab.store.state(KEY))
    assert after[0] == before[0]
    assert (after[1].app, after[1].session) == ({}, {})
    assert (await lab.store.fence()).gseq == before[2] + 1  # the other session's creation
    first = await lab.store.append(KEY, four, epoch=1, expected_version=1)
    again = await lab.store.append(KEY, four, epoch=1, expected_version=1)
    assert (first.duplicate, again.duplicate) == (False, True)
    assert (again.first, again.last, again.version) == (first.first, first.last, 2)
    assert await stored_ids(lab.store) == ["a", "1", "2", "3", "4"]


async def test_a_closed_store_says_so_and_closing_twice_is_nothing(lab: Lab) -> None:
    await create(lab.store)
    await lab.store.close()
    await lab.store.close()
    with pytest.raises(errors.StoreClosed):
        await append(lab.store, "a")
    with pytest.raises(errors.StoreClosed):
        await lab.store.read(KEY)
