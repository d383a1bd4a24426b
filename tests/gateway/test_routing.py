"""The order of a route's targets: canaries, weights, the own region, and regions that may not see a request."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from llm.order import Order
from llm.policy import CanaryPolicy
from llm.spec import CanarySpec, RouteSpec, Stop
from tests.fakes.behaviours import answer, cut, silent, sse, status
from tests.fakes.chat import role_chunk, text_chunk
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.lab import config, lab, settings
from tests.llm.making import route, stop, target

ALWAYS = {"canary": {"target": "s", "share": "100%"}}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_canary_answers_its_share(stream: bool) -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=ALWAYS)) as g:
        got = await g.chat(stream=stream)
        assert got.headers["x-stanchion-target"] == "s"
        assert (p.attempts, s.attempts) == (0, 1)
        assert g.turns[-1]["outcome"] == "success"


FAILING = {
    "500": status(500),
    "429": status(429, headers={"Retry-After": "7"}),
    "400": status(400, "unknown_parameter", "what is this"),
    "401": status(401, "invalid_api_key"),
    "404": status(404, "model_not_found"),
    "413": status(413),
    "context": status(400, "context_length_exceeded"),
    "content": status(400, "content_policy_violation"),
    "cut": sse(role_chunk(), text_chunk("from s "), cut()),
}


@pytest.mark.parametrize("failing", FAILING)
async def test_a_failed_canary_costs_the_caller_nothing(failing: str) -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=ALWAYS)) as g:
        s.default = FAILING[failing]
        got = await g.chat(stream=True)
        assert (got.status, got.clean, got.streamed_text) == (200, True, "hello from p")
        assert b"from s" not in got.body
        assert (p.attempts, s.attempts) == (1, 1)
        assert got.trail[0].startswith("s class=")
        outcome = got.trail[0].partition("class=")[2]
        assert await g.metric("stanchion_extra_attempts_total", route="r", role="canary", outcome=outcome) == 1


async def test_a_canary_that_failed_may_still_rescue() -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=ALWAYS)) as g:
        s.script(status(500), answer())
        p.default = status(503)
        got = await g.chat()
        assert got.text == "hello from s"


async def test_a_canary_that_cannot_be_asked_is_not_mentioned_twice() -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=ALWAYS)) as g:
        s.script(status(429, headers={"Retry-After": "60"}))
        await g.chat()
        p.default = status(400, "bad_thing")
        got = await g.chat()
        assert (got.status, got.trail) == (400, ["p class=bad_request"])


async def test_a_silent_canary_leaves_the_others_their_time() -> None:
    import asyncio

    clock = ManualClock()
    route_of = {**ALWAYS, "deadline": "20s"}
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=route_of), clock) as g:
        s.script(silent())
        asked = asyncio.ensure_future(g.chat())
        await s.wait_for_requests(1)
        await clock.run(10.1)
        assert (await asked).text == "hello from p"


async def test_when_all_fail_the_caller_is_told_of_the_others_and_not_of_the_canary() -> None:
    async with Upstream("p") as p, Upstream("s") as s:
        values = config({"p": p, "s": s}, route={"targets": ["p"], "canary": {"target": "s", "share": 1}})
        async with lab(values) as g:
            s.default = status(500)
            p.default = status(400, "bad_thing", "no such parameter")
            got = await g.chat()
            assert (got.status, got.error["code"]) == (400, "bad_thing")


def drawn(spec: RouteSpec, times: int) -> Counter[tuple[str, ...]]:
    order = Order(spec, Random(7))
    return Counter(tuple(each.target.name for each in order.draw()) for _ in range(times))


def weighted(name: str, weight: int | None) -> Stop:
    from dataclasses import replace

    return stop(replace(target(name), weight=weight))


def test_a_canary_comes_first_by_its_share() -> None:
    from dataclasses import replace

    one, two = stop(target("a")), stop(target("b"))
    spec = replace(route(one, two), canary=CanarySpec(replace(two, canary=True), 0.1))
    counts = drawn(spec, 5000)
    assert set(counts) == {("a", "b"), ("b", "a", "b")}
    assert 400 < counts["b", "a", "b"] < 600
    assert CanaryPolicy(share="10%").share == 0.1


def test_weights_are_shares_of_the_first_place_and_the_rest_follow_as_fallbacks() -> None:
    counts = drawn(route(weighted("a", 3), weighted("b", 1), weighted("c", None)), 8000)
    assert {order[-1] for order in counts} == {"c"}
    first = Counter({order[0]: 0 for order in counts})
    for order, count in counts.items():
        assert sorted(order) == ["a", "b", "c"]
        first[order[0]] += count
    assert 5700 < first["a"] < 6300


def test_a_weight_of_none_is_asked_only_when_the_others_cannot() -> None:
    counts = drawn(route(weighted("a", 0), weighted("b", 1)), 500)
    assert set(counts) == {("b", "a")}


def test_targets_without_neighbours_of_weight_keep_their_place() -> None:
    counts = drawn(route(weighted("a", 3), weighted("c", None), weighted("b", 1)), 200)
    assert set(counts) == {("a", "c", "b")}


async def test_residency_is_kept_through_every_fallback() -> None:
    async with Upstream("p") as p, Upstream("s") as s, Upstream("t") as t:
        values = config(
            {"p": p, "s": s, "t": t},
            target_p={"region": "eu"},
            target_s={"region": "us"},
            target_t={"region": "eu"},
            route={"residency": ["eu"], "on_content_policy": "s", "canary": {"target": "s", "share": 1}},
        )
        async with lab(values) as g:
            p.script(status(500), status(500))
            got = await g.chat()
            assert got.text == "hello from t"
            assert got.trail == ["p class=server_error", "p class=server_error", "s skip=residency", "t class=success"]
            p.default = status(400, "content_policy_violation")
            got = await g.chat()
            assert (got.status, got.error["code"]) == (400, "content_policy_violation")
            assert s.attempts == 0


async def test_a_callers_residency_holds_on_every_route() -> None:
    async with Upstream("p") as p, Upstream("s") as s:
        values = config(
            {"p": p, "s": s},
            target_p={"region": "us"},
            target_s={"region": "eu"},
            callers=[
                {"name": "tenant", "key": "tenant-key-1", "residency": ["eu"]},
                {"name": "other", "key": "other-key-22"},
            ],
        )
        async with lab(values) as g:
            eu = {"Authorization": "Bearer tenant-key-1"}
            got = await g.chat(headers=eu)
            assert got.trail == ["p skip=residency", "s class=success"]
            s.default = status(503)
            got = await g.chat(headers=eu)
            assert got.status == 503
            assert p.attempts == 0
            assert (await g.chat(headers={"Authorization": "Bearer other-key-22"})).text == "hello from p"


async def test_the_own_region_of_each_model_comes_first() -> None:
    async with Upstream("p") as p, Upstream("s") as s:
        values = config(
            {"p": p, "s": s},
            target_p={"region": "us", "model": "m"},
            target_s={"region": "eu", "model": "m"},
            route={"prefer": "region"},
        )
        values["gateway"]["region"] = "eu"
        async with lab(values) as g:
            assert (await g.chat()).text == "hello from s"
            s.default = status(500)
            assert (await g.chat()).text == "hello from p"
    assert settings(values).routes[0].stops[0].target.name == "s"
