"""The headers of answers, and what a caller may ask for in headers of its own."""

from __future__ import annotations

import asyncio
import re

import pytest

from tests.fakes.behaviours import answer as good
from tests.fakes.behaviours import silent, status
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.lab import config, lab


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_every_answer_says_who_answered_and_what_was_tried(stream: bool) -> None:
    async with (
        Upstream("p", default=status(429)) as p,
        Upstream("s", default=good(model="s-model-2026")) as s,
        lab(config({"p": p, "s": s}), ManualClock()) as g,
    ):
        answer = await g.chat(stream=stream)
        headers = answer.headers
        assert headers["x-stanchion-target"] == "s"
        assert headers["x-stanchion-model"] == "s-model"
        assert headers["x-stanchion-attempts"] == "p;class=rate_limited;ms=0, s;class=success;ms=0"
        assert re.fullmatch(r"req_[0-9a-f]{24}", headers["x-stanchion-request-id"])
        assert headers["x-request-id"] == headers["x-stanchion-request-id"] == g.turns[-1]["request_id"]
        assert headers["server"] == "stanchion"
        assert headers["content-type"] == ("text/event-stream" if stream else "application/json")
        if stream:
            assert (headers["cache-control"], headers["x-accel-buffering"]) == ("no-cache", "no")
            assert "content-length" not in headers
            assert all(event["model"] == "s-model-2026" for event in answer.events[:-1])
        else:
            assert headers["content-length"] == str(len(answer.body))
            assert answer.json["model"] == "s-model-2026"
        again = await g.chat(stream=stream)
        assert again.headers["x-stanchion-attempts"] == "p;skip=hold, s;class=success;ms=0"
        assert again.headers["x-request-id"] != headers["x-request-id"]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_an_error_has_the_trail_in_its_headers_and_its_body(stream: bool) -> None:
    async with Upstream("p", default=status(500)) as p, Upstream("s", default=status(503)) as s:
        values = config({"p": p, "s": s}, defaults={"retry": {"attempts": 0}})
        async with lab(values, ManualClock()) as g:
            answer = await g.chat(stream=stream)
            assert answer.status == 503
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["x-stanchion-attempts"] == "p;class=server_error;ms=0, s;class=overloaded;ms=0"
            assert answer.error["attempts"] == [
                {"target": "p", "class": "server_error", "ms": 0},
                {"target": "s", "class": "overloaded", "ms": 0},
            ]
            assert set(answer.error) >= {"message", "type", "code", "param", "class", "attempts"}
            assert answer.headers["x-should-retry"] == "false"
            assert answer.headers["x-request-id"] == g.turns[-1]["request_id"]


@pytest.mark.parametrize(
    ("behaviour", "code", "retry"),
    [
        (status(400), 400, "false"),
        (status(404, "model_not_found"), 404, "false"),
        (status(503), 503, "false"),
    ],
)
async def test_what_no_further_try_can_help_is_not_to_be_retried_by_the_sdk(
    behaviour: object, code: int, retry: str
) -> None:
    async with Upstream("p", default=behaviour) as p:  # type: ignore[arg-type]
        async with lab(config({"p": p}, defaults={"retry": {"attempts": 0}})) as g:
            answer = await g.chat()
            assert (answer.status, answer.headers["x-should-retry"]) == (code, retry)


async def test_a_hold_names_the_time_to_come_back_and_may_be_retried() -> None:
    clock = ManualClock()
    async with Upstream("p", default=status(429, headers={"Retry-After": "7"})) as p:
        async with lab(config({"p": p}), clock) as g:
            assert (await g.chat()).headers["retry-after"] == "7"
            clock.advance(2.5)
            answer = await g.chat()
            assert (answer.status, answer.error["class"]) == (429, "shed")
            assert answer.headers["retry-after"] == "5"  # what is left, rounded up
            assert "x-should-retry" not in answer.headers
            assert g.turns[-1]["outcome"] == "no_target"
            assert p.attempts == 1


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("x-stanchion-timeout", "0", "seconds"),
        ("x-stanchion-timeout", "-1", "seconds"),
        ("x-stanchion-timeout", "soon", "seconds"),
        ("x-stanchion-timeout", "nan", "seconds"),
        ("x-stanchion-timeout", "inf", "seconds"),
        ("x-stanchion-timeout", "", "seconds"),
        ("x-stanchion-priority", "urgent", "batch"),
        ("x-stanchion-priority", "", "batch"),
        ("x-stanchion-commit", "sometimes", "first_output"),
    ],
)
async def test_a_header_that_cannot_be_read_is_400_and_named(name: str, value: str, words: str) -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        answer = await g.chat(headers={name: value})
        assert (answer.status, answer.error["class"], answer.error["param"]) == (400, "bad_request", name)
        assert name in answer.error["message"]
        assert words in answer.error["message"]
        assert p.attempts == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-stanchion-timeout", "2.5"),
        ("x-stanchion-timeout", "1e9"),
        ("x-stanchion-priority", "batch"),
        ("x-stanchion-priority", "interactive"),
        ("x-stanchion-commit", "first_output"),
    ],
)
async def test_a_good_header_is_taken_and_not_handed_on(name: str, value: str) -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        assert (await g.chat(headers={name: value})).status == 200
        assert p.requests[0].header(name) is None


async def test_the_callers_timeout_bounds_the_request_and_ends_in_504() -> None:
    clock = ManualClock()
    async with Upstream("p") as p:
        p.default = silent()
        async with lab(config({"p": p}), clock) as g:
            asking = asyncio.ensure_future(g.chat(headers={"x-stanchion-timeout": "2.5"}))
            await p.wait_for_requests(1)
            await clock.run(2.5)
            answer = await asking
            assert (answer.status, answer.error["class"]) == (504, "deadline")
            assert [entry["target"] for entry in answer.error["attempts"]] == ["p"]
            assert g.turns[-1]["outcome"] == "deadline"
            await p.requests[0].wait_closed()
            assert (await g.target("p"))["breaker"]["failures"] == 0  # the caller's limit is no fault of the target


async def test_a_longer_timeout_than_the_routes_does_not_lengthen_it() -> None:
    clock = ManualClock()
    async with Upstream("p", default=silent()) as p, lab(config({"p": p}, route={"deadline": "3s"}), clock) as g:
        asking = asyncio.ensure_future(g.chat(headers={"x-stanchion-timeout": "100"}))
        await p.wait_for_requests(1)
        await clock.run(3)
        assert (await asking).status == 504


async def test_a_well_formed_trace_parent_goes_on_and_nothing_else() -> None:
    good_one = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        await g.chat(headers={"traceparent": good_one, "tracestate": "a=b", "baggage": "c=d"})
        await g.chat(headers={"traceparent": "00-nonsense"})
        assert [seen.header("traceparent") for seen in p.requests] == [good_one, None]
        assert p.requests[0].header("tracestate") is None
        assert p.requests[0].header("baggage") is None
