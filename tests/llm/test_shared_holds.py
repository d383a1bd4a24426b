"""Holds of several replicas at one board: the longer one stands, and no key is on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from llm.classes import ErrorClass
from llm.errors import Failure
from llm.holds import Holds, keys_of
from llm.proxy import parse
from llm.shared_holds import HoldNews, SharedHolds, longer
from llm.shared_names import hold_name, provider_name, target_name
from llm.spec import Credential, TargetSpec
from tests.fakes.clock import ManualClock
from tests.llm.making import provider, target

KEY = Credential("one", "sk-a-secret")
P = provider("p", KEY)
SPEC = target("t", of=P, credential=KEY, model="m")
HELD = (
    ErrorClass.RATE_LIMITED,
    ErrorClass.QUOTA_EXHAUSTED,
    ErrorClass.CREDENTIAL,
    ErrorClass.MODEL_UNAVAILABLE,
    ErrorClass.OVERLOADED,
)


class Board:
    """A board in memory. `lost`: it cannot be reached."""

    def __init__(self) -> None:
        self.held: dict[str, HoldNews] = {}
        self.written = 0
        self.lost = False

    async def holds(self) -> Mapping[str, HoldNews]:
        if self.lost:
            raise ConnectionError("the board is lost")
        return dict(self.held)

    async def publish_hold(self, name: str, news: HoldNews) -> None:
        if self.lost:
            raise ConnectionError("the board is lost")
        if longer(news, self.held.get(name)):
            self.held[name] = news
            self.written += 1


class Replica:
    """One replica with these targets."""

    def __init__(self, board: Board, clock: ManualClock, *targets: TargetSpec) -> None:
        self.clock = clock
        self.holds = Holds(clock.now)
        self.shared = SharedHolds(self.holds, board, clock.wall)
        self.shared.follow(targets or (SPEC,))

    async def met(self, reason: ErrorClass, hint: float | None = None, spec: TargetSpec = SPEC) -> None:
        self.holds.note(spec, Failure(reason, "m", retry_after_s=hint))
        await self.shared.sync()

    def held(self, spec: TargetSpec = SPEC) -> tuple[ErrorClass, float] | None:
        hold = self.holds.of(spec)
        return None if hold is None else (hold.reason, round(self.holds.seconds_left(hold), 3))


class World:
    def __init__(self) -> None:
        self.board, self.clock = Board(), ManualClock()

    def replica(self, *targets: TargetSpec) -> Replica:
        return Replica(self.board, self.clock, *targets)


@pytest.mark.parametrize("reason", HELD)
async def test_a_hold_of_one_holds_the_others_for_what_is_left(reason: ErrorClass) -> None:
    world = World()
    first, second = world.replica(), world.replica()
    await first.met(reason, 5000.0 if reason is not ErrorClass.OVERLOADED else 500.0)
    left = first.held()
    assert left is not None
    world.clock.advance(100)
    await second.shared.sync()
    assert second.held() == (reason, left[1] - 100)


async def test_a_shorter_hint_never_shortens_here_or_there() -> None:
    world = World()
    first, second, third = world.replica(), world.replica(), world.replica()
    await first.met(ErrorClass.RATE_LIMITED, 60)
    await second.met(ErrorClass.RATE_LIMITED, 5)
    assert second.held() == (ErrorClass.RATE_LIMITED, 60)
    assert world.board.written == 1
    await first.met(ErrorClass.RATE_LIMITED, 5)
    await third.shared.sync()
    assert [one.held() for one in (first, third)] == [(ErrorClass.RATE_LIMITED, 60)] * 2


async def test_a_longer_hint_lengthens_for_all() -> None:
    world = World()
    first, second = world.replica(), world.replica()
    await first.met(ErrorClass.RATE_LIMITED, 5)
    await second.met(ErrorClass.QUOTA_EXHAUSTED, 3600)
    await second.met(ErrorClass.RATE_LIMITED, 60)
    await first.shared.sync()
    assert first.held() == (ErrorClass.QUOTA_EXHAUSTED, 3600)
    assert len(world.board.held) == 2


async def test_what_was_heard_is_not_said_again_and_ends_by_itself() -> None:
    world = World()
    first, second = world.replica(), world.replica()
    await first.met(ErrorClass.RATE_LIMITED, 10)
    for _ in range(12):
        for one in (second, first):
            await one.shared.sync()
        world.clock.advance(1)
    assert (first.held(), second.held(), world.board.written) == (None, None, 1)


async def test_without_the_board_holds_go_on_and_are_told_when_it_is_back() -> None:
    world = World()
    first, second = world.replica(), world.replica()
    world.board.lost = True
    with pytest.raises(ConnectionError):
        await first.met(ErrorClass.RATE_LIMITED, 60)
    assert first.held() == (ErrorClass.RATE_LIMITED, 60)
    world.board.lost = False
    world.clock.advance(10)
    await first.shared.sync()
    await second.shared.sync()
    assert second.held() == (ErrorClass.RATE_LIMITED, 50)


async def test_a_board_that_lost_its_memory_is_told_again_by_any_of_them() -> None:
    world = World()
    first, second = world.replica(), world.replica()
    await first.met(ErrorClass.RATE_LIMITED, 60)
    await second.shared.sync()
    world.board.held.clear()
    world.clock.advance(10)
    await second.shared.sync()
    third = world.replica()
    await third.shared.sync()
    assert third.held() == (ErrorClass.RATE_LIMITED, 50)


async def test_another_key_under_the_same_name_is_not_held_by_the_old_ones_account() -> None:
    world = World()
    other = Credential("one", "sk-another")
    changed = target("t", of=provider("p", other), credential=other, model="m")
    first, second = world.replica(), world.replica(changed)
    await first.met(ErrorClass.QUOTA_EXHAUSTED)
    await first.met(ErrorClass.RATE_LIMITED, 30)
    await second.shared.sync()
    assert second.held(changed) == (ErrorClass.RATE_LIMITED, 30)


async def test_what_settings_ended_here_is_not_learned_again_but_what_comes_later_is() -> None:
    world = World()
    first, second = world.replica(), world.replica()
    await first.met(ErrorClass.QUOTA_EXHAUSTED, 3600)
    await second.shared.sync()
    world.clock.advance(1)
    second.holds.key_changed("p", Credential("one", "sk-before"), KEY)
    second.shared.follow([SPEC])
    await second.shared.sync()
    await first.shared.sync()
    assert (first.held(), second.held()) == ((ErrorClass.QUOTA_EXHAUSTED, 3599), None)
    world.clock.advance(1)
    await first.met(ErrorClass.QUOTA_EXHAUSTED, 7200)
    await second.shared.sync()
    assert second.held() == (ErrorClass.QUOTA_EXHAUSTED, 7200)


async def test_a_target_at_another_address_is_another_one() -> None:
    world = World()
    moved = target("t", of=replace(P, base_url="http://elsewhere.test/v1"), credential=KEY, model="m")
    first, second = world.replica(), world.replica(moved)
    for reason in HELD:
        await first.met(reason)
    await second.shared.sync()
    assert second.held(moved) is None


async def test_targets_that_are_gone_hear_and_tell_nothing() -> None:
    world = World()
    first, second = world.replica(), world.replica()
    first.shared.follow([])
    await first.met(ErrorClass.RATE_LIMITED, 60)
    assert world.board.held == {}
    await second.met(ErrorClass.OVERLOADED, 60)
    await first.shared.sync()
    assert first.held() == (ErrorClass.RATE_LIMITED, 60), "its own, which it noted"


async def test_no_more_is_believed_than_of_a_hint() -> None:
    world = World()
    first = world.replica()
    name = hold_name(SPEC, keys_of(SPEC)[0])
    wall = world.clock.wall()
    world.board.held[name] = HoldNews(ErrorClass.OVERLOADED, wall + 1e9, wall)
    await first.shared.sync()
    assert first.held() == (ErrorClass.OVERLOADED, 600)


@pytest.mark.parametrize("reason", [ErrorClass.QUOTA_EXHAUSTED, ErrorClass.SERVER_ERROR])
async def test_a_reason_that_is_none_of_the_name_is_passed_over(reason: ErrorClass) -> None:
    world = World()
    first = world.replica()
    wall = world.clock.wall()
    world.board.held[hold_name(SPEC, keys_of(SPEC)[1])] = HoldNews(reason, wall + 60, wall)
    await first.shared.sync()
    assert first.held() is None


async def test_after_its_end_nothing_is_told() -> None:
    world = World()
    first = world.replica()
    first.shared.close()
    await first.met(ErrorClass.RATE_LIMITED, 60)
    assert world.board.held == {}


def names(spec: TargetSpec) -> set[str]:
    return {target_name(spec), provider_name(spec.provider), *(hold_name(spec, key) for key in keys_of(spec))}


def test_no_name_holds_a_key_or_an_address() -> None:
    proxy = parse("http://user:hunter2@proxy.test:3128")
    for name in names(replace(SPEC, provider=replace(P, proxy=proxy))):
        for part in ("sk-a-secret", "http:", "p.test", "hunter2", "proxy.test"):
            assert part not in name


ALL = {"provider", "target", "overload", "model", "credential", "rate"}


@pytest.mark.parametrize(
    ("other", "others"),
    [
        (replace(SPEC, region="elsewhere", weight=3.0), set()),
        (replace(SPEC, provider=replace(P, max_connections=1)), set()),
        (replace(SPEC, credential=Credential("one", "sk-b")), {"credential"}),
        (replace(SPEC, credential=Credential("two", "sk-a-secret")), {"target", "overload", "credential", "rate"}),
        (replace(SPEC, model="n"), {"target", "overload", "model", "rate"}),
        (replace(SPEC, name="u"), {"target", "overload"}),
        (replace(SPEC, provider=replace(P, proxy=parse("http://h:1"))), {"provider", "target"}),
        (replace(SPEC, provider=replace(P, base_url="http://q")), ALL),
        (replace(SPEC, provider=replace(P, name="q")), ALL),
    ],
)
def test_what_makes_it_another_one(other: TargetSpec, others: set[str]) -> None:
    assert {name.split(" ")[0] for name in names(SPEC) - names(other)} == others
    assert len(names(SPEC)) == len(ALL)
