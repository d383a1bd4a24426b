"""What callers may send, and what may break beneath: none of it stays behind, none of it reaches the next request."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from aiohttp import web

from llm.fallback import CommittedStream
from tests.fakes.upstream import Upstream
from tests.gateway.wire import chat_request, wire
from tests.lab import Lab, config, lab

CALLERS = [{"name": "one", "key": "key-of-one"}]


def live_requests() -> int:
    gc.collect()
    return sum(isinstance(thing, web.Request) for thing in gc.get_objects())


@pytest.mark.parametrize("admin", [False, True], ids=["public", "admin"])
async def test_unknown_paths_and_methods_leave_nothing_behind(admin: bool) -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        await ask_in_vain(g, 5, admin=admin)
        before = live_requests()
        await ask_in_vain(g, 50, admin=admin)
        assert live_requests() <= before + 2


async def ask_in_vain(g: Lab, times: int, *, admin: bool) -> None:
    for _ in range(times):
        assert (await g.get("/nope", admin=admin)).status == 404
    base = g.admin_url if admin else g.url
    for _ in range(times):
        async with g.session.delete(f"{base}/livez") as response:
            assert response.status == 405


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models"])
async def test_a_key_that_is_no_text_is_an_unknown_key(path: str) -> None:
    method = "POST" if "chat" in path else "GET"
    async with Upstream("p") as p, lab(config({"p": p}, callers=CALLERS)) as g, wire(g) as w:
        w.send(
            f"{method} {path} HTTP/1.1\r\nHost: g\r\nContent-Length: 0\r\nAuthorization: Bearer \xff\xfe\r\n\r\n".encode(
                "latin-1"
            )
        )
        assert (await w.answer()).status == 401
        assert not [line for line in g.log if line["event"] == "crash"]


async def test_a_web_page_cannot_use_a_gateway_without_keys() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        foreign = await g.chat(headers={"Origin": "https://elsewhere.example"})
        assert (foreign.status, foreign.error["class"], p.attempts) == (403, "forbidden", 0)
        assert (await g.chat(headers={"Origin": "null"})).status == 403
        assert (await g.chat(headers={"Origin": "http://localhost:3000"})).status == 200
    async with Upstream("p") as p, lab(config({"p": p}, callers=CALLERS)) as g:
        headers = {"Origin": "https://elsewhere.example", "Authorization": "Bearer key-of-one"}
        assert (await g.chat(headers=headers)).status == 200


async def test_a_fault_of_our_own_after_output_is_one_error_event_and_no_second_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = 0
    real = CommittedStream.read

    async def failing(self: CommittedStream) -> Any:
        nonlocal reads
        reads += 1
        if reads == 3:
            raise RuntimeError("a defect")
        return await real(self)

    async with Upstream("p") as p, lab(config({"p": p})) as g:
        monkeypatch.setattr(CommittedStream, "read", failing)
        answer = await g.chat(stream=True)
        assert answer.status == 200
        assert not answer.whole
        assert b"HTTP/1.1" not in answer.body
        assert [error["class"] for error in answer.error_events] == ["internal"]
        assert (g.turns[-1]["outcome"], g.turns[-1]["error_class"]) == ("failed", "internal")
        monkeypatch.undo()
        assert (await g.chat()).status == 200


async def test_a_log_that_cannot_be_written_costs_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:

        def full(_: str) -> int:
            raise BrokenPipeError

        monkeypatch.setattr(g.out, "write", full)
        assert (await g.chat()).status == 200
        assert (await g.chat(stream=True)).clean
        assert (await g.chat("another")).status == 404
        assert g.service.log.lost == 3


async def test_a_slow_second_head_is_closed_like_a_first_one() -> None:
    async with Upstream("p") as p:
        values = config({"p": p})
        values["gateway"]["header_timeout"] = "200ms"
        async with lab(values) as g, wire(g) as w:
            w.send(chat_request())
            assert (await w.answer()).status == 200
            w.send("POST /v1/chat/completions HTTP/1.1\r\nHo")
            assert await w.closed() == b""
            assert (await g.chat()).status == 200


async def test_a_route_with_a_slash_is_found_under_its_name() -> None:
    async with Upstream("p") as p:
        values = config({"p": p})
        values["routes"] = {"org/model": {"targets": ["p"]}}
        async with lab(values) as g:
            assert (await g.get("/v1/models/org/model")).json["id"] == "org/model"
