"""The table and the object, from an outcome that is made up."""

from __future__ import annotations

import io

from rich.console import Console

from gateway.drill import report
from gateway.drill.judge import Judgement, Verdict
from gateway.drill.more import MORE
from gateway.drill.rows import ROWS
from gateway.drill.runner import COMMITS, Cell, Outcome

CUT, EXTRA = ROWS[7], MORE[0]
PASS, SAFE, FAIL = Verdict.PASS, Verdict.SAFE, Verdict.FAIL


def outcome(*verdicts: Verdict, speed: float = 10.0) -> Outcome:
    """Verdicts of the row 8: first_output streamed and plain, complete streamed and plain; row 17 passes."""
    cells = [
        Cell(CUT, commit, stream, Judgement(verdict, f"evidence of {verdict}"), 0.5)
        for (commit, stream), verdict in zip([(c, s) for c in COMMITS for s in (True, False)], verdicts, strict=True)
    ]
    cells += [Cell(EXTRA, commit, True, Judgement(PASS, "fine"), 0.1) for commit in COMMITS]
    return Outcome((CUT, EXTRA), COMMITS, tuple(cells), speed, 12.34)


def drawn(one: Outcome, *, terminal: bool = False) -> str:
    out = io.StringIO()
    report.draw(
        one, Console(file=out, width=120, force_terminal=terminal, color_system="standard" if terminal else None)
    )
    return out.getvalue()


def test_the_table() -> None:
    text = drawn(outcome(SAFE, PASS, PASS, PASS))
    lines = text.splitlines()
    assert [cell.strip() for cell in lines[2].split("│")] == [
        "8", "cut after 40 of 60 tokens", "safe", "pass", "streamed: evidence of safe",
    ]  # fmt: skip
    assert "first_output: 0 pass, 1 safe, 0 fail of 1" in lines
    assert "complete: 1 pass, 0 safe, 0 fail of 1" in lines
    assert "more, complete: 1 pass, 0 safe, 0 fail of 1" in lines
    assert lines[-1].startswith("6 scenes in 12 s. Time ran 10 times as fast")
    assert "\x1b" not in text


def test_colour_is_for_terminals() -> None:
    assert "\x1b[1;31mfail" in drawn(outcome(FAIL, PASS, PASS, PASS), terminal=True)


def test_real_time_is_told() -> None:
    assert drawn(outcome(PASS, PASS, PASS, PASS, speed=1.0)).splitlines()[-1] == "6 scenes in 12 s, in real durations."


def test_streamed_and_plain_both_have_to_pass() -> None:
    one = outcome(PASS, FAIL, SAFE, PASS)
    assert one.verdict(CUT, "first_output") is FAIL
    assert one.verdict(CUT, "complete") is SAFE
    assert not one.ok
    assert report.evidence(one, CUT) == "plain: evidence of fail"
    assert outcome(SAFE, PASS, SAFE, PASS).ok


def test_nothing_run_is_not_ok() -> None:
    assert not Outcome((), COMMITS, (), 10.0, 0.0).ok


def test_the_object() -> None:
    told = report.as_object(outcome(SAFE, PASS, PASS, PASS))
    assert set(told) == {"name", "ok", "figures", "seconds", "rows"}
    assert (told["name"], told["ok"], told["seconds"]) == ("providers", True, 12.34)
    assert told["figures"] == {
        "speed": 10.0,
        "scenes": 6,
        "first_output": {"pass": 0, "safe": 1, "fail": 0},
        "complete": {"pass": 1, "safe": 0, "fail": 0},
        "more": {commit: {"pass": 1, "safe": 0, "fail": 0} for commit in COMMITS},
    }
    row = told["rows"][0]
    assert (row["row"], row["verdicts"]) == (8, {"first_output": "safe", "complete": "pass"})
    assert row["scenes"][0] == {
        "commit": "first_output",
        "mode": "streamed",
        "verdict": "safe",
        "evidence": "evidence of safe",
        "seconds": 0.5,
    }


def test_the_list() -> None:
    told = report.list_object((CUT,))["drills"][0]["rows"][0]
    assert set(told) == {"row", "name", "primary", "pass", "safe", "settings"}
    out = io.StringIO()
    report.draw_list((CUT,), Console(file=out, width=160))
    assert "cut after 40 of 60 tokens" in out.getvalue()
