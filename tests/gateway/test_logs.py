"""The log: one line for each request, in either format, from the level that was asked for."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime

import pytest

from tests.fakes.behaviours import answer, cut_after, status
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.gateway.wire import chat_request, idle, wire
from tests.lab import Json, config, lab

NO_RETRY = {"retry": {"attempts": 0}}


def logging(p: Upstream, s: Upstream, **log: str) -> Json:
    gateway = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "log": log}
    return config({"p": p, "s": s}, gateway=gateway, defaults=NO_RETRY)


async def test_a_request_is_one_line_with_what_came_of_it() -> None:
    async with (
        Upstream("p", default=status(503)) as p,
        Upstream("s", default=answer(usage=(7, 5))) as s,
        lab(logging(p, s), ManualClock()) as g,
    ):
        answered = await g.chat(stream=True)
        assert g.log == [
            {
                "time": "2027-01-15T08:00:00.000+00:00",
                "level": "info",
                "event": "turn",
                "request_id": answered.headers["x-request-id"],
                "route": "r",
                "caller": "local",
                "outcome": "rescued",
                "status": 200,
                "target": "s",
                "model": "s-model",
                "stream": True,
                "ms": 0,
                "overhead_ms": 0.0,
                "input_tokens": 7,
                "output_tokens": 5,
                "attempts": ["p;class=overloaded;ms=0", "s;class=success;ms=0"],
            }
        ]


async def test_every_kind_of_request_has_its_line() -> None:
    async with Upstream("p") as p, Upstream("s", default=status(500)) as s, lab(logging(p, s), ManualClock()) as g:
        await g.chat()
        await g.chat("nothing")
        await g.post("/v1/chat/completions", b"{")
        p.script(status(500))
        await g.chat()
        p.script(status(400))
        await g.chat()
        lines = [(turn["level"], turn["outcome"], turn["status"], turn.get("error_class")) for turn in g.turns]
        assert lines == [
            ("info", "success", 200, None),
            ("info", "rejected", 404, "not_found"),
            ("info", "rejected", 400, "bad_request"),
            ("warning", "failed", 503, "server_error"),
            ("info", "rejected", 400, "bad_request"),
        ]
        assert len({turn["request_id"] for turn in g.turns}) == len(g.turns)
        await g.get("/livez")
        await g.get("/v1/models")
        await g.get("/metrics", admin=True)
        assert len(g.turns) == len(g.log)  # what is no turn has no line


@pytest.mark.parametrize(
    ("level", "seen"),
    [
        ("debug", ["success", "failed"]),
        ("info", ["success", "failed"]),
        ("warning", ["failed"]),
        ("error", []),
    ],
)
async def test_the_level_filters(level: str, seen: list[str]) -> None:
    async with Upstream("p") as p, Upstream("s", default=status(500)) as s, lab(logging(p, s, level=level)) as g:
        await g.chat()
        p.script(status(500))
        await g.chat()
        assert [turn["outcome"] for turn in g.turns] == seen


async def test_the_text_format_is_one_readable_line() -> None:
    async with Upstream("p", default=status(503)) as p, Upstream("s") as s:
        async with lab(logging(p, s, format="text")) as g:
            await g.chat()
            lines = g.out.getvalue().splitlines()
            assert len(lines) == 1
            assert re.fullmatch(
                r"\d\d:\d\d:\d\d\.\d{3} info    turn     request_id=req_[0-9a-f]{24} route=r caller=local"
                r" outcome=rescued status=200 target=s model=s-model stream=False ms=\d+ overhead_ms=[\d.]+"
                r" input_tokens=12 output_tokens=3"
                r" attempts=\[p;class=overloaded;ms=\d+, s;class=success;ms=\d+\]",
                lines[0],
            )


async def test_times_are_utc_and_in_order() -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(logging(p, s)) as g:
        for _ in range(3):
            await g.chat()
        times = [datetime.fromisoformat(line["time"]) for line in g.log]
        assert times == sorted(times)
        assert all(time.utcoffset() is not None and not time.utcoffset() for time in times)


async def test_a_breaker_that_opens_and_closes_has_its_lines() -> None:
    clock = ManualClock()
    strict = {"breaker": {"minimum": 1, "failure_ratio": "1%"}, **NO_RETRY}
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, defaults=strict), clock) as g:
        p.script(status(500))
        await g.chat()
        await clock.run(10)
        await g.chat()
        lines = [(line["of"], line["state"], line["level"]) for line in g.log if line["event"] == "breaker"]
        assert lines == [("p", "open", "warning"), ("p", "closed", "info")]


async def test_a_stream_that_breaks_off_is_a_warning() -> None:
    seen = asyncio.Event()
    async with Upstream("p") as p, Upstream("s") as s, lab(logging(p, s)) as g, wire(g) as w:
        p.script(cut_after(2, until=seen))
        w.send(chat_request(stream=True))
        await w.head()
        await w.until_seen(b"p1 ")
        seen.set()
        await w.closed()
        await idle(g)
        assert (g.turns[0]["level"], g.turns[0]["outcome"]) == ("warning", "stream_interrupted")
