"""A provider behind a proxy, from the settings to the answer; what the proxy refuses is no answer of the provider."""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.fakes.behaviours import status
from tests.fakes.proxy import ForwardProxy
from tests.fakes.upstream import Upstream
from tests.lab import Answer, Json, Lab, config, lab
from tests.settings.certificates import CERTIFICATE, KEY

LOGIN = "agent:canary-8f3e-p@ss"
TOKEN = base64.b64encode(LOGIN.encode()).decode()
SECRETS = (TOKEN, "canary-8f3e", "p@ss", "p%40ss")


@asynccontextmanager
async def over_tls(p: Upstream, folder: Path) -> AsyncIterator[int]:
    """A port of localhost that speaks TLS before the provider."""
    (folder / "ca.pem").write_text(CERTIFICATE)
    (folder / "key.pem").write_text(KEY)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    async with ForwardProxy(tls=context, forward_to=p.port) as front:
        yield front.port


async def tells_no_secret(g: Lab, *answers: Answer) -> None:
    shown = [answer.body.decode() + str(answer.headers) for answer in answers]
    for path in ("/metrics", "/admin/v1/targets", "/api/v1/now"):
        shown.append((await g.get(path, admin=True)).body.decode())
    for secret in SECRETS:
        assert secret not in "".join(shown) + g.out.getvalue()


def values(p: Upstream | str, s: Upstream, **provider: str) -> Json:
    return config({"p": p, "s": s}, provider_p=provider, defaults={"retry": {"attempts": 0}})


@pytest.mark.parametrize("stream", [False, True])
async def test_https_through_a_proxy_with_a_ca_file(stream: bool, tmp_path: Path) -> None:
    async with Upstream("p") as p, Upstream("s") as s, over_tls(p, tmp_path) as port:
        async with ForwardProxy(login=LOGIN) as proxy:
            url, ca = f"https://localhost:{port}/v1", str(tmp_path / "ca.pem")
            async with lab(values(url, s, proxy=proxy.url, ca_file=ca)) as g:
                answered = [await g.chat(stream=stream) for _ in range(3)]
                for one in answered:
                    assert one.trail == ["p class=success"]
                assert [asked.line for asked in proxy.asked] == [f"CONNECT localhost:{port} HTTP/1.1"]
                assert p.requests[0].header("proxy-authorization") is None
                await tells_no_secret(g, *answered)
            async with lab(values(url, s, proxy=proxy.url)) as g:  # the system does not trust it
                answered = [await g.chat(stream=stream)]
                assert answered[0].trail == ["p class=connect", "s class=success"]


async def test_http_through_a_proxy() -> None:
    async with Upstream("p") as p, Upstream("s") as s, ForwardProxy(login=LOGIN) as proxy:
        async with lab(values(p, s, proxy=proxy.url)) as g:
            answered = await g.chat()
            assert answered.trail == ["p class=success"]
            assert proxy.asked[0].line == f"POST {p.base_url}/chat/completions HTTP/1.1"
            await tells_no_secret(g, answered)


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("how", ["login", "dead"])
async def test_a_proxy_that_does_not_serve_is_a_failed_connection(how: str, scheme: str) -> None:
    async with Upstream("p") as p, ForwardProxy(login=LOGIN) as proxy:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            wrong = proxy.url.replace("agent:", "another:")
            url = wrong if how == "login" else wrong.replace(str(proxy.port), str(unused.getsockname()[1]))
            made = config({"p": p.base_url.replace("http:", f"{scheme}:")}, provider_p={"proxy": url})
            async with lab(made) as g:
                answered = await g.chat()
                assert (answered.status, answered.error["class"]) == (503, "connect")
                assert "the proxy" in answered.error["message"]
                assert p.attempts == 0
                assert (await g.target("p"))["breaker"]["failures"] == 2  # with the retry
                assert (await g.target("p"))["hold"] is None
                await tells_no_secret(g, answered)


async def test_a_login_that_comes_back_in_a_message_is_masked() -> None:
    message = f"the header was Basic {TOKEN}, for canary-8f3e-p@ss"
    async with Upstream("p", default=status(400, message=message)) as p, Upstream("s") as s:
        async with ForwardProxy(login=LOGIN) as proxy, lab(values(p, s, proxy=proxy.url)) as g:
            answered = await g.chat()
            assert answered.status == 400
            assert answered.error["message"] == "the header was Basic ***, for ***"
            await tells_no_secret(g, answered)


async def test_the_environments_proxies_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Upstream("p") as p, Upstream("s") as s, ForwardProxy() as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        async with lab(values(p, s)) as g:
            assert (await g.chat()).trail == ["p class=success"]
        assert not proxy.asked
        environ = {"HTTP_PROXY": proxy.url}
        async with lab(values(p, s, proxy="${HTTP_PROXY:-}"), environ=environ) as g:
            assert (await g.chat()).trail == ["p class=success"]
        assert len(proxy.asked) == 1
        async with lab(values(p, s, proxy="${HTTP_PROXY:-}")) as g:
            assert (await g.chat()).trail == ["p class=success"]
        assert len(proxy.asked) == 1
