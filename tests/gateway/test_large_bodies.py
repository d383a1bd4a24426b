"""Bodies that are all structure, and large ones: what comes next is served all the same."""

from __future__ import annotations

import asyncio
import io
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.body import LARGE
from gateway.body_structure import MOST_ITEMS, MOST_PARTS, check_structure
from gateway.caller_dialect import OpenAiCaller
from gateway.http_errors import HttpError
from llm.jsonspan import without_escaped_marks, without_texts
from llm.request import Call
from tests.fakes.upstream import Upstream
from tests.gateway.wire import GUARD_S, POST, chat_body, idle, serves, until, wire
from tests.lab import Answer, Lab, config, lab, whole

PATH = "/v1/chat/completions"
JSON = {"Content-Type": "application/json"}
LONG = "x" * LARGE


def filled(filling: bytes, times: int) -> bytes:
    """A request with so many of something for messages."""
    return b'{"model":"r","messages":[' + (filling * times)[:-1] + b"]}"


def said(text: str) -> bytes:
    return chat_body(messages=[{"role": "user", "content": text}])


def refused(body: bytes) -> bool:
    try:
        check_structure(body)
    except HttpError:
        return True
    return False


async def ask(g: Lab, body: bytes) -> Answer:
    """As `Lab.post` does; a client that sends this much has to read it from somewhere."""
    async with g.session.post(g.url + PATH, data=io.BytesIO(body), headers=JSON) as response:
        return await whole(response)


# What is too much


def test_names_objects_and_lists_may_be_as_many_as_the_limit() -> None:
    around = 4  # the object, its two names, the list of messages
    assert not refused(filled(b"[],", MOST_PARTS - around))
    assert refused(filled(b"[],", MOST_PARTS - around + 1))
    assert refused(filled(b"{},", MOST_PARTS - around + 1))
    assert not refused(filled(b'{"a":1},', (MOST_PARTS - around) // 2))
    assert refused(filled(b'{"a":1},', (MOST_PARTS - around) // 2 + 1))


@pytest.mark.parametrize("value", [b"1,", b'"",', b"null,", b'"\\"\\\\",'])
def test_values_may_be_as_many_as_the_limit(value: bytes) -> None:
    assert not refused(filled(value, MOST_ITEMS - 10))
    assert refused(filled(value, MOST_ITEMS + 10))


@pytest.mark.parametrize(
    "text",
    [
        "1,2,3;" * MOST_ITEMS,
        '{"id": 17, "ok": [true]},\n' * MOST_PARTS,
        "\\" * 999_999 + '"' + "{" * (MOST_PARTS + 1) + '"\\\\',
        '\\":' * (MOST_PARTS + 1),
    ],
    ids=["table", "records", "backslashes", "marks"],
)
def test_what_stands_inside_of_a_text_is_no_structure(text: str) -> None:
    assert not refused(said(text))


def test_a_long_conversation_and_records_of_two_megabytes_pass() -> None:
    turns = [{"role": "user" if n % 2 else "assistant", "content": "word " * 45} for n in range(20_000)]
    records = [{"id": n, "name": f"n{n}", "ok": True, "at": [n, n]} for n in range(45_000)]
    for body in (chat_body(messages=turns), chat_body(messages=[{"role": "tool", "content": records}])):
        assert len(body) > 2_000_000
        assert not refused(body)


def test_bytes_that_are_no_json_do_no_harm() -> None:
    for body in (b'"' * 3_000_000, b"\\" * 3_000_001, b"\xff" * 3_000_000, b'"' + b":" * 3_000_000, b'\\"' * 1_500_000):
        refused(body)  # one or the other


_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
texts = st.text(st.sampled_from('ab"\\:,{[]}\n\u00e9')) | st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
values = st.recursive(
    st.none() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(values, st.booleans())
def test_texts_are_taken_out_whole_and_nothing_else(value: Any, ascii_only: bool) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert without_texts(without_escaped_marks(body)) == _TOKEN.sub(b"", body)


# What its caller is told


@pytest.mark.parametrize(
    "body",
    [
        filled(b"[],", 2_000_000),
        filled(b'{"model":1},', 1_000_000),
        filled(b'"",', 3_000_000),
        filled(b"1,", 3_000_000),
    ],
    ids=["lists", "objects", "texts", "numbers"],
)
async def test_a_body_that_is_all_structure_is_413_and_never_parsed(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = []
    real = OpenAiCaller.read

    def read(self: OpenAiCaller, body: bytes) -> Call:
        parsed.append(len(body))
        return real(self, body)

    monkeypatch.setattr(OpenAiCaller, "read", read)
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        answer = await ask(g, body)
        assert answer.status == 413
        assert (answer.error["class"], answer.error["code"]) == ("too_large", "request_too_large")
        assert str(MOST_PARTS) in answer.error["message"]
        assert "send fewer messages" in answer.error["message"]
        assert answer.headers["x-should-retry"] == "false"
        await serves(g)
        assert p.attempts == 1
        assert [turn["outcome"] for turn in g.turns] == ["rejected", "success"]
        assert max(parsed) < 1000


async def test_a_long_conversation_reaches_its_provider_as_it_was_sent() -> None:
    messages = [{"role": "user" if n % 2 else "assistant", "content": f"{n} " + "word " * 45} for n in range(20_000)]
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        assert (await ask(g, chat_body(messages=messages))).status == 200
        assert p.requests[0].json == {"model": "p-model", "messages": messages}


async def test_what_is_wrong_with_a_large_body_is_said_as_of_a_small_one() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        broken = await ask(g, said(LONG)[:-1])
        assert (broken.status, broken.error["class"]) == (400, "bad_request")
        assert "not valid JSON" in broken.error["message"]
        nul = await ask(g, said(LONG + "\0"))
        assert (nul.status, "NUL" in nul.error["message"]) == (400, True)
        await serves(g)
        assert p.attempts == 1


# Beside the event loop


class Slow:
    """Reads large bodies only when it is let; says how many at once."""

    def __init__(self) -> None:
        self.go, self.began, self.at_once, self.most = threading.Event(), 0, 0, 0

    def hold(self, read: Callable[[], Call]) -> Call:
        self.began += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            assert self.go.wait(GUARD_S), "the event loop waits for the parser"
            return read()
        finally:
            self.at_once -= 1


@contextmanager
def slow_reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    slow, real = Slow(), OpenAiCaller.read

    def read(self: OpenAiCaller, body: bytes) -> Call:
        return slow.hold(lambda: real(self, body)) if len(body) > LARGE else real(self, body)

    monkeypatch.setattr(OpenAiCaller, "read", read)
    try:
        yield slow
    finally:
        slow.go.set()


async def test_others_are_served_while_a_large_body_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    with slow_reading(monkeypatch) as slow:
        async with Upstream("p") as p, lab(config({"p": p})) as g:
            large = asyncio.ensure_future(ask(g, said(LONG)))
            await until(lambda: slow.began)
            await serves(g)
            assert not large.done()
            slow.go.set()
            assert (await large).status == 200


async def test_large_bodies_are_parsed_one_at_a_time_and_who_leaves_the_queue_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = said(LONG)
    with slow_reading(monkeypatch) as slow:
        async with Upstream("p") as p, lab(config({"p": p})) as g:
            large = [asyncio.ensure_future(ask(g, body)) for _ in range(3)]
            await until(lambda: slow.began == 1 and g.service.bodies._thread._work_queue.qsize() == 2)
            async with wire(g) as w:
                w.send(f"{POST}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                await until(lambda: g.service.bodies._thread._work_queue.qsize() == 3)
                w.abort()
                await until(lambda: g.service.in_flight == 3)
            slow.go.set()
            assert [(await one).status for one in large] == [200, 200, 200]
            assert (slow.began, slow.most, p.attempts) == (3, 1, 3)
            await idle(g)
            assert sorted(turn["outcome"] for turn in g.turns) == ["client_closed", "success", "success", "success"]


async def test_a_replica_that_stops_does_not_wait_for_a_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    with slow_reading(monkeypatch) as slow:
        async with Upstream("p") as p, lab(config({"p": p})) as g:
            large = [asyncio.ensure_future(ask(g, said(LONG))) for _ in range(2)]
            await until(lambda: slow.began == 1 and g.service.in_flight == 2)
            await g.server.close()
            for one in large:
                answer = await one
                assert (answer.status, answer.error["class"]) == (503, "shed")
            assert slow.began == 1
            assert p.attempts == 0
