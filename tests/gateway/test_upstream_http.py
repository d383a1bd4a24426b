"""HTTP as providers write it, byte by byte: what is odd and allowed is read, what is broken is their failure."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.behaviours import Behaviour, answer
from tests.fakes.chat import completion
from tests.fakes.exchange import Exchange
from tests.fakes.upstream import Upstream
from tests.gateway.wire import serves
from tests.lab import config, lab

BODY = completion("well said", completion_id="c", model="m", finish="stop", usage=(1, 1))
N = str(len(BODY)).encode()
KIND = b"Content-Type: application/json\r\n"
LENGTH = b"Content-Length: " + N + b"\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def chunks(*, extension: bytes = b"", end: bytes = b"0\r\n\r\n") -> bytes:
    """The body in chunks of 50 bytes."""
    pieces = [BODY[start : start + 50] for start in range(0, len(BODY), 50)]
    return b"".join(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces) + end


def whole(head: bytes, body: bytes = BODY) -> bytes:
    return head + b"\r\n" + body


def written(data: bytes, *, close: bool = False, one_by_one: bool = False) -> Behaviour:
    """These bytes and nothing else; then FIN, or silence until the gateway has had enough of it."""

    async def play(exchange: Exchange) -> None:
        for piece in [data[at : at + 1] for at in range(len(data))] if one_by_one else [data]:
            exchange.write(piece)
            await asyncio.sleep(0)
        if close:
            exchange.cut()
        else:
            exchange.seen.end(answered=True)

    return play


OK = b"HTTP/1.1 200 OK\r\n"
ALLOWED: dict[str, Behaviour] = {
    "plain": written(whole(OK + KIND + LENGTH)),
    "byte-by-byte": written(whole(OK + KIND + LENGTH), one_by_one=True),
    "no-reason": written(whole(b"HTTP/1.1 200 \r\n" + KIND + LENGTH)),
    "odd-case": written(whole(OK + b"cOnTeNt-TyPe:application/json\r\nCONTENT-LENGTH:   " + N + b"  \r\n")),
    "chunked": written(whole(OK + KIND + CHUNKED, chunks())),
    "chunked-bytes": written(whole(OK + KIND + CHUNKED, chunks()), one_by_one=True),
    "odd-chunked": written(whole(OK + KIND + b"transfer-encoding: Chunked\r\n", chunks())),
    "extensions": written(whole(OK + KIND + CHUNKED, chunks(extension=b";a=b"))),
    "trailers": written(whole(OK + KIND + CHUNKED, chunks(end=b"0\r\nX-Sum: 1\r\n\r\n"))),
    "trailer-type": written(whole(OK + KIND + CHUNKED, chunks(end=b"0\r\nContent-Type: text/html\r\n\r\n"))),
    "offers-upgrade": written(whole(OK + KIND + LENGTH + b"Upgrade: h2,h2c\r\nConnection: Upgrade\r\n")),
    "continue": written(b"HTTP/1.1 100 Continue\r\n\r\n" + whole(OK + KIND + LENGTH)),
    "early-hints": written(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + whole(OK + KIND + LENGTH)),
    "to-the-end": written(whole(OK + KIND + b"Connection: close\r\n"), close=True),
    "http-1.0": written(whole(b"HTTP/1.0 200 OK\r\n" + KIND), close=True),
    "no-type": written(whole(OK + LENGTH)),
    "many-headers": written(whole(OK + KIND + LENGTH + b"".join(b"X-%d: y\r\n" % n for n in range(90)))),
}
BROKEN: dict[str, Behaviour] = {
    "negative": written(whole(OK + KIND + b"Content-Length: -5\r\n"), close=True),
    "no-number": written(whole(OK + KIND + b"Content-Length: many\r\n"), close=True),
    "two-lengths": written(whole(OK + KIND + LENGTH + b"Content-Length: 7\r\n"), close=True),
    "long-length": written(whole(OK + KIND + b"Content-Length: " + b"9" * 30 + b"\r\n"), close=True),
    "short-body": written(whole(OK + KIND + LENGTH, BODY[:-1]), close=True),
    "no-last-chunk": written(whole(OK + KIND + CHUNKED, chunks(end=b"")), close=True),
    "half-last-chunk": written(whole(OK + KIND + CHUNKED, chunks(end=b"0\r\n")), close=True),
    "chunk-size": written(whole(OK + KIND + CHUNKED, b"zz\r\nhello\r\n0\r\n\r\n"), close=True),
    "chunk-too-long": written(whole(OK + KIND + CHUNKED, b"3\r\nhello\r\n0\r\n\r\n"), close=True),
    "chunk-huge": written(whole(OK + KIND + CHUNKED, b"f" * 40 + b"\r\nhello"), close=True),
    "chunk-negative": written(whole(OK + KIND + CHUNKED, b"-5\r\nhello\r\n0\r\n\r\n"), close=True),
    "chunk-endless-size": written(whole(OK + KIND + CHUNKED, b"0" * 200_000), close=True),
    "status-word": written(whole(b"HTTP/1.1 OK 200\r\n" + KIND + LENGTH), close=True),
    "status-long": written(whole(b"HTTP/1.1 2000 OK\r\n" + KIND + LENGTH), close=True),
    "version": written(whole(b"HTTP/x 200 OK\r\n" + KIND + LENGTH), close=True),
    "http-2": written(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x12\x04\x00", close=True),
    "no-colon": written(whole(OK + b"nonsense\r\n" + LENGTH), close=True),
    "endless-line": written(OK + b"X-Long: " + b"x" * 500_000, close=True),
    "endless-headers": written(OK + b"".join(b"X-%d: y\r\n" % n for n in range(50_000)), close=True),
    "switching": written(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\nxx", close=True
    ),
    "endless-interim": written(b"HTTP/1.1 100 Continue\r\n\r\n" * 5_000, close=True),
}


@pytest.mark.parametrize("name", ALLOWED)
async def test_what_http_allows_is_read(name: str) -> None:
    async with Upstream("p", default=ALLOWED[name]) as p, Upstream("s") as s, lab(config({"p": p, "s": s})) as g:
        answered = await g.chat()
        assert (answered.status, answered.text) == (200, "well said"), answered.trail
        assert answered.trail == ["p class=success"]
        p.default = answer()
        assert (await g.chat()).text == "hello from p"


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_broken_is_the_providers_failure(name: str) -> None:
    values = {"defaults": {"retry": {"attempts": 0}, "timeouts": {"total": "20s"}}}
    async with (
        Upstream("p", default=BROKEN[name]) as p,
        Upstream("s") as s,
        lab(config({"p": p, "s": s}, **values)) as g,
    ):
        answered = await g.chat()
        assert (answered.status, answered.text) == (200, "hello from s")
        assert answered.trail[0] in ("p class=bad_upstream_response", "p class=connect")
        p.default = s.default
        await serves(g)
        assert (await g.target("p"))["breaker"]["failures"] == 1


@pytest.mark.parametrize(
    "extra",
    [
        whole(OK + KIND + b"Content-Length: 2\r\n", b"{}"),
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"x",
        b"\r\n",
    ],
    ids=["answer", "refusal", "timeout", "byte", "line"],
)
async def test_what_nobody_asked_for_is_no_answer_to_the_next_request(extra: bytes) -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s})) as g:
        p.script(written(whole(OK + KIND + LENGTH) + extra))
        assert (await g.chat()).text == "well said"
        answered = await g.chat()
        assert answered.text == "hello from p"
        assert answered.trail == ["p class=success"]
        assert (await g.target("p"))["breaker"]["failures"] == 0


async def test_a_cut_in_place_of_the_terminator_is_no_whole_answer() -> None:
    """An answer without a length ends with the connection; one with a length that is not reached is cut."""
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s})) as g:
        p.script(written(whole(OK + KIND + b"Connection: close\r\n", BODY[:-20]), close=True))
        answered = await g.chat()
        assert answered.text == "hello from s"
        assert answered.trail[0] == "p class=bad_upstream_response"
