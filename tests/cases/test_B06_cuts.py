"""However the network cuts a stream, and in whichever legal way it is framed, the caller reads the same."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from openai import AsyncOpenAI
from openai._streaming import SSEDecoder
from openai.types.chat import ChatCompletionMessageParam

from llm.classes import ErrorClass
from llm.dialects.openai_answer import ChatStreamReader
from llm.dialects.openai_assemble import assemble
from llm.errors import AttemptFailed
from tests.fakes import chat
from tests.fakes.behaviours import sse, wait
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.gateway.wire import chat_request, serves, wire
from tests.lab import Lab, config, lab

BOM = b"\xef\xbb\xbf"
PIECES = ("日本語の", "文章 🎉", " déjà vu", " Zażółć\u2028\x85 👩‍👧")
"""The last one has characters that some take for line ends."""
TEXT = "".join(PIECES)
HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return json.dumps({"id": "c", "choices": [choice]}, ensure_ascii=False).encode()


DATA = (
    chunk({"role": "assistant", "content": ""}),
    *(chunk({"content": piece}) for piece in PIECES),
    chunk({}, "stop"),
    b"[DONE]",
)
CR, LF, CRLF = b"\r", b"\n", b"\r\n"
ENDS = {
    "lf": [(LF, LF)],
    "cr": [(CR, CR)],
    "crlf": [(CRLF, CRLF)],
    "mixed": [(CRLF, LF), (LF, CRLF), (CR, CR), (LF, CR), (CRLF, CR), (CR, CRLF), (CRLF, CRLF), (LF, LF)],
}
"""Of a line and of a blank line, event by event. CR and LF behind each other are one line end, so that pair has no place."""


def on_two_lines(data: bytes) -> list[bytes]:
    first, comma, second = data.partition(b", ")
    return [b"data: " + first + comma, b"data: " + second] if comma else [b"data: " + data]


SHAPES: dict[str, list[list[bytes]]] = {
    "plain": [[b"data: " + data] for data in DATA],
    "no-space": [[b"data:" + data] for data in DATA],
    "bom": [[BOM * (not number) + b"data: " + data] for number, data in enumerate(DATA)],
    "comments": [lines for data in DATA for lines in ([b": ping"], [b":", b"data: " + data, ": 日本".encode()])],
    "two-lines": [on_two_lines(data) for data in DATA],
    "named": [[b"event: message", b"data: " + data] for data in DATA],
    "ids": [[b"id: %d" % number, b"data: " + data, b"retry: 9"] for number, data in enumerate(DATA)],
    "says-nothing": [
        lines for data in DATA for lines in ([b"data:"], [b"event: ping"], [b"id: 1"], [b"data: " + data])
    ],
}


def framed(shape: str, ends: str) -> list[bytes]:
    """The stream, event by event."""
    turns = ENDS[ends]
    events = []
    for number, lines in enumerate(SHAPES[shape]):
        line_end, blank = turns[number % len(turns)]
        events.append(b"".join(line + line_end for line in lines) + blank)
    return events


VARIANTS = [(shape, ends) for shape in SHAPES for ends in ENDS]
AS_THEY_CAME = [(shape, ends) for shape in ("plain", "no-space", "comments", "named") for ends in ("lf", "crlf")]
variants = pytest.mark.parametrize(("shape", "ends"), VARIANTS, ids=["-".join(variant) for variant in VARIANTS])


def passed(pieces: Iterable[bytes]) -> bytes:
    """What the reader passes on of a stream in these pieces."""
    reader = ChatStreamReader(usage_asked=False)
    out = b"".join(reader.feed(piece).data for piece in pieces)
    out += reader.end().data
    assert reader.progress.ended
    assert reader.progress.finish_reason == "stop"
    return out


def data_of(stream: bytes) -> list[str]:
    """The events' data as OpenAI's own client reads them."""
    return [event.data for event in SSEDecoder().iter_bytes(iter([stream]))]


def text_of(stream: bytes) -> str:
    """What the caller reads: chunks that are JSON, and then the terminator."""
    *chunks, last = data_of(stream)
    assert last == "[DONE]"
    return "".join(json.loads(data)["choices"][0]["delta"].get("content", "") for data in chunks)


def bytewise(stream: bytes) -> Iterator[bytes]:
    return (stream[at : at + 1] for at in range(len(stream)))


@variants
def test_B06_every_cut_gives_the_same(shape: str, ends: str) -> None:
    stream = b"".join(framed(shape, ends))
    whole = passed([stream])
    assert text_of(whole) == TEXT
    assert "\ufffd" not in whole.decode()
    said = [json.loads(data) for data in data_of(whole)[:-1]]
    assert said == [json.loads(data) for data in DATA[:-1]]
    for cut in range(1, len(stream)):
        out = passed([stream[:cut], stream[cut:]])
        assert out == whole or (ends == "mixed" and data_of(out) == data_of(whole)), cut
    if (shape, ends) in AS_THEY_CAME:
        assert whole == stream


@variants
def test_B06_byte_by_byte_gives_the_same(shape: str, ends: str) -> None:
    stream = b"".join(framed(shape, ends))
    out = passed(bytewise(stream))
    assert data_of(out) == data_of(passed([stream]))
    assert text_of(out) == TEXT
    if (shape, ends) in AS_THEY_CAME:
        assert out == stream
    assert json.loads(assemble(out))["choices"][0]["message"]["content"] == TEXT


@variants
def test_B06_an_event_is_handed_on_when_its_blank_line_is_there(shape: str, ends: str) -> None:
    """And that is so at a CR: whether an LF follows is not waited for."""
    reader = ChatStreamReader(usage_asked=False)
    out, due = b"", 0
    for event in framed(shape, ends):
        end = len(event) - event.endswith(CRLF)
        for part in bytewise(event[: end - 1]):
            out += reader.feed(part).data
        assert len(data_of(out)) == due, "an event before its blank line"
        out += reader.feed(event[end - 1 : end]).data
        due += any(data.partition(b", ")[0] in event for data in DATA)
        assert len(data_of(out)) == due, event
        out += reader.feed(event[end:]).data
    assert due == len(DATA)


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("nonsense", [b"data: {nonsense}", b'data: {"a": "one\ndata: two"}', b"data: \xff\xfe"])
def test_B06_an_event_that_is_no_json_ends_the_stream_behind_what_was_good(nonsense: bytes, ends: str) -> None:
    good = framed("plain", ends)[:3]
    line, blank = ENDS[ends][0]
    stream = b"".join(good) + nonsense.replace(b"\n", line) + line + blank
    for cut in range(1, len(stream)):
        reader = ChatStreamReader(usage_asked=False)
        out = b""
        with pytest.raises(AttemptFailed) as caught:
            for piece in (stream[:cut], stream[cut:]):
                out += reader.feed(piece).data
        out += reader.take_good().data
        assert caught.value.failure.error_class is ErrorClass.BAD_UPSTREAM_RESPONSE
        assert data_of(out) == [data.decode() for data in DATA[:3]]


# Through the whole gateway.


@asynccontextmanager
async def sdk(g: Lab) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{g.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


async def read(client: AsyncOpenAI) -> str:
    """The text of a streamed answer, as the official client gives it."""
    stream = await client.chat.completions.create(model="r", messages=HI, stream=True)
    chunks = [chunk async for chunk in stream]
    assert chunks[-1].choices[0].finish_reason == "stop"
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


@variants
async def test_B06_the_official_client_reads_every_variant_byte_by_byte(shape: str, ends: str) -> None:
    stream = b"".join(framed(shape, ends))
    async with Upstream("p", default=sse(*bytewise(stream))) as p, lab(config({"p": p})) as g, sdk(g) as client:
        assert await read(client) == TEXT
        answered = await g.chat(stream=True)
        assert (answered.status, answered.whole, text_of(answered.body)) == (200, True, TEXT)
        if (shape, ends) in AS_THEY_CAME:
            assert answered.body == stream


@pytest.mark.parametrize(("shape", "ends"), [("plain", "lf"), ("comments", "mixed")])
async def test_B06_every_cut_of_a_coded_stream(shape: str, ends: str) -> None:
    """The coding's own bytes are cut: at any of them, and at all."""
    stream = gzip.compress(b"".join(framed(shape, ends)), mtime=0)
    coded = {"Content-Encoding": "gzip"}
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        for cut in range(1, len(stream)):
            p.script(sse(stream[:cut], stream[cut:], headers=coded))
            assert text_of((await g.chat(stream=True)).body) == TEXT, cut
        p.script(sse(*bytewise(stream), headers=coded))
        assert text_of((await g.chat(stream=True)).body) == TEXT


@pytest.mark.parametrize("ends", ENDS)
async def test_B06_the_caller_has_an_event_before_the_next_one_comes(ends: str) -> None:
    """Of a CRLF the CR is enough: the provider keeps its LF until the caller has read."""
    events = framed("plain", ends)
    steps: list[Any] = []
    seen = [asyncio.Event() for _ in PIECES]
    held = b""
    for number, event in enumerate(events):
        end = len(event) - event.endswith(CRLF)
        steps.append(held + event[:end])
        held = event[end:]
        if 1 <= number <= len(seen):
            steps.append(wait(seen[number - 1]))
    async with Upstream("p", default=sse(*steps, held)) as p, lab(config({"p": p})) as g, wire(g) as w:
        w.send(chat_request(stream=True))
        await w.head()
        body = b""
        for piece, read_it in zip(PIECES, seen, strict=True):
            body += await w.until_seen(piece.encode())
            read_it.set()
        while data := await w.piece():
            body += data
        assert text_of(body) == TEXT


@pytest.mark.parametrize("shape", ["bom", "ids", "says-nothing"])
async def test_B06_heartbeats_and_the_trail_disturb_no_framing(shape: str) -> None:
    """After an `id` the official client takes each comment for an event; a byte order mark is one only at the very front."""
    clock, go, more = ManualClock(), asyncio.Event(), asyncio.Event()
    first, *rest = framed(shape, "lf")
    script = sse(wait(go), first, rest[0], wait(more), *rest[1:])
    patient = {"timeouts": {"idle": "60s", "first_output": "60s"}}
    async with Upstream("p", default=script) as p, lab(config({"p": p}, defaults=patient), clock) as g, wire(g) as w:
        w.send(chat_request(stream=True))
        await p.wait_for_requests(1)
        await clock.run(15)
        await w.head()
        body = await w.piece()
        go.set()
        body += await w.until_seen(b"assistant") if shape != "says-nothing" else b""
        more.set()
        while data := await w.piece():
            body += data
        assert body.startswith(b": waiting\n\n")
        assert b": stanchion-attempts" in body
        assert text_of(body) == TEXT


async def test_B06_after_nonsense_comes_one_error_and_the_next_request_is_served() -> None:
    good = framed("plain", "mixed")
    async with Upstream("p") as p, lab(config({"p": p}, defaults={"retry": {"attempts": 0}})) as g:
        p.script(sse(*good[:3], b"data: {nonsense}\r\r", *good[3:]))
        answered = await g.chat(stream=True)
        *chunks, last = data_of(answered.body)
        assert "".join(json.loads(data)["choices"][0]["delta"]["content"] for data in chunks) == "".join(PIECES[:2])
        assert json.loads(last)["error"]["code"] == "stream_interrupted"
        assert not answered.whole
        p.script(sse(*good))
        assert text_of((await g.chat(stream=True)).body) == TEXT
        await serves(g)


def test_B06_the_reference_client_needs_what_is_done_for_it() -> None:
    """The framings that are written anew are those that OpenAI's client does not read as they came."""
    assert text_of(b"".join(framed("plain", "mixed"))) == TEXT
    assert len(data_of(b"".join(framed("bom", "lf")))) == len(DATA) - 1
    assert "" in data_of(b"".join(framed("says-nothing", "lf")))
    assert "" in data_of(b"id: 1\n" + chat.text_chunk("a") + b": waiting\n\n" + chat.DONE)
    assert all(before != b"\r" or after != b"\n" for pairs in ENDS.values() for before, after in pairs)
