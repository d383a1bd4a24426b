"""A log whose reader stops: the gateway goes on, and what was lost is counted."""

from __future__ import annotations

import io
import os
import threading

from gateway.log_writer import LINES, LogWriter

GUARD_S = 30.0


class Slow(io.StringIO):
    """A stream whose writes wait until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go, self.entered = threading.Event(), threading.Event()

    def write(self, text: str) -> int:
        self.entered.set()
        assert self.go.wait(GUARD_S)
        return super().write(text)


def test_lines_arrive_whole_and_in_order() -> None:
    out = io.StringIO()
    writer = LogWriter(out)
    lines = [f"line {number}\n" for number in range(2000)]
    for line in lines:
        writer.write(line)
    writer.close()
    assert out.getvalue() == "".join(lines)
    assert writer.lost == 0


def test_a_reader_that_stops_holds_nobody_up_and_costs_lines_beyond_the_bound() -> None:
    out = Slow()
    writer = LogWriter(out)
    writer.write("first\n")
    assert out.entered.wait(GUARD_S)
    refused = 0
    for number in range(LINES + 5):
        try:
            writer.write(f"{number}\n")
        except BlockingIOError:
            refused += 1
    assert refused == 5
    out.go.set()
    writer.close()
    assert out.getvalue().count("\n") == LINES + 1


def test_a_pipe_without_a_reader_loses_lines_and_nothing_else() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as out:
        writer = LogWriter(out)
        writer.write("line\n")
        writer.close()
        assert writer.lost == 1


def test_a_real_pipe_that_is_full_does_not_block() -> None:
    read, write = os.pipe()
    out = os.fdopen(write, "w")
    writer = LogWriter(out)
    for _ in range(2000):
        writer.write("x" * 1000 + "\n")  # far more than a pipe takes
    taken = b""
    with os.fdopen(read, "rb") as reader:
        while taken.count(b"\n") < 2000:
            taken += reader.read1(65536)
    writer.close()
    out.close()
    assert writer.lost == 0


def test_closing_twice_is_harmless() -> None:
    writer = LogWriter(io.StringIO())
    writer.close()
    writer.close()
