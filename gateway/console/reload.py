"""Prints what came of a reload: the version that is in force, or every problem as `check` prints it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.console.terminal import Terminal, printable


def show(answer: Mapping[str, Any], terminal: Terminal) -> None:
    """`answer`: as `ask_reload` gives it."""
    version = printable(str(answer.get("version", "unknown")))
    if answer["applied"]:
        terminal.line(f"applied: the gateway runs with version {version} of its settings")
        return
    problems: list[Mapping[str, Any]] = answer["problems"]
    for problem in problems:
        terminal.line(printable(_line(problem)))
    count = len(problems)
    what = "1 problem" if count == 1 else f"{count} problems"
    terminal.error(f"refused: {what}; the gateway goes on with the settings that it has")


def _line(problem: Mapping[str, Any]) -> str:
    parts = [":".join(str(problem.get(key, "?")) for key in ("file", "line", "column"))]
    if problem.get("path"):
        parts.append(str(problem["path"]))
    return ": ".join([*parts, str(problem.get("message", ""))])
