"""A route as one model: order, deadline, records, and that no ending leaves anything behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from llm.answer import Usage
from llm.classes import ErrorClass, Skip
from llm.errors import RouteFailed, StreamInterrupted
from llm.fallback import CommittedStream
from llm.policy import BreakerPolicy, RetryPolicy, TimeoutsPolicy
from llm.request import LlmRequest
from llm.spec import RouteSpec
from llm.transport.base import TransportError
from quota.policy import QuotaPolicy
from tests.fakes.chat import DONE, error_event, finish_chunk, role_chunk, text_chunk
from tests.fakes.clock import ManualClock, settle
from tests.llm.making import request, route, stop, target
from tests.llm.wire import House, Script, Wire, error, good

METERED = QuotaPolicy(tokens_per_minute=600_000, requests_per_minute=6000, burst=60, concurrency=10)
TIMEOUTS = TimeoutsPolicy(first_output=2, idle=3, total=20)
CUT = TransportError("cut", "the connection broke")
REFUSED = TransportError("connect", "refused")


def house(
    clock: ManualClock,
    p: list[Script],
    s: list[Script] | None = None,
    *,
    retries: int = 0,
    breaker: BreakerPolicy | None = None,
    linger_s: float = 2.0,
) -> House:
    wires = {"p": Wire(clock, *p)} | ({} if s is None else {"s": Wire(clock, *s)})
    stops = [
        stop(target(name, quota=METERED, breaker=breaker), TIMEOUTS, RetryPolicy(attempts=retries)) for name in wires
    ]
    spec = route(*stops)
    stream = spec.stream.model_copy(update={"linger": linger_s})
    return House(clock, RouteSpec("r", spec.stops, (), 60.0, stream), wires)


async def read(one: House, asked: LlmRequest | None = None) -> tuple[bytes, CommittedStream]:
    out = b""
    async with one.llm.generate(asked or request(stream=True, deadline_at=one.clock.now() + 60)) as answer:
        while (batch := await answer.read()) is not None:
            out += batch.data
    return out, answer


async def driven(
    one: House, seconds: float = 100.0, asked: LlmRequest | None = None
) -> asyncio.Task[tuple[bytes, CommittedStream]]:
    task = asyncio.get_running_loop().create_task(read(one, asked))
    await one.clock.run(seconds)
    assert task.done()
    return task


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_the_first_target_answers(clock: ManualClock) -> None:
    one = house(clock, [good("from p")], [])
    out, answer = await (await driven(one))
    assert b"from p" in out
    assert (answer.target, answer.model) == ("p", "p-model")
    assert [(record.target, record.outcome) for record in answer.records] == [("p", "success")]
    assert one.outcomes == [("p", "success")]
    assert one.wires["s"].asked == []
    one.nothing_left()


async def test_a_failure_before_output_is_seen_by_nobody(clock: ManualClock) -> None:
    one = house(clock, [Script(role_chunk(), error_event({"code": 503}))], [good("from s", (50, 6))])
    out, _ = await (await driven(one))
    assert out.count(role_chunk()) == 1
    assert b"from s" in out
    assert b"error" not in out
    assert one.outcomes == [("p", "overloaded"), ("s", "success")]
    one.nothing_left()


async def test_B04_the_usage_is_that_of_the_target_that_answered(clock: ManualClock) -> None:
    first = Script(role_chunk(), good("x", (1000, 1000)).steps[3], error_event({"code": 500}))
    one = house(clock, [first], [good("from s", (50, 6))])
    _, answer = await (await driven(one))
    assert answer.progress.usage == Usage(50, 6)


@pytest.mark.parametrize(
    "ending", [CUT, error_event({"code": 500}), b"data: {broken\n\n", 100.0], ids=["cut", "error", "malformed", "idle"]
)
async def test_B02_after_output_nothing_is_tried_or_repeated(
    clock: ManualClock, ending: bytes | float | TransportError
) -> None:
    pieces = [text_chunk(f"p{number} ") for number in range(40)]
    one = house(clock, [Script(role_chunk(), *pieces, ending)], [good()])
    got: list[bytes] = []

    async def reading() -> None:
        async with one.llm.generate(request(stream=True)) as answer:
            while (batch := await answer.read()) is not None:
                got.append(batch.data)

    task = asyncio.get_running_loop().create_task(reading())
    await clock.run(10)
    with pytest.raises(StreamInterrupted) as caught:
        await task
    assert b"".join(got) == role_chunk() + b"".join(pieces)
    assert one.wires["s"].asked == []
    assert len(one.records) == 1
    assert caught.value.trail.records == one.records
    assert one.records[0].failure == caught.value.failure
    view = one.targets["p"].breaker.view()
    assert (view.samples, view.failures) == (1, 1)
    one.nothing_left()


async def test_a_connection_that_breaks_behind_the_terminator_is_a_success(clock: ManualClock) -> None:
    one = house(clock, [Script(text_chunk("a"), finish_chunk(), DONE, CUT)])
    out, _ = await (await driven(one))
    assert out == text_chunk("a") + finish_chunk() + DONE
    assert one.outcomes == [("p", "success")]
    one.nothing_left()


async def test_B03_a_provider_that_holds_the_connection_ends_after_the_routes_linger(clock: ManualClock) -> None:
    one = house(clock, [Script(text_chunk("a"), finish_chunk(), hang=True)], linger_s=0.5)
    task = asyncio.get_running_loop().create_task(read(one))
    await clock.run(0.4)
    assert not task.done()
    await clock.run(0.1)
    out, _ = await task
    assert out == text_chunk("a") + finish_chunk() + DONE
    assert one.outcomes == [("p", "success")]
    one.nothing_left()


# The deadline.


async def test_one_deadline_over_every_attempt(clock: ManualClock) -> None:
    one = house(clock, [Script(head_after=1000)], [Script(head_after=1000)])
    task = await driven(one, 5, request(stream=True, deadline_at=clock.now() + 5))
    with pytest.raises(RouteFailed) as caught:
        await task
    assert caught.value.deadline
    assert one.outcomes == [("p", "timeout_first_token"), ("s", "timeout_total")]
    assert [round(record.seconds, 6) for record in one.records] == [2, 3]
    one.nothing_left()


async def test_the_deadline_over_waits(clock: ManualClock) -> None:
    one = house(clock, [error(429, retry_after="2"), Script(head_after=1000)], retries=3)
    task = await driven(one, 3, request(stream=True, deadline_at=clock.now() + 3))
    with pytest.raises(RouteFailed) as caught:
        await task
    assert caught.value.deadline
    assert [seconds for _, seconds in caught.value.trail.waits] == [2]
    assert one.outcomes == [("p", "rate_limited"), ("p", "deadline")]
    one.nothing_left()


async def test_a_request_whose_time_is_over_asks_nobody(clock: ManualClock) -> None:
    one = house(clock, [])
    with pytest.raises(RouteFailed) as caught:
        await read(one, request(deadline_at=clock.now()))
    assert caught.value.deadline
    assert one.wires["p"].asked == []


# Retries.


async def test_the_last_failure_is_told_when_the_breaker_opens_between_two_tries(clock: ManualClock) -> None:
    one = house(clock, [error(503), error(503)], retries=1, breaker=BreakerPolicy(minimum=9, cooldown=9))
    task = asyncio.get_running_loop().create_task(read(one))
    await clock.run(0.1)
    one.targets["p"].breaker.trip()
    await clock.run(1)
    with pytest.raises(RouteFailed) as caught:
        await task
    assert [(record.target, record.outcome, record.skip) for record in caught.value.trail.records] == [
        ("p", "overloaded", None),
        ("p", None, Skip.BREAKER),
    ]
    assert caught.value.failure is not None
    assert caught.value.failure.error_class is ErrorClass.OVERLOADED
    one.nothing_left()


async def test_no_try_on_a_credential_that_another_request_found_spent(clock: ManualClock) -> None:
    late = Script(head_after=1.0, status=429, headers={"retry-after": "1"})
    one = house(clock, [late, error(429, "insufficient_quota")], [], retries=3)
    first = asyncio.get_running_loop().create_task(read(one))
    await settle()
    await (await driven(one, 0))
    await clock.run(5)
    _, answer = await first
    assert answer.target == "s"
    assert len(one.wires["p"].asked) == 2
    one.nothing_left()


async def test_every_attempt_is_made_from_the_callers_original(clock: ManualClock) -> None:
    one = house(clock, [error(503), error(503)], [good()], retries=1)
    await (await driven(one))
    first, again, other = (json_body for wire in one.wires.values() for json_body in (sent.body for sent in wire.asked))
    assert first == again
    assert other == first.replace(b"p-model", b"s-model")
    keys = [dict(sent.headers)["Authorization"] for wire in one.wires.values() for sent in wire.asked]
    assert keys == ["Bearer sk-test"] * 3


# Whatever the ending, nothing stays behind.

ENDINGS: dict[str, Callable[[], Script]] = {
    "whole": good,
    "refused": lambda: Script(refused=REFUSED),
    "own pool full": lambda: Script(refused=TransportError("capacity", "full")),
    "bad status": lambda: error(500),
    "rate limited": lambda: error(429, retry_after="60"),
    "bad request": lambda: error(400),
    "empty": lambda: Script(role_chunk()),
    "cut before output": lambda: Script(role_chunk(), CUT),
    "cut after output": lambda: Script(text_chunk("a"), CUT),
    "silent head": lambda: Script(head_after=1000),
    "silent after the head": lambda: Script(hang=True),
    "silent after output": lambda: Script(text_chunk("a"), hang=True),
    "no terminator": lambda: Script(text_chunk("a"), finish_chunk()),
    "held after the finish": lambda: Script(text_chunk("a"), finish_chunk(), hang=True),
    "held after the terminator": lambda: Script(text_chunk("a"), finish_chunk(), DONE, hang=True),
    "not a stream": lambda: Script(b"{}", headers={"content-type": "application/json"}),
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("others", [True, False])
@pytest.mark.parametrize("name", ENDINGS)
async def test_an_ending_leaves_nothing_behind(clock: ManualClock, name: str, others: bool, stream: bool) -> None:
    one = house(clock, [ENDINGS[name]()], [good()] if others else None)
    task = await driven(one, 200, request(stream=stream, deadline_at=clock.now() + 60))
    outcome = task.exception()
    assert outcome is None or isinstance(outcome, RouteFailed | StreamInterrupted)
    assert len(one.records) == sum(len(wire.asked) for wire in one.wires.values()), "one record for each attempt"
    one.nothing_left()


@pytest.mark.parametrize("name", ENDINGS)
@pytest.mark.parametrize("at", [0.0, 0.1, 1.0])
async def test_a_caller_that_leaves_leaves_nothing_behind(clock: ManualClock, name: str, at: float) -> None:
    one = house(clock, [ENDINGS[name]()], [Script(hang=True)], retries=1)
    task = asyncio.get_running_loop().create_task(read(one))
    await clock.run(at)
    task.cancel()
    await settle()
    assert task.done()
    assert len(one.records) == sum(len(wire.asked) for wire in one.wires.values()), "one record for each attempt"
    if task.cancelled():
        waited = name == "bad status" and at < 1  # it left between two tries
        assert one.records[-1].outcome == ("server_error" if waited else "cancelled")
    one.nothing_left()


@pytest.mark.parametrize("script", [Script(head_after=1000), Script(hang=True), Script(text_chunk("a"), hang=True)])
async def test_B05_a_cancelled_attempt_ends_as_cancelled_and_is_no_sample(clock: ManualClock, script: Script) -> None:
    one = house(clock, [script], [good()])
    task = asyncio.get_running_loop().create_task(read(one))
    await clock.run(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert one.outcomes == [("p", "cancelled")]
    assert one.records[0].seconds == 1
    assert one.targets["p"].breaker.view().samples == 0
    assert one.wires["s"].asked == []
    one.nothing_left()


async def test_an_answer_that_is_left_half_way_is_no_success(clock: ManualClock) -> None:
    one = house(clock, [Script(text_chunk("a"), text_chunk("b"), hang=True)])
    async with one.llm.generate(request(stream=True)) as answer:
        await answer.read()
    assert one.outcomes == [("p", "cancelled")]
    assert one.targets["p"].breaker.view().samples == 0
    one.nothing_left()


async def test_a_fault_of_the_callers_own_is_no_fault_of_the_target(clock: ManualClock) -> None:
    one = house(clock, [good()])
    with pytest.raises(ConnectionResetError):
        async with one.llm.generate(request(stream=True)):
            raise ConnectionResetError
    assert one.outcomes == [("p", "cancelled")]
    assert one.targets["p"].breaker.view().samples == 0
    one.nothing_left()


async def test_a_probe_that_its_caller_leaves_frees_the_way_for_the_next(clock: ManualClock) -> None:
    one = house(clock, [error(500), Script(hang=True), good()], breaker=BreakerPolicy(minimum=1, cooldown=5))
    with pytest.raises(RouteFailed):
        await read(one)
    await clock.run(5)
    probe = asyncio.get_running_loop().create_task(read(one))
    await settle()
    with pytest.raises(RouteFailed) as caught:
        await read(one)
    assert caught.value.trail.records[0].skip is Skip.BREAKER
    probe.cancel()
    await settle()
    out, _ = await read(one)
    assert b"hello" in out
    assert one.targets["p"].breaker.state == "closed"
    one.nothing_left()


async def test_tokens_are_settled_to_what_was_used(clock: ManualClock) -> None:
    one = house(clock, [good("x", (1000, 500))])
    tokens = one.targets["p"].quota.levels().tokens
    assert tokens is not None
    await read(one)
    after = one.targets["p"].quota.levels().tokens
    assert after is not None
    assert tokens.level - after.level == 1500


@pytest.mark.parametrize(
    "script", [error(500), Script(refused=REFUSED), Script(role_chunk(), CUT), error(429, "insufficient_quota")]
)
async def test_an_attempt_without_output_uses_no_tokens(clock: ManualClock, script: Script) -> None:
    one = house(clock, [script])
    with pytest.raises(RouteFailed):
        await read(one)
    tokens = one.targets["p"].quota.levels().tokens
    assert tokens is not None
    assert tokens.level == tokens.capacity


async def test_a_request_that_reached_nobody_is_given_back(clock: ManualClock) -> None:
    one = house(clock, [Script(refused=REFUSED), error(500)])
    for used in (0, 1):
        with pytest.raises(RouteFailed):
            await read(one)
        requests = one.targets["p"].quota.levels().requests
        assert requests is not None
        assert requests.capacity - requests.level == used
