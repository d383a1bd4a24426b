"""The limits of one attempt, on a manual clock and a provider of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import cast

import pytest

from llm.answer import Batch, Progress
from llm.classes import ErrorClass
from llm.errors import AttemptFailed, Failure
from llm.provider import Provider
from llm.request import Limits, LlmRequest
from llm.timeouts import Timeouts
from tests.fakes.clock import ManualClock, settle
from tests.llm.making import request

OUT, PING, LAST = Batch(b"out", True), Batch(b": ping\n\n", False), Batch(b"DONE", False)
Step = float | Batch | BaseException | Callable[[Progress], None] | None
"""Seconds to wait, a batch to give, an error to raise, a change to the progress, or the end of the body."""

LIMITS = Limits(connect_s=3, first_output_s=2, idle_s=5, total_s=60)


def every(seconds: float, batch: Batch) -> list[Step]:
    """The same batch for ever, as far as any limit here goes."""
    return [step for _ in range(100) for step in (seconds, batch)]


def finishing(progress: Progress) -> None:
    progress.finishing = progress.output_seen = True


def ended(progress: Progress) -> None:
    finishing(progress)
    progress.ended = True


class FakeProvider:
    """Does the steps of its script, one after the other, on the clock; the first may be a wait for the head."""

    def __init__(self, clock: ManualClock, *steps: Step, opening: Step = 0.0, stream: bool = True) -> None:
        self._clock, self._steps, self._opening = clock, list(steps), opening
        self.progress, self.stream = Progress(), stream
        self.left: list[type[BaseException] | None] = []

    def generate(self, asked: LlmRequest) -> AbstractAsyncContextManager[FakeProvider]:
        return self

    async def __aenter__(self) -> FakeProvider:
        if isinstance(self._opening, float) and self._opening:
            await self._clock.sleep(self._opening)
        elif isinstance(self._opening, BaseException):
            raise self._opening
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.left.append(kind)

    async def read(self) -> Batch | None:
        while self._steps:
            step = self._steps.pop(0)
            if isinstance(step, float):
                await self._clock.sleep(step)
            elif isinstance(step, Batch):
                return step
            elif isinstance(step, BaseException):
                raise step
            elif step is None:
                return None
            else:
                step(self.progress)
        await asyncio.get_running_loop().create_future()
        raise AssertionError("the future has no result")

    def finish(self) -> Batch | None:
        self.progress.ended = True
        return LAST


class Attempt:
    """One attempt that reads to its end, as a task: what it got, when, and how it ended."""

    def __init__(
        self, clock: ManualClock, inner: FakeProvider, limits: Limits = LIMITS, *, stream: bool = True, pause: float = 0
    ) -> None:
        self.clock, self.inner, self._pause = clock, inner, pause
        self._request = request(limits, stream=stream)
        self.got: list[Batch] = []
        self.cancelling = -1
        self.ended_at = 0.0
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        timeouts = Timeouts(cast(Provider, self.inner), self.clock)
        try:
            async with timeouts.generate(self._request) as stream:
                while (batch := await stream.read()) is not None:
                    self.got.append(batch)
                    if self._pause:
                        await self.clock.sleep(self._pause)
        finally:
            self.ended_at = self.clock.now() - 1000
            task = asyncio.current_task()
            assert task is not None
            self.cancelling = task.cancelling()

    async def fails(self, seconds: float = 100) -> tuple[ErrorClass, float]:
        """The class it ends with, and when; nothing is left behind."""
        await self.clock.run(seconds)
        with pytest.raises(AttemptFailed) as caught:
            await self.task
        assert self.clock.pending == 0
        assert self.cancelling == 0, "the task goes on as if nobody had cancelled it"
        return caught.value.failure.error_class, self.ended_at

    async def succeeds(self, seconds: float = 1000) -> list[Batch]:
        await self.clock.run(seconds)
        await self.task
        assert self.clock.pending == 0
        assert self.cancelling == 0
        assert self.inner.left == [None]
        return self.got


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_an_answer_in_time_is_passed_through(clock: ManualClock) -> None:
    inner = FakeProvider(clock, 1.9, OUT, 4.9, OUT, None)
    assert await Attempt(clock, inner).succeeds() == [OUT, OUT]


async def test_first_output_is_counted_in_output_not_in_bytes(clock: ManualClock) -> None:
    inner = FakeProvider(clock, *every(0.5, PING))
    assert await Attempt(clock, inner).fails() == (ErrorClass.TIMEOUT_FIRST_TOKEN, 2)


async def test_the_wait_for_the_head_is_part_of_first_output(clock: ManualClock) -> None:
    inner = FakeProvider(clock, 0.9, OUT, opening=1.5)
    assert await Attempt(clock, inner).fails() == (ErrorClass.TIMEOUT_FIRST_TOKEN, 2)
    assert inner.left == [AttemptFailed]


async def test_a_head_that_never_comes(clock: ManualClock) -> None:
    inner = FakeProvider(clock, opening=1000.0)
    assert await Attempt(clock, inner).fails() == (ErrorClass.TIMEOUT_FIRST_TOKEN, 2)
    assert inner.left == [], "it was never entered"


async def test_idle_is_counted_between_outputs(clock: ManualClock) -> None:
    inner = FakeProvider(clock, 1.0, OUT, 4.0, OUT, *every(1.0, PING))
    assert await Attempt(clock, inner).fails() == (ErrorClass.TIMEOUT_IDLE, 10)


async def test_total_is_the_whole_attempt(clock: ManualClock) -> None:
    inner = FakeProvider(clock, *every(1.0, OUT))
    assert await Attempt(clock, inner).fails() == (ErrorClass.TIMEOUT_TOTAL, 60)


async def test_without_a_first_output_limit_total_holds(clock: ManualClock) -> None:
    inner = FakeProvider(clock, *every(1.0, PING))
    assert await Attempt(clock, inner, LIMITS._replace(first_output_s=None)).fails() == (ErrorClass.TIMEOUT_TOTAL, 60)


async def test_a_plain_call_knows_only_total(clock: ManualClock) -> None:
    inner = FakeProvider(clock, 30.0, OUT, None, opening=20.0, stream=False)
    assert await Attempt(clock, inner, stream=False).succeeds() == [OUT]
    other = ManualClock()
    late = FakeProvider(other, opening=1000.0, stream=False)
    assert await Attempt(other, late, stream=False).fails() == (ErrorClass.TIMEOUT_TOTAL, 60)


async def test_a_slow_caller_makes_no_provider_late(clock: ManualClock) -> None:
    inner = FakeProvider(clock, 1.0, OUT, 1.0, OUT, 4.0, OUT, None)
    attempt = Attempt(clock, inner, LIMITS._replace(total_s=1e6), pause=50)
    assert await attempt.succeeds() == [OUT, OUT, OUT]


async def test_a_slow_caller_lengthens_no_limit_of_a_waiting_provider(clock: ManualClock) -> None:
    inner = FakeProvider(clock, PING, 1.5, PING, 1.5, OUT)
    attempt = Attempt(clock, inner, LIMITS._replace(total_s=1e6), pause=50)
    assert await attempt.fails(1000) == (ErrorClass.TIMEOUT_FIRST_TOKEN, 102)


@pytest.mark.parametrize(
    ("cut", "fair", "error_class"),
    [(1.0, 5.0, ErrorClass.DEADLINE), (5.0, 5.0, ErrorClass.TIMEOUT_TOTAL), (7.0, 5.0, ErrorClass.TIMEOUT_TOTAL)],
)
async def test_a_cut_by_the_deadline_is_the_targets_fault_after_a_fair_time(
    clock: ManualClock, cut: float, fair: float, error_class: ErrorClass
) -> None:
    limits = LIMITS._replace(first_output_s=None, deadline_cut_s=cut, fair_s=fair)
    assert await Attempt(clock, FakeProvider(clock), limits).fails() == (error_class, cut)


async def test_a_failure_of_the_provider_comes_through(clock: ManualClock) -> None:
    error = AttemptFailed(Failure(ErrorClass.SERVER_ERROR, "m"))
    assert await Attempt(clock, FakeProvider(clock, 1.0, error)).fails() == (ErrorClass.SERVER_ERROR, 1)
    other = ManualClock()
    assert await Attempt(other, FakeProvider(other, opening=error)).fails() == (ErrorClass.SERVER_ERROR, 0)


# The end of a stream.


async def test_after_the_finish_reason_the_connection_may_linger_for_a_while(clock: ManualClock) -> None:
    inner = FakeProvider(clock, OUT, finishing, OUT)
    attempt = Attempt(clock, inner, LIMITS._replace(linger_s=0.5))
    assert await attempt.succeeds() == [OUT, OUT, LAST]
    assert attempt.ended_at == 0.5
    assert inner.progress.ended


async def test_what_comes_while_it_lingers_is_passed_on(clock: ManualClock) -> None:
    inner = FakeProvider(clock, finishing, OUT, 1.9, PING, None)
    assert await Attempt(clock, inner).succeeds() == [OUT, PING]


async def test_pings_do_not_lengthen_the_lingering(clock: ManualClock) -> None:
    inner = FakeProvider(clock, OUT, finishing, OUT, *every(0.3, PING))
    attempt = Attempt(clock, inner, LIMITS._replace(linger_s=1.0))
    assert await attempt.succeeds() == [OUT, OUT, PING, PING, PING, LAST]
    assert attempt.ended_at == 1.0


async def test_bytes_after_the_terminator_do_not_lengthen_the_wait_for_the_end(clock: ManualClock) -> None:
    attempt = Attempt(clock, FakeProvider(clock, ended, OUT, *every(0.1, PING)))
    assert (await attempt.succeeds())[:3] == [OUT, PING, PING]
    assert attempt.ended_at == 0.25


async def test_after_the_terminator_the_end_of_the_body_is_hardly_waited_for(clock: ManualClock) -> None:
    inner = FakeProvider(clock, ended, OUT)
    attempt = Attempt(clock, inner)
    await attempt.succeeds()
    assert attempt.ended_at == 0.25


@pytest.mark.parametrize("step", [finishing, ended])
async def test_a_limit_that_fires_when_nothing_is_missing_ends_the_answer_well(
    clock: ManualClock, step: Callable[[Progress], None]
) -> None:
    inner = FakeProvider(clock, 1.0, OUT, 0.9, step, OUT)
    attempt = Attempt(clock, inner, LIMITS._replace(total_s=2))
    assert (await attempt.succeeds())[:2] == [OUT, OUT]
    assert attempt.ended_at == 2


# The caller's own cancellation.


@pytest.mark.parametrize("opening", [0.0, 1000.0])
@pytest.mark.parametrize("at", [0.5, 1.9])
async def test_a_caller_that_leaves_is_never_a_timeout(clock: ManualClock, opening: float, at: float) -> None:
    attempt = Attempt(clock, FakeProvider(clock, opening=opening))
    await clock.run(at)
    attempt.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt.task
    assert clock.pending == 0


@pytest.mark.parametrize("opening", [0.0, 1000.0])
@pytest.mark.parametrize("first", ["caller", "limit"])
async def test_a_caller_that_leaves_in_the_instant_of_the_limit_is_no_timeout(
    clock: ManualClock, opening: float, first: str
) -> None:
    attempt = Attempt(clock, FakeProvider(clock, opening=opening))
    if first == "caller":
        clock.call_at(1002.0, lambda: cancel(attempt))  # set before the attempt's own timer
        await settle()
    else:
        await settle()
        clock.call_at(1002.0, lambda: cancel(attempt))
    await clock.run(2)
    with pytest.raises(asyncio.CancelledError):
        await attempt.task
    assert attempt.cancelling == 1, "one cancellation is the caller's"
    assert clock.pending == 0


def cancel(attempt: Attempt) -> None:
    attempt.task.cancel()


async def test_a_caller_that_leaves_while_the_answer_lingers_is_heard(clock: ManualClock) -> None:
    attempt = Attempt(clock, FakeProvider(clock, finishing, OUT))
    await settle()
    clock.call_at(1002.0, lambda: cancel(attempt))
    await clock.run(2)
    with pytest.raises(asyncio.CancelledError):
        await attempt.task
    assert attempt.got == [OUT]


async def test_a_limit_that_passes_while_nobody_waits_cuts_nothing(clock: ManualClock) -> None:
    inner = FakeProvider(clock, 1.0, OUT, OUT, None)
    assert await Attempt(clock, inner, LIMITS._replace(total_s=10), pause=20).succeeds() == [OUT, OUT]
