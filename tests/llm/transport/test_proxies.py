"""Providers behind an HTTP proxy: tunnels, forwarded requests, and proxies that give neither."""

from __future__ import annotations

import asyncio
import base64
import socket
import sys
from typing import Any

import pytest

from llm.proxy import Proxy, parse
from llm.transport.base import TransportError
from tests.fakes.behaviours import answer, status
from tests.fakes.proxy import ForwardProxy
from tests.fakes.upstream import Upstream
from tests.llm.transport.driving import OK, Client, Line, Peer, Tls, always, client, until

LOGIN = "agent:p@ss/word#1"
TOKEN = base64.b64encode(LOGIN.encode()).decode()
HIDDEN = ("127.0.0.1", "localhost", "provider.test", "http:", "https:", "agent", "p@ss", TOKEN)
SECURE = [False, True]
"""Whether the proxy itself is spoken to over TLS."""


def via(proxy: ForwardProxy) -> Proxy:
    found = parse(proxy.url)
    assert found is not None
    return found


def seen_by(peer: Peer) -> list[str]:
    """The heads that a provider gets, while it answers all of them."""
    heads: list[str] = []

    async def play(line: Line) -> None:
        while True:
            heads.append(await line.head())
            await line.reader.readexactly(2)
            line.send(OK)

    peer._play = play
    return heads


def told(error: TransportError) -> str:
    """The message of a failed connection, which says nothing that it should not."""
    assert error.kind == "connect"
    assert not any(word in error.message for word in HIDDEN), error.message
    return error.message


# tunnels


@pytest.mark.parametrize("secure", SECURE)
async def test_https_goes_through_a_tunnel_with_the_providers_own_name(secure: bool, tls: Tls) -> None:
    async with Peer(always(OK), tls=tls.server) as peer:
        heads = seen_by(peer)
        hosts = {"localhost": peer.port}
        async with ForwardProxy(login=LOGIN, hosts=hosts, tls=tls.server if secure else None) as proxy:
            async with client("https://localhost/v1", tls.client, proxy=via(proxy)) as c:
                for _ in range(3):
                    assert (await c.ask()).body == b"ok"
                await until(lambda: proxy.connections_open == 1)
        assert [asked.line for asked in proxy.asked] == ["CONNECT localhost:443 HTTP/1.1"]
        assert proxy.asked[0].headers == {"host": "localhost:443", "proxy-authorization": f"Basic {TOKEN}"}
        assert heads == ["POST /v1/chat HTTP/1.1\r\nHost: localhost\r\nX-Test: 1\r\nContent-Length: 2\r\n\r\n"] * 3
        assert (len(peer.lines), c.resent) == (1, 0)


@pytest.mark.parametrize("secure", SECURE)
async def test_a_large_body_and_a_large_answer_go_through_a_tunnel(secure: bool, tls: Tls) -> None:
    size = 3_000_000

    async def play(line: Line) -> None:
        while True:
            body = await line.request()
            line.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    async with Peer(play, tls=tls.server) as peer, ForwardProxy(tls=tls.server if secure else None) as proxy:
        async with client(f"https://localhost:{peer.port}/v1", tls.client, proxy=via(proxy)) as c:
            for _ in range(2):
                assert (await c.ask(b"x" * size)).body == b"x" * size
        assert len(peer.lines) == 1
        assert proxy.asked[0].headers == {"host": f"localhost:{peer.port}"}  # no login, no authorization


async def test_an_ipv6_provider_is_named_in_brackets(tls: Tls) -> None:
    async with ForwardProxy(answer=b"HTTP/1.1 403 Forbidden\r\n\r\n") as proxy:
        async with client("https://[2001:db8::1]:8443/v1", tls.client, proxy=via(proxy)) as c:
            await c.refused()
    assert proxy.asked[0].line == "CONNECT [2001:db8::1]:8443 HTTP/1.1"


async def test_the_provider_is_resolved_by_the_proxy_alone(tls: Tls) -> None:
    """The one name that is looked up here is the proxy's."""
    names: list[Any] = []

    async with Peer(always(OK), tls=tls.server) as peer, ForwardProxy() as proxy:

        async def lookup(host: str, port: int, **_: object) -> Any:
            names.append((host, port))
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", proxy.port))]

        through = parse("http://proxy.test:3128")
        async with client(f"https://localhost:{peer.port}/v1", tls.client, getaddrinfo=lookup, proxy=through) as c:
            assert (await c.ask()).body == b"ok"
    assert names == [("proxy.test", 3128)]


@pytest.mark.parametrize("secure", SECURE)
async def test_a_tunnel_to_a_provider_with_another_name_is_none(secure: bool, tls: Tls) -> None:
    async with Peer(always(OK), tls=tls.server) as peer:
        hosts = {"provider.test": peer.port}
        async with ForwardProxy(hosts=hosts, tls=tls.server if secure else None) as proxy:
            async with client("https://provider.test/v1", tls.client, proxy=via(proxy)) as c:
                words = told(await c.refused())
                await until(lambda: not proxy.connections_open)
    beginning = "no TLS connection to the provider through the proxy"
    if secure and sys.version_info < (3, 13):
        assert words.startswith(beginning)  # asyncio's own loop cannot say why
    else:
        assert words == f"{beginning} (certificate: Hostname mismatch)"


async def test_a_tunnel_to_a_provider_without_tls_is_none(tls: Tls) -> None:
    async def play(line: Line) -> None:
        await line.reader.read(1)
        line.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await line.gone()

    async with Peer(play) as peer, ForwardProxy() as proxy:
        async with client(f"https://localhost:{peer.port}/v1", tls.client, proxy=via(proxy)) as c:
            assert told(await c.refused()).startswith("no TLS connection to the provider through the proxy (")


async def test_a_stale_tunnel_is_replaced_and_the_request_sent_again(tls: Tls) -> None:
    async def play(line: Line) -> None:
        await line.request()
        line.send(OK)
        await line.request()

    async with Peer(play, tls=tls.server) as peer, ForwardProxy() as proxy:
        async with client(f"https://localhost:{peer.port}/v1", tls.client, proxy=via(proxy)) as c:
            for _ in range(5):
                assert (await c.ask()).body == b"ok"
            assert (c.resent, len(proxy.asked)) == (4, 5)


@pytest.mark.parametrize("secure", SECURE)
async def test_who_leaves_closes_the_tunnel(secure: bool, tls: Tls) -> None:
    arrived = asyncio.Event()

    async def play(line: Line) -> None:
        await line.request()
        arrived.set()
        await line.gone()

    async with Peer(play, tls=tls.server) as peer, ForwardProxy(tls=tls.server if secure else None) as proxy:
        async with client(f"https://localhost:{peer.port}/v1", tls.client, proxy=via(proxy)) as c:
            asked = asyncio.create_task(c.ask())
            await arrived.wait()
            asked.cancel()
            await asyncio.wait([asked])
            await peer.left()
            await until(lambda: not proxy.connections_open)


@pytest.mark.parametrize("secure", SECURE)
@pytest.mark.parametrize("turns", range(40))
async def test_who_leaves_while_the_tunnel_is_made_leaves_nothing_behind(turns: int, secure: bool, tls: Tls) -> None:
    async with Peer(always(OK), tls=tls.server) as peer, ForwardProxy(tls=tls.server if secure else None) as proxy:
        async with client(f"https://localhost:{peer.port}/v1", tls.client, proxy=via(proxy)) as c:
            asked = asyncio.create_task(c.ask())
            for _ in range(turns):
                await asyncio.sleep(0)
            asked.cancel()
            await asyncio.wait([asked])
            assert c.places_taken == 0
            assert (await c.ask()).body == b"ok"


# refusals

REFUSALS = {
    b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 4\r\n\r\nlogi": "407",
    b"HTTP/1.0 403 Forbidden\r\n\r\n<html>": "403",
    b"HTTP/1.1 502 Bad Gateway\r\n\r\n": "502",
    b"HTTP/1.1 504 \r\n\r\n": "504",
    b"HTTP/1.1 429 Too Many Requests\r\n\r\n": "(429)",
    b"HTTP/1.1 302 Found\r\nLocation: https://elsewhere.test/\r\n\r\n": "(302)",
}


@pytest.mark.parametrize("secure", SECURE)
@pytest.mark.parametrize("refusal", REFUSALS, ids=REFUSALS.values())
async def test_a_proxy_that_refuses_says_so(refusal: bytes, secure: bool, tls: Tls) -> None:
    async with ForwardProxy(login=LOGIN, answer=refusal, tls=tls.server if secure else None) as proxy:
        async with client("https://localhost/v1", tls.client, proxy=via(proxy)) as c:
            words = told(await c.refused())
            await until(lambda: not proxy.connections_open)
    assert words.startswith("the proxy refused the connection to the provider (")
    assert REFUSALS[refusal] in words


BROKEN = {
    "no-http": (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "is not HTTP"),
    "no-status": (b"HTTP/1.1 OK\r\n\r\n", "is not HTTP"),
    "no-end": (b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 20_000, "more than 16384 bytes"),
    "no-end-of-interim": (b"HTTP/1.1 100 Continue\r\n\r\n" * 2_000, "more than 16384 bytes"),
    "more": (b"HTTP/1.1 200 OK\r\n\r\nhello", "sent more than its answer"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_proxy_that_is_none_says_so(name: str, tls: Tls) -> None:
    data, words = BROKEN[name]
    async with ForwardProxy(answer=data) as proxy:
        async with client("https://localhost/v1", tls.client, proxy=via(proxy)) as c:
            message = told(await c.refused())
            assert words in message
            assert "proxy" in message
            await until(lambda: not proxy.connections_open)


async def test_a_proxys_answer_may_come_byte_by_byte_after_interim_ones(tls: Tls) -> None:
    head = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX: y\r\n\r\nHTTP/1.1 403 No\r\nX: y\r\n\r\n"

    async def play(line: Line) -> None:
        await line.head()
        for at in range(len(head)):
            line.send(head[at : at + 1])
            await asyncio.sleep(0)
        await line.gone()

    async with Peer(play) as proxy:
        through = Proxy("127.0.0.1", proxy.port)
        async with client("https://localhost/v1", tls.client, proxy=through) as c:
            assert "(403: it does not allow this provider)" in told(await c.refused())


@pytest.mark.parametrize("how", ["closed", "reset"])
async def test_a_proxy_that_leaves_before_its_answer(how: str, tls: Tls) -> None:
    async def play(line: Line) -> None:
        await line.head()
        if how == "reset":
            line.reset()

    async with Peer(play) as proxy:
        async with client("https://localhost/v1", tls.client, proxy=Proxy("127.0.0.1", proxy.port)) as c:
            assert told(await c.refused()) == "the proxy closed the connection before its answer"


@pytest.mark.parametrize("how", ["closed", "reset", "speaks", "speaks-tls"])
@pytest.mark.parametrize("turns", [0, 1, 2, 5])
async def test_a_proxy_that_gives_a_tunnel_and_leaves(how: str, turns: int, tls: Tls) -> None:
    async def play(line: Line) -> None:
        await line.head()
        line.send(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(turns):
            await asyncio.sleep(0)
        if how == "reset":
            line.reset()
        elif how == "speaks":
            line.send(b"hello")
        elif how == "speaks-tls":
            line.send(b"\x15\x03\x03\x00\x02\x02\x28")  # an alert: the handshake has failed
        if how.startswith("speaks"):
            await line.gone()

    async with Peer(play) as proxy:
        async with client("https://localhost/v1", tls.client, proxy=Proxy("127.0.0.1", proxy.port)) as c:
            for _ in range(5):
                told(await c.refused())
                assert c.places_taken == 0


async def test_a_provider_that_speaks_or_leaves_before_it_is_asked(tls: Tls) -> None:
    async def play(line: Line) -> None:
        line.send(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")

    async with Peer(play, tls=tls.server) as peer, ForwardProxy() as proxy:
        async with client(f"https://localhost:{peer.port}/v1", tls.client, proxy=via(proxy)) as c:
            for _ in range(20):
                with pytest.raises(TransportError):
                    assert (await c.ask()).status == 408
                    raise TransportError("cut", "or it is taken for the answer")
                assert c.places_taken == 0


async def test_a_dead_proxy_is_not_a_dead_provider(tls: Tls) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        through = Proxy("127.0.0.1", unused.getsockname()[1])
        for url in ("https://localhost/v1", "http://localhost/v1"):
            async with client(url, tls.client, proxy=through) as c:
                assert told(await c.refused()) == "no connection to the proxy (Connection refused)"


async def test_a_proxy_whose_name_is_unknown(tls: Tls) -> None:
    async with client("https://localhost/v1", tls.client, proxy=Proxy("a..b", 3128)) as c:
        assert told(await c.refused()) == "the proxy's host name cannot be resolved"


async def test_the_tunnel_is_within_the_limit_on_connecting(tls: Tls) -> None:
    async with ForwardProxy(answer=b"") as proxy:
        async with client("https://localhost/v1", tls.client, proxy=via(proxy)) as c:
            words = told(await c.refused(connect_s=0.05))
            assert words == "no connection to the provider through the proxy within 0.05 s"
            await until(lambda: not proxy.connections_open)


async def test_a_secure_proxy_has_to_prove_its_name(tls: Tls) -> None:
    async with ForwardProxy(tls=tls.server) as proxy:
        through = Proxy("127.0.0.1", proxy.port, secure=True)
        async with client("https://localhost/v1", tls.client, proxy=through) as c:
            assert told(await c.refused()) == "no TLS connection to the proxy (certificate: IP address mismatch)"


# requests that the proxy forwards


async def asked_through(proxy: ForwardProxy, tls: Tls, url: str = "http://provider.test/v1") -> Client:
    async with client(url, tls.client, proxy=via(proxy)) as c:
        for _ in range(3):
            assert (await c.ask()).status == 200
    return c


@pytest.mark.parametrize("secure", SECURE)
async def test_http_is_asked_for_with_the_whole_url(secure: bool, tls: Tls) -> None:
    async with Upstream("p") as p:
        hosts = {"provider.test": p.port}
        async with ForwardProxy(login=LOGIN, hosts=hosts, tls=tls.server if secure else None) as proxy:
            await asked_through(proxy, tls)
        assert [asked.line for asked in proxy.asked] == ["POST http://provider.test/v1/chat HTTP/1.1"] * 3
        assert proxy.asked[0].headers["host"] == "provider.test"
        assert proxy.asked[0].headers["proxy-authorization"] == f"Basic {TOKEN}"
        assert proxy.connections_made == 1
        assert p.attempts == 3
        assert p.requests[0].header("proxy-authorization") is None


async def test_http_through_a_proxy_that_asks_for_no_login(tls: Tls) -> None:
    async with Upstream("p") as p, ForwardProxy() as proxy:
        await asked_through(proxy, tls, f"http://Provider.TEST:{p.port}/v1")
        assert proxy.asked[0].line == f"POST http://provider.test:{p.port}/v1/chat HTTP/1.1"
        assert "proxy-authorization" not in proxy.asked[0].headers


async def test_a_forwarded_request_that_the_proxy_refuses_for_its_login_is_no_answer_of_the_provider(tls: Tls) -> None:
    async with Upstream("p") as p, ForwardProxy(login=LOGIN) as proxy:
        url = f"http://localhost:{p.port}/v1"
        wrong = parse(proxy.url.replace("agent", "another"))
        async with client(url, proxy=wrong) as c:
            for _ in range(2):
                assert "(407: it asks for another user and password)" in told(await c.refused())
                assert c.places_taken == 0
        assert p.attempts == 0
        async with client(url, proxy=via(proxy)) as c:
            assert (await c.ask()).status == 200


async def test_a_407_of_a_provider_without_a_proxy_is_its_answer() -> None:
    async with Upstream("p", default=status(407)) as p, client(p.base_url) as c:
        assert (await c.ask()).status == 407


async def test_another_answer_through_a_proxy_is_the_providers(tls: Tls) -> None:
    async with Upstream("p", default=status(502)) as p, ForwardProxy() as proxy:
        async with client(p.base_url, proxy=via(proxy)) as c:
            assert (await c.ask()).status == 502
            p.default = answer()
            assert (await c.ask()).status == 200


# its URL


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("", None),
        ("http://proxy.test:3128", Proxy("proxy.test", 3128)),
        ("http://proxy.test:3128/", Proxy("proxy.test", 3128)),
        ("HTTP://Proxy.TEST", Proxy("proxy.test", 80)),
        ("https://proxy.test", Proxy("proxy.test", 443, secure=True)),
        ("http://[::1]:3128", Proxy("::1", 3128)),
        ("http://u:p@h:1", Proxy("h", 1, authorization="Basic dTpw", password="p")),
        ("http://u@h:1", Proxy("h", 1, authorization="Basic dTo=")),
        ("http://u:a%40b%3Ac@h:1", Proxy("h", 1, authorization="Basic dTphQGI6Yw==", password="a@b:c")),
    ],
)
def test_a_proxys_url(url: str, proxy: Proxy | None) -> None:
    assert parse(url) == proxy


@pytest.mark.parametrize(
    "url",
    [
        "proxy.test:3128",
        "socks5://canary:canary@h:1",
        "http://",
        "http://:3128",
        "http://h:0",
        "http://canary@h:port",
        "http://canary:ca#nary@h:1",
        "http://canary:ca/nary@h:1",
        "http://h:1/canary",
        "http://h:1?canary",
        "http://canary h:1",
        "http://canary\n@h:1",
        "http://[canary:1",
    ],
)
def test_what_is_no_proxys_url_is_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="write http://HOST:PORT") as caught:
        parse(url)
    assert "nary" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_proxy_does_not_show_its_login() -> None:
    proxy = parse("http://canary:canary-password@h:1")
    assert proxy is not None
    assert "canary" not in repr(proxy)
    assert "Basic" not in repr(proxy)
