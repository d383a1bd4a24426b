"""Framing is each hop's own: codings, lengths and hop-by-hop headers are never copied."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.behaviours import answer, raw, sse, status, wait
from tests.fakes.chat import DONE, completion, finish_chunk, text_chunk
from tests.fakes.exchange import Encoding
from tests.fakes.upstream import Upstream
from tests.gateway.wire import POST, chat_body, serves, wire
from tests.lab import config, lab

TEXT = "grüße, 世界 🎉 " * 50
HOP_BY_HOP = (
    "Connection: close, x-foo\r\nx-foo: 1\r\nTE: trailers\r\nKeep-Alive: timeout=5\r\nUpgrade: h2c\r\n"
    "Proxy-Connection: keep-alive\r\nTrailer: x-bar\r\n"
)
GONE = ("x-foo", "te", "keep-alive", "upgrade", "proxy-connection", "trailer", "transfer-encoding", "content-encoding")
CODINGS: tuple[Encoding, ...] = ("gzip", "br")


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("accepts", ["", "Accept-Encoding: gzip, br, zstd\r\n"], ids=["", "accepts"])
async def test_J02_a_coded_answer_reaches_the_caller_as_plain_bytes(
    coding: Encoding, stream: bool, accepts: str
) -> None:
    async with Upstream("p", default=answer(TEXT, encoding=coding)) as p, lab(config({"p": p})) as g, wire(g) as w:
        body = chat_body(stream=stream)
        w.send(f"{POST}{accepts}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answered = await w.answer()
        assert answered.status == 200
        assert (answered.streamed_text if stream else answered.text) == TEXT
        assert "content-encoding" not in answered.headers
        if stream:
            assert "content-length" not in answered.headers
            assert answered.clean
        else:
            assert "transfer-encoding" not in answered.headers
        w.send(f"{POST}Content-Length: {len(body)}\r\n\r\n".encode() + body)  # the length was that of the bytes sent
        assert (await w.answer()).status == 200


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize(("code", "error_class"), [(400, "bad_request"), (429, "rate_limited"), (500, "server_error")])
async def test_J02_a_coded_error_is_read(coding: Encoding, stream: bool, code: int, error_class: str) -> None:
    refusal = status(code, message="wie schön 🎉", encoding=coding)
    async with (
        Upstream("p", default=refusal) as p,
        lab(config({"p": p}, defaults={"retry": {"attempts": 0}})) as g,
        wire(g) as w,
    ):
        body = chat_body(stream=stream)
        w.send(f"{POST}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answered = await w.answer()
        assert (answered.status, answered.error["class"]) == (503 if code == 500 else code, error_class)
        assert "wie schön 🎉" in answered.error["message"]
        assert "content-encoding" not in answered.headers


@pytest.mark.parametrize("coding", CODINGS)
async def test_J02_a_coded_stream_is_passed_on_as_it_comes(coding: Encoding) -> None:
    go = asyncio.Event()
    script = sse(text_chunk("one "), wait(go), text_chunk("two"), finish_chunk(), DONE, encoding=coding)
    async with Upstream("p", default=script) as p, lab(config({"p": p})) as g, wire(g) as w:
        body = chat_body(stream=True)
        w.send(f"{POST}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await w.head()
        await w.until_seen(b"one ")
        go.set()
        await w.until_seen(b"[DONE]")


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("coding", CODINGS)
async def test_J02_a_large_coded_answer_is_whole(coding: Encoding, stream: bool) -> None:
    text = "".join(f"{number:07d}" for number in range(200_000)) + "€" * 300_000
    async with Upstream("p", default=answer(text, encoding=coding)) as p, lab(config({"p": p})) as g:
        answered = await g.chat(stream=stream)
        assert (answered.streamed_text if stream else answered.text) == text
        assert (await g.chat(stream=stream)).status == 200
        assert p.requests[1].connection == p.requests[0].connection


async def test_J02_a_bomb_from_a_provider_is_a_bad_answer() -> None:
    bomb = raw(b" " * 70_000_000, encoding="gzip")
    async with Upstream("p", default=bomb) as p, Upstream("s") as s, lab(config({"p": p, "s": s})) as g:
        answered = await g.chat()
        assert answered.trail == ["p class=bad_upstream_response", "s class=success"]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_J02_hop_by_hop_headers_stay_on_their_hop(stream: bool) -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g, wire(g) as w:
        body = chat_body(stream=stream)
        w.send(f"{POST}{HOP_BY_HOP}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answered = await w.answer()
        assert answered.status == 200
        await w.closed()
        seen = p.requests[0]
        assert [name for name in GONE if seen.header(name) is not None] == []
        assert (seen.header("connection") or "keep-alive").lower() == "keep-alive"
        assert seen.header("content-length") == str(len(seen.body))
        assert seen.json["model"] == "p-model"  # longer than the caller's: the length is the new body's
        await serves(g)
        assert p.requests[1].connection == p.requests[0].connection  # the caller's `close` was for its own


async def test_J02_an_offered_upgrade_is_declined_in_silence() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g, wire(g) as w:
        body = chat_body()
        offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
        w.send(f"{POST}{offer}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert (await w.answer()).text == "hello from p"
        assert p.requests[0].header("upgrade") is None
        assert p.requests[0].header("http2-settings") is None


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_J02_the_providers_hop_by_hop_headers_stay_on_theirs(stream: bool) -> None:
    own = {"Connection": "close, x-foo", "x-foo": "1", "Keep-Alive": "timeout=1", "Upgrade": "h2", "Trailer": "x-bar"}
    async with Upstream("p", default=answer(headers=own)) as p, lab(config({"p": p})) as g, wire(g) as w:
        for _ in range(2):  # the caller's connection stays
            body = chat_body(stream=stream)
            w.send(f"{POST}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answered = await w.answer()
            assert answered.status == 200
            assert not {"x-foo", "keep-alive", "upgrade", "trailer"} & answered.headers.keys()
            assert answered.headers.get("connection", "keep-alive") == "keep-alive"


async def test_J02_a_chunked_request_goes_upstream_with_a_length() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g, wire(g) as w:
        body = chat_body()
        w.send(f"{POST}Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n")
        assert (await w.answer()).status == 200
        assert p.requests[0].header("transfer-encoding") is None
        assert p.requests[0].header("content-length") == str(len(p.requests[0].body))


@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: {n}\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: {n}\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
        "Transfer-Encoding: gzip, chunked, identity\r\n",
        "Content-Length: {n}\r\nContent-Length: 1\r\n",
        "Content-Length: +{n}\r\n",
    ],
)
async def test_J02_a_doubly_framed_request_is_400_without_an_attempt(framing: str) -> None:
    body = chat_body()
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        async with wire(g) as w:
            w.send(f"{POST}{framing.format(n=len(body))}\r\n{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n")
            answered = await w.answer()
            assert (answered.status, answered.error["class"]) == (400, "bad_request")
            assert answered.error["type"] == "invalid_request_error"
            assert answered.headers["content-type"] == "application/json"
            assert answered.headers["connection"] == "close"
            await w.closed()
        assert p.attempts == 0
        assert p.malformed == []
        await serves(g)


async def test_J02_a_doubly_framed_answer_is_the_providers_failure() -> None:
    whole = completion("hi", completion_id="c", model="m", finish="stop", usage=None)
    double = raw(whole, headers={"Transfer-Encoding": "chunked"})
    async with Upstream("p", default=double) as p, Upstream("s") as s, lab(config({"p": p, "s": s})) as g:
        answered = await g.chat()
        assert answered.text == "hello from s"
        assert answered.trail[0] == "p class=bad_upstream_response"
