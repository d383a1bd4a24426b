"""B02: a stream that dies half way is never closed as if complete, and never restarted on the same response."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from availability.outcome import Outcome, standing
from tests.cases.drive import breaker, turns
from tests.fakes import chat
from tests.fakes.behaviours import Step, cut, rst, sse, wait
from tests.fakes.upstream import Upstream
from tests.gateway.wire import chat_request, idle, serves, wire
from tests.lab import Answer, config, lab

PIECES = [chat.text_chunk(f"p{number:02d} ") for number in range(60)]
TEXT = "".join(f"p{number:02d} " for number in range(40))
ENDS: dict[str, Step] = {
    "closed": cut(),
    "reset": rst(),
    "error event": chat.error_event({"message": "Internal", "type": "server_error"}, "error"),
    "proper end of the body": b"",
}


@pytest.mark.parametrize("end", ENDS)
async def test_B02_forty_pieces_then_exactly_one_error_event_and_no_clean_end(end: str) -> None:
    seen = asyncio.Event()
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s})) as g:
        p.script(sse(chat.role_chunk(), *PIECES[:40], wait(seen), ENDS[end]))
        async with wire(g) as w:
            w.send(chat_request(stream=True))
            status, headers = await w.head()
            body = await w.until_seen(b"p39 ")
            seen.set()
            try:
                while piece := await w.piece():
                    body += piece
                whole = True
            except (asyncio.IncompleteReadError, ConnectionError):
                whole = False
        got = Answer(status, headers, body, whole=whole)
        assert got.streamed_text == TEXT
        assert len(got.error_events) == 1
        assert got.events[-1] == {"error": got.error_events[0]}
        assert "[DONE]" not in got.events
        assert not any(choice.get("finish_reason") for event in got.events[:-1] for choice in event["choices"])
        assert not got.whole
        assert s.attempts == 0
        assert await turns(g, "stream_interrupted") == 1
        assert await breaker(g, "p") == ("closed", 1, 1)
        assert g.turns[-1]["outcome"] == "stream_interrupted"
        assert standing(Outcome(g.turns[-1]["outcome"])) == "bad"
        await serves(g)
        await idle(g)


@pytest.mark.parametrize("asked", ["by the route", "by the header"])
@pytest.mark.parametrize("end", ENDS)
async def test_B02_held_to_its_end_the_answer_is_the_second_targets_from_its_first_word(end: str, asked: str) -> None:
    route: dict[str, Any] = {"retry": {"attempts": 0}}
    headers = {"x-stanchion-commit": "complete"} if asked == "by the header" else {}
    if not headers:
        route["stream"] = {"commit": "complete"}
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=route)) as g:
        p.script(sse(chat.role_chunk(), *PIECES[:40], ENDS[end]))
        got = await g.chat(stream=True, headers=headers)
        assert (got.clean, got.streamed_text) == (True, "hello from s")
        assert len([c for e in got.events[:-1] for c in e["choices"] if c["delta"].get("role")]) == 1
        assert got.error_events == []
        assert b"p00" not in got.body
        assert await turns(g, "rescued") == 1
        assert await breaker(g, "p") == ("closed", 1, 1)
        await idle(g)
