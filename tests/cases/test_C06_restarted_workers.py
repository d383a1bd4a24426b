"""Breakers are each process's own: what a restarted worker does, and how many good probes close one.

What replicas at a common board do is in tests/llm/test_shared_state.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.drive import MODES, breaker, said
from tests.fakes.behaviours import answer, status
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.gateway.test_serve_process import ask, started
from tests.lab import Json, config, lab

MINIMUM = 3


def values(p: Upstream, s: Upstream, **breaker_parts: object) -> Json:
    policy = {"minimum": MINIMUM, "cooldown": "10m", **breaker_parts}
    return config({"p": p, "s": s}, defaults={"breaker": policy, "retry": {"attempts": 0}})


async def test_C06_a_restarted_worker_asks_a_bad_provider_no_more_than_the_minimum(tmp_path: Path) -> None:
    async with Upstream("p", default=status(500)) as p, Upstream("s") as s:
        for restarts in range(2):
            async with started(values(p, s), tmp_path) as gateway:
                listen = (await gateway.event("start"))["listen"]
                for _ in range(3 * MINIMUM):
                    assert (await ask(listen))[0] == 200
                assert p.attempts == (restarts + 1) * MINIMUM
                gateway.process.kill()


async def test_C06_a_worker_that_starts_does_not_touch_the_other_ones_breaker() -> None:
    clock = ManualClock()
    async with Upstream("p", default=status(500)) as p, Upstream("s") as s:
        made = values(p, s, cooldown="4s")
        async with lab(made, clock) as first:
            for _ in range(MINIMUM):
                await first.chat()
            await clock.run(1.0)
            async with lab(made, clock) as second:
                assert await breaker(second, "p") == ("closed", 0, 0)
                for _ in range(MINIMUM + 2):
                    assert said(await second.chat(), stream=False) == "hello from s"
                assert p.attempts == 2 * MINIMUM
                assert (await first.target("p"))["breaker"]["retry_in_s"] == 3
                assert (await second.target("p"))["breaker"]["retry_in_s"] == 4
                p.default = answer()
                await clock.run(3.0)
                assert said(await first.chat(), stream=False) == "hello from p", "4 s after it opened here"
                assert said(await second.chat(), stream=False) == "hello from s"
                await clock.run(1.0)
                assert said(await second.chat(), stream=False) == "hello from p"


@pytest.mark.parametrize("stream", MODES)
async def test_C06_the_second_good_probe_closes_and_a_failure_between_opens_again(stream: bool) -> None:
    clock = ManualClock()
    async with Upstream("p") as p, Upstream("s") as s:
        async with lab(values(p, s, cooldown="4s", successes=2), clock) as g:

            async def asked() -> str:
                return said(await g.chat(stream=stream), stream=stream)

            p.script(*[status(500)] * MINIMUM, answer(), status(500), answer(), answer())
            for _ in range(MINIMUM):
                assert await asked() == "hello from s"
            await clock.run(4.0)
            assert await asked() == "hello from p"
            shown = (await g.target("p"))["breaker"]
            assert (shown["state"], shown["retry_in_s"]) == ("open", 0)
            assert await g.metric("stanchion_breaker_state", target="p") == 2

            assert await asked() == "hello from s"
            shown = (await g.target("p"))["breaker"]
            assert (shown["state"], shown["retry_in_s"]) == ("open", 4)
            assert await asked() == "hello from s"
            assert p.attempts == MINIMUM + 2

            await clock.run(4.0)
            assert await asked() == "hello from p"
            assert (await breaker(g, "p"))[0] == "open"
            assert await asked() == "hello from p"
            assert await breaker(g, "p") == ("closed", 0, 0)
            assert [line["state"] for line in g.log if line["event"] == "breaker"] == ["open", "open", "closed"]
