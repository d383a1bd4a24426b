"""A content-policy refusal is the caller's to hear, unless a fallback for it is configured."""

from __future__ import annotations

import pytest

from tests.cases.drive import MODES, attempts, breaker, said, turns
from tests.fakes.behaviours import status
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.lab import config, lab

REFUSED = status(400, "content_policy_violation", "Your request was rejected by our safety system.")


@pytest.mark.parametrize("stream", MODES)
async def test_A04_a_an_ordinary_fallback_is_not_asked(stream: bool) -> None:
    async with Upstream("p", default=REFUSED) as p, Upstream("s") as s:
        async with lab(config({"p": p, "s": s}), ManualClock()) as g:
            answer = await g.chat(stream=stream)
            assert answer.status == 400
            assert answer.error["code"] == "content_policy_violation"
            assert answer.error["message"] == "Your request was rejected by our safety system."
            assert (p.attempts, s.attempts) == (1, 0)
            assert await breaker(g, "p") == ("closed", 0, 0)
            assert await turns(g, "rejected") == 1


@pytest.mark.parametrize("stream", MODES)
@pytest.mark.parametrize("others", [[], ["s"], ["q", "s"]])
async def test_A04_b_the_configured_target_is_asked(stream: bool, others: list[str]) -> None:
    async with Upstream("p", default=REFUSED) as p, Upstream("q") as q, Upstream("s") as s:
        values = config({"p": p, "q": q, "s": s}, route={"targets": ["p", *others], "on_content_policy": "s"})
        async with lab(values, ManualClock()) as g:
            assert said(await g.chat(stream=stream), stream=stream) == "hello from s"
            assert (p.attempts, q.attempts, s.attempts) == (1, 0, 1)
            assert await breaker(g, "p") == ("closed", 0, 0)
            assert await attempts(g, "p", "content_policy") == 1


async def test_A04_b_when_that_target_refuses_too_the_caller_hears_it() -> None:
    async with Upstream("p", default=REFUSED) as p, Upstream("s", default=REFUSED) as s:
        values = config({"p": p, "s": s}, route={"targets": ["p"], "on_content_policy": ["s"]})
        async with lab(values, ManualClock()) as g:
            answer = await g.chat()
            assert (answer.status, answer.error["code"]) == (400, "content_policy_violation")
            assert (p.attempts, s.attempts) == (1, 1)
