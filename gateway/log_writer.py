"""A log that cannot hold up the gateway: lines are handed to a thread, which writes them as fast as their reader reads.

A pipe whose reader has stopped blocks whoever writes to it. In the event loop that would be every turn at once.
"""

from __future__ import annotations

import io
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import TextIO

LINES = 10_000
"""Lines that wait at most; those that come on top are lost, and counted by whoever writes them."""

_CLOSE_S = 2.0


class LogWriter(io.TextIOBase):
    """A text stream in front of `out`. Start it before the first line, and `close` it: what waits is written then, as far
    as two seconds allow. `lost` counts lines that `out` did not take.
    """

    def __init__(self, out: TextIO) -> None:
        self._write = _sink(out)
        self._lines: deque[str] = deque()
        self._some = threading.Event()
        self._ending = False
        self.lost = 0
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """Hand one line over. Raises BlockingIOError when too many wait."""
        if len(self._lines) >= LINES:
            raise BlockingIOError(f"{LINES} lines wait for the reader of the log")
        self._lines.append(text)
        if not self._some.is_set():
            self._some.set()
        return len(text)

    def flush(self) -> None:
        """Nothing: the thread flushes after each piece."""

    def close(self) -> None:
        if not self._ending:
            self._ending = True
            self._some.set()
            self._thread.join(_CLOSE_S)
        super().close()

    def _run(self) -> None:
        while not (self._ending and not self._lines):
            self._some.wait()
            self._some.clear()
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            if not lines:
                continue
            try:
                self._write("".join(lines))
            except (OSError, ValueError):  # a full disk, a closed pipe, a stream that was closed
                self.lost += len(lines)


def _sink(out: TextIO) -> Callable[[str], None]:
    """Writes a piece whole. To a file's descriptor itself where there is one: a thread that is blocked inside of a buffered
    stream holds its lock, which the end of the process waits for.
    """
    try:
        descriptor = out.fileno()
    except (OSError, ValueError):

        def write(text: str) -> None:
            out.write(text)
            out.flush()

        return write

    def write_through(text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        while data:
            data = data[os.write(descriptor, data) :]

    return write_through
