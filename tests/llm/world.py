"""A route over scripted providers with its books open: every reservation, ticket, record and byte is on account."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

from llm.attempt import SUCCESS, AttemptRecord, Trail
from llm.breaker import CircuitBreaker, Ticket
from llm.classes import RULES, ErrorClass, Verdict
from llm.commit import FIRST_OUTPUT, Commit
from llm.dialects.openai import OpenAiChat
from llm.errors import RouteFailed, StreamInterrupted
from llm.fallback import CommittedStream, FallbackLlm
from llm.holds import Holds
from llm.policy import BreakerPolicy, HedgePolicy, HoldsPolicy, RetryPolicy, StreamPolicy, TimeoutsPolicy
from llm.provider_breaker import ProviderBreaker
from llm.request import LlmRequest
from llm.spec import CanarySpec, RouteSpec, Stop
from llm.target import Target, provider_breaker
from quota.policy import QuotaPolicy
from quota.target_quota import Reservation, TargetQuota
from stanchion.clock import Timer
from tests.fakes.clock import ManualClock
from tests.llm import making
from tests.llm.scripted import INPUT_TOKENS, MARK, Script, Transport

DEADLINE_S = 12.0
LINGER_S = 0.5
TIMEOUTS = TimeoutsPolicy(first_output=2, idle=3, total=8)
_SAME_S = 1e-6
_LONG_S = 200.0


@dataclass(frozen=True)
class Caller:
    """One request, `start` seconds after the beginning, and how its caller ends it (see `Visit`).

    `leaves_after` so many reads, by an error of its own if `raises`. `cancel_at` seconds after the start plus so many
    `turns` of the event loop, and `again` so many turns later. `slow`: seconds between two reads.
    """

    start: float = 0.0
    stream: bool = True
    commit: Commit = FIRST_OUTPUT
    deadline_s: float = DEADLINE_S
    slow: float = 0.0
    leaves_after: int | None = None
    raises: bool = False
    cancel_at: float | None = None
    turns: int = 0
    again: int | None = None


@dataclass(frozen=True)
class Setting:
    """A route and what its targets do. `scripts`: for each target, what it answers one after the other, then its default.

    `stalls`: at these seconds the whole process stands still for as long (`clock moves`).
    """

    scripts: tuple[tuple[Script, ...], ...]
    defaults: tuple[Script, ...]
    callers: tuple[Caller, ...] = (Caller(),)
    retries: int = 0
    hedge: HedgePolicy | None = None
    canary: int | None = None
    weights: bool = False
    quota: QuotaPolicy = field(default_factory=QuotaPolicy)
    breaker: BreakerPolicy = field(default_factory=BreakerPolicy)
    shared_provider: bool = False
    content_policy: bool = False
    stalls: tuple[tuple[float, float], ...] = ()
    seed: int = 0


class _Booked:
    """A reservation whose endings are counted; the real one hears only the first of them."""

    def __init__(self, inner: Reservation) -> None:
        self._inner, self.endings, self.tokens = inner, 0, inner.tokens
        self.used: int | None = None

    def settle(self, tokens: int) -> None:
        self.endings, self.used = self.endings + 1, tokens
        self._inner.settle(tokens)

    def release(self) -> None:
        self.endings += 1
        self._inner.release()


class _Quota:
    """Watches the reservations of one target."""

    def __init__(self, quota: TargetQuota) -> None:
        self.quota, self.booked = quota, list[_Booked]()
        self._reserve = quota.reserve
        quota.reserve = self.reserve  # type: ignore[assignment,method-assign]

    def reserve(self, tokens: int, priority: str = "interactive") -> _Booked:
        self.booked.append(_Booked(self._reserve(tokens, priority)))
        return self.booked[-1]


class _Tickets:
    """Watches the tickets of one breaker."""

    def __init__(self, breaker: CircuitBreaker) -> None:
        self.breaker = breaker
        self.out: list[Ticket] = []
        self.given = 0
        self.verdicts: Counter[Verdict] = Counter()
        self._admit, self._settle = breaker.admit, breaker.settle
        breaker.admit = self.admit  # type: ignore[method-assign]
        breaker.settle = self.settle  # type: ignore[method-assign]

    def admit(self) -> Ticket:
        ticket = self._admit()
        assert not (ticket.probe and any(other.probe for other in self.out)), "two probes at a time"
        self.out.append(ticket)
        self.given += 1
        return ticket

    def settle(self, ticket: Ticket, verdict: Verdict) -> None:
        places = [place for place, other in enumerate(self.out) if other is ticket]
        assert places, "a ticket was settled that is not out: twice, or never given"
        del self.out[places[0]]
        self.verdicts[verdict] += 1
        self._settle(ticket, verdict)


class Visit:
    """What one caller saw. `clean`: it was told that the answer is whole. `free_at`: when it last was at no work of its own."""

    def __init__(self, world: World, caller: Caller) -> None:
        self.world, self.caller = world, caller
        self.got = b""
        self.answer: CommittedStream | None = None
        self.clean = self.cancelled = False
        self.cancelling = 0
        self.error: Exception | None = None
        self.trail = Trail()
        self.began_at = self.ended_at = self.deadline_at = self.free_at = 0.0

    async def run(self) -> None:
        clock, caller = self.world.clock, self.caller
        self.began_at = clock.now()
        self.deadline_at = self.began_at + caller.deadline_s
        asked = LlmRequest("req", making.call(stream=caller.stream), self.deadline_at, commit=caller.commit)
        answering = self.world.llm.generate(asked)
        self.trail = answering.trail
        try:
            async with answering as self.answer:
                ended = await self._read(self.answer)
            self.clean = ended
        except (RouteFailed, StreamInterrupted, ConnectionResetError) as error:
            self.error = error
        finally:
            self.ended_at = clock.now()
            task = asyncio.current_task()
            self.cancelling = task.cancelling() if task is not None else 0

    async def _read(self, answer: CommittedStream) -> bool:
        reads = 0
        while reads != self.caller.leaves_after:
            if (batch := await answer.read()) is None:
                return True
            self.got += batch.data
            reads += 1
            if self.caller.slow:
                try:
                    await self.world.clock.sleep(self.caller.slow)
                finally:
                    self.free_at = self.world.clock.now()
        if self.caller.raises:
            raise ConnectionResetError
        return False

    @property
    def attempts(self) -> list[AttemptRecord]:
        return [record for record in self.trail.records if record.skip is None]

    @property
    def text(self) -> str:
        """The text that the caller has got, of whole events."""
        if not self.caller.stream:
            return str(json.loads(self.got)["choices"][0]["message"]["content"])
        chunks = [json.loads(line[6:]) for line in self.got.split(b"\n") if line.startswith(b"data: {")]
        return "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])


class World:
    """A route as a setting says, on a clock of its own."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.clock = setting, ManualClock()
        clock, random = self.clock, Random(setting.seed)
        self.told: list[AttemptRecord] = []
        holds = Holds(clock.now)
        providers: dict[str, ProviderBreaker] = {}
        self.targets: dict[str, Target] = {}
        self.transports: dict[str, Transport] = {}
        self.quotas: dict[str, _Quota] = {}
        self.tickets: dict[str, _Tickets] = {}
        stops = []
        for number, (name, scripts) in enumerate(zip("pst", setting.scripts, strict=False)):
            of = making.provider("shared" if setting.shared_provider and number < 2 else name)
            spec = making.target(
                name,
                of=of,
                window=(1000, 1000, 4000)[number],
                quota=setting.quota,
                breaker=setting.breaker,
                holds=HoldsPolicy(rate_limit=2, quota=600),
            )
            spec = replace(spec, weight=number + 1.0 if setting.weights else None)
            stops.append(Stop(spec, TIMEOUTS, RetryPolicy(attempts=setting.retries, max_wait=1)))
            self.transports[name] = Transport(name, clock, scripts, setting.defaults[number])
            provider = providers.setdefault(of.name, provider_breaker(spec, clock, random))
            target = Target(spec, OpenAiChat(), self.transports[name], provider, holds, clock)
            self.targets[name] = target
            self.quotas[name], self.tickets[name] = _Quota(target.quota), _Tickets(target.breaker)
        for of_name, provider in providers.items():
            self.tickets[f"provider {of_name}"] = _Tickets(provider.breaker)
        self.route = _route(setting, stops)
        self.llm = FallbackLlm(
            self.route, self.targets, holds, clock, random, lambda record, _: self.told.append(record)
        )

    async def play(self) -> list[Visit]:
        """Let every caller come and go, and the clock run until nothing can happen any more."""
        clock, loop = self.clock, asyncio.get_running_loop()
        visits = [Visit(self, caller) for caller in self.setting.callers]
        tasks: dict[Visit, asyncio.Task[None]] = {}
        own: list[Timer] = []
        left: list[int] = []

        def come(visit: Visit) -> None:
            task = tasks[visit] = loop.create_task(visit.run())
            task.add_done_callback(gone)
            caller = visit.caller
            if caller.cancel_at is not None:
                cancels = [caller.turns] if caller.again is None else [caller.turns, caller.turns + 1 + caller.again]
                for turns in cancels:
                    own.append(clock.call_at(clock.now() + caller.cancel_at, partial(cancel, visit, task, turns)))

        def gone(_: asyncio.Task[None]) -> None:
            """Counted at once: left alone, a forgotten timer would have fired by the end of the play."""
            if len(tasks) == len(visits) and all(task.done() for task in tasks.values()):
                for timer in own:
                    timer.cancel()
                left.append(clock.pending)

        def cancel(visit: Visit, task: asyncio.Task[None], turns: int) -> None:
            if turns:
                loop.call_soon(cancel, visit, task, turns - 1)
            elif task.cancel():
                visit.cancelled = True

        for visit in visits:
            clock.call_at(clock.now() + visit.caller.start, partial(come, visit))
        began = clock.now()
        for at, seconds in self.setting.stalls:
            await clock.run(max(began + at - clock.now(), 0.0))
            clock.advance(seconds)
        await clock.run(_LONG_S)
        assert len(tasks) == len(visits)
        for visit, task in tasks.items():
            assert task.done(), "a request neither ended nor failed"
            assert task.cancelled() == visit.cancelled, "a cancellation was swallowed, or came from nowhere"
            if not task.cancelled():
                task.result()
        assert set(left) == {0}, "a timer outlived the last request"
        return visits

    def audit(self, visits: Sequence[Visit]) -> None:
        """Every account is closed, and closed once."""
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left running"
        assert self.clock.pending == 0, "a timer was left behind"
        made = [record for visit in visits for record in visit.attempts]
        assert Counter(map(id, made)) == Counter(map(id, self.told)), "the trail and the observer know other attempts"
        for name, target in self.targets.items():
            transport = self.transports[name]
            assert transport.open == 0, "a connection was left open"
            assert target.quota.levels().in_flight == 0, "a slot was left taken"
            assert target.breaker.state != "half_open", "a probe was left out"
            records = [record for record in made if record.target == name]
            assert len(records) == len(transport.played), "attempts and records differ"
            booked = self.quotas[name].booked
            assert [one.endings for one in booked] == [1] * len(booked), "a reservation was not settled once"
            assert len(booked) == len(records)
            self._verdicts(name, records)
        for tickets in self.tickets.values():
            assert not tickets.out, "a ticket never came back"
            assert tickets.given == tickets.verdicts.total()

    def _verdicts(self, name: str, records: list[AttemptRecord]) -> None:
        """Each attempt's outcome is what its breaker was told; refusals by the quota are neutral beside them."""
        told = self.tickets[name].verdicts
        for verdict in (Verdict.SUCCESS, Verdict.FAILURE):
            assert told[verdict] == sum(_verdict(record) is verdict for record in records), (verdict, records)
        assert told.total() >= len(records)

    def check(self, visit: Visit) -> None:
        """What one caller was told is one answer, or none."""
        caller, stalled = visit.caller, sum(seconds for _, seconds in self.setting.stalls)
        latest = max(visit.deadline_at, visit.free_at)
        assert visit.ended_at <= latest + stalled + _SAME_S, "it went on after its deadline"
        marks = set(MARK.findall(visit.got))
        assert len(marks) <= 1, f"bytes of several attempts in one answer: {marks}"
        stays = not visit.cancelled and caller.leaves_after is None
        if stays:
            assert visit.clean or isinstance(visit.error, RouteFailed | StreamInterrupted), (
                "neither answered nor failed"
            )
        if isinstance(visit.error, RouteFailed | StreamInterrupted):
            assert visit.error.trail is visit.trail
        assert visit.cancelled or not visit.cancelling, "a limit's own cancellation was not taken back"
        if isinstance(visit.error, RouteFailed):
            assert visit.got == b"", "nothing answered, and something was sent"
            self._told(visit, visit.error)
        answer = visit.answer
        if answer is not None:
            assert [each.target for each in answer.records if each.outcome == SUCCESS] == [answer.target]
            assert [each.began for each in answer.records] == sorted(each.began for each in answer.records)
            for mark in marks:
                self._answered(visit, answer, mark)
        self._trail(visit)

    def _told(self, visit: Visit, error: RouteFailed) -> None:
        """A refusal that no other target can cure is what the caller is told, whatever else failed."""
        own = [one for one in visit.attempts if one.role != "canary" and one.outcome != ErrorClass.CANCELLED]
        final = [one.failure for one in own if RULES[ErrorClass(one.outcome or "")].onward == "nowhere"]
        assert error.deadline or not final or error.failure in final, "a final refusal was not told"

    def _answered(self, visit: Visit, answer: CommittedStream, mark: bytes) -> None:
        name, _, number = mark.decode().partition("#")
        script = self.transports[name].played[int(number) - 1]
        text = script.text(mark.decode())
        assert name == answer.target
        if not visit.clean:
            assert text.startswith(visit.text)
            return
        assert script.complete(stream=visit.caller.stream), "a clean end of an answer that is not whole"
        assert visit.text == text, "a whole answer lacks some of its text, or has it twice"
        if script.usage:
            used = [one.used for one in self.quotas[name].booked]
            assert INPUT_TOKENS + script.pieces in used, "the reservation was not settled to what was used"

    def _trail(self, visit: Visit) -> None:
        records = visit.attempts
        begun = [record.began for record in records]
        assert begun == sorted(begun)
        for record in records:
            assert record.seconds >= 0
            assert visit.began_at <= record.began <= record.began + record.seconds <= visit.ended_at + _SAME_S
        tries = Counter(record.target for record in records if record.role != "canary")
        assert not tries or max(tries.values()) <= 1 + self.setting.retries, "a target was tried too often"
        assert sum(record.role == "canary" for record in records) <= 1
        if visit.clean:
            assert SUCCESS in [record.outcome for record in records]
        if visit.cancelled or isinstance(visit.error, RouteFailed | StreamInterrupted | ConnectionResetError):
            held = visit.answer is not None and visit.answer.held_whole
            whole = sum(record.outcome == SUCCESS for record in records)
            assert whole == int(held), "an attempt whose answer nobody has is a success"


def _verdict(record: AttemptRecord) -> Verdict:
    assert record.outcome is not None
    return Verdict.SUCCESS if record.outcome == SUCCESS else RULES[ErrorClass(record.outcome)].verdict


def _route(setting: Setting, stops: list[Stop]) -> RouteSpec:
    canary = None
    if setting.canary is not None and setting.canary < len(stops):
        tried = replace(stops[setting.canary], retry=RetryPolicy(attempts=0), canary=True)
        canary = CanarySpec(tried, 1.0)
    last = (stops[-1],) if setting.content_policy else ()
    stream = StreamPolicy(linger=LINGER_S)
    return RouteSpec("r", tuple(stops), last, DEADLINE_S, stream, setting.hedge, canary)
