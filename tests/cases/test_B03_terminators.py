"""B03: terminators that are missing or odd. The single rules are tested in tests/llm/test_openai_answer.py."""

from __future__ import annotations

import pytest

from tests.cases.drive import attempts, breaker, turns
from tests.fakes import chat
from tests.fakes.behaviours import sse
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.lab import config, lab

TEXT = [chat.role_chunk(), chat.text_chunk("all "), chat.text_chunk("text")]
COMMITS = ["first_output", "complete"]


@pytest.mark.parametrize("commit", COMMITS)
async def test_B03_a_a_finish_reason_without_done_ends_clean(commit: str) -> None:
    """On a clock that stands still: nothing is waited for."""
    async with Upstream("p") as p, lab(config({"p": p}), ManualClock()) as g:
        p.script(sse(*TEXT, chat.finish_chunk("stop")))
        got = await g.chat(stream=True, headers={"x-stanchion-commit": commit})
        assert (got.clean, got.streamed_text) == (True, "all text")
        assert await turns(g, "success") == 1
        assert await breaker(g, "p") == ("closed", 1, 0)


@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize(
    ("extra", "reason"),
    [([], "stop"), ([chat.tool_chunk(call_id="call_1", name="look", arguments="{}")], "tool_calls")],
)
async def test_B03_b_done_without_a_finish_reason_gets_one(extra: list[bytes], reason: str, commit: str) -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        p.script(sse(*TEXT, *extra, chat.DONE))
        got = await g.chat(stream=True, headers={"x-stanchion-commit": commit})
        assert got.clean
        assert got.events[-1] == "[DONE]"
        assert got.events[-2]["choices"][0]["finish_reason"] == reason


@pytest.mark.parametrize("commit", COMMITS)
async def test_B03_c_a_role_and_then_the_end_is_no_answer_so_the_second_target_serves(commit: str) -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s})) as g:
        p.script(sse(chat.role_chunk()))
        got = await g.chat(stream=True, headers={"x-stanchion-commit": commit})
        assert (got.clean, got.streamed_text) == (True, "hello from s")
        assert got.trail == ["p class=bad_upstream_response", "s class=success"]
        assert await attempts(g, "p", "bad_upstream_response") == 1


@pytest.mark.parametrize("commit", COMMITS)
async def test_B03_d_empty_finish_reasons_are_sent_as_null(commit: str) -> None:
    empty = chat.text_chunk("more ").replace(b'"finish_reason": null', b'"finish_reason": ""')
    assert b'"finish_reason": ""' in empty
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        p.script(sse(chat.role_chunk(), empty, empty, chat.finish_chunk("stop"), chat.DONE))
        got = await g.chat(stream=True, headers={"x-stanchion-commit": commit})
        assert (got.clean, got.streamed_text) == (True, "more more ")
        reasons = [choice["finish_reason"] for event in got.events[:-1] for choice in event["choices"]]
        assert reasons == [None, None, None, "stop"]
