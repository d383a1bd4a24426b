"""Breakers of several replicas at one board: who opens, who closes, and when the probe goes out."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from llm.breaker import BreakerView, CircuitBreaker
from llm.classes import Verdict
from llm.errors import BreakerOpen
from llm.policy import BreakerPolicy
from llm.provider_breaker import ProviderBreaker
from llm.shared_state import BreakerNews, SharedBreakers, supersedes
from tests.fakes.clock import ManualClock
from tests.lab import NoJitter

S, F = Verdict.SUCCESS, Verdict.FAILURE
POLICY = BreakerPolicy(window=60, minimum=2, failure_ratio=0.5, cooldown=4)


class Board:
    """A board in memory. `lost`: it cannot be reached."""

    def __init__(self) -> None:
        self.news: dict[str, BreakerNews] = {}
        self.written: list[tuple[str, BreakerNews]] = []
        self.lost = False

    async def latest(self) -> Mapping[str, BreakerNews]:
        self._reach()
        return dict(self.news)

    async def publish(self, name: str, news: BreakerNews) -> None:
        self._reach()
        if supersedes(news, self.news.get(name)):
            self.news[name] = news
            self.written.append((name, news))

    def _reach(self) -> None:
        if self.lost:
            raise ConnectionError("the board is lost")


class Worker:
    """One replica, with the breaker of the target `p`. Its monotonic clock has a zero of its own."""

    def __init__(self, board: Board, clock: ManualClock, policy: BreakerPolicy = POLICY) -> None:
        self.clock = ManualClock(now=clock.now() * 7, wall=clock.wall())
        self.shared = SharedBreakers(board, self.clock.wall)
        self.provider = ProviderBreaker("of p", policy, self.clock.now, NoJitter(), self._told)
        self.breaker = self.provider.target("p", "m", policy)
        for breaker in (self.provider.breaker, self.breaker):
            self.shared.join(breaker)

    def _told(self, name: str, state: str) -> None:
        self.shared.told(name, state)

    @property
    def state(self) -> str:
        return self.breaker.state

    @property
    def retry_in_s(self) -> float:
        return round(self.breaker.view().retry_in_s, 6)

    async def attempt(self, *verdicts: Verdict) -> None:
        for verdict in verdicts:
            self.breaker.settle(self.breaker.admit(), verdict)
        await self.shared.sync()


class Workers:
    """Replicas whose clocks move together."""

    def __init__(self, policy: BreakerPolicy = POLICY) -> None:
        self.board, self.clock, self.policy = Board(), ManualClock(), policy
        self.all: list[Worker] = []

    async def start(self) -> Worker:
        worker = Worker(self.board, self.clock, self.policy)
        self.all.append(worker)
        await worker.shared.sync()
        return worker

    def pass_time(self, seconds: float) -> None:
        for clock in (self.clock, *(worker.clock for worker in self.all)):
            clock.advance(seconds)


async def test_C06_the_probe_goes_out_after_the_first_opening_whoever_looks_when() -> None:
    workers = Workers()
    first, second, third = [await workers.start() for _ in range(3)]
    await first.attempt(F, F)
    workers.pass_time(1)
    started = await workers.start()
    assert (started.state, started.retry_in_s) == ("open", 3)
    workers.pass_time(1)
    await second.shared.sync()
    assert (second.state, second.retry_in_s) == ("open", 2)
    workers.pass_time(1)
    late = await workers.start()
    workers.pass_time(0.5)
    await third.shared.sync()
    for worker in workers.all:
        await worker.shared.sync()
        assert (worker.state, worker.retry_in_s) == ("open", 0.5)
    assert [news for _, news in workers.board.written] == [BreakerNews("open", 1_800_000_000.0)], "nobody else wrote"

    workers.pass_time(0.5)
    assert not late.breaker.is_open
    await late.attempt(S)
    assert late.state == "closed"
    for _ in range(2):
        for worker in workers.all:
            workers.pass_time(0.1)
            await worker.shared.sync()
            assert worker.breaker.view() == BreakerView("closed", 0, 0, 0.0)
    assert [news.state for _, news in workers.board.written] == ["open", "closed"], "what was heard is not said again"


async def test_C06_a_start_changes_neither_state_nor_counters() -> None:
    workers = Workers()
    first = await workers.start()
    await first.attempt(F)
    await workers.start()
    assert (first.breaker.view(), workers.board.written) == (BreakerView("closed", 1, 1, 0.0), [])


async def test_C06_without_the_board_each_goes_on_with_what_it_knows() -> None:
    workers = Workers()
    first, second = await workers.start(), await workers.start()
    await first.attempt(F, F)
    await second.shared.sync()
    workers.board.lost = True
    workers.pass_time(3.9)
    for worker in workers.all:
        with pytest.raises(ConnectionError):
            await worker.shared.sync()
        with pytest.raises(BreakerOpen):
            worker.breaker.admit()
    workers.pass_time(0.1)
    with pytest.raises(ConnectionError):
        await second.attempt(S)
    assert (first.state, second.state) == ("open", "closed")

    workers.board.lost = False
    await second.shared.sync()
    await first.shared.sync()
    assert first.state == "closed", "what could not be published then is now"


async def test_a_board_that_lost_its_memory_is_told_again() -> None:
    workers = Workers()
    first, second = await workers.start(), await workers.start()
    await first.attempt(F, F)
    await second.shared.sync()
    workers.board.news.clear()
    workers.pass_time(1)
    await second.shared.sync()
    started = await workers.start()
    assert (started.state, started.retry_in_s) == ("open", 3)


async def test_C06_a_failed_probe_of_one_is_a_new_cool_down_for_all() -> None:
    workers = Workers()
    first, second = await workers.start(), await workers.start()
    await first.attempt(F, F)
    await second.shared.sync()
    workers.pass_time(5)
    await first.attempt(F)
    await second.shared.sync()
    assert (first.retry_in_s, second.retry_in_s) == (4, 4)
    workers.pass_time(1)
    await second.shared.sync()
    assert second.retry_in_s == 3, "the same news a second time is none"


async def test_two_that_open_on_their_own_keep_their_own_times() -> None:
    workers = Workers()
    first, second = await workers.start(), await workers.start()
    await first.attempt(F, F)
    workers.pass_time(1.5)
    await second.attempt(F, F)
    await first.shared.sync()
    assert (first.retry_in_s, second.retry_in_s) == (2.5, 4)


async def test_a_probe_in_flight_speaks_for_itself() -> None:
    workers = Workers()
    first, second = await workers.start(), await workers.start()
    await first.attempt(F, F)
    await second.shared.sync()
    workers.pass_time(4)
    probe = second.breaker.admit()
    await first.attempt(F)
    await second.shared.sync()
    assert second.state == "half_open"
    workers.pass_time(1)
    second.breaker.settle(probe, S)
    await second.shared.sync()
    await first.shared.sync()
    assert (first.state, second.state) == ("closed", "closed")


async def test_an_old_opening_does_not_open_what_has_closed_since() -> None:
    workers = Workers()
    first, second = await workers.start(), await workers.start()
    await first.attempt(F, F)
    await second.shared.sync()
    workers.pass_time(4)
    second.breaker.settle(second.breaker.admit(), S)
    assert not second.breaker.apply("open", 2.0, again=True)
    await first.shared.sync()
    await second.shared.sync()
    await first.shared.sync()
    assert (first.state, second.state) == ("closed", "closed")


async def test_C06_the_second_good_probe_closes_for_all() -> None:
    workers = Workers(POLICY.model_copy(update={"successes": 2}))
    first, second = await workers.start(), await workers.start()
    await first.attempt(F, F)
    await second.shared.sync()
    workers.pass_time(4)
    await first.attempt(S)
    await second.shared.sync()
    assert (first.state, second.state) == ("open", "open")
    await first.attempt(S)
    await second.shared.sync()
    assert (first.state, second.state) == ("closed", "closed")


async def test_one_that_left_hears_and_tells_nothing() -> None:
    workers = Workers()
    first, second = await workers.start(), await workers.start()
    first.shared.leave("p")
    second.shared.leave("p")
    await first.attempt(F, F)
    await second.shared.sync()
    assert (workers.board.news, second.state) == ({}, "closed")


async def test_one_that_comes_back_begins_with_what_the_board_says() -> None:
    workers = Workers()
    first = await workers.start()
    await first.attempt(F, F)
    first.shared.leave("p")
    workers.board.news.clear()
    first.shared.join(first.provider.target("p", "m", POLICY))
    await first.shared.sync()
    assert workers.board.news == {}


async def test_a_provider_that_two_bad_models_opened_is_news_too() -> None:
    workers = Workers()
    first, second = await workers.start(), await workers.start()
    other = first.provider.target("q", "another", POLICY)
    first.breaker.trip()
    other.trip()
    await first.shared.sync()
    await second.shared.sync()
    assert set(workers.board.news) == {"provider of p", "p"}
    assert (second.provider.breaker.state, second.state) == ("open", "open")


async def test_each_replica_draws_its_own_jitter() -> None:
    clock = ManualClock()
    breakers = [CircuitBreaker("p", POLICY, clock.now, Random(seed)) for seed in range(5)]
    for breaker in breakers:
        assert breaker.apply("open", 1.0)
    waits = {round(breaker.view().retry_in_s, 6) for breaker in breakers}
    assert len(waits) == 5
    assert all(3 <= wait <= 4 for wait in waits)


@pytest.mark.parametrize(
    ("news", "other", "takes_its_place"),
    [
        (BreakerNews("open", 5.0), None, True),
        (BreakerNews("open", 5.0), BreakerNews("open", 4.0), False),
        (BreakerNews("open", 4.0), BreakerNews("open", 5.0), False),
        (BreakerNews("open", 5.0, again=True), BreakerNews("open", 4.0), True),
        (BreakerNews("open", 4.0, again=True), BreakerNews("open", 5.0), False),
        (BreakerNews("open", 5.0), BreakerNews("closed", 4.0), True),
        (BreakerNews("open", 4.0), BreakerNews("closed", 5.0), False),
        (BreakerNews("closed", 5.0), BreakerNews("open", 4.0), True),
        (BreakerNews("closed", 4.0), BreakerNews("open", 5.0), False),
        (BreakerNews("closed", 5.0), BreakerNews("closed", 5.0), False),
    ],
)
def test_which_news_stands(news: BreakerNews, other: BreakerNews | None, takes_its_place: bool) -> None:
    assert supersedes(news, other) == takes_its_place
