"""Keys and prompts show up nowhere: not in errors, logs, metrics, admin pages or the settings' own text."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.fakes.behaviours import Behaviour, answer, cut_after, html, raw, silent, sse, status
from tests.fakes.chat import error_body, error_event, role_chunk, text_chunk
from tests.fakes.exchange import Exchange
from tests.fakes.upstream import Upstream
from tests.gateway.wire import POST, wire
from tests.lab import Answer, Json, Lab, config, lab
from tests.settings.certificates import CERTIFICATE, KEY

PROVIDER_KEY = "sk-canary-provider-5d1f"
HEADER = "canary-header-93ab"
CALLER_KEY = "canary-caller-77c2"
UNKNOWN_KEY = "canary-unknown-01ee"
ADMIN_TOKEN = "canary-admin-4b80"
PROMPT = "canary-prompt-e5d9"
CANARIES = (PROVIDER_KEY, HEADER, CALLER_KEY, UNKNOWN_KEY, ADMIN_TOKEN, PROMPT)
ADMIN = {"Authorization": f"Bearer {ADMIN_TOKEN}"}


def guarded(upstreams: dict[str, Upstream | str], **parts: object) -> Json:
    """Settings in which everything that can be secret is a canary, and which log all there is."""
    gateway = {
        "listen": "127.0.0.1:0",
        "admin": "127.0.0.1:0",
        "admin_token": ADMIN_TOKEN,
        "log": {"level": "debug"},
    }
    provider = {"api_key": PROVIDER_KEY, "headers": {"x-account": HEADER}}
    secrets = {f"provider_{name}": provider for name in upstreams}
    callers = [{"name": "one", "key": CALLER_KEY}]
    return config(upstreams, gateway=gateway, callers=callers, **secrets, **parts)


async def ask(g: Lab, *, stream: bool = False, key: str = CALLER_KEY, headers: dict[str, str] | None = None) -> Answer:
    """A request with the canary prompt."""
    messages = [{"role": "user", "content": PROMPT}]
    own = {"Authorization": f"Bearer {key}", **(headers or {})}
    return await g.chat(messages=messages, stream=stream, headers=own)


async def assert_clean(g: Lab, *answers: Answer, caplog: pytest.LogCaptureFixture) -> None:
    """No canary in what the caller got, nor in what operators can read."""
    pages = [await g.get(path, headers=ADMIN, admin=True) for path in ("/metrics", "/admin/v1/targets", "/nothing")]
    pages.append(await g.get("/admin/v1/targets", headers={"Authorization": f"Bearer {UNKNOWN_KEY}"}, admin=True))
    assert [page.status for page in pages] == [200, 200, 404, 401]
    texts = [g.out.getvalue(), caplog.text, repr(g.service.settings), str(g.service.settings)]
    texts += [f"{one.headers} {one.body.decode()}" for one in (*answers, *pages)]
    for text in texts:
        for canary in CANARIES:
            assert canary not in text, text
    assert g.turns


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


def echo(code: int, kind: str = "invalid_request_error") -> Behaviour:
    """A provider that repeats the key and its own header in its error."""

    async def play(exchange: Exchange) -> None:
        seen = exchange.seen
        words = f"Incorrect API key provided: {seen.header('authorization')}, {seen.header('x-account')}"
        await raw(error_body(words, kind), code, headers={"x-account": HEADER, "Set-Cookie": PROVIDER_KEY})(exchange)

    return play


def prompt_echo(code: int) -> Behaviour:
    """A provider that repeats the prompt in its error."""

    async def play(exchange: Exchange) -> None:
        words = json.dumps(exchange.seen.json["messages"])
        await raw(error_body(f"cannot work with {words}", "server_error", "odd"), code)(exchange)

    return play


def in_stream(exchange_error: Json) -> Behaviour:
    return sse(role_chunk(), error_event(exchange_error))


LOUD = {"message": f"your key {PROVIDER_KEY} of {HEADER} is spent", "type": "server_error"}
FAULTS: dict[str, Behaviour] = {
    "404": status(404, "model_not_found"),
    "404-echo": echo(404),
    "401-echo": echo(401),
    "400-echo": echo(400),
    "429-echo": echo(429),
    "503": status(503),
    "503-echo": echo(503),
    "500-echo": echo(500),
    "html": html(502),
    "half-json": raw(b'{"choices":[{"mess'),
    "200-error": raw(json.dumps({"error": LOUD}).encode()),
    "in-stream": in_stream(LOUD),
    "late-in-stream": sse(text_chunk("some "), error_event(LOUD)),
    "cut": cut_after(2),
    "silent": silent(),
}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("name", FAULTS)
async def test_I04_no_fault_of_a_provider_shows_a_secret(
    name: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    short = {"timeouts": {"total": "300ms"}, "retry": {"attempts": 0}, "deadline": "1s"}
    async with Upstream("p", default=FAULTS[name]) as p, lab(guarded({"p": p}, defaults=short)) as g:
        answered = await ask(g, stream=stream)
        assert p.attempts == 1
        await assert_clean(g, answered, caplog=caplog)


@pytest.mark.parametrize("code", [400, 404, 429, 500, 503])
async def test_I04_a_prompt_that_a_provider_repeats_goes_to_its_own_caller_only(
    code: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with Upstream("p", default=prompt_echo(code)) as p:
        async with lab(guarded({"p": p}, defaults={"retry": {"attempts": 0}})) as g:
            await ask(g)
            await assert_clean(g, caplog=caplog)
            error = (await g.get("/admin/v1/targets", headers=ADMIN, admin=True)).json["targets"][0]["last_error"]
            assert error["message"] == f"the provider answered {code} (odd)"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_I04_a_refused_connection(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    async with Upstream("p") as p:
        await p.stop()
        async with lab(guarded({"p": p})) as g:
            answered = await ask(g, stream=stream)
            assert (answered.status, answered.error["class"]) == (503, "connect")
            assert str(p.port) not in answered.body.decode()
            await assert_clean(g, answered, caplog=caplog)


@asynccontextmanager
async def self_signed() -> AsyncIterator[str]:
    """The base URL of an HTTPS server whose certificate nobody signed."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder) / "cert.pem", Path(folder) / "key.pem"
        certificate.write_text(CERTIFICATE)
        key.write_text(KEY)
        context.load_cert_chain(certificate, key)

    async def close(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://localhost:{server.sockets[0].getsockname()[1]}/v1"


async def test_I04_a_tls_error(caplog: pytest.LogCaptureFixture) -> None:
    async with self_signed() as base_url, lab(guarded({"p": base_url})) as g:
        answered = await ask(g)
        assert (answered.status, answered.error["class"]) == (503, "connect")
        assert "TLS" in answered.error["message"]
        await assert_clean(g, answered, caplog=caplog)


async def test_I04_a_name_that_cannot_be_resolved(caplog: pytest.LogCaptureFixture) -> None:
    async with lab(guarded({"p": "http://canary-host.invalid/v1"})) as g:
        answered = await ask(g)
        assert (answered.status, answered.error["class"]) == (503, "connect")
        assert "canary-host" not in answered.body.decode()
        await assert_clean(g, answered, caplog=caplog)


async def test_I04_a_bad_request_and_an_unknown_key(caplog: pytest.LogCaptureFixture) -> None:
    own = {"Authorization": f"Bearer {CALLER_KEY}"}
    async with Upstream("p") as p, lab(guarded({"p": p})) as g:
        answers = [
            await g.post("/v1/chat/completions", f'{{"model":"r","messages":"{PROMPT}'.encode(), headers=own),
            await g.post("/v1/chat/completions", json.dumps([PROMPT]).encode(), headers=own),
            await g.post("/v1/chat/completions", json.dumps({"model": "r", "x": PROMPT}).encode(), headers=own),
            await ask(g, key=UNKNOWN_KEY),
            await ask(g, headers={"x-stanchion-timeout": UNKNOWN_KEY}),
            await ask(g, headers={"Content-Type": f"text/{PROMPT}"}),
            await g.get(f"/v1/models?key={UNKNOWN_KEY}"),
            await g.get(f"/{UNKNOWN_KEY}"),
            await g.get(f"/v1/models/x?key={CALLER_KEY}"),
        ]
        assert [one.status for one in answers] == [400, 400, 400, 401, 400, 415, 401, 404, 401]
        async with wire(g) as w:
            w.send(f"{POST}Authorization: Bearer {CALLER_KEY}\r\nBroken {PROMPT}\r\n\r\n")
            answers.append(await w.answer())
            assert answers[-1].status == 400
        async with wire(g) as w:
            w.send(f"{POST}Authorization: Bearer {CALLER_KEY}\r\nTransfer-Encoding: chunked\r\n\r\n{PROMPT}\r\n")
            answers.append(await w.answer())
            assert answers[-1].status == 400
        assert p.attempts == 0
        await assert_clean(g, *answers, caplog=caplog)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_I04_a_crash(stream: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(request: object) -> None:
        raise RuntimeError(f"{PROMPT} {PROVIDER_KEY} {request!r}")

    async with Upstream("p") as p, lab(guarded({"p": p})) as g:
        monkeypatch.setattr(g.service.engine.routes["r"], "generate", crash)
        answered = await ask(g, stream=stream)
        assert (answered.status, answered.error["class"]) == (500, "internal")
        crashes = [line for line in g.log if line["event"] == "crash"]
        assert [line["kind"] for line in crashes] == ["RuntimeError"]
        assert crashes[0]["request_id"] == answered.headers["x-request-id"]
        await assert_clean(g, answered, caplog=caplog)
        monkeypatch.undo()
        assert (await ask(g)).status == 200


@pytest.mark.parametrize("page", ["metrics", "targets"])
async def test_I04_a_crash_of_a_page(page: str, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("aiohttp.server").setLevel(logging.NOTSET)
    async with Upstream("p") as p, lab(guarded({"p": p})) as g:

        def crash(*_: object) -> None:
            raise RuntimeError(PROVIDER_KEY)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(g.service.metrics), "exposition", crash)
            patch.setattr("gateway.admin.Admin._target", crash)
            answered = await g.get(
                {"metrics": "/metrics", "targets": "/admin/v1/targets"}[page], headers=ADMIN, admin=True
            )
        assert (answered.status, answered.error["class"]) == (500, "internal")
        caplog.clear()  # what the library would write: the process keeps it quiet
        await ask(g)
        await assert_clean(g, answered, caplog=caplog)


async def test_I04_the_key_goes_in_the_header_that_the_provider_takes() -> None:
    async with Upstream("p", default=answer()) as p, lab(guarded({"p": p})) as g:
        await ask(g)
        assert p.requests[0].header("authorization") == f"Bearer {PROVIDER_KEY}"
        assert p.requests[0].path == "/v1/chat/completions"
        assert PROVIDER_KEY not in p.requests[0].body.decode()


async def test_I04_a_key_that_a_provider_repeats_as_its_code_or_type() -> None:
    key = "sk-canary-of-the-provider"
    async with Upstream("p", default=status(400, key, message="no", type=f"{key}-odd")) as p:
        async with lab(config({"p": p}, provider_p={"api_key": key}, defaults={"retry": {"attempts": 0}})) as g:
            answer = await g.chat()
            assert key.encode() not in answer.body
            assert key.encode() not in (await g.get("/admin/v1/targets", admin=True)).body


async def test_I04_a_key_is_masked_before_the_words_are_cut() -> None:
    key = "sk-canary-of-the-provider"
    for at in range(2000 - len(key), 2001, 5):
        message, word = "x" * at + key, "x" * (at - 1800) + key
        async with Upstream("p", default=status(400, word, message=message, type=word)) as p:
            async with lab(config({"p": p}, provider_p={"api_key": key}, defaults={"retry": {"attempts": 0}})) as g:
                answer = await g.chat()
                assert b"sk-c" not in answer.body
                lengths = len(answer.error["message"]), len(answer.error["code"])
                assert lengths == (min(at + 3, 2000), min(at - 1797, 200))
