"""B01: a stream that opens well and then reports an error before any output, in the chat dialect."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.cases.drive import attempts, breaker
from tests.fakes import chat
from tests.fakes.behaviours import Step, sse, wait
from tests.fakes.upstream import Upstream
from tests.gateway.wire import chat_request, wire
from tests.lab import config, lab

MARK = "chatcmpl-of-the-primary"
OPENING: list[Step] = [
    b": keep-alive\n\n",
    chat.event(
        {"id": MARK, "object": "chat.completion.chunk", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}
    ),
    chat.role_chunk(chunk_id=MARK, model="primary-model"),
    chat.text_chunk("", chunk_id=MARK, model="primary-model"),
]
ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "quota": (
        {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"},
        "quota_exhausted",
    ),
    "overloaded": ({"message": "Overloaded", "type": "overloaded_error"}, "overloaded"),
    "503": ({"code": 503}, "overloaded"),
    "500": ({"code": 500, "message": "x"}, "server_error"),
}


@pytest.mark.parametrize("commit", ["first_output", "complete"])
@pytest.mark.parametrize("error", ERRORS)
async def test_B01_the_client_sees_the_second_targets_stream_alone(error: str, commit: str) -> None:
    body, error_class = ERRORS[error]
    route = {"retry": {"attempts": 0}}
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=route)) as g:
        p.script(sse(*OPENING, chat.error_event(body)))
        got = await g.chat(stream=True, headers={"x-stanchion-commit": commit})
        assert (got.status, got.clean, got.streamed_text) == (200, True, "hello from s")
        chunks = [event for event in got.events if isinstance(event, dict)]
        openings = [c for c in chunks for choice in c["choices"] if choice["delta"].get("role")]
        assert len(openings) == 1
        assert {c["id"] for c in chunks} == {"chatcmpl-s-1"}
        assert {c["model"] for c in chunks} == {"s-model"}
        assert MARK.encode() not in got.body
        assert b"primary-model" not in got.body
        assert got.trail == [f"p class={error_class}", "s class=success"]
        assert await attempts(g, "p", error_class) == 1
        state = await breaker(g, "p")
        hold = (await g.target("p"))["hold"]
        if error == "quota":  # a spent account holds the credential and is no sample of the target
            assert state == ("closed", 0, 0)
            assert hold["reason"] == "quota_exhausted"
        else:
            assert state == ("closed", 1, 1)


async def test_B01_at_the_first_output_the_held_frames_come_in_order_and_later_ones_without_delay() -> None:
    seen_first, seen_second = asyncio.Event(), asyncio.Event()
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        p.script(
            sse(
                *OPENING,
                chat.text_chunk("one ", chunk_id=MARK),
                wait(seen_first),  # the provider says no more until the caller has the first piece
                chat.text_chunk("two ", chunk_id=MARK),
                wait(seen_second),
                chat.finish_chunk(chunk_id=MARK),
                chat.DONE,
            )
        )
        async with wire(g) as w:
            w.send(chat_request(stream=True))
            await w.head()
            first = await w.until_seen(b"one ")
            opening = b"".join(step for step in OPENING if isinstance(step, bytes))
            assert first.startswith(opening)
            seen_first.set()
            second = await w.until_seen(b"two ")
            assert b"one " not in second
            seen_second.set()
            await w.until_seen(b"[DONE]")
