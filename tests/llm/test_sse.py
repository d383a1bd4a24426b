"""Cutting and reading server-sent events: every line end, every cut, and never a byte lost."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.sse import EventSplitter, EventTooLarge, read_event

TEXT = "日本語のテキスト 🎉 déjà vu"
EVENTS = (
    b'data: {"a": "%s"}\n\n' % TEXT.encode(),
    b": a comment\n\n",
    b"event: error\ndata: 1\n\n",
    b"data:no space\n\n",
    b'data: {"one":\ndata:  "value"}\n\n',
    b"id: 7\nretry: 10\ndata: x\n\n",
)
READ = [
    ("", json.dumps({"a": TEXT}, ensure_ascii=False).encode()),
    ("error", b"1"),
    ("", b"no space"),
    ("", b'{"one":\n "value"}'),
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


STREAMS = {name: b"".join(EVENTS).replace(b"\n", end) for name, end in ENDS.items()} | {
    "mixed": mixed(b"".join(EVENTS))
}


@pytest.mark.parametrize("name", STREAMS)
def test_every_cut_point_gives_the_same_events(name: str) -> None:
    stream = STREAMS[name]
    for cut in range(len(stream) + 1):
        events, rest = fed([stream[:cut], stream[cut:]])
        assert data_of(events) == READ, cut
        assert b"".join(events) + rest == stream


@pytest.mark.parametrize("name", STREAMS)
def test_byte_by_byte_gives_the_same_events(name: str) -> None:
    stream = STREAMS[name]
    events, rest = fed(stream[at : at + 1] for at in range(len(stream)))
    assert data_of(events) == READ
    assert b"".join(events) + rest == stream


@pytest.mark.parametrize("name", STREAMS)
def test_the_whole_at_once_gives_the_same_events(name: str) -> None:
    events, rest = fed([STREAMS[name]])
    assert data_of(events) == READ
    assert rest == b""


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_lines_of_one_event_stay_together(end: bytes) -> None:
    event = b"event: error" + end + b"data: one" + end + b"data: two" + end * 2
    events, rest = fed([event])
    assert (events, rest) == ([event], b"")
    assert read_event(event) == ("error", b"one\ntwo")


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_an_event_is_there_when_its_blank_line_is(end: bytes) -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: x" + end) == []
    assert data_of(splitter.feed(end)) == [("", b"x")]


@pytest.mark.parametrize("bom", [b"\xef\xbb\xbf", b""])
def test_one_leading_bom_is_no_part_of_the_data(bom: bytes) -> None:
    stream = bom + b"data: x\n\n"
    events, _ = fed(stream[at : at + 1] for at in range(len(stream)))
    assert data_of(events) == [("", b"x")]
    assert b"".join(events) == stream


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
    before = time.perf_counter()
    for _ in range(5000):
        assert splitter.feed(piece) == []
    (event,) = splitter.feed(end)
    assert len(event) == 5000 * len(piece) + len(end)
    assert time.perf_counter() - before < 1


lines = st.text(st.characters(exclude_characters="\r\n\x00", exclude_categories=["Cs"]), max_size=12)
fields = st.builds(lambda name, value: f"{name}{value}", st.sampled_from(["data: ", "data:", ": ", "event: "]), lines)
streams = st.lists(st.lists(fields, min_size=1, max_size=3), max_size=5)


@given(streams, st.data())
def test_no_cut_and_no_line_end_changes_what_is_read(blocks: list[list[str]], data: st.DataObject) -> None:
    """The reference is the stream with LF, event by event."""
    reference = data_of(("\n".join(block) + "\n\n").encode() for block in blocks)
    end = data.draw(st.sampled_from(list(ENDS.values())))
    stream = b"".join(line.encode() + end for block in blocks for line in [*block, ""])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    events, rest = fed(pieces)
    assert b"".join(events) + rest == stream
    assert data_of(events) == reference


@given(st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b"data: x", b"\xff", b":"]), max_size=30), st.data())
def test_no_byte_is_lost_in_any_mixture(parts: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(parts)
    cut = data.draw(st.integers(0, len(stream)))
    events, rest = fed([stream[:cut], stream[cut:]])
    assert b"".join(events) + rest == stream
    assert data_of(events) == data_of(fed([stream])[0])
