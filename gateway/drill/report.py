"""How a drill is told: a table for people, one object for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.drill.judge import Verdict
from gateway.drill.row import Row
from gateway.drill.rows import ROWS
from gateway.drill.runner import Cell, Outcome
from gateway.drill.seen import Commit

NAME = "providers"
_STYLES = {Verdict.PASS: "green", Verdict.SAFE: "yellow", Verdict.FAIL: "bold red"}
_OF_THE_CATALOGUE = frozenset(row.number for row in ROWS)


def draw(outcome: Outcome, console: Console) -> None:
    """The table and what stands under it."""
    table = Table(show_edge=False, pad_edge=False, header_style="dim")
    table.add_column("row", justify="right")
    table.add_column("fault", overflow="fold")
    for commit in outcome.commits:
        table.add_column(commit, no_wrap=True)
    table.add_column("what was seen", overflow="fold")
    more = False
    for row in outcome.rows:
        if row.number not in _OF_THE_CATALOGUE and not more:
            more = True
            table.add_section()
        verdicts = [outcome.verdict(row, commit) for commit in outcome.commits]
        cells = [Text(verdict.value, style=_STYLES[verdict]) for verdict in verdicts]
        table.add_row(str(row.number), Text(row.name, style="bold"), *cells, evidence(outcome, row))
    console.print(table)
    for group, rows in _groups(outcome):
        for commit in outcome.commits:
            counted = _count(outcome, rows, commit)
            words = ", ".join(f"{counted[verdict]} {verdict.value}" for verdict in Verdict)
            style = _STYLES[Verdict.FAIL] if counted[Verdict.FAIL] else ""
            console.print(Text(f"{group}{commit}: {words} of {len(rows)}", style=style), soft_wrap=True)
    console.print(Text(timing(outcome), style="dim"), soft_wrap=True, highlight=False)


def timing(outcome: Outcome) -> str:
    """How time went, for whoever reads durations in the table."""
    took = f"{len(outcome.cells)} scenes in {outcome.seconds:.{0 if outcome.seconds >= 10 else 1}f} s"
    if outcome.speed == 1:
        return f"{took}, in real durations."
    return (
        f"{took}. Time ran {outcome.speed:g} times as fast, for the gateway's limits and its providers alike (connecting "
        "excepted); durations are told as the gateway counts them. --real-time takes the real ones."
    )


def evidence(outcome: Outcome, row: Row) -> str:
    """What was seen in the row's worst scene, and how that one was asked where it matters."""
    cells = [cell for commit in outcome.commits for cell in outcome.of(row, commit)]
    for verdict in (Verdict.FAIL, Verdict.SAFE):
        found = [cell for cell in cells if cell.judgement.verdict is verdict]
        if found:
            one = found[0]
            differ = len({cell.judgement.verdict for cell in outcome.of(row, one.commit)}) > 1
            return (f"{one.mode}: " if differ else "") + one.judgement.evidence
    return cells[0].judgement.evidence


def as_object(outcome: Outcome) -> dict[str, Any]:
    """The object of `stanchion drill providers --json`."""
    figures: dict[str, Any] = {"speed": outcome.speed, "scenes": len(outcome.cells)}
    for group, rows in _groups(outcome):
        counts: dict[str, dict[str, int]] = {
            commit: {verdict.value: _count(outcome, rows, commit)[verdict] for verdict in Verdict}
            for commit in outcome.commits
        }
        figures.update({"more": counts} if group else counts)
    return {
        "name": NAME,
        "ok": outcome.ok,
        "figures": figures,
        "seconds": round(outcome.seconds, 3),
        "rows": [_row_object(outcome, row) for row in outcome.rows],
    }


def draw_list(rows: Sequence[Row], console: Console) -> None:
    """What there is to drill."""
    console.print(
        Text(NAME, style="bold").append(": what providers do wrong, played at a gateway on loopback", style="")
    )
    table = Table(show_edge=False, pad_edge=False, header_style="dim")
    for title, justify in (("row", "right"), ("fault", "left"), ("what the primary does", "left"), ("pass", "left")):
        table.add_column(title, justify="right" if justify == "right" else "left", overflow="fold")
    for row in rows:
        table.add_row(str(row.number), Text(row.name, style="bold"), row.script, row.passes)
    console.print(table)


def list_object(rows: Sequence[Row]) -> dict[str, Any]:
    """The object of `stanchion drill list --json`."""
    return {
        "drills": [
            {
                "name": NAME,
                "rows": [
                    {
                        "row": row.number,
                        "name": row.name,
                        "primary": row.script,
                        "pass": row.passes,
                        "safe": row.safe or None,
                        "settings": {part: dict(values) for part, values in row.settings.items()},
                    }
                    for row in rows
                ],
            }
        ]
    }


def _row_object(outcome: Outcome, row: Row) -> dict[str, Any]:
    return {
        "row": row.number,
        "name": row.name,
        "verdicts": {commit: outcome.verdict(row, commit).value for commit in outcome.commits},
        "evidence": evidence(outcome, row),
        "scenes": [_cell_object(cell) for commit in outcome.commits for cell in outcome.of(row, commit)],
    }


def _cell_object(cell: Cell) -> dict[str, Any]:
    return {
        "commit": cell.commit,
        "mode": cell.mode,
        "verdict": cell.judgement.verdict.value,
        "evidence": cell.judgement.evidence,
        "seconds": round(cell.seconds, 3),
    }


def _groups(outcome: Outcome) -> list[tuple[str, list[Row]]]:
    """The rows of the catalogue and the others, each with the word that its counts begin with."""
    own = [row for row in outcome.rows if row.number in _OF_THE_CATALOGUE]
    more = [row for row in outcome.rows if row.number not in _OF_THE_CATALOGUE]
    return [(name, rows) for name, rows in (("", own), ("more, ", more)) if rows]


def _count(outcome: Outcome, rows: Sequence[Row], commit: Commit) -> Counter[Verdict]:
    return Counter(outcome.verdict(row, commit) for row in rows)
