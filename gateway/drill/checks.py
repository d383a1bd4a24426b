"""The checks of conduct that verdicts are made with: those of every scene, and those that a row asks for by name.

Each returns a complaint in one sentence, or None.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.drill.judge import Account, Check, Kind
from gateway.drill.script import ANSWERS, PRIMARY, SECONDARY
from gateway.drill.seen import Observation, read

_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "host",
        "traceparent",
        "transfer-encoding",
        "user-agent",
    }
)
"""What a provider may be sent. Everything else that a caller wrote is none of its business."""

_SLACK_S = 0.2
"""How much earlier than asked a second try may be seen: timers and clocks of one machine agree no better."""


# Every scene


def nobody_objected(seen: Observation, accounts: Sequence[Account]) -> str | None:
    """The providers are strict: path, key, JSON and roles have to be as a real API takes them."""
    return f"a provider refused what it was sent: {seen.refused[0]}" if seen.refused else None


def asked_unchanged(seen: Observation, accounts: Sequence[Account]) -> str | None:
    """Every attempt carries the caller's own request: no prefill, nothing lost; only the model is the target's."""
    for target, arrivals in seen.arrivals.items():
        for arrival in arrivals:
            for name, value in seen.sent.items():
                if name != "model" and arrival.body.get(name) != value:
                    return f"the {target} was sent another {name} than the caller's"
            if arrival.body.get("model") != f"{target}-model":
                return f"the {target} was asked for the model {arrival.body.get('model')}"
    return None


def nothing_leaked(seen: Observation, accounts: Sequence[Account]) -> str | None:
    """No header of the caller, and nobody else's key, reaches a provider; no key reaches the caller."""
    for target, arrivals in seen.arrivals.items():
        for arrival in arrivals:
            strangers = sorted(set(arrival.headers) - _HEADERS)
            if strangers:
                return f"the {target} was sent the header {strangers[0]}"
    texts = [reply.body.decode("utf-8", "replace") + str(reply.headers) for reply in seen.replies]
    return "a key stands in what the caller got" if any(key in text for key in seen.private for text in texts) else None


def counted_what_was_asked(seen: Observation, accounts: Sequence[Account]) -> str | None:
    """Attempts in the metrics are requests at the providers. A refused connection is an attempt that no provider sees."""
    for target, arrivals in seen.arrivals.items():
        counted = seen.total("stanchion_attempts_total", target=target)
        if counted - (seen.unseen if target == PRIMARY else 0) != len(arrivals):
            return f"the metrics count {counted:.0f} attempts at the {target}, which saw {len(arrivals)}"
    return None


def one_outcome_each(seen: Observation, accounts: Sequence[Account]) -> str | None:
    """Each request is one turn in the metrics, good where the caller was answered and bad or excluded where not."""
    turns = "stanchion_turns_total"
    if (counted := seen.total(turns)) != len(accounts):
        return f"{len(accounts)} requests, {counted:.0f} turns in the metrics"
    good = sum(seen.total(turns, outcome=name) for name in ("success", "rescued", "degraded"))
    if good != sum(each.kind is Kind.WHOLE for each in accounts):
        return f"the metrics count {good:.0f} turns as good"
    broken = seen.total(turns, outcome="stream_interrupted")
    if broken != sum(each.kind is Kind.BROKEN for each in accounts):
        return f"the metrics count {broken:.0f} interrupted streams"
    return None


def quiet_afterwards(seen: Observation, accounts: Sequence[Account]) -> str | None:
    """Nothing is under way or reserved any more, and the gateway met no error of its own."""
    if seen.crashes:
        return f"the gateway logged {seen.crashes} errors of its own"
    for name, target in seen.targets.items():
        if target.in_flight:
            return f"{target.in_flight} reservations of the {name} were never settled"
    left = seen.total("stanchion_in_flight")
    return f"{left:.0f} turns are still under way" if left else None


def broken_stays_broken(seen: Observation, accounts: Sequence[Account]) -> str | None:
    """After a break nobody else is asked to go on: the caller decides."""
    for reply, each in zip(seen.replies, accounts, strict=True):
        if each.kind is Kind.BROKEN:
            for name, arrivals in seen.arrivals.items():
                if name != each.by and any(reply.at_s <= arrival.at_s <= reply.ended_s for arrival in arrivals):
                    return f"the {name} was asked although words of the {each.by} had reached the caller"
    return None


ALWAYS: tuple[Check, ...] = (
    nobody_objected,
    asked_unchanged,
    nothing_leaked,
    counted_what_was_asked,
    one_outcome_each,
    quiet_afterwards,
    broken_stays_broken,
)


# By name


def attempts(target: str, *, least: int = 0, most: int) -> Check:
    """How many requests reached a target in all."""

    def check(seen: Observation, accounts: Sequence[Account]) -> str | None:
        count = len(seen.arrivals.get(target, ()))
        wanted = f"{least}" if least == most else f"{least} to {most}"
        return None if least <= count <= most else f"{count} attempts at the {target}, where {wanted} are right"

    return check


def waited(target: str, least_s: float) -> Check:
    """The second request to a target, if there is one, comes at least so long after the first."""

    def check(seen: Observation, accounts: Sequence[Account]) -> str | None:
        times = [arrival.at_s for arrival in seen.arrivals.get(target, ())]
        if len(times) < 2 or times[1] - times[0] >= least_s - _SLACK_S:
            return None
        return f"the {target} was asked again after {times[1] - times[0]:.1f} s, where it had said {least_s:g} s"

    return check


def within(most_s: float) -> Check:
    """Every reply has come to its end in this time."""

    def check(seen: Observation, accounts: Sequence[Account]) -> str | None:
        slowest = max(reply.took_s for reply in seen.replies)
        return None if slowest <= most_s else f"a reply took {slowest:.0f} s, where {most_s:g} s are enough"

    return check


def held(target: str, reason: str) -> Check:
    """The target is on hold for this reason at the end of the scene."""

    def check(seen: Observation, accounts: Sequence[Account]) -> str | None:
        found = seen.targets[target].hold
        return None if found == reason else f"the {target} is on hold for {found}, where {reason} is right"

    return check


def breaker_untouched(target: str) -> Check:
    """What was no fault of the target is no failure of its breaker."""

    def check(seen: Observation, accounts: Sequence[Account]) -> str | None:
        state = seen.targets[target]
        if state.failures == 0 and state.breaker == "closed":
            return None
        return f"the breaker of the {target} counts {state.failures} failures for what was not its fault"

    return check


def ended_as(target: str, error_class: str) -> Check:
    """At least one attempt at the target was counted under this class."""

    def check(seen: Observation, accounts: Sequence[Account]) -> str | None:
        if seen.metric("stanchion_attempts_total", target=target, outcome=error_class):
            return None
        return f"no attempt at the {target} was counted as {error_class}"

    return check


def says(words: str) -> Check:
    """The provider's own reason reaches the caller."""

    def check(seen: Observation, accounts: Sequence[Account]) -> str | None:
        for reply in seen.replies:
            errors = read(reply).errors
            if not errors or words not in str(errors[0].get("message")):
                return "the provider's reason did not reach the caller"
        return None

    return check


def no_word_of(words: str) -> Check:
    """An error that the caller has no part in stays out of what the caller gets."""

    def check(seen: Observation, accounts: Sequence[Account]) -> str | None:
        hit = any(words in reply.body.decode("utf-8", "replace") for reply in seen.replies)
        return f"the caller was told of {words}, which is not what went wrong" if hit else None

    return check


def last_is_whole(seen: Observation, accounts: Sequence[Account]) -> str | None:
    """The gateway is well after the fault: the request that follows it is answered."""
    return None if accounts[-1].kind is Kind.WHOLE else f"the request after the fault: {accounts[-1].sentence}"


def outage(*, most: int, cooldown_s: float, interval_s: float) -> Check:
    """Every request is served, the dead target is left alone, and used again within one cool-down after it heals.

    The cool-down is drawn at up to 1.25 times its setting, and the first request after it comes up to an interval later.
    """

    def check(seen: Observation, accounts: Sequence[Account]) -> str | None:
        healed = seen.marks["healed"]
        wasted = sum(arrival.at_s < healed for arrival in seen.arrivals[PRIMARY])
        if wasted > most:
            return f"{wasted} attempts reached the dead primary, where {most} are the most"
        unserved = [each for each in accounts if each.kind is not Kind.WHOLE]
        if unserved:
            return f"{len(unserved)} of {len(accounts)} requests were not served: {unserved[0].sentence}"
        back = [
            r.at_s for r, each in zip(seen.replies, accounts, strict=True) if each.by == PRIMARY and r.at_s >= healed
        ]
        latest_s = cooldown_s * 1.25 + interval_s
        if not back:
            return "the primary was not used again after it healed"
        return (
            None
            if back[0] - healed <= latest_s
            else f"the primary was used again {back[0] - healed:.0f} s after it healed"
        )

    return check


def accounted(refill_per_s: float) -> Check:
    """The turn is rescued once, the usage is the secondary's alone, and every reservation is settled to what was used.

    Buckets refill at `refill_per_s` while the scene lasts, so a level is right within what has flowed in.
    """

    def check(seen: Observation, accounts: Sequence[Account]) -> str | None:
        turns = "stanchion_turns_total"
        if seen.total(turns, outcome="rescued") != 1 or seen.total("stanchion_rescues_total") != 1:
            return f"{seen.total(turns, outcome='rescued'):.0f} turns are counted as rescued, where 1 was"
        counted = {
            a.target: seen.metric("stanchion_attempts_total", target=a.target, outcome="success") for a in ANSWERS
        }
        if counted != {PRIMARY: 0, SECONDARY: 1}:
            return f"successful attempts are counted as {counted}"
        if seen.total("stanchion_failovers_total", **{"from": PRIMARY, "to": SECONDARY}) != 1:
            return "the move from the primary to the secondary is not counted once"
        flowed = refill_per_s * seen.marks["observed"] + 1
        for one, used in ((ANSWERS[0], 0), (ANSWERS[1], sum(ANSWERS[1].usage))):
            bucket = seen.targets[one.target].tokens
            if bucket is None:
                return f"the {one.target} shows no bucket of tokens"
            missing = bucket[1] - bucket[0]
            if not used - flowed <= missing <= used + 1:
                return f"{missing:.0f} tokens are missing from the bucket of the {one.target}, where {used} were used"
        return None

    return check
