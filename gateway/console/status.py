"""Draws a report: a table of the targets, why the troubled ones are troubled, and one line per route."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.console.report import Report, RouteReport, TargetReport
from gateway.console.terminal import printable

_BREAKER_STYLES = {"closed": "green", "open": "bold red", "half_open": "yellow"}


def draw(report: Report, console: Console, *, source: str = "") -> None:
    """The whole report. Columns in which no target has anything to say are left out."""
    console.print(_headline(report, source), highlight=False, soft_wrap=True)
    console.print(_table(report.targets))
    for target in report.targets:
        if target.error_class is not None:
            console.print(why(target), highlight=False, soft_wrap=True)
    for route in report.routes:
        console.print(_route_line(route), highlight=False, soft_wrap=True)


def seconds(value: float) -> str:
    """A span as people read it: `0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`."""
    if value < 0:
        return "0 s"
    if value < 0.95:
        return f"{value:.1f} s"
    whole = round(value)
    for large, large_name, small, small_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= large:
            rest = whole % large // small
            return f"{whole // large} {large_name}" + (f" {rest} {small_name}" if rest else "")
    return f"{whole} s"


def breaker_text(target: TargetReport) -> Text:
    """`closed`, `open: next probe in 4 s` or `half open: probe in flight`."""
    text = Text(target.breaker.replace("_", " "), style=_BREAKER_STYLES.get(target.breaker, ""))
    if target.breaker == "open" and target.retry_in_s is not None:
        due = target.retry_in_s <= 0
        text.append(": the next request probes" if due else f": next probe in {seconds(target.retry_in_s)}")
    elif target.breaker == "half_open":
        text.append(": probe in flight")
    elif target.breaker == "closed" and target.failures:
        text.append(f" ({target.failures}/{target.samples} failed)", style="yellow")
    return text


def hold_text(target: TargetReport) -> Text:
    """`rate_limited, 25 s left`, or a dash."""
    if target.hold_reason is None:
        return Text("-", style="dim")
    left = "" if target.hold_left_s is None else f", {seconds(target.hold_left_s)} left"
    return Text(printable(target.hold_reason) + left, style="red")


def why(target: TargetReport) -> Text:
    """The line that says what went wrong there last."""
    ago = "" if target.error_age_s is None else f" {seconds(target.error_age_s)} ago"
    text = Text("why ", style="dim").append(printable(target.name), style="bold")
    text.append(f": {printable(target.error_class or 'error')}{ago}", style="default")
    if target.error_message:
        text.append(f": {printable(target.error_message)}", style="default")
    return text


def _table(targets: tuple[TargetReport, ...]) -> Table:
    columns: list[tuple[str, Callable[[TargetReport], Text | str], bool]] = [
        ("target", lambda t: Text(printable(t.name), style="bold"), True),
        ("provider/model", lambda t: printable("/".join(filter(None, (t.provider, t.model)))), True),
        ("region", lambda t: printable(t.region), any(t.region for t in targets)),
        ("breaker", breaker_text, True),
        ("hold", hold_text, any(t.hold_reason is not None for t in targets)),
        ("in flight", _in_flight, any(t.in_flight is not None for t in targets)),
        ("quota", _quota, any(t.levels for t in targets)),
        ("answered", _counts, any(t.attempts is not None for t in targets)),
    ]
    shown = [(title, cell) for title, cell, has_content in columns if has_content]
    table = Table(show_edge=False, pad_edge=False, header_style="dim")
    for title, _ in shown:
        table.add_column(title, overflow="fold", justify="right" if title in ("in flight", "answered") else "left")
    for target in targets:
        table.add_row(*(cell(target) for _, cell in shown))
    return table


def _headline(report: Report, source: str) -> Text:
    parts = ["Stanchion" + (f" {printable(report.version)}" if report.version else "")]
    if report.region:
        parts.append(f"region {printable(report.region)}")
    if report.uptime_s is not None:
        parts.append(f"up {seconds(report.uptime_s)}")
    if source:
        parts.append(source)
    return Text(", ".join(parts))


def _route_line(route: RouteReport) -> Text:
    text = Text("route ", style="dim").append(printable(route.name), style="bold")
    style = "bold red" if route.usable <= 0 else "green" if route.usable >= len(route.targets) else "yellow"
    text.append(": ", style="default").append(f"{route.usable} of {len(route.targets)} targets usable", style=style)
    if route.targets:
        text.append(f" ({printable(' → '.join(route.targets))})", style="default")
    turns = ", ".join(f"{count} {printable(outcome)}" for outcome, count in route.turns if count)
    if turns:
        text.append(f"; turns: {turns}", style="default")
    return text


def _in_flight(target: TargetReport) -> str:
    if target.in_flight is None:
        return "-"
    return str(target.in_flight) if target.concurrency is None else f"{target.in_flight} of {target.concurrency}"


def _quota(target: TargetReport) -> str:
    return (
        ", ".join(
            f"{level.kind} {level.level:.0f}" + ("" if level.capacity is None else f" of {level.capacity:.0f}")
            for level in target.levels
        )
        or "-"
    )


def _counts(target: TargetReport) -> str:
    if target.attempts is None:
        return "-"
    return str(target.attempts) if target.successes is None else f"{target.successes} of {target.attempts}"
