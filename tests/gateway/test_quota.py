"""A target's quota as callers meet it: the next target serves, or an exact refusal comes at once."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream, answer, gate, status
from tests.lab import config, lab

ONE_A_SECOND = {"requests_per_minute": 60, "burst": "2s"}


async def test_an_empty_bucket_sends_the_request_to_the_next_target() -> None:
    async with Upstream("p") as p, Upstream("s") as s:
        async with lab(config({"p": p, "s": s}, target_p={"quota": ONE_A_SECOND}), ManualClock()) as g:
            answers = [await g.chat() for _ in range(3)]
            assert [a.trail for a in answers] == [["p class=success"]] * 2 + [["p skip=quota", "s class=success"]]
            assert p.attempts == 2
            assert (await g.target("p"))["quota"]["requests"] == {"level": 0, "capacity": 2}


async def test_the_last_target_refuses_at_once_with_the_exact_time() -> None:
    clock = ManualClock()
    slow = {"requests_per_minute": 6, "burst": "10s"}
    async with Upstream("p") as p, lab(config({"p": p}, target_p={"quota": slow}), clock) as g:
        assert (await g.chat()).status == 200
        clock.advance(2.5)
        refused = await g.chat()
        assert (refused.status, refused.error["class"], refused.headers["retry-after"]) == (429, "shed", "8")
        assert refused.error["type"] == "rate_limit_error"
        assert p.attempts == 1
        clock.advance(7.5)
        assert (await g.chat()).status == 200
        assert [turn["outcome"] for turn in g.turns] == ["success", "no_target", "success"]


async def test_a_request_larger_than_the_bucket_is_refused_without_a_time() -> None:
    tokens = {"tokens_per_minute": 4000, "burst": "10s"}
    async with Upstream("p") as p, lab(config({"p": p}, target_p={"quota": tokens}), ManualClock()) as g:
        refused = await g.chat(max_tokens=800)
        assert (refused.status, refused.error["class"]) == (413, "too_large")
        assert "666" in refused.error["message"]
        assert "retry-after" not in refused.headers
        assert refused.headers["x-should-retry"] == "false"
        assert p.attempts == 0


async def test_tokens_are_settled_with_the_providers_count() -> None:
    tokens = {"tokens_per_minute": 60_000, "burst": "1s"}
    async with Upstream("p", default=answer(usage=(100, 50))) as p:
        async with lab(
            config({"p": p}, target_p={"quota": tokens}, defaults={"retry": {"attempts": 0}}), ManualClock()
        ) as g:
            for stream in (False, True):
                before = (await g.target("p"))["quota"]["tokens"]["level"]
                assert (await g.chat(max_tokens=600, stream=stream)).status == 200
                assert before - (await g.target("p"))["quota"]["tokens"]["level"] == 150
            p.script(status(500))
            before = (await g.target("p"))["quota"]["tokens"]["level"]
            assert (await g.chat(max_tokens=600)).status == 503
            assert (await g.target("p"))["quota"]["tokens"]["level"] == before


async def test_a_full_target_is_passed_over_and_free_again_when_a_turn_ends() -> None:
    go = asyncio.Event()
    async with Upstream("p", default=gate(go, answer())) as p:
        async with lab(config({"p": p}, target_p={"quota": {"concurrency": 1}}), ManualClock()) as g:
            first = asyncio.create_task(g.chat())
            await p.wait_for_requests(1)
            refused = await g.chat()
            assert (refused.status, refused.headers["retry-after"]) == (429, "1")
            assert "x-should-retry" not in refused.headers
            assert "p: all 1 requests in flight" in refused.error["message"]
            go.set()
            assert (await first).status == 200
            assert (await g.chat()).status == 200


async def test_what_was_learned_never_shuts_the_bucket() -> None:
    tokens = {"tokens_per_minute": 3000, "burst": "10s"}  # 500: less than an answer is expected to be
    clock = ManualClock()
    async with Upstream("p", default=answer(usage=(10, 6000))) as p:
        async with lab(config({"p": p}, target_p={"quota": tokens}), clock) as g:
            for _ in range(3):
                assert (await g.chat()).status == 200
                in_debt = await g.chat()
                assert (in_debt.status, in_debt.error["class"]) == (429, "shed")
                clock.advance(float(in_debt.headers["retry-after"]))


async def test_a_count_that_is_none_is_not_settled() -> None:
    tokens = {"tokens_per_minute": 6000, "burst": "60s"}
    async with Upstream("p", default=answer(usage=(2**63, 5))) as p:
        async with lab(config({"p": p}, target_p={"quota": tokens}), ManualClock()) as g:
            assert (await g.chat(max_tokens=100)).status == 200
            assert (await g.chat(max_tokens=100)).status == 200
            assert (await g.target("p"))["quota"]["tokens"]["level"] > 5000


async def test_a_probe_that_the_quota_refuses_is_no_news() -> None:
    clock = ManualClock()
    strict = {"breaker": {"minimum": 1, "failure_ratio": "1%"}, "retry": {"attempts": 0}}
    one = {"requests_per_minute": 1, "burst": "60s"}
    async with Upstream("p", default=status(500)) as p:
        async with lab(config({"p": p}, target_p={"quota": one}, defaults=strict), clock) as g:
            assert (await g.chat()).status == 503
            clock.advance(20)
            for _ in range(50):
                assert (await g.chat()).trail == ["p skip=quota"]
            assert [line["state"] for line in g.log if line["event"] == "breaker"] == ["open"]
            assert (await g.target("p"))["breaker"]["state"] == "open"


@pytest.mark.parametrize("stream", [False, True])
async def test_two_targets_that_are_rate_limited_are_a_429_from_the_first_request_on(stream: bool) -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}), ManualClock()) as g:
        p.script(status(429, headers={"Retry-After": "20"}))
        s.script(status(429, headers={"Retry-After": "9"}))
        first, second = await g.chat(stream=stream), await g.chat(stream=stream)
        assert first.trail == ["p class=rate_limited", "s class=rate_limited"]
        assert second.trail == ["p skip=hold", "s skip=hold"]
        for refused in (first, second):
            assert (refused.status, refused.headers["retry-after"]) == (429, "9")
            assert refused.error["type"] == "rate_limit_error"
            assert "x-should-retry" not in refused.headers


async def test_a_spent_account_is_no_rate_limit() -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}), ManualClock()) as g:
        p.script(status(429, "insufficient_quota"))
        s.script(status(429, headers={"Retry-After": "9"}))
        for _ in range(2):
            refused = await g.chat()
            assert (refused.status, refused.headers["retry-after"]) == (503, "9")
