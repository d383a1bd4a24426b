"""The verdict: each of the three can come out, and the worst one of a scene does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.drill import checks
from gateway.drill.judge import Judgement, Refusal, Verdict, judge, worst
from gateway.drill.more import MORE
from gateway.drill.provider import chat
from gateway.drill.row import Row
from gateway.drill.rows import ROWS
from gateway.drill.script import FIRST, PRIMARY, SECOND
from gateway.drill.seen import Observation
from tests.drill.made_up import arrival, broken, good, observed, refusal, stream, whole

CUT = ROWS[7]
SPLICED = stream(FIRST.begun(40), SECOND.begun(60)[41:], SECOND.ended(), chat.DONE, by=SECOND)
POLICY = Refusal(400, "content_policy")


def verdict(seen: Observation, ideal: Refusal | None = None, *, may_break: bool = True) -> Verdict:
    return judge(seen, ideal, checks.ALWAYS, may_break=may_break).verdict


def test_an_answer_passes() -> None:
    assert verdict(good()) is Verdict.PASS


def test_a_break_is_safe_where_the_row_says_so_and_a_failure_elsewhere() -> None:
    seen = observed(broken(), primary=[arrival(PRIMARY)])
    assert verdict(seen) is Verdict.SAFE
    assert verdict(seen, may_break=False) is Verdict.FAIL


def test_a_refusal_where_an_answer_was_possible_fails() -> None:
    assert verdict(observed(refusal(503, "overloaded"))) is Verdict.FAIL


def test_the_right_refusal_passes_and_every_other_fails() -> None:
    assert verdict(observed(refusal(400, "content_policy")), POLICY) is Verdict.PASS
    assert verdict(observed(refusal(400, "bad_request")), POLICY) is Verdict.FAIL
    assert verdict(observed(refusal(503, "content_policy")), POLICY) is Verdict.FAIL
    assert verdict(good(), POLICY) is Verdict.FAIL
    assert verdict(observed(broken(), primary=[arrival(PRIMARY)]), POLICY) is Verdict.FAIL


def test_a_lie_fails_whatever_else_is_right() -> None:
    found = judge(observed(whole(), SPLICED), None, (), may_break=True)
    assert found == Judgement(Verdict.FAIL, "a clean end after 40 words of the primary and 20 words of the secondary")


def test_a_complaint_fails_what_else_would_pass() -> None:
    found = judge(replace(good(), crashes=2), None, checks.ALWAYS, may_break=True)
    assert found == Judgement(Verdict.FAIL, "the gateway logged 2 errors of its own")


def test_no_reply_at_all_fails() -> None:
    assert verdict(observed()) is Verdict.FAIL


def test_one_break_among_answers_is_what_is_told() -> None:
    seen = observed(whole(), broken(), primary=[arrival(PRIMARY)] * 2)
    found = judge(seen, None, checks.ALWAYS, may_break=True)
    assert (found.verdict, found.evidence.split(",")[0]) == (Verdict.SAFE, "40 of 60 words of the primary")


def test_the_worst_of_verdicts() -> None:
    assert worst([Verdict.PASS, Verdict.PASS]) is Verdict.PASS
    assert worst([Verdict.PASS, Verdict.SAFE]) is Verdict.SAFE
    assert worst([Verdict.FAIL, Verdict.SAFE, Verdict.PASS]) is Verdict.FAIL


@pytest.mark.parametrize("row", [*ROWS, *MORE], ids=lambda row: row.name)
def test_no_row_takes_a_splice_or_a_truncated_answer(row: Row) -> None:
    for lie in (SPLICED, stream(FIRST.begun(40), FIRST.ended(), chat.DONE)):
        assert row.judge(observed(lie, marks={"healed": 0.0, "observed": 1.0})).verdict is Verdict.FAIL


def test_the_row_of_the_cut() -> None:
    seen = observed(broken(), primary=[arrival(PRIMARY)])
    counted = {
        ("stanchion_attempts_total", frozenset({("target", PRIMARY), ("outcome", "bad_upstream_response")})): 1.0
    }
    uncounted = {("stanchion_attempts_total", frozenset({("target", PRIMARY), ("outcome", "success")})): 0.0}
    assert CUT.judge(replace(seen, metrics={**seen.metrics, **uncounted, **counted})).verdict is Verdict.SAFE
    assert CUT.judge(seen).verdict is Verdict.FAIL  # counted as a success
