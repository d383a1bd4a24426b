"""The checks of conduct: each passes what is right and complains of what it is there for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gateway.drill import checks
from gateway.drill.judge import Account, Check, account
from gateway.drill.script import FIRST, PRIMARY, SECOND, SECONDARY, question
from gateway.drill.seen import Observation, TargetState
from tests.drill.made_up import arrival, attempts, broken, good, observed, plain, refusal, turns, whole

MESSAGES = question(stream=True)["messages"]
PREFILLED = [*MESSAGES, {"role": "assistant", "content": "north-1 north-2"}]


def complaint(check: Check, seen: Observation) -> str | None:
    accounts: Sequence[Account] = [account(reply) for reply in seen.replies]
    return check(seen, accounts)


@pytest.mark.parametrize("check", checks.ALWAYS)
def test_what_is_right_passes(check: Check) -> None:
    for seen in (good(), observed(broken(), primary=[arrival(PRIMARY)]), observed(refusal(400, "bad_request"))):
        assert complaint(check, seen) is None


def with_arrivals(*secondary: Any) -> Observation:
    seen = good()
    return replace(seen, arrivals={**seen.arrivals, SECONDARY: secondary})


WRONG = {
    "a provider objected": (replace(good(), refused=("Incorrect API key provided.",)), checks.nobody_objected),
    "a prefill": (with_arrivals(arrival(SECONDARY, messages=PREFILLED)), checks.asked_unchanged),
    "a message lost": (with_arrivals(arrival(SECONDARY, messages=MESSAGES[1:])), checks.asked_unchanged),
    "a parameter lost": (with_arrivals(arrival(SECONDARY, temperature=None)), checks.asked_unchanged),
    "the model of another": (with_arrivals(arrival(SECONDARY, model="primary-model")), checks.asked_unchanged),
    "a cookie": (with_arrivals(arrival(SECONDARY, headers={"cookie": "a=b"})), checks.nothing_leaked),
    "a header of ours": (
        with_arrivals(arrival(SECONDARY, headers={"x-stanchion-session": "s"})),
        checks.nothing_leaked,
    ),
    "a key in the answer": (
        observed(plain(FIRST.body() + b" sk-1"), private=("sk-1",)),
        checks.nothing_leaked,
    ),
    "an attempt in secret": (with_arrivals(arrival(SECONDARY), arrival(SECONDARY)), checks.counted_what_was_asked),
    "an attempt that never was": (with_arrivals(), checks.counted_what_was_asked),
    "a turn counted twice": (replace(good(), metrics={**good().metrics, **turns(rescued=2)}), checks.one_outcome_each),
    "a break counted as good": (
        observed(broken(), metrics=turns(success=1, stream_interrupted=0)),
        checks.one_outcome_each,
    ),
    "a break counted as failed": (
        observed(broken(), metrics=turns(failed=1, stream_interrupted=0)),
        checks.one_outcome_each,
    ),
    "a reservation left": (
        replace(good(), targets={SECONDARY: TargetState(in_flight=1)}),
        checks.quiet_afterwards,
    ),
    "a crash": (replace(good(), crashes=1), checks.quiet_afterwards),
    "a turn that goes on": (
        replace(good(), metrics={("stanchion_in_flight", frozenset({("route", "drill")})): 1.0}),
        checks.quiet_afterwards,
    ),
    "an answer behind a break": (
        observed(broken(ended_s=2.0), primary=[arrival(PRIMARY)], secondary=[arrival(SECONDARY, 1.0)]),
        checks.broken_stays_broken,
    ),
    "too many attempts": (observed(primary=[arrival(PRIMARY)] * 3), checks.attempts(PRIMARY, least=1, most=2)),
    "too few attempts": (observed(), checks.attempts(PRIMARY, least=1, most=2)),
    "hammering": (
        observed(primary=[arrival(PRIMARY, 0.0), arrival(PRIMARY, 1.0)]),
        checks.waited(PRIMARY, 2.0),
    ),
    "too slow": (observed(whole(at_s=1.0, ended_s=9.5)), checks.within(8.0)),
    "no hold": (observed(), checks.held(PRIMARY, "rate_limited")),
    "another hold": (
        observed(targets={PRIMARY: TargetState(hold="rate_limited")}),
        checks.held(PRIMARY, "quota_exhausted"),
    ),
    "a failure that was none": (
        observed(targets={PRIMARY: TargetState(failures=1)}),
        checks.breaker_untouched(PRIMARY),
    ),
    "an open breaker": (observed(targets={PRIMARY: TargetState(breaker="open")}), checks.breaker_untouched(PRIMARY)),
    "another class": (observed(metrics=attempts(primary_success=1)), checks.ended_as(PRIMARY, "overloaded")),
    "the reason lost": (observed(refusal(400, "content_policy", "no")), checks.says("safety system")),
    "a reason that is not the caller's": (
        observed(refusal(400, "bad_request", "prefill is not supported")),
        checks.no_word_of("prefill"),
    ),
    "dead after the fault": (observed(broken(), refusal(500, "internal")), checks.last_is_whole),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_complained_of(name: str) -> None:
    seen, check = WRONG[name]
    assert complaint(check, seen)


def test_a_refused_connection_is_an_attempt_that_no_provider_sees() -> None:
    seen = observed(metrics=attempts(primary_connect=2), unseen=2)
    assert complaint(checks.counted_what_was_asked, seen) is None


def test_named_checks_pass_what_is_right() -> None:
    held = observed(targets={PRIMARY: TargetState(hold="credential")})
    right = [
        (good(), checks.attempts(PRIMARY, least=1, most=1)),
        (observed(primary=[arrival(PRIMARY), arrival(PRIMARY, 2.0)]), checks.waited(PRIMARY, 2.0)),
        (observed(primary=[arrival(PRIMARY)]), checks.waited(PRIMARY, 2.0)),
        (good(), checks.within(1.0)),
        (held, checks.held(PRIMARY, "credential")),
        (held, checks.breaker_untouched(PRIMARY)),
        (good(), checks.ended_as(PRIMARY, "server_error")),
        (observed(refusal(400, "content_policy", "a safety system")), checks.says("safety system")),
        (good(), checks.no_word_of("prefill")),
        (observed(broken(), whole()), checks.last_is_whole),
    ]
    assert [complaint(check, seen) for seen, check in right] == [None] * len(right)


# The outage

OUTAGE = checks.outage(most=6, cooldown_s=30.0, interval_s=4.0)


def outage(*, wasted: int = 6, back_s: float | None = 80.0) -> Observation:
    replies = [whole(SECOND, at_s=4.0 * number) for number in range(19)]
    if back_s is not None:
        replies.append(whole(FIRST, at_s=back_s))
    primary = [arrival(PRIMARY, 4.0 * number) for number in range(wasted)]
    return observed(
        *replies, primary=[*primary, *([arrival(PRIMARY, back_s)] if back_s else [])], marks={"healed": 60.0}
    )


def test_an_outage_that_goes_well() -> None:
    assert complaint(OUTAGE, outage()) is None
    assert complaint(OUTAGE, outage(back_s=60.0)) is None
    assert complaint(OUTAGE, outage(back_s=60 + 30 * 1.25 + 4)) is None


def test_an_outage_that_does_not() -> None:
    assert complaint(OUTAGE, outage(wasted=7)) == "7 attempts reached the dead primary, where 6 are the most"
    assert complaint(OUTAGE, outage(back_s=102.0)) == "the primary was used again 42 s after it healed"
    assert complaint(OUTAGE, outage(back_s=None)) == "the primary was not used again after it healed"
    seen = outage()
    unserved = replace(seen, replies=(refusal(503, "overloaded"), *seen.replies[1:]))
    assert (complaint(OUTAGE, unserved) or "").startswith("1 of 20 requests were not served: status 503")


# The accounting

ACCOUNTED = checks.accounted(refill_per_s=1.0)
RESCUE = {("stanchion_rescues_total", frozenset({("route", "drill")})): 1.0}
MOVE = {("stanchion_failovers_total", frozenset({("from", PRIMARY), ("to", SECONDARY), ("reason", "overloaded")})): 1.0}


def accounts(primary: float = 6000.0, secondary: float = 6000.0 - 94 + 2, **changed: Any) -> Observation:
    seen = good()
    buckets = {PRIMARY: TargetState(tokens=(primary, 6000.0)), SECONDARY: TargetState(tokens=(secondary, 6000.0))}
    metrics = {**seen.metrics, **RESCUE, **MOVE, **changed.pop("metrics", {})}
    return replace(seen, targets=buckets, metrics=metrics, marks={"observed": 3.0}, **changed)


def test_accounts_that_are_right() -> None:
    assert complaint(ACCOUNTED, accounts()) is None


@pytest.mark.parametrize(
    "wrong",
    [
        accounts(primary=5919.0),  # the words of the failed target are paid for
        accounts(secondary=5500.0),  # the reservation was never settled
        accounts(secondary=6000.0),  # what was used was given back
        accounts(metrics=turns(rescued=0, success=1)),
        accounts(metrics=attempts(primary_success=1)),
        accounts(metrics=dict.fromkeys(MOVE, 0.0)),
        accounts(metrics=dict.fromkeys(RESCUE, 2.0)),
    ],
)
def test_accounts_that_are_wrong(wrong: Observation) -> None:
    assert complaint(ACCOUNTED, wrong)


def test_a_bucket_that_is_not_shown() -> None:
    assert complaint(ACCOUNTED, replace(accounts(), targets=good().targets))
