"""`replay-lost`: what a promotion lost, read from its file. Nothing of it is put back: what came after stands."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.console.terminal import Terminal, printable

OK, NO, CANNOT = 0, 1, 2


class BrokenTail(Exception):
    """The file is no exported tail, or not a whole one; the message says where."""


@dataclass(frozen=True, slots=True)
class Tail:
    """`head` says of which shard and epoch; `rows` are events, creations, deletions and states."""

    head: dict[str, Any]
    rows: list[dict[str, Any]]


def read_tail(path: Path) -> Tail:
    """Raises BrokenTail."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenTail(
            f"{path} cannot be read ({error}): name a file that a promotion's export has written"
        ) from None
    rows = [_row(path, number, line) for number, line in enumerate(lines, 1)]
    if not rows or rows[0].get("kind") != "tail":
        raise BrokenTail(f"{path}:1: the file does not begin as an exported tail does: name one")
    if rows[0].get("version") != 1:
        raise BrokenTail(
            f"{path}:1: the tail has version {rows[0].get('version')!r}, this program reads 1: use a newer one"
        )
    events = sum(row.get("kind") == "event" for row in rows)
    if rows[-1].get("kind") != "end" or rows[-1].get("events") != events:
        raise BrokenTail(f"{path}:{len(rows)}: the file has no end, or lines are missing: have it exported again")
    return Tail(rows[0], rows[1:-1])


def show_lost(path: Path, session: str | None, terminal: Terminal, *, as_json: bool) -> int:
    """Show the tail; the exit code is 1 where it holds nothing of the session that was asked for."""
    try:
        tail = read_tail(path)
    except BrokenTail as error:
        if as_json:
            terminal.json({"ok": False, "error": str(error)})
        terminal.error(str(error))
        return CANNOT
    rows = [row for row in tail.rows if session is None or row.get("session") == session]
    if as_json:
        terminal.json({"ok": bool(rows) or session is None, "tail": tail.head, "lost": rows})
    else:
        _show(tail, rows, terminal, whole=session is None)
    if session is not None and not rows:
        terminal.error(f"the tail holds nothing of the session {session!r}")
        return NO
    return OK


def _show(tail: Tail, rows: list[dict[str, Any]], terminal: Terminal, *, whole: bool) -> None:
    head = tail.head
    terminal.line(
        printable(
            f"lost of {head['shard']} when epoch {head['epoch']} in {head['region']} was left, "
            f"above {head['above_gseq']}:"
        )
    )
    if not rows:
        terminal.line("nothing")
    if whole:
        counts: dict[tuple[str, str, str], Counter[str]] = {}
        for row in rows:
            counts.setdefault((row["app"], row["user"], row["session"]), Counter())[row["kind"]] += 1
        for (app, user, session), kinds in counts.items():
            what = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
            terminal.line(printable(f"  {app}/{user}/{session}: {what}"))
        return
    for row in rows:
        shown = {key: value for key, value in row.items() if key not in ("app", "user", "session")}
        terminal.line(printable(json.dumps(shown, ensure_ascii=False)))


def _row(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise BrokenTail(f"{path}:{number}: the line is no JSON object: the file was changed, have it exported again")
    return row
