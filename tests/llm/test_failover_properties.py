"""What holds of a route whatever its providers do, and however its callers end: see `World.audit` and `World.check`.

`STANCHION_EXAMPLES=20000 pytest tests/llm/test_failover_properties.py` is the long form.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import uvloop
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from llm.commit import COMPLETE, FIRST_OUTPUT, Commit
from llm.policy import BreakerPolicy, HedgePolicy
from quota.policy import QuotaPolicy
from tests.llm import failover_rules
from tests.llm.scripted import BROKEN_ENDINGS, COMPLETE_ENDINGS, Script
from tests.llm.world import Caller, Setting, Visit, World

EXAMPLES = os.environ.get("STANCHION_EXAMPLES")
PROPERTY = settings(
    max_examples=int(EXAMPLES or 300),
    deadline=None,
    derandomize=EXAMPLES is None,  # the short form is the same one everywhere, the long form looks for more
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

MOMENTS = st.sampled_from([0.0, 0.0, 0.0, 0.0, 0.0, 0.25, 0.5, 0.5, 1.0, 1.0, 2.0, 2.5, 3.0, 9.0])
"""Seconds, those of the limits and of the hedge among them: what falls together is what breaks."""

COMMITS = st.sampled_from([FIRST_OUTPUT, COMPLETE, Commit("tokens", tokens=3), Commit("time", time_s=1.0)])
GOOD = st.builds(
    Script,
    head_after=MOMENTS,
    pieces=st.integers(1, 5),
    gap=st.sampled_from([0.0, 0.0, 0.5, 1.0]),
    joined=st.booleans(),
    ending=st.sampled_from(COMPLETE_ENDINGS),
    usage=st.booleans(),
    slow_close=st.booleans(),
)
BROKEN = st.builds(
    Script,
    head_after=MOMENTS,
    pieces=st.sampled_from([0, 1, 2, 3, 3, 5]),
    gap=st.sampled_from([0.0, 0.0, 0.5, 1.0]),
    joined=st.booleans(),
    ending=st.sampled_from([*BROKEN_ENDINGS, "done"]),
    usage=st.booleans(),
    not_a_stream=st.sampled_from([False, False, False, True]),
    slow_close=st.booleans(),
)
STATUSES = [
    *((500, None), (502, None), (503, None), (529, None), (408, None), (307, None), (413, None), (401, None)),
    *((429, None), (429, "insufficient_quota"), (404, "model_not_found"), (400, None)),
    *((400, "content_policy_violation"), (400, "context_length_exceeded")),
]
REFUSING = st.builds(
    lambda status, **fields: Script(status=status[0], code=status[1], **fields),
    st.sampled_from(STATUSES),
    retry_after=st.sampled_from([None, None, "0", "1", "3", "60"]),
    head_after=MOMENTS,
    ending=st.sampled_from(["done", "done", "cut", "stall"]),
    slow_close=st.booleans(),
)
UNREACHABLE = st.builds(
    Script, refused=st.sampled_from(["connect", "connect", "capacity", "protocol", "cut"]), head_after=MOMENTS
)
SILENT = st.builds(Script, head_after=st.just(1000.0))
ANSWERS = st.sampled_from([GOOD] * 5 + [BROKEN] * 5 + [REFUSING] * 4 + [UNREACHABLE] * 2 + [SILENT]).flatmap(
    lambda s: s
)

CALLERS = st.builds(
    Caller,
    start=st.sampled_from([0.0, 0.0, 1.0, 2.0, 5.0]),
    stream=st.sampled_from([True, True, False]),
    commit=COMMITS,
    deadline_s=st.sampled_from([12.0] * 8 + [3.0, 3.0, 1.0, 0.0005]),
    slow=st.sampled_from([0.0, 0.0, 0.0, 1.0, 4.0]),
)
LEAVING = st.builds(
    lambda caller, **fields: replace(caller, **fields), CALLERS, leaves_after=st.integers(0, 6), raises=st.booleans()
)
CANCELLED = st.builds(
    lambda caller, **fields: replace(caller, **fields),
    CALLERS,
    cancel_at=MOMENTS,
    turns=st.integers(0, 12),
    again=st.one_of(st.none(), st.integers(0, 5)),
)
QUOTAS = st.sampled_from(
    [
        QuotaPolicy(),
        QuotaPolicy(concurrency=1),
        QuotaPolicy(requests_per_minute=60, burst=2),
        QuotaPolicy(tokens_per_minute=6000, burst=1),
    ]
)
HEDGES = st.one_of(st.none(), st.builds(HedgePolicy, after=st.sampled_from([0.5, 1.0, 2.0]), budget=st.just(1.0)))
BREAKERS = st.sampled_from(
    [BreakerPolicy(), BreakerPolicy(minimum=1, cooldown=1), BreakerPolicy(minimum=2, cooldown=2, successes=2)]
)


@st.composite
def a_setting(draw: st.DrawFn, callers: st.SearchStrategy[tuple[Caller, ...]]) -> Setting:
    """Two or three targets, each with a script."""
    count = draw(st.integers(1, 3))
    return Setting(
        scripts=tuple(tuple(draw(st.lists(ANSWERS, max_size=3))) for _ in range(count)),
        defaults=tuple(draw(ANSWERS) for _ in range(count)),
        callers=draw(callers),
        retries=draw(st.integers(0, 2)),
        hedge=draw(HEDGES),
        canary=draw(st.sampled_from([None, None, 0, 1, 2])),
        weights=draw(st.booleans()),
        quota=draw(QUOTAS),
        breaker=draw(BREAKERS),
        shared_provider=draw(st.booleans()),
        content_policy=draw(st.booleans()),
        stalls=draw(st.sampled_from([(), (), (), ((1.0, 2.0),), ((0.5, 5.0),), ((2.0, 30.0),)])),
        seed=draw(st.integers(0, 3)),
    )


Play = Callable[[Setting], list[Visit]]


@pytest.fixture(scope="module")
def play() -> Iterator[Play]:
    """Plays one setting to its end and checks everything, on an event loop for all of them."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        unexpected: list[str] = []

        def told(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
            unexpected.append(str(context))

        runner.get_loop().set_exception_handler(told)

        async def whole(setting: Setting) -> list[Visit]:
            world = World(setting)
            failover_rules.watch(world)
            visits = await world.play()
            world.audit(visits)
            failover_rules.audit(world, visits)
            for visit in visits:
                world.check(visit)
                failover_rules.check(world, visit)
            assert not unexpected, unexpected
            return visits

        yield lambda setting: runner.run(whole(setting))


HASTE = Setting(
    ((),), (Script(status=503, retry_after="1", head_after=0.5),), callers=(Caller(deadline_s=1.0),), retries=1
)
"""A wait before another try that would end behind the deadline."""
SPENT = Setting(((),), (Script(pieces=1, ending="error_quota"),))
"""An account that is spent behind the first output."""


@PROPERTY
@example(setting=HASTE)
@example(setting=SPENT)
@given(a_setting(st.tuples(CALLERS)))
def test_one_caller_to_the_end(play: Play, setting: Setting) -> None:
    play(setting)


@PROPERTY
@given(a_setting(st.tuples(st.one_of(LEAVING, CANCELLED))))
def test_one_caller_who_leaves(play: Play, setting: Setting) -> None:
    play(setting)


@PROPERTY
@given(a_setting(st.lists(st.one_of(CALLERS, LEAVING, CANCELLED), min_size=2, max_size=4).map(tuple)))
def test_several_callers_at_once(play: Play, setting: Setting) -> None:
    play(setting)


# Nobody who can be served is turned away.

_PASSING = [one for one in STATUSES if one[0] not in (400, 413)]
_CURABLE = [one for one in BROKEN_ENDINGS if one not in ("error_content", "error_400")]


@st.composite
def a_rescue(draw: st.DrawFn) -> Setting:
    """Targets that fail in ways that another target cures, and one that answers at once; nothing else in the way."""
    count = draw(st.integers(1, 3))
    commit, hedge = draw(COMMITS), draw(HEDGES)
    good = replace(draw(GOOD), head_after=0.0, gap=0.0)

    def failing() -> Script:
        one = draw(st.sampled_from([BROKEN, REFUSING, UNREACHABLE, SILENT]).flatmap(lambda each: each))
        status, code = draw(st.sampled_from(_PASSING))
        if one.status != 200:
            return replace(one, status=status, code=code)
        ending = draw(st.sampled_from(_CURABLE))
        return replace(one, ending=ending, pieces=one.pieces if commit == COMPLETE else 0)

    defaults = [failing() for _ in range(count)]
    defaults[draw(st.integers(0, count - 1))] = good
    caller = Caller(stream=draw(st.booleans()), commit=commit)
    if commit == COMPLETE or not caller.stream:  # each attempt leaves time for the next
        caller = replace(caller, deadline_s=draw(st.sampled_from([12.0, 6.0])))
    return Setting(
        scripts=((),) * count,
        defaults=tuple(defaults),
        callers=(caller,),
        hedge=hedge,
        canary=draw(st.sampled_from([None, 0, 1, 2])),
        weights=draw(st.booleans()),
        seed=draw(st.integers(0, 9)),
    )


@PROPERTY
@given(a_rescue())
def test_who_can_be_served_is_served(play: Play, setting: Setting) -> None:
    [visit] = play(setting)
    assert visit.clean, (visit.error, visit.trail.records)


# A cancellation at every turn of the event loop.

SLOW = Script(head_after=0.5, gap=0.5, slow_close=True)
BUSY = Script(status=503, slow_close=True)
HEDGE = HedgePolicy(after=0.5, budget=1.0)
FLOWS = {
    "stream": Setting(((),), (SLOW,)),
    "fallback": Setting(((), ()), (BUSY, SLOW)),
    "retries": Setting(((BUSY, BUSY), ()), (SLOW, SLOW), retries=2),
    "hedge": Setting(((), ()), (Script(head_after=1.0, slow_close=True), SLOW), hedge=HEDGE),
    "hedge, both at once": Setting(((), ()), (Script(head_after=1.0), Script(head_after=0.5)), hedge=HEDGE),
    "hedge, both fail": Setting(((), ()), (replace(BUSY, head_after=1.0), replace(BUSY, head_after=0.5)), hedge=HEDGE),
    "canary": Setting(((), ()), (SLOW, BUSY), canary=1),
    "canary and hedge": Setting(((), ()), (SLOW, replace(SLOW, head_after=1.0)), canary=1, hedge=HEDGE),
    "cut": Setting(((), ()), (Script(gap=0.5, ending="cut", slow_close=True), SLOW)),
    "stall": Setting(((), ()), (Script(ending="stall", slow_close=True), SLOW)),
    "linger": Setting(((), ()), (Script(ending="finish_hang", slow_close=True), SLOW)),
    "probe": Setting(
        ((BUSY,),), (SLOW,), callers=(Caller(), Caller(start=2.0)), breaker=BreakerPolicy(minimum=1, cooldown=1)
    ),
}


@pytest.mark.parametrize("again", [None, 0])
@pytest.mark.parametrize("commit", [FIRST_OUTPUT, COMPLETE])
@pytest.mark.parametrize("flow", FLOWS)
def test_cancelled_at_any_turn(play: Play, flow: str, commit: Commit, again: int | None) -> None:
    setting = FLOWS[flow]
    *others, last = setting.callers
    cancelled = 0
    for at in (0.0, 0.5, 1.0, 1.5):
        for turns in range(10):
            caller = replace(last, commit=commit, cancel_at=at, turns=turns, again=again)
            visits = play(replace(setting, callers=(*others, caller)))
            cancelled += visits[-1].cancelled
    assert cancelled > 5, "next to nothing was cancelled, so nothing was tested"
