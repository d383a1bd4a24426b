"""What callers meet at the edge: paths, methods, keys, models, and requests that cannot be read."""

from __future__ import annotations

import pytest

from stanchion import __version__
from tests.fakes.upstream import Upstream
from tests.gateway.wire import POST, chat_body, chat_request, serves, wire
from tests.lab import Json, config, lab

CALLERS = [
    {"name": "wide", "key": "key-of-wide"},
    {"name": "narrow", "key": "key-of-narrow", "routes": ["other"]},
]


def two_routes(p: Upstream, **parts: object) -> Json:
    values = config({"p": p}, **parts)
    values["routes"]["other"] = {"targets": ["p"]}
    return values


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        (b"", None, "the body is empty"),
        (b"{", None, "not valid JSON"),
        (b'{"model":"r",}', None, "not valid JSON"),
        (b"[]", None, "JSON object"),
        (b"null", None, "JSON object"),
        (b'{"model":"r","messages":[{"role":"user","content":"\\ud800"}]}', None, "not valid JSON"),
        (b'{"model":"r","messages":[{"role":"user","content":"a\\u0000b"}]}', None, "NUL"),
        (b"\xff\xfe", None, "not valid JSON"),
        (b'{"messages":[{"role":"user","content":"x"}]}', "model", "name of a route"),
        (b'{"model":7,"messages":[{"role":"user","content":"x"}]}', "model", "name of a route"),
        (b'{"model":"r"}', "messages", "non-empty list"),
        (b'{"model":"r","messages":[]}', "messages", "non-empty list"),
        (b'{"model":"r","messages":[1],"stream":"yes"}', "stream", "true or false"),
        (b'{"model":"r","messages":[1],"stream_options":1}', "stream_options", "object"),
        (b'{"model":"r","messages":[1],"n":0}', "n", "whole number"),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused_before_any_attempt(
    body: bytes, param: str | None, words: str
) -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        answer = await g.post("/v1/chat/completions", body)
        assert answer.status == 400
        assert answer.error["class"] == "bad_request"
        assert answer.error["type"] == "invalid_request_error"
        assert answer.error["param"] == param
        assert words in answer.error["message"]
        assert answer.headers["x-should-retry"] == "false"
        assert p.attempts == 0
        assert await g.metric("stanchion_turns_total", route="other", outcome="rejected") == 1
        await serves(g)


async def test_json_nested_without_end_is_refused() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        answer = await g.post("/v1/chat/completions", b'{"model":"r","messages":' + b"[" * 100_000)
        assert answer.status == 400
        assert p.attempts == 0
        await serves(g)


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"])
async def test_another_content_type_is_refused(kind: str) -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        answer = await g.post("/v1/chat/completions", chat_body(), headers={"Content-Type": kind})
        assert answer.status == 415
        assert "application/json" in answer.error["message"]
        assert p.attempts == 0
        await serves(g)


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
async def test_json_is_taken_under_its_names(kind: str) -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        assert (await g.post("/v1/chat/completions", chat_body(), headers={"Content-Type": kind})).status == 200


async def test_a_body_without_content_type_is_taken_as_json() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g, wire(g) as w:
        body = chat_body()
        w.send(f"POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nContent-Length: {len(body)}\r\n\r\n")
        w.send(body)
        assert (await w.answer()).status == 200


async def test_unknown_paths_and_methods_are_errors_of_the_dialect() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        for path in ("/nothing", "/v1", "/v1/embeddings", "/v1/chat/completions/", "/v1/../metrics", "/metrics"):
            answer = await g.get(path)
            assert (answer.status, answer.error["class"]) == (404, "not_found"), path
            assert answer.headers["x-should-retry"] == "false"
        answer = await g.get("/v1/chat/completions")
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
        answer = await g.post("/v1/models", b"{}")
        assert (answer.status, answer.headers["allow"]) == (405, "GET")
        assert answer.error["type"] == "invalid_request_error"
        await serves(g)


async def test_an_unknown_model_is_404_and_names_what_this_caller_can_use() -> None:
    async with Upstream("p") as p, lab(two_routes(p, callers=CALLERS)) as g:
        wide = await g.chat("gpt-9", headers=bearer("key-of-wide"))
        assert (wide.status, wide.error["class"], wide.error["code"]) == (404, "not_found", "model_not_found")
        assert wide.error["message"].endswith("this caller can use: r, other")
        narrow = await g.chat("gpt-9", headers=bearer("key-of-narrow"))
        assert narrow.error["message"].endswith("this caller can use: other")
        long = await g.chat("m" * 100_000, headers=bearer("key-of-wide"))
        assert len(long.body) < 1000
        assert p.attempts == 0


async def test_a_route_that_is_not_the_callers_is_403() -> None:
    async with Upstream("p") as p, lab(two_routes(p, callers=CALLERS)) as g:
        answer = await g.chat("r", headers=bearer("key-of-narrow"))
        assert (answer.status, answer.error["class"]) == (403, "forbidden")
        assert (answer.error["type"], answer.error["param"]) == ("permission_error", "model")
        assert p.attempts == 0
        assert (await g.chat("other", headers=bearer("key-of-narrow"))).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("wrong"),
        bearer(""),
        {"Authorization": "Basic key-of-wide"},
        {"Authorization": "key-of-wide"},
        {"x-api-key": "wrong"},
        bearer("key-of-wide2"),
        {"Authorization": "Bearer k\xe9y"},
    ],
)
async def test_a_missing_or_wrong_key_is_401(headers: dict[str, str]) -> None:
    async with Upstream("p") as p, lab(two_routes(p, callers=CALLERS)) as g:
        for answer in (await g.chat(headers=headers), await g.get("/v1/models", headers=headers)):
            assert (answer.status, answer.error["class"]) == (401, "unauthorized")
            assert (answer.error["type"], answer.error["code"]) == ("authentication_error", "invalid_api_key")
            assert answer.headers["x-should-retry"] == "false"
        assert p.attempts == 0


@pytest.mark.parametrize("name", ["Authorization", "authorization", "x-api-key", "x-goog-api-key"])
async def test_a_key_is_read_where_each_sdk_puts_it(name: str) -> None:
    value = "bearer key-of-wide" if name.lower() == "authorization" else "key-of-wide"
    async with Upstream("p") as p, lab(two_routes(p, callers=CALLERS)) as g:
        assert (await g.chat(headers={name: value})).status == 200
        assert g.turns[-1]["caller"] == "wide"


async def test_each_caller_sees_its_own_models() -> None:
    async with Upstream("p") as p, lab(two_routes(p, callers=CALLERS)) as g:
        wide = await g.get("/v1/models", headers=bearer("key-of-wide"))
        assert wide.json["object"] == "list"
        assert [model["id"] for model in wide.json["data"]] == ["r", "other"]
        assert all(model["object"] == "model" and model["owned_by"] for model in wide.json["data"])
        narrow = await g.get("/v1/models", headers=bearer("key-of-narrow"))
        assert [model["id"] for model in narrow.json["data"]] == ["other"]
        one = await g.get("/v1/models/other", headers=bearer("key-of-narrow"))
        assert (one.status, one.json["id"]) == (200, "other")
        assert (await g.get("/v1/models/r", headers=bearer("key-of-narrow"))).status == 404
        assert (await g.get("/v1/models/r", headers=bearer("key-of-wide"))).status == 200
        assert p.requests == []


async def test_health_needs_no_key() -> None:
    async with Upstream("p") as p, lab(two_routes(p, callers=CALLERS)) as g:
        for admin in (False, True):
            live, ready, root = [await g.get(path, admin=admin) for path in ("/livez", "/readyz", "/")]
            assert (live.status, live.json) == (200, {"live": True})
            assert (ready.status, ready.json) == (200, {"ready": True, "draining": False})
            assert (root.status, root.json) == (200, {"name": "stanchion", "version": __version__})
            assert root.headers["server"] == "stanchion"
        assert p.requests == []


async def test_head_of_the_root_has_no_body() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g, wire(g) as w:
        w.send("HEAD / HTTP/1.1\r\nHost: gateway\r\n\r\n")
        status, headers = await w.head()
        assert (status, headers["content-type"]) == (200, "application/json")
        w.send(chat_request())  # on the same connection: nothing of a body stands before the answer
        assert (await w.answer()).status == 200


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello\r\n\r\n",
        b"hello\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nno colon\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: many\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nHost: g\r\nX-Long: " + b"x" * 100_000 + b"\r\n\r\n",
        b"\x00" * 4096,
    ],
    ids=["tls", "words", "version", "header", "length", "lengths", "chunk", "long", "zeros"],
)
async def test_bytes_that_are_not_http_get_400_in_json_and_a_closed_connection(garbage: bytes) -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        async with wire(g) as w:
            w.send(garbage)
            answer = await w.answer()
            assert answer.status == 400
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["connection"] == "close"
            assert answer.error["class"] == "bad_request"
            assert await w.closed() == b""
        assert p.attempts == 0
        await serves(g)


async def test_requests_on_one_connection_are_answered_in_order() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g, wire(g) as w:
        w.send(chat_request() + chat_request("nothing") + chat_request(stream=True) + chat_request())
        assert [(await w.answer()).status for _ in range(4)] == [200, 404, 200, 200]


async def test_a_caller_that_asks_first_is_told_to_go_on() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g, wire(g) as w:
        body = chat_body()
        w.send(f"{POST}Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n")
        assert await w.head() == (100, {})
        w.send(body)
        assert (await w.answer()).status == 200


async def test_admin_asks_for_its_token() -> None:
    gateway = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "admin_token": "token-of-admin"}
    async with Upstream("p") as p, lab(config({"p": p}, gateway=gateway)) as g:
        for path in ("/metrics", "/admin/v1/targets"):
            for headers in ({}, bearer("wrong"), {"Authorization": "Basic token-of-admin"}, bearer("t\xf6ken")):
                answer = await g.get(path, headers=headers, admin=True)
                assert (answer.status, answer.error["class"]) == (401, "unauthorized")
            assert (await g.get(path, headers=bearer("token-of-admin"), admin=True)).status == 200
        assert (await g.get("/livez", admin=True)).status == 200
        assert (await g.get("/admin/v1/nothing", headers=bearer("token-of-admin"), admin=True)).status == 404
