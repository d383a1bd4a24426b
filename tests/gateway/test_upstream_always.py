"""`stream.upstream: always`: plain callers, streamed providers."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes import chat
from tests.fakes.behaviours import Step, answer, cut, raw, silent, sse, status
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.gateway.wire import idle
from tests.lab import config, lab

ALWAYS = {"stream": {"upstream": "always"}}


async def test_a_plain_caller_gets_the_one_body_that_it_asked_for() -> None:
    async with Upstream("p") as p, lab(config({"p": p}, route=ALWAYS)) as g:
        got = await g.chat(max_tokens=50)
        assert (got.status, got.headers["content-type"], got.text) == (
            200,
            "application/json",
            "hello from p",
        )
        assert got.json["object"] == "chat.completion"
        assert got.json["usage"]["completion_tokens"] == 3
        assert got.json["choices"][0]["finish_reason"] == "stop"
        sent = p.requests[0].json
        assert (sent["stream"], sent["stream_options"], sent["max_tokens"]) == (True, {"include_usage": True}, 50)
        turn = g.turns[-1]
        assert (turn["stream"], turn["outcome"], turn["output_tokens"]) == (False, "success", 3)
        assert got.trail == ["p class=success"]
        await idle(g)


async def test_tool_calls_come_whole() -> None:
    async with Upstream("p") as p, lab(config({"p": p}, route=ALWAYS)) as g:
        p.script(answer(None, tool_calls=[("call_1", "look", '{"at": 1}')]))
        [choice] = (await g.chat()).json["choices"]
        assert choice["finish_reason"] == "tool_calls"
        [call] = choice["message"]["tool_calls"]
        assert (call["id"], call["type"], call["function"]) == (
            "call_1",
            "function",
            {"name": "look", "arguments": '{"at": 1}'},
        )


@pytest.mark.parametrize("broken", ["cut", "no-finish", "error"])
async def test_a_stream_that_breaks_off_is_rescued(broken: str) -> None:
    ends: dict[str, Step] = {
        "cut": cut(),
        "no-finish": b": x\n\n",
        "error": chat.error_event({"message": "no", "type": "overloaded_error"}),
    }
    route = {**ALWAYS, "retry": {"attempts": 0}}
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=route)) as g:
        p.script(sse(chat.role_chunk(), chat.text_chunk("from p "), ends[broken]))
        got = await g.chat()
        assert (got.text, got.headers["x-stanchion-target"]) == ("hello from s", "s")
        assert b"from p" not in got.body


@pytest.mark.parametrize(
    ("steps", "seconds", "kind"),
    [([], 10.1, "timeout_first_token"), ([chat.role_chunk(), chat.text_chunk("p ")], 15.1, "timeout_idle")],
)
async def test_a_silent_provider_is_found_out_by_its_output(steps: list[bytes], seconds: float, kind: str) -> None:
    clock = ManualClock()
    told = asyncio.Event()

    async def tell(exchange: object) -> None:
        told.set()

    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=ALWAYS), clock) as g:
        p.script(sse(*steps, tell, silent()))
        asked = asyncio.ensure_future(g.chat())
        await told.wait()
        await asyncio.sleep(0.05)
        await clock.run(seconds)
        got = await asked
        assert got.text == "hello from s"
        assert got.trail[0] == f"p class={kind}"


async def test_errors_are_those_of_a_plain_request() -> None:
    async with Upstream("p") as p, lab(config({"p": p}, route=ALWAYS)) as g:
        p.script(status(400, "bad_thing", "no such parameter"))
        got = await g.chat()
        assert (got.status, got.error["code"]) == (400, "bad_thing")


async def test_a_provider_that_does_not_stream_is_a_bad_answer() -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=ALWAYS)) as g:
        p.script(raw(b'{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}'))
        got = await g.chat()
        assert got.trail == ["p class=bad_upstream_response", "s class=success"]


async def test_a_streamed_request_is_sent_as_it_is() -> None:
    async with Upstream("p") as p, lab(config({"p": p}, route=ALWAYS)) as g:
        got = await g.chat(stream=True)
        assert (got.clean, got.streamed_text) == (True, "hello from p")


async def test_what_a_stream_cannot_stand_for_stays_plain() -> None:
    async with Upstream("p") as p, lab(config({"p": p}, route=ALWAYS)) as g:
        await g.chat(modalities=["text", "audio"], audio={"format": "mp3", "voice": "x"})
        assert "stream" not in p.requests[0].json
