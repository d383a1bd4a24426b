"""Metrics as they are scraped: all series from the start, labels from the settings only, counts that add up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import pairwise

from prometheus_client.parser import text_string_to_metric_families

from availability.outcome import Outcome
from llm.classes import ErrorClass, Skip
from tests.fakes.behaviours import answer, delay, gate, status
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.gateway.wire import until
from tests.lab import Lab, config, lab

Series = tuple[str, tuple[tuple[str, str], ...]]


async def scrape(g: Lab) -> Mapping[Series, float]:
    """All samples, each under its name and sorted labels."""
    answered = await g.get("/metrics", admin=True)
    assert answered.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples: dict[Series, float] = {}
    for family in text_string_to_metric_families(answered.body.decode()):
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                samples[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return samples


def increase(before: Mapping[Series, float], after: Mapping[Series, float], name: str) -> dict[str, float]:
    """What has grown of one metric, by its label values joined with blanks."""
    return {
        " ".join(value for _, value in labels): after[found, labels] - before[found, labels]
        for found, labels in after
        if found == name and after[found, labels] != before[found, labels]
    }


async def test_H03_every_series_is_there_with_zero_at_the_first_scrape() -> None:
    quota = {"requests_per_minute": 60, "tokens_per_minute": 6000, "burst": "60s"}
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, target_p={"quota": quota})) as g:
        samples = await scrape(g)
        for route in ("r", "other"):
            for outcome in Outcome:
                assert samples["stanchion_turns_total", (("outcome", outcome.value), ("route", route))] == 0
        for target in ("p", "s"):
            for outcome_name in ("success", *(error_class.value for error_class in ErrorClass)):
                assert samples["stanchion_attempts_total", (("outcome", outcome_name), ("target", target))] == 0
            assert samples["stanchion_breaker_state", (("target", target),)] == 0
            assert samples["stanchion_first_output_seconds_count", (("target", target),)] == 0
            for reason in ("rate_limited", "quota_exhausted", "credential", "model_unavailable"):
                assert samples["stanchion_hold_seconds", (("reason", reason), ("target", target))] == 0
        for why in (*ErrorClass, *Skip):
            assert samples["stanchion_failovers_total", (("from", "p"), ("reason", why.value), ("to", "s"))] == 0
        assert samples["stanchion_in_flight", (("route", "r"),)] == 0
        for name in ("stanchion_turn_duration_seconds", "stanchion_overhead_seconds"):
            assert samples[f"{name}_count", (("route", "r"),)] == 0
        assert samples["stanchion_quota_level", (("kind", "tokens"), ("target", "p"))] == 6000
        assert samples["stanchion_quota_capacity", (("kind", "requests"), ("target", "p"))] == 60
        assert not any(name == "stanchion_quota_level" and ("target", "s") in labels for name, labels in samples)


async def test_H03_the_first_error_of_a_kind_is_an_increase_of_one() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        first = await scrape(g)
        p.script(status(404, "model_not_found"))
        await g.chat()
        second, third = await scrape(g), await scrape(g)
        assert increase(first, second, "stanchion_attempts_total") == {"model_unavailable p": 1}
        assert increase(first, second, "stanchion_turns_total") == {"failed r": 1}
        assert increase(second, third, "stanchion_attempts_total") == {}


async def test_H03_names_that_callers_make_up_add_no_series() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        await g.chat("another")
        before = await scrape(g)
        for start in range(0, 1000, 50):
            answers = await asyncio.gather(*(g.chat(f"model-{number}") for number in range(start, start + 50)))
            assert {one.status for one in answers} == {404}
        after = await scrape(g)
        assert after.keys() == before.keys()
        assert increase(before, after, "stanchion_turns_total") == {"rejected other": 1000}
        assert p.attempts == 0


async def test_H03_paths_methods_and_keys_add_no_series() -> None:
    async with Upstream("p") as p:
        values = config({"p": p}, callers=[{"name": "one", "key": "key-of-one"}])
        async with lab(values) as g:
            before = await scrape(g)
            for number in range(20):
                await g.get(f"/path-{number}")
                await g.chat(headers={"Authorization": f"Bearer made-up-{number}"})
            after = await scrape(g)
            assert after.keys() == before.keys()
            assert increase(before, after, "stanchion_turns_total") == {"rejected other": 20}


async def test_H04_bounds_reach_from_the_gateways_own_time_to_the_longest_request() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        bounds: dict[str, list[float]] = {}
        for name, labels in await scrape(g):
            if name.endswith("_bucket"):
                bounds.setdefault(name.removesuffix("_bucket"), []).append(float(dict(labels)["le"]))
    assert set(bounds) == {
        "stanchion_turn_duration_seconds",
        "stanchion_first_output_seconds",
        "stanchion_overhead_seconds",
    }
    for name in ("stanchion_turn_duration_seconds", "stanchion_first_output_seconds"):
        finite = sorted(bounds[name])[:-1]
        assert finite[-1] == 600
        assert max(after - before for before, after in pairwise(finite) if before < 60) <= 15
    assert sum(bound < 0.1 for bound in bounds["stanchion_overhead_seconds"]) >= 4


async def test_H04_long_turns_fall_in_finite_buckets() -> None:
    clock = ManualClock()
    patient = {"timeouts": {"total": "10m"}, "deadline": "10m"}
    async with Upstream("p", sleep=clock.sleep) as p, lab(config({"p": p}, defaults=patient), clock) as g:
        p.default = delay(42, answer())
        turns = [asyncio.ensure_future(g.chat()) for _ in range(20)]
        await p.wait_for_requests(20)
        p.default = delay(290, answer())
        turns.append(asyncio.ensure_future(g.chat()))
        await p.wait_for_requests(21)
        await clock.run(42)
        await asyncio.gather(*turns[:20])
        await clock.run(248)
        await turns[20]
        samples = await scrape(g)

        def below(bound: str) -> float:
            return samples["stanchion_turn_duration_seconds_bucket", (("le", bound), ("route", "r"))]

        assert [below(bound) for bound in ("30.0", "45.0", "180.0", "300.0", "600.0", "+Inf")] == [
            0,
            20,
            20,
            21,
            21,
            21,
        ]
        overhead = "stanchion_overhead_seconds_bucket", (("le", "0.1"), ("route", "r"))
        assert samples[overhead] == 21  # a provider's time is none of the gateway's own


async def test_counts_after_a_failover() -> None:
    no_retry = {"retry": {"attempts": 0}}
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, defaults=no_retry)) as g:
        before = await scrape(g)
        p.script(status(503), answer(), status(429))
        for stream in (False, True, True):
            assert (await g.chat(stream=stream)).status == 200
        await g.chat()  # the first target is held now
        after = await scrape(g)
        assert increase(before, after, "stanchion_turns_total") == {"success r": 2, "rescued r": 2}
        assert increase(before, after, "stanchion_attempts_total") == {
            "overloaded p": 1,
            "success p": 1,
            "rate_limited p": 1,
            "success s": 3,
        }
        assert increase(before, after, "stanchion_failovers_total") == {
            "p overloaded s": 1,
            "p rate_limited s": 1,
            "p hold s": 1,
        }
        assert increase(before, after, "stanchion_rescues_total") == {"r": 2}
        assert increase(before, after, "stanchion_first_output_seconds_count") == {"p": 1, "s": 1}
        assert increase(before, after, "stanchion_turn_duration_seconds_count") == {"r": 4}
        assert increase(before, after, "stanchion_overhead_seconds_count") == {"r": 4}
        assert 0 < after["stanchion_hold_seconds", (("reason", "rate_limited"), ("target", "p"))] <= 30


async def test_a_move_leads_to_the_next_target_that_was_asked() -> None:
    no_retry = {"retry": {"attempts": 0}}
    async with Upstream("p") as p, Upstream("q") as q, Upstream("s") as s:
        async with lab(config({"p": p, "q": q, "s": s}, defaults=no_retry)) as g:
            p.script(status(500), status(500))
            q.script(status(429))
            before = await scrape(g)
            assert (await g.chat()).trail == ["p class=server_error", "q class=rate_limited", "s class=success"]
            between = await scrape(g)
            assert (await g.chat()).trail == ["p class=server_error", "q skip=hold", "s class=success"]
            after = await scrape(g)
        moves = "stanchion_failovers_total"
        assert increase(before, between, moves) == {"p server_error q": 1, "q rate_limited s": 1}
        assert increase(between, after, moves) == {"p server_error s": 1}


async def test_where_nothing_was_asked_before_the_first_target_was_left() -> None:
    async with Upstream("p") as p, Upstream("q") as q, Upstream("s") as s:
        async with lab(config({"p": p, "q": q, "s": s}, defaults={"retry": {"attempts": 0}})) as g:
            p.script(status(429))
            q.script(status(401))
            await g.chat()
            before = await scrape(g)
            assert (await g.chat()).trail == ["p skip=hold", "q skip=hold", "s class=success"]
            assert increase(before, await scrape(g), "stanchion_failovers_total") == {"p hold s": 1}


async def test_H03_moves_after_a_refused_content_are_there_with_zero() -> None:
    async with Upstream("p") as p, Upstream("q") as q, Upstream("s") as s:
        route = {"targets": ["p", "q"], "on_content_policy": ["s", "q"]}
        async with lab(config({"p": p, "q": q, "s": s}, route=route)) as g:
            before = await scrape(g)
            for pair in (("p", "s"), ("q", "s"), ("s", "q")):
                found = (("from", pair[0]), ("reason", "content_policy"), ("to", pair[1]))
                assert before["stanchion_failovers_total", found] == 0
            assert not any(
                name == "stanchion_failovers_total" and dict(labels)["from"] == dict(labels)["to"]
                for name, labels in before
            )
            p.script(status(400, "content_policy_violation"))
            assert (await g.chat()).trail == ["p class=content_policy", "s class=success"]
            after = await scrape(g)
            assert after.keys() == before.keys()
            assert increase(before, after, "stanchion_failovers_total") == {"p content_policy s": 1}


async def test_in_flight_counts_turns_under_way() -> None:
    go = asyncio.Event()
    async with Upstream("p", default=gate(go, answer())) as p, lab(config({"p": p})) as g:
        turns = [asyncio.ensure_future(g.chat(stream=bool(number % 2))) for number in range(6)]
        await p.wait_for_requests(6)
        assert await g.metric("stanchion_in_flight", route="r") == 6
        go.set()
        await asyncio.gather(*turns)
        await until(lambda: not g.service.in_flight)
        assert await g.metric("stanchion_in_flight", route="r") == 0


async def test_the_breaker_gauge_follows_the_breaker() -> None:
    clock, go = ManualClock(), asyncio.Event()
    strict = {"breaker": {"minimum": 1, "failure_ratio": "1%"}, "retry": {"attempts": 0}}
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, defaults=strict), clock) as g:
        assert await g.metric("stanchion_breaker_state", target="p") == 0
        p.script(status(500))
        await g.chat()
        assert await g.metric("stanchion_breaker_state", target="p") == 2
        await clock.run(10)
        assert await g.metric("stanchion_breaker_state", target="p") == 2  # past its cool-down, not yet probed
        p.script(gate(go, answer()))
        probe = asyncio.ensure_future(g.chat())
        await p.wait_for_requests(2)
        assert await g.metric("stanchion_breaker_state", target="p") == 1
        go.set()
        await probe
        assert await g.metric("stanchion_breaker_state", target="p") == 0
