"""B04: the usage-only chunk neither breaks anything, nor is lost or doubled."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes import chat
from tests.fakes.behaviours import sse, status
from tests.fakes.upstream import Upstream
from tests.lab import config, lab

FILTERS = chat.event({"id": "c", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]})


def stream(text: str, taken: int, given: int) -> list[bytes]:
    return [
        FILTERS,
        chat.role_chunk(),
        chat.text_chunk(text),
        chat.finish_chunk(),
        chat.usage_chunk(taken, given),
        chat.DONE,
    ]


@pytest.mark.parametrize("commit", ["first_output", "complete"])
@pytest.mark.parametrize("asked", [True, False], ids=["a-asked", "b-not-asked"])
async def test_B04_usage_is_sent_to_who_asked_and_recorded_for_all(asked: bool, commit: str) -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        p.script(sse(*stream("all text", 50, 6)))
        options: dict[str, Any] = {"stream_options": {"include_usage": True}} if asked else {}
        got = await g.chat(stream=True, headers={"x-stanchion-commit": commit}, **options)
        assert (got.clean, got.streamed_text) == (True, "all text")
        usages = [index for index, event in enumerate(got.events) if isinstance(event, dict) and event.get("usage")]
        assert usages == ([len(got.events) - 2] if asked else [])
        assert (g.turns[-1]["input_tokens"], g.turns[-1]["output_tokens"]) == (50, 6)
        assert p.requests[0].json["stream_options"]["include_usage"] is True


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("failed", ["500", "in stream"])
async def test_B04_after_a_fallback_the_usage_is_the_second_targets(failed: str, asked: bool) -> None:
    broken = [FILTERS, chat.role_chunk(), chat.usage_chunk(1000, 1000), chat.error_event({"code": 500})]
    route = {"retry": {"attempts": 0}}
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=route)) as g:
        p.script(status(500) if failed == "500" else sse(*broken))
        s.script(sse(*stream("from s", 50, 6)))
        options: dict[str, Any] = {"stream_options": {"include_usage": True}} if asked else {}
        got = await g.chat(stream=True, **options)
        assert (got.clean, got.streamed_text) == (True, "from s")
        found = [
            event["usage"]["completion_tokens"]
            for event in got.events
            if isinstance(event, dict) and event.get("usage")
        ]
        assert found == ([6] if asked else [])
        assert (g.turns[-1]["input_tokens"], g.turns[-1]["output_tokens"]) == (50, 6)
