"""Rules of a route beside its books: what each answer, each record and each attempt has to be like.

`watch` before a play; `audit` of all visits and `check` of each one after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llm.attempt import SUCCESS, AttemptRecord
from llm.classes import RULES, ErrorClass, Skip
from llm.errors import RouteFailed, StreamInterrupted
from tests.fakes import chat
from tests.fakes.chat import DONE
from tests.llm.scripted import MARK, Script
from tests.llm.world import LINGER_S, TIMEOUTS, Visit, World

_SAME_S = 1e-6
_LEAST_S = {
    ErrorClass.TIMEOUT_FIRST_TOKEN.value: TIMEOUTS.first_output,
    ErrorClass.TIMEOUT_IDLE.value: TIMEOUTS.idle,
    ErrorClass.TIMEOUT_TOTAL.value: TIMEOUTS.first_output,
}
"""Seconds that an attempt has had at least before its time was over; less is the caller's haste, and no timeout."""

_IN_TIME = {*_LEAST_S, ErrorClass.DEADLINE.value}
_SILENT = ("stall", "pings")
_UNSENT = (ErrorClass.CONNECT.value, ErrorClass.LOCAL_CAPACITY.value)
_HELD_S = {"rate_limit": 2.0, "quota": 600.0, "credential": 300.0, "model": 300.0, "overloaded": 0.0}


def watch(world: World) -> None:
    """From now on no target is asked while it is on hold, and none beyond its concurrency."""
    for name, transport in world.transports.items():
        _put(transport, "next", _watched(world, name, transport.next))


def _watched(world: World, name: str, asked: Callable[[], tuple[str, Script]]) -> Callable[[], tuple[str, Script]]:
    target = world.targets[name]

    def watched() -> tuple[str, Script]:
        hold, levels = target.hold(), target.quota.levels()
        if hold is not None:
            assert hold.until - world.clock.now() < _SAME_S, f"{name} was asked while on hold ({hold.reason})"
        assert levels.concurrency is None or levels.in_flight <= levels.concurrency, "beyond the concurrency"
        return asked()

    return watched


def _put(owner: object, name: str, value: object) -> None:
    setattr(owner, name, value)


def check(world: World, visit: Visit) -> None:
    _answer(visit)
    _whole_beginning(world, visit)
    _interrupted(visit)
    _records(world, visit)
    _times(world, visit)
    _everybody_was_asked(world, visit)


def audit(world: World, visits: Sequence[Visit]) -> None:
    """Over all visits: what was never sent is given back whole, and a hold that was called for is kept."""
    attempts = [record for visit in visits for record in visit.attempts]
    for name, quota in world.quotas.items():
        mine = [record for record in attempts if record.target == name]
        assert sum(one.used is None for one in quota.booked) == sum(record.outcome in _UNSENT for record in mine)
        for record in mine:
            end = record.began + record.seconds
            until = end + _held_s(record)
            assert not [other for other in mine if end + _SAME_S < other.began < until - _SAME_S], "a hold was not kept"
            if until > world.clock.now() + _SAME_S:
                assert world.targets[name].hold() is not None, "a hold was not noted"


def _held_s(record: AttemptRecord) -> float:
    """Seconds for which the target is not asked after this attempt."""
    if record.failure is None:
        return 0.0
    rule, hint = RULES[record.failure.error_class], record.failure.retry_after_s
    least = _HELD_S[rule.hold] if rule.hold is not None else 0.0
    if rule.hold is None or hint is None:
        return least
    return max(least, hint) if rule.floor else hint


def _answer(visit: Visit) -> None:
    """A clean end is the one terminator, behind everything; what broke off has none."""
    terminators = visit.got.count(DONE)
    assert b'"error"' not in visit.got
    assert terminators <= 1
    if visit.clean and visit.caller.stream:
        assert visit.got.endswith(DONE), "a clean end without its terminator"
    if isinstance(visit.error, StreamInterrupted) or not visit.caller.stream:
        assert terminators == 0, "an answer that broke off, and says that it is whole"


def _whole_beginning(world: World, visit: Visit) -> None:
    """What came before the output goes on too, once; and all of what was good before an answer broke off."""
    marks = set(MARK.findall(visit.got))
    if not visit.caller.stream or not marks or visit.caller.leaves_after is not None or visit.cancelled:
        return
    [mark] = (one.decode() for one in marks)
    name, _, number = mark.partition("#")
    script = world.transports[name].played[int(number) - 1]
    assert visit.got.startswith(b": ping\n\n" + chat.role_chunk(chunk_id=mark, model=mark))
    error = visit.error
    if isinstance(error, StreamInterrupted) and error.failure.error_class not in _IN_TIME:
        assert visit.text == script.text(mark), "text was lost that came before the fault"


def _interrupted(visit: Visit) -> None:
    """An answer broke off: it was committed then, in the way that the request asked for."""
    if not isinstance(visit.error, StreamInterrupted):
        return
    answer, commit = visit.answer, visit.caller.commit
    assert answer is not None
    assert visit.caller.stream, "a plain answer broke off"
    assert visit.text, "it broke off before any output: the next target could have answered"
    assert not commit.whole, "it broke off though it is held to its end"
    broken = [record for record in visit.attempts if record.failure is visit.error.failure]
    assert [(record.target, record.began) for record in broken] == [(answer.target, answer.began)]
    assert broken[0].role != "canary", "a canary's answer broke off"
    if commit.kind == "tokens":
        assert answer.progress.output_tokens_seen >= commit.tokens
    if commit.kind == "time":
        first = answer.progress.first_output_at
        assert first is not None
        assert answer.began + answer.seconds >= first + commit.time_s - _SAME_S, "committed too early"


def _records(world: World, visit: Visit) -> None:
    """One success at most, that of the answer; one attempt at a time, two with a hedge."""
    records = visit.attempts
    good = [record for record in records if record.outcome == SUCCESS]
    assert len(good) <= 1
    if visit.clean:
        assert visit.answer is not None
        assert [(record.target, record.began) for record in good] == [(visit.answer.target, visit.answer.began)]
    for record in records:
        assert (record.failure is None) == (record.outcome in (SUCCESS, ErrorClass.CANCELLED))
        assert record.failure is None or record.failure.error_class == record.outcome
        beside = [other for other in records if other is not record and _overlap_s(record, other) > _SAME_S]
        assert not beside or world.route.hedge is not None, "two attempts at a time without a hedge"
        running = [other for other in records if other.began <= record.began < other.began + other.seconds - _SAME_S]
        assert len(running) <= 2, "three attempts at a time"
        twice = [other for other in beside if other.target == record.target and other.role != "canary"]
        assert not twice or record.role == "canary", "a target was asked twice at a time"
    skipped = [record.target for record in visit.trail.records if record.skip is not None]
    assert len(skipped) == len(set(skipped)), "a target was passed over twice"


def _times(world: World, visit: Visit) -> None:
    """No timeout comes early; a good answer takes no longer than its provider and the wait for its end."""
    undisturbed = not visit.caller.slow and not world.setting.stalls
    for record in visit.attempts:
        least = _LEAST_S.get(record.outcome or "", 0.0)
        assert record.seconds >= least - 0.001 - _SAME_S, "a timeout came early"
        if record.outcome == ErrorClass.TIMEOUT_FIRST_TOKEN and undisturbed:
            assert record.seconds <= TIMEOUTS.first_output + _SAME_S
        played = world.transports[record.target].played
        if record.outcome == ErrorClass.TIMEOUT_IDLE and undisturbed:
            assert any(script.ending in _SILENT for script in played), "who spoke all the time was called idle"
        if record.outcome == SUCCESS and undisturbed:
            slowest = max(script.head_after + script.pieces * script.gap for script in played)
            assert record.seconds <= slowest + LINGER_S + _SAME_S, "a whole answer lingered"


def _everybody_was_asked(world: World, visit: Visit) -> None:
    """A request fails only when every target was asked, or there was a reason not to ask it, in the trail."""
    error = visit.error
    if not isinstance(error, RouteFailed) or error.deadline:
        return
    own = [record for record in visit.trail.records if record.role != "canary"]
    onward = {RULES[ErrorClass(record.outcome)].onward for record in own if record.outcome is not None}
    if not onward & {"nowhere", "content_policy"}:
        assert {record.target for record in own} == set(world.targets), "a target was left out"
    if onward and onward <= {"any"}:
        assert Skip.CONTEXT_WINDOW not in {record.skip for record in own}
    assert (error.failure is None) == (not onward), "the caller is told of no attempt, or of one that was none"
    if error.failure is not None:
        assert error.failure in [record.failure for record in own]


def _overlap_s(one: AttemptRecord, other: AttemptRecord) -> float:
    return min(one.began + one.seconds, other.began + other.seconds) - max(one.began, other.began)
