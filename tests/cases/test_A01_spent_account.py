"""A spent account is held for long, whatever it answers like."""

from __future__ import annotations

import asyncio

import pytest

from tests.cases.drive import MODES, attempts, breaker, said, start
from tests.fakes.behaviours import Behaviour, gate, status
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.lab import config, lab

SPENT = {
    "429 code": status(429, "insufficient_quota"),
    "401 type": status(401, type="insufficient_quota"),
    "402": status(402),
    "400 text": status(400, message="Your credit balance is too low to access the API."),
}
pytestmark = pytest.mark.parametrize("spent", SPENT.values(), ids=SPENT)


@pytest.mark.parametrize("stream", MODES)
async def test_A01_first_request_moves_on_and_the_credential_is_held(spent: Behaviour, stream: bool) -> None:
    clock = ManualClock()
    async with Upstream("p", default=spent) as p, Upstream("s") as s, lab(config({"p": p, "s": s}), clock) as g:
        assert said(await g.chat(stream=stream), stream=stream) == "hello from s"
        assert (p.attempts, s.attempts) == (1, 1)
        hold = (await g.target("p"))["hold"]
        assert (hold["reason"], hold["scope"], hold["seconds_left"]) == ("quota_exhausted", "credential", 600)
        assert await breaker(g, "p") == ("closed", 0, 0)
        assert await attempts(g, "p", "quota_exhausted") == 1
        assert await attempts(g, "p", "rate_limited") == 0


async def test_A01_the_next_twenty_requests_leave_it_alone(spent: Behaviour) -> None:
    clock = ManualClock()
    async with Upstream("p", default=spent) as p, Upstream("s") as s, lab(config({"p": p, "s": s}), clock) as g:
        await g.chat()
        for _ in range(20):
            await clock.run(3.0)
            answer = await g.chat()
            assert answer.trail == ["p skip=hold", "s class=success"]
        assert (p.attempts, s.attempts) == (1, 21)
        await clock.run(600.0 - 60.0)
        await g.chat()
        assert p.attempts == 2, "the hold ends"


@pytest.mark.parametrize("late", ["insufficient_quota", None])
async def test_A01_a_late_short_hint_does_not_shorten_the_hold(spent: Behaviour, late: str | None) -> None:
    clock, release = ManualClock(), asyncio.Event()
    in_flight = gate(release, status(429, late, headers={"Retry-After": "1"}))
    async with Upstream("p", default=spent) as p, Upstream("s") as s, lab(config({"p": p, "s": s}), clock) as g:
        p.script(in_flight)
        first = start(g.chat())
        await p.wait_for_requests(1)
        await g.chat()
        release.set()
        answer = await first
        assert said(answer, stream=False) == "hello from s"
        assert p.attempts == 2, "nothing is tried again on a credential that is known to be spent"
        hold = (await g.target("p"))["hold"]
        assert (hold["reason"], hold["seconds_left"]) == ("quota_exhausted", 600)
        await clock.run(2.0)
        await g.chat()
        assert p.attempts == 2


async def test_A01_another_credential_of_the_provider_stays_eligible(spent: Behaviour) -> None:
    clock = ManualClock()
    async with Upstream("p") as p:
        values = config({"p": p})
        values["providers"]["p"].pop("api_key")
        values["providers"]["p"]["credentials"] = [
            {"name": "one", "api_key": "sk-one"},
            {"name": "two", "api_key": "sk-two"},
        ]
        values["targets"] = {name: {"provider": "p", "model": "m", "credential": name} for name in ("one", "two")} | {
            "one-other-model": {"provider": "p", "model": "m2", "credential": "one"}
        }
        values["routes"] = {"r": {"targets": ["one", "one-other-model", "two"]}}
        async with lab(values, clock) as g:
            p.script(spent)
            answer = await g.chat()
            assert answer.trail == ["one class=quota_exhausted", "one-other-model skip=hold", "two class=success"]
            assert [seen.header("authorization") for seen in p.requests] == ["Bearer sk-one", "Bearer sk-two"]
            assert (await g.target("two"))["hold"] is None


async def test_A01_the_hold_is_a_setting(spent: Behaviour) -> None:
    clock = ManualClock()
    async with Upstream("p", default=spent) as p, Upstream("s") as s:
        async with lab(config({"p": p, "s": s}, defaults={"holds": {"quota": "1h"}}), clock) as g:
            await g.chat()
            assert (await g.target("p"))["hold"]["seconds_left"] == 3600
