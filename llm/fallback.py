"""A route as one `Llm`: its targets in order, under one deadline, with the trail of what was tried."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from types import TracebackType

from llm import plan
from llm.answer import Batch, LlmStream, Progress
from llm.attempt import SUCCESS, AttemptRecord, Trail
from llm.classes import RULES, ErrorClass
from llm.errors import AttemptFailed, Failure, NotAdmitted, QuotaShort, RouteFailed, StreamInterrupted
from llm.holds import Holds
from llm.plan import Blocked
from llm.request import LlmRequest
from llm.spec import RouteSpec, Stop
from llm.target import Target
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

    def generate(self, request: LlmRequest) -> Answering:
        return Answering(self, _Walk(self._route, self._targets, request))

    async def open(self, walk: _Walk) -> CommittedStream:
        """Walk the targets until one has an answer; its attempt stays open. Raises RouteFailed."""
        while (stop := walk.next()) is not None:
            tries = 0
            while True:
                began = self._clock.now()
                left = walk.request.deadline_at - began
                if left < _SPENT_S:
                    raise walk.failed(deadline=True)
                limits = plan.limits(self._route, stop, walk.request.call, left, others_left=walk.others_left())
                attempt = self._targets[stop.target.name].llm.generate(walk.request.within(limits))
                try:
                    stream = await attempt.__aenter__()
                except NotAdmitted as refused:
                    walk.refused(stop, refused)
                    break
                except AttemptFailed as error:
                    tries += 1
                    wait = self._after_failure(walk, stop, error.failure, began, tries)
                    if wait is None:
                        break
                    await self._wait(walk.trail, wait)
                except asyncio.CancelledError:
                    self._note(walk, stop.target.name, ErrorClass.CANCELLED.value, began)
                    raise
                else:
                    seconds = self._clock.now() - began
                    return CommittedStream(stream, attempt, stop, walk.trail, began, seconds)
        raise walk.failed(deadline=walk.request.deadline_at - self._clock.now() < _SPENT_S)

    async def _wait(self, trail: Trail, seconds: float) -> None:
        """Wait before another try; what it really took is no time of the gateway's own."""
        began = self._clock.now()
        try:
            await self._clock.sleep(seconds)
        finally:
            trail.waited_s += self._clock.now() - began

    def close(self, walk: _Walk, committed: CommittedStream, error: BaseException | None) -> None:
        """Write down how the committed attempt ended. Raises StreamInterrupted in place of an AttemptFailed."""
        if isinstance(error, AttemptFailed):
            failure = error.failure
            self._holds.note(self._targets[committed.target].spec, failure)
            self._note_end(walk, committed, failure.error_class.value, failure)
            raise StreamInterrupted(failure, walk.trail) from None
        whole = error is None and committed.progress.ended
        self._note_end(walk, committed, SUCCESS if whole else ErrorClass.CANCELLED.value)

    def _after_failure(self, walk: _Walk, stop: Stop, failure: Failure, began: float, tries: int) -> float | None:
        """Write the attempt down; seconds to wait before the next try here, None to go on."""
        now = self._clock.now()
        self._note(walk, stop.target.name, failure.error_class.value, began, failure)
        self._holds.note(stop.target, failure)
        walk.last = failure
        wait = plan.retry_wait(failure, tries, stop.retry, walk.request.deadline_at - now, self._random)
        hold = self._targets[stop.target.name].hold()
        if wait is None or (hold is not None and self._holds.seconds_left(hold) > wait + _SPENT_S):
            walk.after(stop, failure)
            return None
        return wait

    def _note_end(self, walk: _Walk, committed: CommittedStream, outcome: str, failure: Failure | None = None) -> None:
        first_output_s = committed.first_output_s if committed.stream else None
        self._note(walk, committed.target, outcome, committed.began, failure, first_output_s)

    def _note(
        self,
        walk: _Walk,
        target: str,
        outcome: str,
        began: float,
        failure: Failure | None = None,
        first_output_s: float | None = None,
    ) -> None:
        """Write an attempt that is over into the trail, and tell it."""
        record = AttemptRecord(target, outcome, self._clock.now() - began, failure=failure)
        walk.trail.add(record)
        self._observer(record, first_output_s)


class Answering:
    """The context of one request on a route."""

    __slots__ = ("_committed", "_route", "_walk")

    def __init__(self, route: FallbackLlm, walk: _Walk) -> None:
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
        try:
            await self._committed.attempt.__aexit__(kind, error, trace)
        except BaseException as raised:
            self._route.close(self._walk, self._committed, raised)
            raise
        self._route.close(self._walk, self._committed, error)


class CommittedStream:
    """The answer of a route. It is the caller's now: no other target will serve."""

    __slots__ = (
        "_stream",
        "attempt",
        "began",
        "first_output_s",
        "model",
        "progress",
        "records",
        "stream",
        "target",
        "trail",
    )

    def __init__(
        self,
        stream: LlmStream,
        attempt: AbstractAsyncContextManager[LlmStream],
        stop: Stop,
        trail: Trail,
        began: float,
        seconds: float,
    ) -> None:
        self._stream, self.attempt = stream, attempt
        self.stream, self.progress = stream.stream, stream.progress
        self.target, self.model = stop.target.name, stop.target.model
        self.began, self.first_output_s = began, seconds
        self.records: Sequence[AttemptRecord] = (*trail.records, AttemptRecord(self.target, SUCCESS, seconds))
        self.trail = trail

    progress: Progress

    async def read(self) -> Batch | None:
        return await self._stream.read()


class _Walk:
    """The way of one request along the targets of its route."""

    def __init__(self, route: RouteSpec, targets: Mapping[str, Target], request: LlmRequest) -> None:
        self.request, self.trail = request, Trail()
        self._route, self._targets = route, targets
        self._ahead = list(route.stops)
        self.last: Failure | None = None
        self._short: dict[str, Blocked] = {}

    def next(self) -> Stop | None:
        """The next target that may be tried; those passed over on the way are in the trail."""
        while self._ahead:
            stop = self._ahead.pop(0)
            name = stop.target.name
            if (reason := plan.unfit(stop.target, self.request.call)) is not None:
                self.trail.add(plan.passed_over(name, *reason))
            elif (blocked := self._targets[name].blocked()) is not None:
                self.trail.add(plan.passed_over(name, blocked.skip, blocked.message))
            else:
                return stop
        return None

    def others_left(self) -> bool:
        """Whether another target could be tried after this one, as things stand."""
        return any(
            plan.unfit(stop.target, self.request.call) is None and self._targets[stop.target.name].blocked() is None
            for stop in self._ahead
        )

    def refused(self, stop: Stop, refused: NotAdmitted) -> None:
        name = stop.target.name
        self.trail.add(plan.passed_over(name, refused.skip, refused.message))
        never = isinstance(refused, QuotaShort) and refused.never
        self._short[name] = Blocked(refused.skip, f"{name}: {refused.message}", refused.retry_after_s, never=never)

    def after(self, stop: Stop, failure: Failure) -> None:
        """This target is left for good: keep those ahead that can cure the failure."""
        onward = RULES[failure.error_class].onward
        if onward == "nowhere":
            self._ahead = []
        elif onward == "content_policy":
            tried = {record.target for record in self.trail.records}
            self._ahead = [other for other in self._route.on_content_policy if other.target.name not in tried]
        elif onward != "any":
            self._keep_cures(stop, failure)

    def failed(self, *, deadline: bool) -> RouteFailed:
        return plan.conclude(self.trail, self.last, self._blocked(), deadline=deadline)

    def _keep_cures(self, stop: Stop, failure: Failure) -> None:
        kept = []
        for other in self._ahead:
            skip = plan.cures(RULES[failure.error_class].onward, stop.target, other.target, self.request.call)
            if skip is None:
                kept.append(other)
            else:
                message = f"no larger than what {stop.target.name} refused"
                self.trail.add(plan.passed_over(other.target.name, skip, message))
        self._ahead = kept

    def _blocked(self) -> list[Blocked]:
        """Why no target that fits the call can be tried now; empty when one could."""
        blocks = []
        for stop in self._route.stops:
            if plan.unfit(stop.target, self.request.call) is not None:
                continue
            name = stop.target.name
            block = self._targets[name].blocked() or self._short.get(name)
            if block is None:
                return []
            blocks.append(block)
        return blocks
