"""When the cool-down ends one request is the probe, and nobody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from tests.cases.drive import GUARD_S, MODES, breaker, said, start, until
from tests.fakes.behaviours import Behaviour, answer, gate, silent, status
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.lab import Json, Lab, config, lab

BREAKER = {"minimum": 2, "cooldown": "10s"}
NO_RETRY = {"retry": {"attempts": 0}}
DEFAULTS = {"breaker": BREAKER, **NO_RETRY}


def bad() -> list[Behaviour]:
    return [status(500), status(500)]


@asynccontextmanager
async def opened(
    *upstreams: Upstream, clock: ManualClock, past: float = 10.0, random: Random | None = None, **parts: object
) -> AsyncIterator[Lab]:
    """A gateway whose first target failed until its breaker opened, `past` seconds ago."""
    values = config({one.name: one for one in upstreams}, **{"defaults": DEFAULTS, **parts})
    first = upstreams[0]
    async with lab(values, clock, random) as g:
        first.script(*bad())
        for _ in bad():
            await g.chat()
        assert (await breaker(g, first.name))[0] == "open"
        await clock.run(past)
        yield g


async def retry_in(g: Lab, target: str = "p") -> float:
    return float((await g.target(target))["breaker"]["retry_in_s"])


@pytest.mark.parametrize("stream", MODES)
@pytest.mark.parametrize(("then", "state"), [(status(500), "open"), (answer(), "closed")])
async def test_C05_one_of_fifty_probes_and_the_others_are_served_at_once(
    stream: bool, then: Behaviour, state: str
) -> None:
    clock, go = ManualClock(), asyncio.Event()
    async with Upstream("p") as p, Upstream("s") as s, opened(p, s, clock=clock) as g:
        p.script(gate(go, then))
        assert (await g.target("p"))["breaker"]["state"] == "open", "no probe is in flight yet"
        running = [start(g.chat(stream=stream)) for _ in range(50)]
        await until(lambda: sum(one.done() for one in running) == 49 and p.attempts == 3)
        assert (await g.target("p"))["breaker"]["state"] == "half_open"
        for one in running:
            if one.done():
                assert said(one.result(), stream=stream) == "hello from s"
                assert one.result().trail == ["p skip=breaker", "s class=success"]
        await clock.run(1.0)
        go.set()
        async with asyncio.timeout(GUARD_S):
            answers = await asyncio.gather(*running)
        assert p.attempts == 3
        assert (await breaker(g, "p"))[0] == state
        texts = [said(one, stream=stream) for one in answers]
        if state == "open":
            assert texts == ["hello from s"] * 50
            assert await retry_in(g) == 10, "a whole cool-down from the end of the probe"
            await clock.run(9.9)
            assert said(await g.chat(stream=stream), stream=stream) == "hello from s"
            assert p.attempts == 3
            await clock.run(0.1)
        else:
            assert sorted(texts) == ["hello from p"] + ["hello from s"] * 49
        assert said(await g.chat(stream=stream), stream=stream) == "hello from p"


async def test_C05_gateways_do_not_probe_in_step() -> None:
    waits = []
    for seed in (1, 2):
        clock = ManualClock()
        async with Upstream("p") as p, Upstream("s") as s:
            async with opened(p, s, clock=clock, past=0.0, random=Random(seed)) as g:
                first = await retry_in(g)
                await clock.run(first + 0.001)  # what is shown is rounded
                p.script(status(500))
                await g.chat()
                waits += [first, await retry_in(g)]
    assert len(set(waits)) == 4, "each opening of each gateway draws its own"
    assert all(10 <= wait <= 12.5 for wait in waits)


# The probe's place is given back on every ending.


async def probes(g: Lab, p: Upstream) -> None:
    """The next request is let through as the probe, and closes the breaker."""
    assert (await g.target("p"))["breaker"]["state"] == "open"
    assert await retry_in(g) == 0
    before = p.attempts
    assert said(await g.chat(), stream=False) == "hello from p"
    assert p.attempts == before + 1
    assert (await breaker(g, "p"))[0] == "closed"


async def test_C05_a_probe_that_learns_nothing_gives_its_place_back() -> None:
    clock = ManualClock()
    async with Upstream("p") as p, Upstream("s") as s, opened(p, s, clock=clock) as g:
        p.script(status(400))
        assert (await g.chat()).status == 400
        await probes(g, p)


@pytest.mark.parametrize("stream", MODES)
async def test_C05_a_probe_whose_caller_leaves_gives_its_place_back(stream: bool) -> None:
    clock = ManualClock()
    async with Upstream("p") as p, Upstream("s") as s, opened(p, s, clock=clock) as g:
        p.script(silent())
        asked = start(g.chat(stream=stream))
        await until(lambda: p.attempts == 3)
        assert (await g.target("p"))["breaker"]["state"] == "half_open"
        asked.cancel()
        await until(lambda: g.service.in_flight == 0)
        await probes(g, p)


async def test_C05_a_probe_whose_callers_own_deadline_ends_gives_its_place_back() -> None:
    clock = ManualClock()
    async with Upstream("p") as p, opened(p, clock=clock) as g:
        p.script(silent())
        asked = start(g.chat(headers={"x-stanchion-timeout": "0.1"}))
        await until(lambda: p.attempts == 3)
        await clock.run(0.1)
        assert (await asked).status == 504
        await probes(g, p)


async def test_C05_a_probe_that_the_quota_refuses_gives_its_place_back() -> None:
    clock = ManualClock()
    async with Upstream("p") as p, Upstream("s") as s:
        quota = {"requests_per_minute": 2, "burst": "60s"}
        async with opened(p, s, clock=clock, target_p={"quota": quota}) as g:
            assert (await g.chat()).trail == ["p skip=quota", "s class=success"]
            await clock.run(60.0)
            await probes(g, p)


async def test_C05_a_probe_that_crashes_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("a fault of our own")

    clock = ManualClock()
    async with Upstream("p") as p, Upstream("s") as s, opened(p, s, clock=clock) as g:
        with monkeypatch.context() as patched:
            patched.setattr(g.service.engine.targets["p"].quota, "reserve", crash)
            assert (await g.chat()).status == 500
        await probes(g, p)


@pytest.mark.parametrize(("others", "limit_s"), [(True, 10.0), (False, 120.0)])
async def test_C05_a_probe_that_hangs_is_bounded_as_any_attempt(others: bool, limit_s: float) -> None:
    clock = ManualClock()
    async with Upstream("p") as p, Upstream("s") as s:
        async with opened(*((p, s) if others else (p,)), clock=clock, route={"deadline": "10m"}) as g:
            p.script(silent())
            probe = start(g.chat(stream=True))
            await until(lambda: p.attempts == 3)
            await clock.run(limit_s - 0.1)
            assert (await g.target("p"))["breaker"]["state"] == "half_open"
            meanwhile = await g.chat()
            assert meanwhile.trail[0] == "p skip=breaker"
            if others:
                assert said(meanwhile, stream=False) == "hello from s"
            else:
                assert (meanwhile.status, meanwhile.headers["retry-after"]) == (503, "1")
            await clock.run(0.1)
            ended = await probe
            if others:
                assert said(ended, stream=True) == "hello from s"
            else:  # its head has gone with a heartbeat
                assert [error["class"] for error in ended.error_events] == ["timeout_total"]
            assert (await g.target("p"))["breaker"]["state"] == "open"
            assert await retry_in(g) == 10


async def test_C05_results_of_before_the_opening_say_nothing_later() -> None:
    """Slow answers of the closed time, good and bad, come in while it is open and after it closed."""
    clock, first, second = ManualClock(), asyncio.Event(), asyncio.Event()
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, defaults=DEFAULTS), clock) as g:
        p.script(gate(first, answer()), gate(second, status(500)), gate(second, status(500)), *bad())
        slow = [start(g.chat()) for _ in range(3)]
        await until(lambda: p.attempts == 3)
        for _ in bad():
            await g.chat()
        assert await breaker(g, "p") == ("open", 2, 2)
        first.set()
        await until(lambda: any(one.done() for one in slow))
        assert await breaker(g, "p") == ("open", 2, 2)
        await clock.run(10.0)
        assert said(await g.chat(), stream=False) == "hello from p"
        second.set()
        async with asyncio.timeout(GUARD_S):
            await asyncio.gather(*slow)
        assert await breaker(g, "p") == ("closed", 0, 0)


# A route with one target.


@pytest.mark.parametrize("stream", MODES)
async def test_C05_a_route_with_one_target_is_refused_at_once_while_its_breaker_is_open(stream: bool) -> None:
    clock = ManualClock()
    async with Upstream("p") as p, opened(p, clock=clock, past=2.5) as g:
        asking = start(g.chat(stream=stream))
        await until(asking.done)  # the clock stands still: what waits for it is never done
        refused = asking.result()
        assert (refused.status, refused.headers["retry-after"]) == (503, "8")
        assert (refused.error["class"], refused.trail) == ("no_target", ["p skip=breaker"])
        assert p.attempts == 2
        await clock.run(7.5)
        assert said(await g.chat(stream=stream), stream=stream) == "hello from p"


@pytest.mark.parametrize("others", [True, False])
async def test_C05_no_retry_waits_for_a_breaker_that_the_failure_itself_opened(others: bool) -> None:
    clock = ManualClock()
    async with Upstream("p", default=status(500)) as p, Upstream("s") as s:
        upstreams = {"p": p, "s": s} if others else {"p": p}
        values = config(upstreams, defaults={"breaker": {"minimum": 1}, "retry": {"attempts": 3}})
        async with lab(values, clock) as g:
            asking = start(g.chat())
            await until(asking.done)  # the clock stands still: what waits for it is never done
            asked = asking.result()
            assert p.attempts == 1
            if others:
                assert asked.trail == ["p class=server_error", "s class=success"]
            else:
                assert (asked.status, asked.headers["retry-after"]) == (503, "10")


# The provider's own breaker.


def two_models(p: Upstream, s: Upstream) -> Json:
    values = config({"p": p, "s": s}, defaults=DEFAULTS)
    values["targets"] = {
        "p1": {"provider": "p", "model": "m1"},
        "p2": {"provider": "p", "model": "m2"},
        "s": {"provider": "s", "model": "s-model"},
    }
    values["routes"] = {name: {"targets": [f"p{name[1]}", "s"]} for name in ("m1", "m2")}
    return values


async def test_C05_one_of_all_the_models_requests_probes_a_provider() -> None:
    clock, go = ManualClock(), asyncio.Event()
    async with Upstream("p", default=gate(go, answer())) as p, Upstream("s") as s:
        async with lab(two_models(p, s), clock) as g:
            p.script(*bad(), *bad())
            for model in ("m1", "m1", "m2", "m2"):
                assert said(await g.chat(model), stream=False) == "hello from s"
            provider = g.service.engine.targets["p1"].provider_breaker
            assert provider.view().state == "open"
            await clock.run(10.0)
            running = [start(g.chat(model)) for model in ("m1", "m2") * 25]
            await until(lambda: sum(one.done() for one in running) == 49 and p.attempts == 5)
            assert provider.view().state == "half_open"
            go.set()
            async with asyncio.timeout(GUARD_S):
                answers = await asyncio.gather(*running)
            assert sorted(said(one, stream=False) for one in answers) == ["hello from p"] + ["hello from s"] * 49
            assert provider.view().state == "closed"
            assert p.attempts == 5


async def test_C05_a_provider_past_its_cool_down_that_fails_again_rests_again() -> None:
    clock = ManualClock()
    async with Upstream("p", default=status(500)) as p, Upstream("s") as s:
        async with lab(two_models(p, s), clock) as g:
            for model in ("m1", "m1", "m2", "m2"):
                await g.chat(model)
            await clock.run(10.0)
            assert said(await g.chat("m1"), stream=False) == "hello from s"
            assert p.attempts == 5, "the probe"
            provider = g.service.engine.targets["p1"].provider_breaker
            assert (provider.state, provider.view().retry_in_s) == ("open", 10)
            assert said(await g.chat("m2"), stream=False) == "hello from s"
            assert p.attempts == 5
            told = [(line["of"], line["state"]) for line in g.log if line["event"] == "breaker"]
            assert ("provider p", "closed") not in told


async def test_C05_more_than_one_good_probe_can_be_asked_for() -> None:
    clock = ManualClock()
    defaults = {"breaker": {**BREAKER, "successes": 2}, **NO_RETRY}
    async with Upstream("p") as p, Upstream("s") as s, opened(p, s, clock=clock, defaults=defaults) as g:
        assert said(await g.chat(), stream=False) == "hello from p"
        assert (await breaker(g, "p"))[0] == "open"
        go = asyncio.Event()
        p.script(gate(go, answer()))
        running = [start(g.chat()) for _ in range(10)]
        await until(lambda: sum(one.done() for one in running) == 9 and p.attempts == 4)
        go.set()
        async with asyncio.timeout(GUARD_S):
            await asyncio.gather(*running)
        assert await breaker(g, "p") == ("closed", 0, 0)
