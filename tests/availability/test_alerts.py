"""Alerts: both windows, low traffic, and why one is held back."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from availability.alerts import RULES, AlertState, Gate, Rule, data_alert, judge, judge_all
from availability.budget import Objective
from availability.counts import Bucket, Counts, TimeSeries
from availability.errors import FigureOutOfRange

SLO = Objective("support", 0.999)
FAST = RULES[0]
NOW = 10_000


def spread(total: int, bad: int, minutes: int = 60, end: int = NOW) -> list[Bucket]:
    """`total` events and `bad` failures, evenly over the minutes up to `end`."""

    def part(whole: int, i: int) -> int:
        return whole * (i + 1) // minutes - whole * i // minutes

    return [Bucket(end - minutes + 1 + i, 1, Counts(part(total, i), part(bad, i))) for i in range(minutes)]


def fast(
    buckets: list[Bucket], now: int = NOW, gate: Gate | None = None
) -> tuple[AlertState, float | None, float | None]:
    found = judge_all(SLO, TimeSeries(buckets), now, gate=gate)[0]
    assert found.rule is FAST
    return found.state, found.burn_long, found.burn_short


def test_the_rules() -> None:
    assert [(rule.severity, rule.long_min, rule.short_min, rule.burn) for rule in RULES] == [
        ("page", 60, 5, 14.4),
        ("page", 360, 30, 6),
        ("ticket", 1440, 120, 3),
        ("ticket", 4320, 360, 1),
    ]
    assert [round(rule.burn * rule.long_min / SLO.window_min, 2) for rule in RULES] == [0.02, 0.05, 0.1, 0.1]


def test_one_of_ten_is_shown_and_pages_nobody() -> None:
    state, burn, _ = fast(spread(10, 1))
    assert (state, burn) == (AlertState.TOO_FEW_EVENTS, 100.0)
    assert "10 events, and 50 are needed" in judge_all(SLO, TimeSeries(spread(10, 1)), NOW)[0].reason


def test_200_of_10_000_page_until_the_short_window_is_clean() -> None:
    bad = spread(10_000, 200)
    state, burn, _ = fast(bad)
    assert (state, burn) == (AlertState.FIRING, 20.0)
    good = spread(1667, 0, minutes=10, end=NOW + 10)
    state, burn, short = fast(bad + good, NOW + 10)
    assert state == AlertState.OK
    assert burn is not None
    assert burn > 14.4
    assert short == 0.0


def test_both_windows_are_needed() -> None:
    hot, cool = Counts(1000, 20), Counts(1000, 10)
    assert judge(FAST, SLO, hot, hot).state == AlertState.FIRING
    assert judge(FAST, SLO, hot, cool).state == AlertState.OK
    assert judge(FAST, SLO, cool, hot).state == AlertState.OK
    assert judge(FAST, SLO, hot, Counts()).state == AlertState.OK
    assert judge(FAST, SLO, Counts(10_000, 144), Counts(10_000, 144)).state == AlertState.FIRING
    assert judge(FAST, SLO, Counts(10_000, 143), Counts(10_000, 144)).state == AlertState.OK


def test_every_rule_reads_its_own_windows() -> None:
    """A failure share of 0.2 % for six hours and more: it burns at 2, which only the slowest ticket minds."""
    states = [alert.state for alert in judge_all(SLO, TimeSeries(spread(432_000, 864, minutes=4320)), NOW)]
    assert states == [AlertState.OK, AlertState.OK, AlertState.OK, AlertState.FIRING]


@pytest.mark.parametrize(("bad", "total"), [(4, 60), (10, 300), (24, 1000)])
def test_few_failures_have_to_be_beyond_chance(bad: int, total: int) -> None:
    """By the lower bound alone, which is what counts with fewer failures than the gate asks for."""
    gate = Gate(minimum_failures=10_000)
    both = Counts(total, bad)
    assert judge(FAST, SLO, both, both, gate=gate).state == AlertState.FIRING
    fewer = Counts(total, bad - 1)
    assert judge(FAST, SLO, fewer, fewer, gate=gate).state == AlertState.TOO_FEW_FAILURES


def test_five_failures_are_enough() -> None:
    assert judge(FAST, SLO, Counts(300, 5), Counts(300, 5)).state == AlertState.FIRING
    held = judge(FAST, SLO, Counts(250, 4), Counts(250, 4))
    assert held.state == AlertState.TOO_FEW_FAILURES
    assert held.reason == "4 of 250 failed, which a share of 0.0144 may do by chance"


def test_a_lower_minimum_lets_a_quiet_service_page_on_an_outage_and_not_on_one_failure() -> None:
    gate = Gate(minimum_events=0)
    assert judge(FAST, SLO, Counts(4, 4), Counts(4, 4), gate=gate).state == AlertState.FIRING
    assert judge(FAST, SLO, Counts(10, 1), Counts(10, 1), gate=gate).state == AlertState.TOO_FEW_FAILURES


def test_what_cannot_be_told_says_why() -> None:
    hot = Counts(1000, 20)
    assert judge(FAST, SLO, Counts(), Counts()).state == AlertState.NO_DATA
    assert judge(FAST, SLO, Counts(5, 6), Counts()).state == AlertState.INSTRUMENTATION_FAULT
    assert judge(FAST, SLO, hot, Counts(5, -1)).state == AlertState.INSTRUMENTATION_FAULT
    gone = judge(FAST, SLO, hot, hot, source_gone=True)
    assert (gone.state, gone.burn_long) == (AlertState.SOURCE_GONE, 20.0)
    assert "look whether it runs" in gone.reason
    assert judge_all(SLO, TimeSeries([]), NOW)[0].state == AlertState.NO_DATA


def test_a_source_at_fault_is_an_alert_of_its_own() -> None:
    gone, fault = data_alert(Counts(), source_gone=True), data_alert(Counts.of_good(11, 10))
    assert gone is not None
    assert fault is not None
    assert (gone.state, gone.severity) == ("source_gone", "page")
    assert (fault.state, fault.severity) == ("instrumentation_fault", "ticket")
    assert data_alert(Counts()) is data_alert(Counts(10, 10)) is None


def test_a_window_that_is_not_full_is_noted() -> None:
    found = judge_all(SLO, TimeSeries(spread(10_000, 200, minutes=100)), NOW)
    assert [alert.notes for alert in found] == [(), *[("window_not_full",)] * 3]
    assert found[1].state == AlertState.FIRING


@settings(deadline=None)
@given(st.integers(-3, 2000), st.integers(-3, 2000), st.integers(-3, 200), st.integers(-3, 200), st.booleans())
def test_every_answer_can_be_sent_as_json(total: int, bad: int, total_short: int, bad_short: int, gone: bool) -> None:
    found = judge(FAST, SLO, Counts(total, bad), Counts(total_short, bad_short), source_gone=gone)
    json.dumps(asdict(found), allow_nan=False)
    if found.state == AlertState.FIRING:
        assert bad / total >= 0.0144
        assert bad_short / total_short >= 0.0144
        assert total >= 50


def test_settings_out_of_range() -> None:
    with pytest.raises(FigureOutOfRange, match="the short window of 'odd'"):
        Rule("odd", "page", 5, 60, 14.4)
    with pytest.raises(FigureOutOfRange, match="the burn rate of 'odd'"):
        Rule("odd", "page", 60, 5, 0)
    with pytest.raises(FigureOutOfRange, match="0 or more"):
        Gate(minimum_events=-1)
    with pytest.raises(FigureOutOfRange, match="confidence of the gate"):
        Gate(confidence=0.5)
