"""The request reader: any cut of the stream gives the same requests, and bad framing is refused."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.drill.provider.http1 import MalformedRequest, Request, RequestReader, chunk, response_head

WIRE = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nX-Two: 1\r\nx-two:  2 \r\n"
    b"Content-Length: 5\r\n\r\nhello"
    b"GET /v1/models HTTP/1.1\r\nConnection: Close\r\n\r\n"
    b"POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nab\n\r\nA;x=y\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n"
    b"POST /old HTTP/1.0\r\ncontent-length: 0\r\n\r\n"
)
EXPECTED = [
    Request(
        "POST",
        "/v1/chat/completions",
        "HTTP/1.1",
        (("Host", "a"), ("X-Two", "1"), ("x-two", "2"), ("Content-Length", "5")),
        b"hello",
    ),
    Request("GET", "/v1/models", "HTTP/1.1", (("Connection", "Close"),), b""),
    Request("POST", "/c", "HTTP/1.1", (("Transfer-Encoding", "chunked"),), b"ab\n0123456789"),
    Request("POST", "/old", "HTTP/1.0", (("content-length", "0"),), b""),
]


@settings(deadline=None)
@given(st.lists(st.integers(0, len(WIRE)), max_size=8))
def test_any_cut_gives_the_same_requests(cuts: list[int]) -> None:
    reader, requests = RequestReader(), []
    bounds = [0, *sorted(cuts), len(WIRE)]
    for start, stop in pairwise(bounds):
        requests += reader.feed(WIRE[start:stop])
    assert requests == EXPECTED


def test_byte_by_byte() -> None:
    reader = RequestReader()
    requests = [request for byte in WIRE for request in reader.feed(bytes([byte]))]
    assert requests == EXPECTED
    assert [request.keep_alive for request in requests] == [True, False, True, False]


def test_a_request_is_given_with_its_last_byte() -> None:
    reader = RequestReader()
    assert reader.feed(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\na") == []
    assert [request.body for request in reader.feed(b"b")] == [b"ab"]


@pytest.mark.parametrize(
    "wire",
    [
        b"what is this\r\n\r\n",
        b"GET / SPDY/3\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nspace : x\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"a" * 70_000,
    ],
)
def test_bad_framing_is_refused(wire: bytes) -> None:
    with pytest.raises(MalformedRequest):
        RequestReader().feed(wire)


def test_expect_continue_is_told_with_the_head() -> None:
    reader = RequestReader()
    assert reader.feed(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n") == []
    assert reader.expects_continue


def test_what_goes_back() -> None:
    assert response_head(200, [("A", "b")]) == b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n"
    assert response_head(529, []).startswith(b"HTTP/1.1 529 ")
    assert (chunk(b"x" * 26), chunk(b"")) == (b"1a\r\n" + b"x" * 26 + b"\r\n", b"")
