"""Which replica probes: the lease of a breaker at a board in memory."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from llm.breaker import CircuitBreaker, Ticket
from llm.classes import Verdict
from llm.errors import BreakerOpen
from llm.policy import BreakerPolicy
from llm.shared_probes import ANYONE, LEASE_S, Lease, Phase, SharedProbes, decide, renews
from tests.fakes.clock import ManualClock
from tests.lab import NoJitter

POLICY = BreakerPolicy(window=60, minimum=1, cooldown=10)


class Board:
    """Leases in memory, on a clock that is every replica's too."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.leases: dict[str, tuple[Lease, float]] = {}
        self.asked: list[tuple[str, Phase]] = []
        self.lost = False

    def of(self, name: str) -> Lease | None:
        lease, until = self.leases.get(name, (None, 0.0))
        return lease if self.clock.now() < until else None

    async def lease(self, who: str, phases: Mapping[str, Phase], ttl_s: float) -> Mapping[str, str]:
        if self.lost:
            raise ConnectionError("the board is lost")
        holders = {}
        for name, phase in phases.items():
            self.asked.append((who, phase))
            before = self.of(name)
            after = decide(before, who, phase)
            until = self.clock.now() + ttl_s if renews(before, who) else self.leases[name][1]
            self.leases[name] = (after, until)
            holders[name] = after.holder
        return holders


class Replica:
    """One replica with the breaker of the target `p`, which is closed."""

    def __init__(self, board: Board, name: str, policy: BreakerPolicy = POLICY) -> None:
        self.probes = SharedProbes(board, name, board.clock.now)
        self.breaker = CircuitBreaker("p", policy, board.clock.now, NoJitter())
        self.probes.join(self.breaker)

    @property
    def may_probe(self) -> bool:
        return not self.breaker.is_open

    async def sync(self) -> None:
        await self.probes.sync()

    def asked(self) -> Ticket | None:
        """A request comes."""
        try:
            return self.breaker.admit()
        except BreakerOpen:
            return None


async def opened(number: int = 2, past: float = 10.0, policy: BreakerPolicy = POLICY) -> tuple[Board, list[Replica]]:
    """Replicas whose breakers opened together, `past` seconds ago; they synced every second, in order."""
    board = Board(ManualClock())
    replicas = [Replica(board, name, policy) for name in "abcdefgh"[:number]]
    for replica in replicas:
        replica.breaker.trip()
        await replica.sync()
    await pass_time(board, replicas, past)
    return board, replicas


async def pass_time(board: Board, replicas: list[Replica], seconds: float) -> None:
    while seconds > 0:
        board.clock.advance(min(seconds, 1.0))
        seconds -= 1.0
        for replica in replicas:
            await replica.sync()


async def test_the_first_to_say_so_near_the_end_probes_and_no_other() -> None:
    board, (first, second, third) = await opened(3, past=7.0)
    assert board.leases == {}, "it is far from its end"
    board.clock.advance(1.0)
    await second.sync()
    await pass_time(board, [first, second, third], 2.0)
    assert [one.may_probe for one in (first, second, third)] == [False, True, False]
    assert second.asked() is not None
    assert (first.asked(), second.asked(), third.asked()) == (None, None, None)


async def test_the_holder_keeps_the_lease_while_nobody_asks_for_it() -> None:
    board, (first, second) = await opened()
    await pass_time(board, [first, second], 100.0)
    assert (second.may_probe, first.may_probe) == (False, True)


async def test_a_probe_in_flight_keeps_the_lease_however_long_it_takes_and_whoever_wants_it() -> None:
    board, (first, second) = await opened()
    probe = first.asked()
    assert probe is not None
    for _ in range(30):
        assert second.asked() is None
        await pass_time(board, [second, first], 1.0)
    first.breaker.settle(probe, Verdict.FAILURE)
    assert second.asked() is None, "the lease runs on until the others have heard of the failure"


async def test_an_idle_holder_gives_it_to_the_one_that_wants_it() -> None:
    board, (first, second) = await opened()
    assert second.asked() is None
    await pass_time(board, [first, second], 1.0)
    assert second.asked() is None, "the holder has to agree first"
    await pass_time(board, [first, second], 1.0)
    assert second.asked() is not None
    assert first.asked() is None


async def test_what_neither_of_two_has_use_for_is_everybodys_until_one_probes() -> None:
    board, (first, second) = await opened()
    assert second.asked() is None
    await pass_time(board, [first, second], 2.0)
    assert first.asked() is None, "it has just been given away"
    await pass_time(board, [first, second], 3.0)
    assert (first.may_probe, second.may_probe) == (True, True)
    assert board.of("p") == Lease(ANYONE, True)
    await pass_time(board, [first, second], 20.0)
    assert first.asked() is not None
    await pass_time(board, [first, second], 1.0)
    assert (board.of("p"), second.may_probe) == (Lease("a"), False)


async def test_the_next_cool_down_begins_with_a_lease_for_one() -> None:
    board, (first, second) = await opened()
    second.asked()
    await pass_time(board, [first, second], 2.0)
    first.asked()
    await pass_time(board, [first, second], 3.0)
    assert board.of("p") == Lease(ANYONE, True)
    for one in (first, second):
        one.breaker.trip()
    await pass_time(board, [first, second], 10.0)
    assert (first.may_probe, second.may_probe) == (True, False)


async def test_the_lease_of_a_dead_holder_runs_out() -> None:
    board, (first, second) = await opened()
    assert first.may_probe
    for _ in range(int(LEASE_S)):
        assert second.asked() is None
        await pass_time(board, [second], 1.0)
    assert second.asked() is not None


async def test_without_the_board_each_probes_by_itself() -> None:
    board, (first, second) = await opened()
    board.lost = True
    assert second.asked() is None
    with pytest.raises(ConnectionError):
        await second.sync()
    second.probes.lost()
    assert second.asked() is not None
    board.lost = False
    for one in (first, second):
        await one.sync()
    assert first.asked() is not None, "it held the lease before"


async def test_who_does_not_hear_of_the_board_goes_on_alone_before_others_take_its_lease() -> None:
    board, (_, second) = await opened()
    board.clock.advance(LEASE_S - 1.1)
    assert second.asked() is None
    board.clock.advance(0.1)
    assert second.asked() is not None


async def test_a_breaker_that_nobody_has_synced_yet_is_its_own() -> None:
    board = Board(ManualClock())
    alone = Replica(board, "a")
    alone.breaker.trip()
    board.clock.advance(10.0)
    assert alone.asked() is not None


async def test_one_that_left_probes_by_itself() -> None:
    _, (_, second) = await opened()
    second.probes.leave("p")
    assert second.asked() is not None


async def test_closed_and_resting_breakers_take_no_lease() -> None:
    board = Board(ManualClock())
    replica = Replica(board, "a")
    await replica.sync()
    replica.breaker.trip()
    await replica.sync()
    assert board.asked == []


async def test_behind_an_open_provider_its_lease_is_enough() -> None:
    board, (first, second) = await opened()
    provider = CircuitBreaker("provider p", POLICY, board.clock.now, NoJitter())
    second.probes.join(provider)
    second.probes.join(second.breaker, behind=provider)
    assert second.asked() is None, "the provider is closed"
    provider.trip()
    assert second.asked() is not None
    assert first.may_probe


async def test_one_breaker_may_be_known_by_another_name_there() -> None:
    board = Board(ManualClock())
    replica = Replica(board, "a")
    replica.probes.join(replica.breaker, "target p#1")
    replica.breaker.trip()
    board.clock.advance(9.0)
    await replica.sync()
    assert set(board.leases) == {"target p#1"}


class AnyOrder(RuleBasedStateMachine):
    """Requests, syncs and time in any order: never two that may probe, but while the lease is everybody's."""

    def __init__(self) -> None:
        super().__init__()
        self.board = Board(ManualClock())
        self.replicas = [Replica(self.board, name, POLICY.model_copy(update={"cooldown": 4.0})) for name in "abc"]
        self.heard = [0.0] * 3
        for number, replica in enumerate(self.replicas):
            replica.breaker.trip()
            self._sync(number)

    def _sync(self, number: int) -> None:
        with pytest.raises(StopIteration):
            self.replicas[number].sync().send(None)  # nothing in it waits
        self.heard[number] = self.board.clock.now()

    @rule(number=st.integers(0, 2))
    def sync(self, number: int) -> None:
        self._sync(number)

    @rule(seconds=st.sampled_from([0.2, 0.5, 1.0]))
    def pass_time(self, seconds: float) -> None:
        self.board.clock.advance(seconds)
        for number in range(3):
            if self.board.clock.now() - self.heard[number] > 1.5:
                self._sync(number)

    @rule(number=st.integers(0, 2), verdict=st.sampled_from([Verdict.NEUTRAL, Verdict.FAILURE]))
    def request(self, number: int, verdict: Verdict) -> None:
        one = self.replicas[number]
        ticket = one.asked()
        if ticket is not None:
            one.breaker.settle(ticket, verdict)
            if verdict is Verdict.FAILURE:
                for other in self.replicas:  # the news, which go before the leases
                    other.breaker.trip()

    @invariant()
    def one_at_most(self) -> None:
        shared = any(ANYONE in one.probes._holders.values() for one in self.replicas)
        if not shared:
            assert sum(one.may_probe for one in self.replicas) <= 1


TestAnyOrder = AnyOrder.TestCase
