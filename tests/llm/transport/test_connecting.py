"""Addresses, the request's head, TLS, and what can go wrong before a request is written."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import ExitStack

import pytest
from aiohappyeyeballs import AddrInfoType

from llm.transport.base import TransportError
from llm.transport.resolver import Lookup
from tests.fakes.upstream import Upstream
from tests.llm.transport.driving import GUARD_S, OK, Line, Peer, Tls, always, answers, client
from tests.settings.certificates import CERTIFICATE


def ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def names_no_address(error: TransportError, *also: str) -> bool:
    return not any(word in error.message for word in ("127.0.0.1", "localhost", "::1", "http", *also))


# the request


async def heads(url: str, port: int, path: str = "/chat") -> str:
    """The head that a request to this base URL has."""
    seen: list[str] = []

    async def play(line: Line) -> None:
        seen.append(await line.head())
        line.send(OK)
        await line.gone()

    async with Peer(play) as peer:
        async with client(url.format(port=peer.port)) as c:
            async with c.send(c.request(b"", path=path)) as answer:
                await answer.read_any()
        return seen[0].replace(str(peer.port), "PORT")


@pytest.mark.parametrize(
    ("base_url", "path", "target"),
    [
        ("http://127.0.0.1:{port}/v1", "/chat/completions", "/v1/chat/completions"),
        ("http://127.0.0.1:{port}/a/b%20c", "/chat?x=1&y=%2F", "/a/b%20c/chat?x=1&y=%2F"),
        ("http://127.0.0.1:{port}", "/chat", "/chat"),
        ("http://127.0.0.1:{port}", "", "/"),
        ("HTTP://127.0.0.1:{port}/v1", "/chat", "/v1/chat"),
    ],
)
async def test_the_request_target_is_what_follows_the_origin(base_url: str, path: str, target: str) -> None:
    head = await heads(base_url, 0, path)
    assert head == (f"POST {target} HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nX-Test: 1\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize(
    ("base_url", "host"),
    [
        ("http://provider.test/v1", "provider.test"),
        ("http://Provider.TEST:80/v1", "provider.test:80"),
        ("https://provider.test/v1", "provider.test"),
        ("https://provider.test:8443/v1", "provider.test:8443"),
        ("http://[2001:db8::1]/v1", "[2001:db8::1]"),
        ("http://[2001:db8::1]:8080/v1", "[2001:db8::1]:8080"),
    ],
)
async def test_the_host_header_has_the_port_that_the_url_has(base_url: str, host: str) -> None:
    async with client(base_url) as c:
        head = c._head(c.request(b"{}")).decode()
        assert head.startswith(f"POST /v1/chat HTTP/1.1\r\nHost: {host}\r\n")
        assert head.endswith("\r\nContent-Length: 2\r\n\r\n")


async def test_a_name_is_asked_for_as_the_url_has_it() -> None:
    assert "\r\nHost: localhost:PORT\r\n" in await heads("http://localhost:{port}/v1", 0)


@pytest.mark.skipif(not ipv6(), reason="this machine has no IPv6")
async def test_an_ipv6_literal() -> None:
    seen: list[str] = []

    async def play(line: Line) -> None:
        seen.append(await line.head())
        line.send(OK)
        await line.gone()

    async with Peer(play, host="::1") as peer, client(peer.url) as c:
        assert (await c.ask(b"")).body == b"ok"
        assert f"\r\nHost: [::1]:{peer.port}\r\n" in seen[0]


# no connection


async def test_refused() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with client(f"http://127.0.0.1:{unused.getsockname()[1]}/v1") as c:
            error = await c.refused()
    assert (error.kind, error.message) == ("connect", "no connection to the provider (Connection refused)")


async def test_refused_at_each_of_several_addresses() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        async with client(f"http://localhost:{port}/v1") as c:
            error = await c.refused()
    assert error.kind == "connect"
    assert names_no_address(error, str(port))


async def test_nobody_answers_within_the_limit() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        fill(server, stack)
        async with client(f"http://127.0.0.1:{server.getsockname()[1]}/v1") as c:
            error = await c.refused(connect_s=0.05)
            assert c.places_taken == 0
    assert (error.kind, error.message) == ("connect", "no connection to the provider within 0.05 s")


@pytest.mark.parametrize(
    "host", ["no-such-host.invalid", "a..b", "x" * 64 + ".test", ".test"], ids=["unknown", "empty-part", "long", "dot"]
)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_host_that_cannot_be_resolved(scheme: str, host: str) -> None:
    async def unknown(*_: object, **__: object) -> Sequence[AddrInfoType]:
        raise socket.gaierror(socket.EAI_NONAME, f"Name or service not known: {host}")

    own = unknown if host.endswith(".invalid") else None  # no query leaves this machine
    async with client(f"{scheme}://{host}/v1", getaddrinfo=own) as c:
        error = await c.refused()
        assert (error.kind, error.message) == ("connect", "the provider's host name cannot be resolved")
        assert c.places_taken == 0


# several addresses


@pytest.mark.skipif(not ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("how", ["refuses", "silent"])
async def test_G04_a_dead_ipv6_address_beside_a_live_ipv4_one_costs_little(how: str) -> None:
    """A silent address is not waited for to its end, which takes minutes."""
    with ExitStack() as stack:
        dead = stack.enter_context(socket.socket(socket.AF_INET6))
        dead.bind(("::1", 0))
        port = dead.getsockname()[1]
        if how == "silent":
            fill(dead, stack)
        async with Peer(always(OK)) as peer:
            both: list[AddrInfoType] = [
                (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0)),
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", peer.port)),
            ]
            async with client("http://provider.test/v1", getaddrinfo=says(both), max_connection_age_s=0.0) as c:
                started = c._loop.time()
                for _ in range(3):
                    assert (await c.ask()).body == b"ok"
                assert c._loop.time() - started < GUARD_S / 3  # three quarters of a second, on a machine at rest
                assert len(peer.lines) == 3


async def test_the_second_address_is_tried_when_the_first_refuses() -> None:
    async with Upstream("p") as p:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            dead = unused.getsockname()[1]
            async with client("http://provider.test/v1", getaddrinfo=answers(dead, p.port)) as c:
                assert (await c.ask()).status == 200


def says(addresses: Sequence[AddrInfoType]) -> Lookup:
    async def lookup(*_: object, **__: object) -> Sequence[AddrInfoType]:
        return addresses

    return lookup


def fill(server: socket.socket, stack: ExitStack) -> None:
    """Have more connections than the backlog takes: those behind are not answered."""
    server.listen(0)
    for _ in range(8):
        filler = stack.enter_context(socket.socket(server.family))
        filler.setblocking(False)
        filler.connect_ex(server.getsockname())


# TLS


def named(peer: Peer) -> str:
    return peer.url.replace("127.0.0.1", "localhost").replace("http:", "https:")


async def test_tls_with_an_authority_of_ones_own(tls: Tls) -> None:
    async with Peer(always(OK), tls=tls.server) as peer, client(named(peer), tls.client) as c:
        for _ in range(3):
            assert (await c.ask(b"x" * 1_000_000)).body == b"ok"
        assert (len(peer.lines), c.resent) == (1, 0)


async def test_tls_with_the_providers_own_certificates_and_no_others(tls: Tls) -> None:
    async with Peer(always(OK), tls=tls.server) as peer:
        async with client(named(peer), ca_pem=CERTIFICATE) as c:
            assert (await c.ask()).body == b"ok"
            context = c._dialer._origin.tls
            assert context is not None
            assert len(context.get_ca_certs()) == 1
            assert context.check_hostname
        async with client(peer.url, ca_pem=CERTIFICATE) as c:
            assert (await c.refused()).message == "no TLS connection to the provider (certificate: IP address mismatch)"


async def test_tls_that_closes_at_rest_and_in_the_answer(tls: Tls) -> None:
    async def play(line: Line) -> None:
        await line.request()
        line.send(OK)
        if line.number == 2:
            await line.request()
            line.send(OK[:-1])

    async with Peer(play, tls=tls.server) as peer, client(named(peer), tls.client) as c:
        assert (await c.ask()).body == b"ok"
        assert (await c.ask()).body == b"ok"
        assert (await c.refused()).kind == "cut"


async def test_tls_until_the_end_of_the_connection(tls: Tls) -> None:
    async def play(line: Line) -> None:
        await line.request()
        line.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello")

    async with Peer(play, tls=tls.server) as peer, client(named(peer), tls.client) as c:
        assert (await c.ask()).body == b"hello"


async def tls_failure(url: str, tls: Tls | None) -> str:
    async with client(url, tls.client if tls else None) as c:
        error = await c.refused()
        assert error.kind == "connect"
        assert names_no_address(error, url.split("/")[2].rpartition(":")[2])
        assert c.places_taken == 0
        return error.message


async def test_an_untrusted_certificate(tls: Tls) -> None:
    async with Peer(always(OK), tls=tls.server) as peer:
        message = await tls_failure(named(peer), None)
        assert message == "no TLS connection to the provider (certificate: self-signed certificate)"


async def test_a_certificate_of_another_host(tls: Tls) -> None:
    async with Peer(always(OK), tls=tls.server) as peer:
        message = await tls_failure(peer.url, tls)
        assert message == "no TLS connection to the provider (certificate: IP address mismatch)"


async def test_plain_http_on_a_tls_port(tls: Tls) -> None:
    async def play(line: Line) -> None:
        await line.reader.read(1)
        line.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await line.gone()

    async with Peer(play) as peer:
        assert (await tls_failure(named(peer), tls)).startswith("no TLS connection to the provider (")
        await peer.left()


@pytest.mark.parametrize("how", ["closed", "closed-after-the-hello", "reset"])
async def test_a_connection_that_ends_in_the_handshake(how: str, tls: Tls) -> None:
    async def play(line: Line) -> None:
        if how != "closed":
            await line.reader.read(65_536)
        if how == "reset":
            line.reset()

    async with Peer(play) as peer:
        assert (await tls_failure(named(peer), tls)).startswith("no ")


async def test_a_handshake_that_does_not_end_within_the_limit(tls: Tls) -> None:
    async def play(line: Line) -> None:
        await line.gone()

    async with Peer(play) as peer, client(named(peer), tls.client) as c:
        error = await c.refused(connect_s=0.05)
        assert (error.kind, error.message) == ("connect", "no connection to the provider within 0.05 s")
        await peer.left()
