"""A route as one `Llm`: its targets in order, under one deadline, with the trail of what was tried."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from types import TracebackType

from llm import plan
from llm.answer import Batch, Progress
from llm.attempt import SUCCESS, AttemptRecord, Role, Trail
from llm.classes import ErrorClass
from llm.commit import COMPLETE
from llm.errors import AttemptFailed, Failure, NotAdmitted, RouteFailed, StreamInterrupted
from llm.hedge import HedgeBudget, Race
from llm.holds import Holds
from llm.order import Order
from llm.plan import Blocked
from llm.request import LlmRequest
from llm.spec import RouteSpec, Stop
from llm.stream_guard import CommittableStream
from llm.target import Target
from llm.walk import Walk
from stanchion.clock import Clock

Observer = Callable[[AttemptRecord, float | None], None]
"""Told every attempt when it is over, and the seconds to its first output where a stream had one."""

_SPENT_S = 0.001
"""Less than this of a deadline or a hold is none: a sum of floats may miss it by rounding."""


class FallbackLlm:
    """One route. Entering `generate` raises RouteFailed; reading from the answer raises StreamInterrupted."""

    def __init__(
        self,
        route: RouteSpec,
        targets: Mapping[str, Target],
        holds: Holds,
        clock: Clock,
        random: Random,
        observer: Observer,
    ) -> None:
        self._route, self._targets, self._holds = route, targets, holds
        self._clock, self._random, self._observer = clock, random, observer
        self._order = Order(route, random)
        self._hedges = HedgeBudget(route.hedge.budget) if route.hedge else None

    def generate(self, request: LlmRequest) -> Answering:
        return Answering(self, Walk(self._route, self._order.draw(), self._targets, request, self._clock.now))

    async def open(self, walk: Walk) -> CommittedStream:
        """Walk the targets until one has an answer. Raises RouteFailed.

        The attempt stays open, unless the answer is held whole: then nothing of the provider's is needed any more.
        """
        committed = await (self._leg(walk, 0) if self._hedges is None else self._hedged(walk, self._hedges))
        committed.records = walk.trail.with_record(committed.record(committed.seconds))
        if committed.held_whole:
            await self.end(walk, committed, None)
        return committed

    async def _hedged(self, walk: Walk, budget: HedgeBudget) -> CommittedStream:
        """The first answer of the target whose turn it is and, some time later, of the next one."""
        assert self._route.hedge is not None, "a budget belongs to a hedge"  # noqa: S101 - a programming error
        budget.earn()

        async def discard(committed: CommittedStream) -> None:
            await self.end(walk, committed, asyncio.CancelledError())  # nobody's answer is no sample, whole or not

        def may_start() -> bool:
            return walk.others_left() and budget.take()

        def conclusive() -> bool:
            return walk.told

        race = Race(lambda number: self._leg(walk, number), may_start, discard, self._clock, conclusive)
        try:
            return await race.run(self._route.hedge.after)
        except RouteFailed:  # each run told what was known as it ended
            raise self._nothing(walk) from None

    async def _leg(self, walk: Walk, number: int) -> CommittedStream:
        while (stop := walk.next()) is not None:
            role: Role | None = "canary" if stop.canary else "hedge" if number else None
            tries = 0
            while True:
                began = self._clock.now()
                left = walk.request.deadline_at - began
                if left < _SPENT_S:
                    raise walk.failed(deadline=True)
                commit = COMPLETE if stop.canary else walk.request.commit
                limits = plan.limits(self._route, stop, walk.request.call, commit, left, others_left=walk.others_left())
                attempt = self._targets[stop.target.name].llm.generate(walk.request.within(limits, commit))
                try:
                    stream = await attempt.__aenter__()
                except NotAdmitted as refused:
                    walk.refused(stop, refused)
                    break
                except AttemptFailed as error:
                    tries += 1
                    record = AttemptRecord(
                        stop.target.name, error.failure.error_class.value, failure=error.failure, began=began, role=role
                    )
                    wait = self._after_failure(walk, stop, error.failure, record, tries)
                    if wait is None:
                        break
                    await self._wait(walk.trail, wait)
                    if (blocked := self._blocked(stop)) is not None:  # by what other requests met meanwhile
                        walk.passed_over(stop, blocked)
                        break
                except asyncio.CancelledError:
                    self._note(
                        walk, AttemptRecord(stop.target.name, ErrorClass.CANCELLED.value, began=began, role=role)
                    )
                    raise
                else:
                    return CommittedStream(stream, attempt, stop, walk.trail, began, self._clock.now() - began, role)
        raise self._nothing(walk)

    def _nothing(self, walk: Walk) -> RouteFailed:
        return walk.failed(deadline=walk.request.deadline_at - self._clock.now() < _SPENT_S)

    async def _wait(self, trail: Trail, seconds: float) -> None:
        """Wait before another try; what it really took is no time of the gateway's own."""
        began = self._clock.now()
        try:
            await self._clock.sleep(seconds)
        finally:
            trail.waits.append((began, self._clock.now() - began))

    async def end(self, walk: Walk, committed: CommittedStream, error: BaseException | None) -> None:
        """Leave a committed attempt, which gives back what it holds, and write down how it ended; once.

        `error`: what it is left with. Raises StreamInterrupted in place of an AttemptFailed.
        """
        if committed.left:
            return
        committed.left = True
        try:
            await committed.attempt.__aexit__(type(error) if error else None, error, None)
        except BaseException as raised:
            self._close(walk, committed, raised)
            raise
        self._close(walk, committed, error)

    def _close(self, walk: Walk, committed: CommittedStream, error: BaseException | None) -> None:
        if isinstance(error, AttemptFailed):
            failure = error.failure
            self._holds.note(self._targets[committed.target].spec, failure)
            self._note(
                walk, committed.record(outcome=failure.error_class.value, failure=failure), committed.first_output_s
            )
            raise StreamInterrupted(failure, walk.trail) from None
        whole = error is None and committed.progress.ended
        outcome = SUCCESS if whole else ErrorClass.CANCELLED.value
        self._note(walk, committed.record(outcome=outcome), committed.first_output_s)

    def _after_failure(
        self, walk: Walk, stop: Stop, failure: Failure, record: AttemptRecord, tries: int
    ) -> float | None:
        """Write the attempt down; seconds to wait before the next try here, None to go on."""
        now = self._clock.now()
        self._note(walk, record)
        self._holds.note(stop.target, failure)
        walk.note(stop, failure)
        wait = plan.retry_wait(failure, tries, stop.retry, walk.request.deadline_at - now, self._random)
        if wait is None or self._blocked(stop, wait) is not None:  # by this very failure, it may be
            walk.after(stop, failure)
            return None
        return wait

    def _blocked(self, stop: Stop, wait_s: float = 0.0) -> Blocked | None:
        """What will still stand in the way after a wait, which would be for nothing then."""
        blocked = self._targets[stop.target.name].blocked()
        return blocked if blocked is not None and (blocked.retry_after_s or 0.0) > wait_s + _SPENT_S else None

    def _note(self, walk: Walk, record: AttemptRecord, first_output_s: float | None = None) -> None:
        """Write an attempt that is over now into the trail, and tell it."""
        record = record._replace(seconds=self._clock.now() - record.began)
        walk.trail.add(record)
        self._observer(record, first_output_s)


class Answering:
    """The context of one request on a route."""

    __slots__ = ("_committed", "_route", "_walk")

    def __init__(self, route: FallbackLlm, walk: Walk) -> None:
        self._route, self._walk = route, walk

    @property
    def trail(self) -> Trail:
        """What was tried so far; it grows while the request runs."""
        return self._walk.trail

    async def __aenter__(self) -> CommittedStream:
        self._committed = await self._route.open(self._walk)
        return self._committed

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._route.end(self._walk, self._committed, error)


class CommittedStream:
    """The answer of a route. It is the caller's now: no other target will serve.

    `records` is the trail as it stood then, this attempt in its place. `seconds`: from the attempt's start until then.
    `held_whole`: the stream has been read to its end.
    """

    __slots__ = (
        "_role",
        "_stream",
        "attempt",
        "began",
        "held_whole",
        "left",
        "model",
        "progress",
        "records",
        "seconds",
        "stream",
        "target",
        "trail",
    )

    def __init__(
        self,
        stream: CommittableStream,
        attempt: AbstractAsyncContextManager[CommittableStream],
        stop: Stop,
        trail: Trail,
        began: float,
        seconds: float,
        role: Role | None = None,
    ) -> None:
        self._role = role
        self._stream, self.attempt = stream, attempt
        self.stream, self.progress, self.held_whole = stream.stream, stream.progress, stream.over
        self.target, self.model = stop.target.name, stop.target.model
        self.began, self.seconds = began, seconds
        self.trail = trail
        self.records: Sequence[AttemptRecord] = ()
        self.left = False

    progress: Progress

    @property
    def first_output_s(self) -> float | None:
        """Seconds from the attempt's start to its first output, where it is a stream that had one."""
        first = self.progress.first_output_at
        return first - self.began if self.stream and first is not None else None

    def record(self, seconds: float = 0.0, outcome: str = SUCCESS, failure: Failure | None = None) -> AttemptRecord:
        return AttemptRecord(self.target, outcome, seconds, failure=failure, began=self.began, role=self._role)

    async def read(self) -> Batch | None:
        return await self._stream.read()
