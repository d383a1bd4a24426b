"""Cutting and reading server-sent events: every line end, every cut, and what is written so that every client reads it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.sse import EventSplitter, EventTooLarge, read_event

TEXT = "日本語のテキスト 🎉 déjà vu"
COMMON = (
    b'data: {"a": "%s"}\n\n' % TEXT.encode(),
    b": a comment\n\n",
    b"event: error\ndata: 1\n\n",
    b"data:no space\n\n",
)
RARE = (
    b'data: {"one":\ndata:  "value"}\n\n',
    b"id: 7\nretry: 10\ndata: x\n\n",
)
EVENTS = COMMON + RARE
READ = [
    ("", json.dumps({"a": TEXT}, ensure_ascii=False).encode()),
    ("error", b"1"),
    ("", b"no space"),
    ("", b'{"one":  "value"}'),
    ("", b"x"),
]
ENDS = {"lf": b"\n", "cr": b"\r", "crlf": b"\r\n"}


def fed(pieces: Iterable[bytes]) -> tuple[list[bytes], bytes]:
    splitter = EventSplitter()
    events = [event for piece in pieces for event in splitter.feed(piece)]
    return events, splitter.rest


def data_of(events: Iterable[bytes]) -> list[tuple[str, bytes]]:
    return [(read.name, read.data) for read in map(read_event, events) if read.data is not None]


def mixed(stream: bytes) -> bytes:
    """The same stream with the three line ends taking turns; a CR is never put where the next end is an LF."""
    out = b""
    for number, line in enumerate(stream.split(b"\n")[:-1]):
        out += line + (b"\r\n", b"\n", b"\r\n", b"\r")[number % 4]
    return out


def streams(events: Iterable[bytes]) -> dict[str, bytes]:
    stream = b"".join(events)
    return {name: stream.replace(b"\n", end) for name, end in ENDS.items()} | {"mixed": mixed(stream)}


STREAMS = streams(EVENTS)
PASSED = {name: stream for name, stream in streams(COMMON).items() if name in ("lf", "crlf")}


@pytest.mark.parametrize("name", STREAMS)
def test_every_cut_point_gives_the_same_events(name: str) -> None:
    stream = STREAMS[name]
    for cut in range(len(stream) + 1):
        events, rest = fed([stream[:cut], stream[cut:]])
        assert data_of(events) == READ, cut
        assert rest == b""


@pytest.mark.parametrize("name", PASSED)
def test_every_cut_point_gives_the_bytes_that_came(name: str) -> None:
    stream = PASSED[name]
    whole, _ = fed([stream])
    for cut in range(len(stream) + 1):
        events, rest = fed([stream[:cut], stream[cut:]])
        assert (events, rest) == (whole, b""), cut
    assert b"".join(whole) == stream


@pytest.mark.parametrize("name", STREAMS)
def test_byte_by_byte_gives_the_same_events(name: str) -> None:
    stream = STREAMS[name]
    events, rest = fed(stream[at : at + 1] for at in range(len(stream)))
    assert data_of(events) == READ
    assert rest == b""
    if name in PASSED:
        assert b"".join(events[:4]) == PASSED[name]


@pytest.mark.parametrize("name", STREAMS)
def test_the_whole_at_once_gives_the_same_events(name: str) -> None:
    events, rest = fed([STREAMS[name]])
    assert data_of(events) == READ
    assert rest == b""


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_lines_of_one_event_stay_together(end: bytes) -> None:
    event = b"event: error" + end + b"data: one" + end + b"data: two" + end * 2
    events, rest = fed([event])
    assert (events, rest) == ([event.replace(b"\r", b"\n") if end == b"\r" else event], b"")
    assert read_event(event) == ("error", b"one\ntwo")


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_an_event_is_there_when_its_blank_line_is(end: bytes) -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: x" + end) == []
    assert data_of(splitter.feed(end)) == [("", b"x")]


@pytest.mark.parametrize("bom", [b"\xef\xbb\xbf", b""])
def test_one_leading_bom_is_no_part_of_the_data(bom: bytes) -> None:
    for event in (b"data: x\n\n", b'data: {"a": 1}\n\n', b"event: error\r\ndata: x\r\n\r\n", b": comment\n\n"):
        stream = bom + event
        assert fed(stream[at : at + 1] for at in range(len(stream))) == ([event], b"")
        assert fed([stream]) == ([event], b"")


@pytest.mark.parametrize(
    ("came", "handed_on"),
    [
        (b"data:\n\n", b":\n\n"),
        (b"data: \r\n\r\n", b":\n\n"),
        (b"data\n\n", b":\n\n"),
        (b"event: ping\n\n", b":\n\n"),
        (b"event: ping\ndata:\n\n", b":\n\n"),
        (b"retry: 3000\n\n", b":\n\n"),
        (b"id: 7\n\n", b":\n\n"),
        (b": why\nid: 7\n\n", b": why\n\n"),
        (b"id: 7\ndata: 1\n\n", b"data: 1\n\n"),
        (b"event: a\r\nid: 7\r\n: c\r\ndata:1\r\n\r\n", b"event: a\n: c\ndata: 1\n\n"),
        (b"data: [\ndata: 1]\n\n", b"data: [ 1]\n\n"),
        (b'data: ["a\ndata: b"]\n\n', b'data: ["a\ndata: b"]\n\n'),  # no JSON, and none is made of it
        (b"data: 1\r\r", b"data: 1\n\n"),
        (b"data: 1\n\r", b"data: 1\n\n"),
        (b"data: 1\r\n\n", b"data: 1\n\n"),
        (b'data: {"a":\rdata: 1}\n\n', b'data: {"a": 1}\n\n'),
        (b": c\r\r", b": c\n\n"),
        (b"\n\n", b"\n\n"),
        (b": c\n\n", b": c\n\n"),
        (b": c\ndata:1\n\n", b": c\ndata:1\n\n"),
        (b"event: ping\r\ndata: {}\r\n\r\n", b"event: ping\r\ndata: {}\r\n\r\n"),
    ],
)
def test_what_clients_do_not_read_is_written_anew(came: bytes, handed_on: bytes) -> None:
    usual = b'data: {"a": 1}\n\n'
    assert fed([came + usual]) == ([handed_on, usual], b"")
    assert fed([came, usual]) == ([handed_on, usual], b"")
    for cut in range(1, len(came)):
        assert b"".join(fed([came[:cut], came[cut:], usual])[0]) == handed_on + usual, cut


def test_a_line_end_that_is_cut_in_two_is_one() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: 1\r\n\r") == [b"data: 1\r\n\r\n"]  # its CR ends it at once
    assert splitter.feed(b"\n") == []
    assert splitter.feed(b"data: 2\r\n\r") == [b"data: 2\r\n\r\n"]
    assert splitter.feed(b"") == []
    assert splitter.feed(b"\ndata: 3\r\n\r\n") == [b"data: 3\r\n\r\n"]
    assert splitter.feed(b"\n: c\n\n") == [b"\n: c\n\n"]  # no half of anything


@pytest.mark.parametrize(
    ("raw", "data"),
    [
        (b": ping\n\n", None),
        (b"\n\n", None),
        (b"data\n\n", b""),
        (b"data:\n\n", b""),
        (b"data:  two blanks\n\n", b" two blanks"),
        (b"data: a\ndata:\ndata: b\n\n", b"a\n\nb"),
        (b"database: x\n\n", None),
        (b": c\ndata: x\n\n", b"x"),
        (b"data: x:y\n\n", b"x:y"),
    ],
)
def test_what_an_event_says(raw: bytes, data: bytes | None) -> None:
    assert read_event(raw).data == data


def test_an_event_without_an_end_is_refused_at_the_limit() -> None:
    splitter = EventSplitter(limit=10)
    assert splitter.feed(b"data: 12345678\n\ndata: 1234") == [b"data: 12345678\n\n"]
    with pytest.raises(EventTooLarge, match="10 bytes"):
        splitter.feed(b"5")


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=ENDS)
def test_a_long_event_in_small_pieces_is_read_once(end: bytes) -> None:
    """Read anew with each piece it would be gigabytes."""
    splitter, piece = EventSplitter(), b": " + b"x" * 1460 + end
    before = time.process_time()
    for _ in range(5000):
        assert splitter.feed(piece) == []
    (event,) = splitter.feed(end)
    assert len(event) == 5000 * len(piece) + len(end)
    assert time.process_time() - before < 10


lines = st.text(st.characters(exclude_characters="\r\n\x00", exclude_categories=["Cs"]), max_size=12)
fields = st.builds(lambda name, value: f"{name}{value}", st.sampled_from(["data: ", "data:", ": ", "event: "]), lines)
block_lists = st.lists(st.lists(fields, min_size=1, max_size=3), max_size=5)


@given(block_lists, st.data())
def test_no_cut_and_no_line_end_changes_what_is_read(blocks: list[list[str]], data: st.DataObject) -> None:
    """The reference is the stream with LF, event by event; an event without data says nothing."""
    read = data_of(("\n".join(block) + "\n\n").encode() for block in blocks)
    reference = [(name, data) for name, data in read if data.strip()]
    end = data.draw(st.sampled_from(list(ENDS.values())))
    stream = b"".join(line.encode() + end for block in blocks for line in [*block, ""])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    events, rest = fed(pieces)
    assert rest == b""
    assert [(name, in_one_line(text)) for name, text in data_of(events)] == [
        (name, in_one_line(text)) for name, text in reference
    ]


@given(st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b"data: x", b"\xff", b":"]), max_size=30), st.data())
def test_no_cut_changes_what_any_mixture_says(parts: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(parts)
    cut = data.draw(st.integers(0, len(stream)))
    events, rest = fed([stream[:cut], stream[cut:]])
    whole, whole_rest = fed([stream])
    assert data_of(events) == data_of(whole)
    assert rest.strip() == whole_rest.strip()
    for event in events:
        assert fed([event]) == ([event], b"") or not event.strip()  # what is written is not written anew


def in_one_line(data: bytes) -> bytes:
    """Data whose lines were joined, as JSON over several is, the same as data whose lines were not."""
    return data.replace(b"\n", b" ")
