"""Providers that answer something else than a completion: a failure of theirs, and the next target serves."""

from __future__ import annotations

import pytest

from tests.fakes.behaviours import (
    Behaviour,
    close,
    cut,
    garbage,
    html,
    raw,
    redirect,
    reset,
    rst,
    sse,
    status,
    truncated,
)
from tests.fakes.chat import completion, event, role_chunk
from tests.fakes.upstream import Upstream
from tests.gateway.wire import serves
from tests.lab import config, lab

HALF = completion("all of it", completion_id="c", model="m", finish="stop", usage=(1, 1))[:80]
BAD, CONNECT = "bad_upstream_response", "connect"
NONSENSE: dict[str, tuple[Behaviour, str]] = {
    "garbage": (garbage(), BAD),
    "html": (html(), BAD),
    "login": (html(302), BAD),
    "redirect": (redirect("http://127.0.0.1:9/elsewhere"), BAD),
    "error-page": (html(502), "server_error"),
    "half-json": (raw(HALF), BAD),
    "short": (truncated(HALF), BAD),
    "short-reset": (truncated(HALF, end=rst()), BAD),
    "empty": (raw(b""), BAD),
    "no-content": (raw(b"", 204), BAD),
    "null": (raw(b"null"), BAD),
    "list": (raw(b"[]"), BAD),
    "number": (raw(b"7"), BAD),
    "other-json": (raw(b'{"ok":true}'), BAD),
    "not-utf8": (raw(b'{"choices":"\xff"}'), BAD),
    "wrong-coding": (raw(b"plain", headers={"Content-Encoding": "gzip"}), BAD),
    "unknown-coding": (raw(b"plain", headers={"Content-Encoding": "rot13"}), BAD),
    "html-stream": (sse(b"<html>", content_type="text/html"), BAD),
    "long-header": (raw(b"{}", headers={"X-Long": "x" * 200_000}), BAD),
    "closed": (close(), CONNECT),
    "reset": (reset(), CONNECT),
    "teapot": (status(418), "bad_request"),
}
IN_A_STREAM: dict[str, tuple[Behaviour, str]] = {
    "empty": (sse(), BAD),
    "half-event": (sse(b'data: {"choices":[{"delta"'), BAD),
    "half-event-cut": (sse(b'data: {"choices":[{"delta"', cut()), BAD),
    "not-json": (sse(role_chunk(), b"data: <html>\n\n"), BAD),
    "not-object": (sse(role_chunk(), b"data: [1]\n\n"), BAD),
    "no-choices": (sse(event({"id": "x"})), BAD),
    "odd-choices": (sse(event({"choices": {"0": 1}})), BAD),
    "odd-choice": (sse(event({"choices": [7]})), BAD),
    "bad-gzip": (sse(b"data: {}\n\n", headers={"Content-Encoding": "gzip"}), BAD),
    "opening-only": (sse(role_chunk()), BAD),
    "done-only": (sse(b"data: [DONE]\n\n"), BAD),
    "no-lines": (sse(*[b"x" * 65536] * 40), BAD),
}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("name", NONSENSE)
async def test_nonsense_is_a_failure_and_the_next_target_serves(name: str, stream: bool) -> None:
    behaviour, error_class = NONSENSE[name]
    async with Upstream("p", default=behaviour) as p, Upstream("s") as s, lab(config({"p": p, "s": s})) as g:
        answer = await g.chat(stream=stream)
        if error_class == "bad_request":  # no other target can cure what the caller sent
            assert (answer.status, s.attempts) == (418, 0)
            return
        assert answer.status == 200
        assert (answer.clean and answer.streamed_text if stream else answer.text) == "hello from s"
        tries = 2 if error_class in (CONNECT, "server_error") else 1
        assert answer.trail == [f"p class={error_class}"] * tries + ["s class=success"]
        assert await g.metric("stanchion_attempts_total", target="p", outcome="success") == 0
        assert (await g.target("p"))["breaker"]["failures"] == tries
        p.default = s.default
        await serves(g)


@pytest.mark.parametrize("name", IN_A_STREAM)
async def test_a_nonsense_stream_is_a_failure_and_the_next_target_serves(name: str) -> None:
    behaviour, error_class = IN_A_STREAM[name]
    async with Upstream("p", default=behaviour) as p, Upstream("s") as s, lab(config({"p": p, "s": s})) as g:
        answer = await g.chat(stream=True)
        assert (answer.status, answer.clean, answer.streamed_text) == (200, True, "hello from s")
        assert answer.trail == [f"p class={error_class}", "s class=success"]
        assert b"fake" not in answer.body, "a frame of the first provider got through"
        p.default = s.default
        await serves(g)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("name", [name for name, (_, error_class) in NONSENSE.items() if error_class == BAD])
async def test_alone_it_is_502_in_the_dialect(name: str, stream: bool) -> None:
    async with Upstream("p", default=NONSENSE[name][0]) as p, lab(config({"p": p})) as g:
        answer = await g.chat(stream=stream)
        assert answer.status == 502
        assert (answer.error["class"], answer.error["type"]) == (BAD, "server_error")
        assert [entry["class"] for entry in answer.error["attempts"]] == [BAD]
        assert answer.headers["x-should-retry"] == "false"
        assert g.turns[-1]["outcome"] == "failed"
        p.default = raw(completion("well", completion_id="c", model="m", finish="stop", usage=None))
        await serves(g)
