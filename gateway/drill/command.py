"""`stanchion drill`: options to rows, rows to a drill, the drill to an exit code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from rich.status import Status

from gateway.console.terminal import Terminal
from gateway.drill import report
from gateway.drill.more import MORE
from gateway.drill.row import Row
from gateway.drill.rows import ROWS
from gateway.drill.runner import COMMITS, FAST, CannotRun, Outcome, run
from gateway.drill.seen import Commit
from gateway.log import quiet_libraries

ALL_ROWS = (*ROWS, *MORE)
_OK, _NO, _CANNOT = 0, 1, 2


@dataclass(frozen=True, slots=True)
class DrillOptions:
    """`commit`: one way only; `rows`: their numbers, all where it is None."""

    commit: Commit | None = None
    rows: tuple[int, ...] | None = None
    real_time: bool = False
    json: bool = False


def chosen(numbers: Sequence[int] | None) -> tuple[Row, ...]:
    """The rows of these numbers, in the drill's own order. Raises CannotRun for a number that no row has."""
    if numbers is None:
        return ALL_ROWS
    unknown = sorted(set(numbers) - {row.number for row in ALL_ROWS})
    if unknown:
        raise CannotRun(f"there is no row {unknown[0]}: `stanchion drill list` shows them, 1 to {len(ALL_ROWS)}")
    return tuple(row for row in ALL_ROWS if row.number in numbers)


def run_list(terminal: Terminal, *, json: bool) -> int:
    """`stanchion drill list`."""
    if json:
        terminal.json(report.list_object(ALL_ROWS))
    else:
        report.draw_list(ALL_ROWS, terminal.out)
    return _OK


def run_providers(options: DrillOptions, terminal: Terminal) -> int:
    """`stanchion drill providers`. 0: no row fails, 1: one does, 2: it could not be run."""
    quiet_libraries()
    commits = COMMITS if options.commit is None else (options.commit,)
    try:
        rows = chosen(options.rows)
        with _progress(terminal) as status:
            told = _teller(status)
            outcome = _on_a_loop(run(rows, commits, speed=1.0 if options.real_time else FAST, told=told))
    except CannotRun as error:
        if options.json:
            terminal.json({"name": report.NAME, "ok": False, "error": str(error)})
        terminal.error(str(error))
        return _CANNOT
    if options.json:
        terminal.json(report.as_object(outcome))
    else:
        report.draw(outcome, terminal.out)
    return _OK if outcome.ok else _NO


def _progress(terminal: Terminal) -> AbstractContextManager[Status | None]:
    """A line that says how far it is, where a person watches."""
    return terminal.err.status("setting up") if terminal.err.is_terminal else nullcontext()


def _teller(status: Status | None) -> Callable[[int, int], None]:
    def told(over: int, of: int) -> None:
        if status is not None:
            status.update(f"{over} of {of} scenes are over")

    return told


def _on_a_loop(work: Coroutine[Any, Any, Outcome]) -> Outcome:
    """On the event loop that `serve` has: connections break a little differently on another."""
    try:
        import uvloop
    except ImportError:  # not made for every platform; asyncio's own loop does
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
