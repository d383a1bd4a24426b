"""The two streams of a terminal program: results to stdout, remarks to stderr."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from rich.console import Console
from rich.markup import escape

_PIPE_WIDTH = 160
"""Columns of a table that goes to a file or a pipe, where no terminal says how wide it is."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where a command writes: `out` for its result, `err` for everything about it."""

    out: Console
    err: Console

    def json(self, value: Any) -> None:
        """One JSON value as the result."""
        self.out.print_json(data=value, highlight=self.out.is_terminal)

    def line(self, text: str = "", *, style: str | None = None) -> None:
        """One line of the result, taken literally and never folded, so that it can be copied and searched."""
        self.out.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def error(self, text: str) -> None:
        """What went wrong, on stderr."""
        self.err.print(f"[bold red]stanchion:[/] {escape(text)}", highlight=False, soft_wrap=True)


def open_terminal(environ: Mapping[str, str] | None = None) -> Terminal:
    """The process's own streams. Colours only on a terminal and never with NO_COLOR; both are rich's own rules."""
    environ = os.environ if environ is None else environ
    return Terminal(_console(sys.stdout, environ), _console(sys.stderr, environ))


def printable(text: str) -> str:
    """`text` without control characters: what others wrote must not steer the terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def _console(stream: TextIO, environ: Mapping[str, str]) -> Console:
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")  # an arrow that the terminal cannot show is no reason to fail
    if stream.isatty():
        return Console(file=stream)
    columns = environ.get("COLUMNS", "")
    return Console(file=stream, width=int(columns) if columns.isdigit() and int(columns) > 0 else _PIPE_WIDTH)
