"""What is not the provider's fault is no sample of its breaker."""

from __future__ import annotations

import asyncio

import pytest

from tests.cases.drive import MODES, attempts, breaker, said, start, turns, until
from tests.fakes.behaviours import answer, delay, silent, status
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.lab import Lab, config, lab

NO_RETRY = {"retry": {"attempts": 0}}
BLAMELESS = ("closed", 0, 0)


async def normal(g: Lab, *, stream: bool) -> None:
    served = await g.chat(stream=stream)
    assert said(served, stream=stream) == "hello from p"
    assert served.trail == ["p class=success"]


@pytest.mark.parametrize("stream", MODES)
async def test_C04_a_the_providers_400(stream: bool) -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}), ManualClock()) as g:
        p.script(*(status(400, "invalid_value", "no") for _ in range(20)))
        for _ in range(20):
            refused = await g.chat(stream=stream)
            assert (refused.status, refused.error["code"], refused.error["message"]) == (400, "invalid_value", "no")
        assert await breaker(g, "p") == BLAMELESS
        assert (p.attempts, s.attempts) == (20, 0)
        await normal(g, stream=stream)


@pytest.mark.parametrize("stream", MODES)
async def test_C04_b_callers_that_hang_up(stream: bool) -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}), ManualClock()) as g:
        p.script(*(silent() for _ in range(20)))
        for number in range(1, 21):
            asked = start(g.chat(stream=stream))
            seen = await p.wait_for_requests(number)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
            await seen.wait_closed()
        await until(lambda: g.service.in_flight == 0)
        assert await breaker(g, "p") == BLAMELESS
        assert await attempts(g, "p", "cancelled") == 20
        assert await turns(g, "client_closed") == 20
        assert await turns(g, "failed") == 0
        assert {turn["status"] for turn in g.turns} == {499}, "never a 500"
        assert s.attempts == 0
        await normal(g, stream=stream)


@pytest.mark.parametrize("stream", MODES)
@pytest.mark.parametrize("others", [[], ["s"]])
async def test_C04_c_a_time_limit_of_the_callers(stream: bool, others: list[str]) -> None:
    clock = ManualClock()
    slow = delay(1.0, answer())
    async with Upstream("p", sleep=clock.sleep) as p, Upstream("s", default=slow, sleep=clock.sleep) as s:
        async with lab(config({"p": p, "s": s}, route={"targets": ["p", *others]}), clock) as g:
            p.script(*(slow for _ in range(20)))
            for number in range(1, 21):
                asked = start(g.chat(stream=stream, headers={"x-stanchion-timeout": "0.1"}))
                await p.wait_for_requests(number)
                await clock.run(0.05)
                if others and not stream:
                    await s.wait_for_requests(number)
                await clock.run(0.05)
                late = await asked
                assert (late.status, late.error["class"]) == (504, "deadline")
            for target in ("p", "s"):
                assert await breaker(g, target) == BLAMELESS
            assert await attempts(g, "p", "deadline") == 20
            assert await turns(g, "deadline") == 20
            await normal(g, stream=stream)


@pytest.mark.parametrize("stream", MODES)
async def test_C04_d_requests_that_the_own_bucket_refuses(stream: bool) -> None:
    clock = ManualClock()
    async with Upstream("p") as p:
        values = config({"p": p}, target_p={"quota": {"requests_per_minute": 60, "burst": "1s"}})
        async with lab(values, clock) as g:
            await normal(g, stream=stream)
            for _ in range(20):
                refused = await g.chat(stream=stream)
                assert (refused.status, refused.error["class"]) == (429, "shed")
                assert refused.headers["retry-after"] == "1"
            assert p.attempts == 1
            assert await breaker(g, "p") == ("closed", 1, 0)
            await clock.run(1.0)
            await normal(g, stream=stream)


@pytest.mark.parametrize(
    "body",
    [b"{", b'{"model":"r","messages":[]}', b'{"model":"r","messages":[{"role":"user","content":"\\u0000"}]}'],
)
async def test_C04_e_requests_that_the_gateway_itself_refuses(body: bytes) -> None:
    async with Upstream("p") as p, lab(config({"p": p}), ManualClock()) as g:
        for _ in range(20):
            refused = await g.post("/v1/chat/completions", body)
            assert (refused.status, refused.error["type"]) == (400, "invalid_request_error")
        assert p.attempts == 0
        assert await breaker(g, "p") == BLAMELESS
        await normal(g, stream=False)


@pytest.mark.parametrize("stream", MODES)
@pytest.mark.parametrize("others", [[], ["s"]])
async def test_C04_contrast_the_gateways_own_limit_is_a_failure(stream: bool, others: list[str]) -> None:
    clock = ManualClock()
    async with Upstream("p", default=silent()) as p, Upstream("s") as s:
        route = {"targets": ["p", *others], "timeouts": {"total": "2s", "first_output": "1s"}}
        async with lab(config({"p": p, "s": s}, route=route, defaults=NO_RETRY), clock) as g:
            for number in range(1, 6):
                asked = start(g.chat(stream=stream))
                await p.wait_for_requests(number)
                await clock.run(2.0)
                assert (await asked).status == (200 if others else 503)
            assert await breaker(g, "p") == ("open", 5, 5)
            reason = "timeout_first_token" if stream and others else "timeout_total"
            assert await attempts(g, "p", reason) == 5


async def test_C04_contrast_the_routes_own_deadline_is_a_failure_too() -> None:
    clock = ManualClock()
    async with Upstream("p", default=silent()) as p, Upstream("s") as s:
        route = {"deadline": "4s", "timeouts": {"first_output": "10s"}}
        async with lab(config({"p": p, "s": s}, route=route, defaults=NO_RETRY), clock) as g:
            for number in range(1, 6):
                asked = start(g.chat())
                await p.wait_for_requests(number)
                await clock.run(2.0)
                assert said(await asked, stream=False) == "hello from s"
            assert await breaker(g, "p") == ("open", 5, 5)
