"""A model that is gone is passed on, and holds nothing but itself."""

from __future__ import annotations

import pytest

from tests.cases.drive import MODES, attempts, breaker, by_model, said
from tests.fakes.behaviours import answer, status
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.lab import Json, config, lab

GONE = status(404, "model_not_found", "The model m1 does not exist")


def two_models(p: Upstream, s: Upstream) -> Json:
    """P with m1 and m2, each in front of S."""
    values = config({"p": p, "s": s})
    values["targets"] = {
        "p1": {"provider": "p", "model": "m1"},
        "p2": {"provider": "p", "model": "m2"},
        "s": {"provider": "s", "model": "s-model"},
    }
    values["routes"] = {"m1": {"targets": ["p1", "s"]}, "m2": {"targets": ["p2", "s"]}}
    return values


@pytest.mark.parametrize("stream", MODES)
async def test_A02_only_the_model_is_held(stream: bool) -> None:
    clock = ManualClock()
    async with Upstream("p", default=by_model({"m1": GONE, "m2": answer()})) as p, Upstream("s") as s:
        async with lab(two_models(p, s), clock) as g:
            assert said(await g.chat("m1", stream=stream), stream=stream) == "hello from s"
            assert (p.attempts, s.attempts) == (1, 1)

            assert said(await g.chat("m2", stream=stream), stream=stream) == "hello from p"
            assert (await g.target("p2"))["hold"] is None
            assert await breaker(g, "p1") == ("closed", 0, 0)
            assert await breaker(g, "p2") == ("closed", 1, 0)

            again = await g.chat("m1", stream=stream)
            assert said(again, stream=stream) == "hello from s"
            assert again.trail == ["p1 skip=hold", "s class=success"]
            assert (p.attempts, s.attempts) == (2, 2)

            hold = (await g.target("p1"))["hold"]
            assert (hold["reason"], hold["scope"]) == ("model_unavailable", "model")
            await clock.run(hold["seconds_left"])
            await g.chat("m1", stream=stream)
            assert p.attempts == 3, "the hold ends"


@pytest.mark.parametrize("stream", MODES)
async def test_A02_without_another_target_the_404_is_the_callers(stream: bool) -> None:
    async with Upstream("p", default=GONE) as p, lab(config({"p": p}), ManualClock()) as g:
        got = await g.chat(stream=stream)
        assert got.status == 404
        assert (got.error["code"], got.error["message"]) == ("model_not_found", "The model m1 does not exist")
        assert (got.error["type"], got.error["class"]) == ("invalid_request_error", "model_unavailable")
        assert p.attempts == 1
        assert await attempts(g, "p", "model_unavailable") == 1
