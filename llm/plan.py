"""The pure decisions of a fallback: who may serve a call, within which limits, when to try again, what to tell at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from llm.attempt import AttemptRecord, Trail
from llm.classes import RULES, ErrorClass, Onward, Skip
from llm.commit import Commit
from llm.errors import Failure, RouteFailed
from llm.policy import RetryPolicy
from llm.request import Call, Limits, LlmRequest
from llm.spec import RouteSpec, Stop, TargetSpec

_BACKOFF_S = 0.25
_SLOT_WAIT_S = 1.0
"""What a caller is told to wait for a place among the requests in flight, whose time nobody knows."""

_ESTIMATE_MARGIN = 1.5
"""How far an estimated input may be over a window before it is taken for too large: text of few bytes a token and text of
many lie that far apart. In between the provider itself is asked, and its refusal leads to a larger window."""

STATIC_SKIPS = frozenset({Skip.CONTEXT_WINDOW, Skip.REQUEST_LIMIT, Skip.CAPABILITY, Skip.RESIDENCY})
"""Reasons that lie in the request: waiting cures none of them."""


def allowed(*rules: frozenset[str] | None) -> frozenset[str] | None:
    """The regions that all of these rules allow; None where there is no rule."""
    written = [rule for rule in rules if rule is not None]
    return frozenset.intersection(*written) if written else None


def unfit(target: TargetSpec, request: LlmRequest) -> tuple[Skip, str] | None:
    """Why `target` can never serve `request`, or None."""
    call = request.call
    if request.residency is not None and target.region not in request.residency:
        return Skip.RESIDENCY, f"it runs in {target.region}, outside of the regions that may see the request"
    if target.context_window is not None and call.input_tokens > target.context_window * _ESTIMATE_MARGIN:
        return (
            Skip.CONTEXT_WINDOW,
            f"about {call.input_tokens} input tokens, the window takes {target.context_window}",
        )
    if target.request_limit is not None and call.size > target.request_limit:
        return Skip.REQUEST_LIMIT, f"{call.size} bytes of body, the provider takes {target.request_limit}"
    if target.capabilities is not None and (missing := call.needs - target.capabilities):
        return Skip.CAPABILITY, f"the request needs {', '.join(sorted(missing))}"
    return None


def cures(onward: Onward, failed: TargetSpec, other: TargetSpec, call: Call) -> Skip | None:
    """None when `other` may cure what `failed` could not do, else the reason to pass it over.

    An undeclared window or limit is taken as no larger: the declared one of the target that failed proves nothing else.
    """
    if onward == "larger_window":
        least = failed.context_window or call.input_tokens
        return None if other.context_window is not None and other.context_window > least else Skip.CONTEXT_WINDOW
    if onward == "larger_limit":
        least = failed.request_limit or call.size
        return None if other.request_limit is not None and other.request_limit > least else Skip.REQUEST_LIMIT
    return None


def limits(route: RouteSpec, stop: Stop, call: Call, commit: Commit, left_s: float, *, others_left: bool) -> Limits:
    """The limits of an attempt that starts with `left_s` seconds of the deadline left.

    While another target is left, an attempt that gives nothing before its end (a plain one, or a stream that is held to
    its end) is cut early enough to leave that one its first-output time, but keeps at
    least half of what is left. On the last target there is nowhere to go, so first output is not bounded. A cut is the
    target's fault once it had its first-output time, or half of the route's own deadline: a caller's may be far shorter.
    """
    timeouts = stop.timeouts
    cut = left_s
    if others_left and (commit.whole or not call.stream):
        cut -= min(timeouts.first_output, left_s / 2)
    return Limits(
        connect_s=timeouts.connect,  # the deadline cuts it as it cuts everything, and is no fault of the target
        first_output_s=timeouts.first_output if others_left else None,
        idle_s=timeouts.idle,
        total_s=timeouts.total,
        deadline_cut_s=cut,
        fair_s=min(timeouts.first_output, timeouts.total, route.deadline_s / 2),
        linger_s=route.stream.linger,
    )


def retry_wait(failure: Failure, tries: int, policy: RetryPolicy, left_s: float, random: Random) -> float | None:
    """Seconds to wait before the next try on the same target, None to leave it. `tries`: attempts made on it so far."""
    rule = RULES[failure.error_class]
    if rule.retry_here == "never" or tries > policy.attempts:
        return None
    hint = failure.retry_after_s
    if rule.retry_here == "hint":
        if hint is None:
            return None
        wait = hint
    elif failure.error_class is ErrorClass.CONNECT and tries == 1:
        wait = 0.0
    else:
        backoff = min(_BACKOFF_S * 2.0 ** (tries - 1), policy.max_wait)
        wait = max(backoff * (0.5 + random.random() / 2), hint or 0.0)
    return wait if wait <= policy.max_wait and wait < left_s else None


@dataclass(frozen=True, slots=True)
class Blocked:
    """A target that cannot be tried now. `retry_after_s`: seconds until it can, None when not known or never.

    `reason` is the class of the hold where it is one.
    """

    skip: Skip
    message: str
    retry_after_s: float | None = None
    reason: ErrorClass | None = None
    never: bool = False


def conclude(trail: Trail, last: Failure | None, blocked: Sequence[Blocked], *, deadline: bool) -> RouteFailed:
    """What to tell the caller when nothing answered.

    `last` is the last attempt's failure; `blocked` tells, for every target that could serve the call at all, why it cannot
    be tried now, and is empty when one of them could.
    """
    if deadline:
        return RouteFailed("the request's deadline passed before a target answered", trail, failure=last, deadline=True)
    waits = [block.retry_after_s for block in blocked if block.retry_after_s is not None]
    earliest = min(waits, default=None)
    lasting = [block for block in blocked if not block.never]
    shed = bool(lasting) and all(
        block.reason is ErrorClass.RATE_LIMITED or block.skip is Skip.QUOTA for block in lasting
    )
    if last is not None:
        wait = earliest if earliest is not None else last.retry_after_s
        if wait is None and shed:
            wait = _SLOT_WAIT_S
        return RouteFailed(
            last.message,
            trail,
            failure=last,
            final=_final(trail, last),
            retry_after_s=wait,
            rate_limits_only=shed,
        )
    if all(record.skip in STATIC_SKIPS for record in trail.records if record.role != "canary"):
        return RouteFailed(_unfit_words(trail), trail, unfit=_unfit_reason(trail))
    if not blocked:
        return RouteFailed("no target could be tried", trail, retry_after_s=0.0)
    if not lasting:
        return RouteFailed(blocked[0].message, trail, never_fits=True)
    words = "; ".join(dict.fromkeys(block.message for block in blocked))
    wait = _SLOT_WAIT_S if earliest is None else earliest
    return RouteFailed(f"no target can be tried now: {words}", trail, retry_after_s=wait, rate_limits_only=shed)


def _final(trail: Trail, last: Failure) -> bool:
    """Whether the provider's own status is the caller's answer: nobody else could cure it, or nobody else was there."""
    if RULES[last.error_class].onward != "any":
        return True
    own = (record for record in trail.records if record.role != "canary")
    able = {record.target for record in own if record.skip not in STATIC_SKIPS}
    alone = len(able) == 1
    return alone and last.status is not None and (last.status in (404, 410, 429, 529))


def _unfit_reason(trail: Trail) -> Skip | None:
    """The last target's; where only regions stand in the way of that one, what the caller could change goes before."""
    reasons = [record.skip for record in trail.records if record.skip is not None]
    return next((skip for skip in reversed(reasons) if skip is not Skip.RESIDENCY), reasons[-1] if reasons else None)


def _unfit_words(trail: Trail) -> str:
    reasons = "; ".join(f"{record.target}: {record.message}" for record in trail.records if record.skip is not None)
    return f"no target of the route can serve this request ({reasons})"


def passed_over(target: str, skip: Skip, message: str, at: float) -> AttemptRecord:
    """The record of a target that was not tried; `at` is on the clock's `now` scale."""
    return AttemptRecord(target, None, skip=skip, message=message, began=at)
