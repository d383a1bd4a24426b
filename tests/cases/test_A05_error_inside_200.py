"""A 200 that holds no answer is a failure."""

from __future__ import annotations

import pytest

from tests.cases.drive import MODES, attempts, breaker, said
from tests.fakes.behaviours import Behaviour, html, raw, truncated
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.lab import config, lab

BAD = {
    "a": raw(b'{"error":{"code":502,"message":"x"}}'),
    "b": raw(b'{"html-message":"x"}'),
    "c": html(),
    "d": raw(b'{"choices":null}'),
    "e": raw(b'{"id":"x","choices":[{"index":0,"mess'),
    "e, cut off": truncated(b'{"id":"x","choices":[{"index":0,"mess'),
}
pytestmark = [pytest.mark.parametrize("bad", BAD.values(), ids=BAD), pytest.mark.parametrize("stream", MODES)]


async def test_A05_the_fallback_serves(bad: Behaviour, stream: bool) -> None:
    async with Upstream("p", default=bad) as p, Upstream("s") as s:
        async with lab(config({"p": p, "s": s}), ManualClock()) as g:
            answer = await g.chat(stream=stream)
            assert said(answer, stream=stream) == "hello from s"
            assert answer.trail == ["p class=bad_upstream_response", "s class=success"]
            assert (p.attempts, s.attempts) == (1, 1)
            assert await breaker(g, "p") == ("closed", 1, 1)
            assert await attempts(g, "p", "bad_upstream_response") == 1
            assert await attempts(g, "p", "success") == 0


async def test_A05_without_a_fallback_it_is_a_502(bad: Behaviour, stream: bool) -> None:
    async with Upstream("p", default=bad) as p, lab(config({"p": p}), ManualClock()) as g:
        answer = await g.chat(stream=stream)
        assert answer.status == 502
        assert answer.error["class"] == "bad_upstream_response"
        assert (answer.error["type"], p.attempts) == ("server_error", 1)
        assert await breaker(g, "p") == ("closed", 1, 1)
