"""The admin answer as values: lenient about what is missing or new, strict about what counts as usable."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from gateway.console.report import read_report
from gateway.console.status import draw, seconds
from tests.cli.admin_server import answer, target

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
TARGET = st.fixed_dictionaries({}, optional=dict.fromkeys(target("x"), JSON))


def test_only_names() -> None:
    report = read_report({"targets": [{"name": "a"}]})
    assert report.targets[0].name == "a"
    assert report.targets[0].usable
    assert report.ok


@settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60
)  # drawing tables is slow, not wrong
@given(st.fixed_dictionaries({"targets": st.lists(TARGET, max_size=3)}, optional={"routes": JSON, "uptime_s": JSON}))
def test_no_answer_breaks_it(reply: dict[str, Any]) -> None:
    draw(read_report(reply), Console(file=StringIO(), width=120))


@pytest.mark.parametrize(
    ("entry", "usable"),
    [
        (target("a"), True),
        (target("a", breaker={"state": "open", "retry_in_s": 3}), False),
        (target("a", breaker={"state": "open", "retry_in_s": 0}), True),
        (target("a", breaker={"state": "half_open"}), True),
        (target("a", hold={"reason": "credential", "seconds_left": 9}), False),
    ],
)
def test_usable(entry: dict[str, Any], usable: bool) -> None:
    report = read_report(answer(entry, routes=[{"name": "r", "targets": ["a"]}]))
    assert report.targets[0].usable is usable
    assert report.routes[0].usable == int(usable), "counted here where the gateway does not say"
    assert report.ok is usable


def test_what_a_provider_wrote_cannot_steer_the_terminal() -> None:
    failure = {"class": "upstream", "message": "bad \x1b[2J\x07[red]news", "seconds_ago": 1}
    output = StringIO()
    draw(read_report(answer(target("a", last_error=failure))), Console(file=output, width=120))
    assert "\x1b" not in output.getvalue()
    assert "[red]news" in output.getvalue()


def test_a_narrow_terminal_loses_nothing() -> None:
    output = StringIO()
    draw(read_report(answer(target("a-target-with-a-long-name"))), Console(file=output, width=50))
    assert "…" not in output.getvalue()


@pytest.mark.parametrize(
    ("value", "text"),
    [(-1, "0 s"), (0.42, "0.4 s"), (59.6, "1 min"), (75, "1 min 15 s"), (7800, "2 h 10 min"), (180000, "2 d 2 h")],
)
def test_spans(value: float, text: str) -> None:
    assert seconds(value) == text
