"""Holds: spans in which a credential, a model or a target is not asked, because the provider said so.

A hold only grows: of two ends the later one stands, with its reason. How long one lasts: the provider's hint, as far as it is
believed, else the configured time. After a spent account, a refused key and an unknown model the configured time is the least,
whatever the hint: none of them is cured by waiting a moment. Times are on the clock's `now` scale, in seconds.

What replicas tell each other of them is in `llm/shared_holds.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llm.classes import RULES, ErrorClass, HoldScope, Rule
from llm.errors import Failure
from llm.policy import HoldsPolicy
from llm.spec import Credential, TargetSpec

_DAY_S = 86_400.0
_LONGEST_S: Mapping[str, float] = {
    "overloaded": 600.0,
    "rate_limit": _DAY_S,
    "credential": _DAY_S,
    "model": _DAY_S,
    "quota": 30 * _DAY_S,
}
"""Hints that are believed at most, by the setting that gives the time where there is none: an overload passes, a rate limit's
window is a day at the longest, a spent account's a month; no provider knows when a key or a model will do again. A target
that a provider's mistake put away for longer would come back with a restart only. A configured time above them stands."""

HoldKey = tuple[str | Credential, ...]
"""What a hold goes by. It may have a key of a provider in it, so it stays within the process."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Why and until when. `scope` is what is held: the credential, the provider's model, or the target alone."""

    reason: ErrorClass
    scope: HoldScope
    until: float


class Holds:
    """The holds of every target. `now` is monotonic seconds.

    A spent account and a refused key hold the key itself, under its name: an attempt that was begun with the key before says
    nothing of the new one. Every other hold goes by names, and so survives a change of the settings for what keeps its own.

    `grown` is told of each hold that this process has noted, with its key; `cleared` of each key whose hold was ended early.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._holds: dict[HoldKey, Hold] = {}
        self.grown: Callable[[HoldKey, Hold], None] | None = None
        self.cleared: Callable[[HoldKey], None] | None = None

    def note(self, target: TargetSpec, failure: Failure) -> Hold | None:
        """Hold what this failure says should rest; None when it says nothing."""
        rule = RULES[failure.error_class]
        span = _span(rule, target.holds, failure.retry_after_s)
        if span <= 0:
            return None
        hold = Hold(failure.error_class, rule.scope, self._now() + span)
        key = key_of(target, failure.error_class)
        if self._longer(key, hold):
            self._holds[key] = hold
            if self.grown is not None:
                self.grown(key, hold)
        return self._holds[key]

    def learn(self, target: TargetSpec, reason: ErrorClass, left_s: float) -> bool:
        """Take over a hold of another replica that still has `left_s` seconds. Whether it is longer than what was known.

        No more of it is believed than of a provider's hint, so that a wrong clock there does no more than a wrong hint.
        `grown` is not told.
        """
        rule = RULES[reason]
        if rule.hold is None or left_s <= 0:
            return False
        span = min(left_s, max(_LONGEST_S[rule.hold], getattr(target.holds, rule.hold)))
        key, hold = key_of(target, reason), Hold(reason, rule.scope, self._now() + span)
        if not self._longer(key, hold):
            return False
        self._holds[key] = hold
        return True

    def of(self, target: TargetSpec) -> Hold | None:
        """The longest hold that stands in the way of `target` now."""
        if not self._holds:
            return None
        found: Hold | None = None
        now = self._now()
        for key in keys_of(target):
            hold = self._holds.get(key)
            if hold is None:
                continue
            if hold.until <= now:
                del self._holds[key]
            elif found is None or hold.until > found.until:
                found = hold
        return found

    def key_changed(self, provider: str, before: Credential, after: Credential) -> None:
        """A credential has another key: what held it for the key's sake is over; a rate limit stays.

        What stood against `after` goes too, should it have been the key once before.
        """
        for key in (before, after):
            self._end(("credential", provider, key))

    def forget(self, target: TargetSpec) -> None:
        """The target is gone, or is another one under its name: what held it alone is over."""
        self._end(key_of(target, ErrorClass.OVERLOADED))

    def seconds_left(self, hold: Hold) -> float:
        return max(hold.until - self._now(), 0.0)

    def _longer(self, key: HoldKey, hold: Hold) -> bool:
        current = self._holds.get(key)
        return current is None or hold.until > current.until

    def _end(self, key: HoldKey) -> None:
        self._holds.pop(key, None)
        if self.cleared is not None:
            self.cleared(key)


def _span(rule: Rule, policy: HoldsPolicy, hint: float | None) -> float:
    if rule.hold is None:
        return 0.0
    default: float = getattr(policy, rule.hold)
    if hint is None:
        return default
    believed = min(hint, max(_LONGEST_S[rule.hold], default))
    return max(believed, default) if rule.floor else believed


def key_of(target: TargetSpec, reason: ErrorClass) -> HoldKey:
    """What a hold of `target` for this reason goes by.

    A rate limit of a credential counts per model, as the OpenAI dialect's providers count it; a spent account does not.
    """
    provider, credential, scope = target.provider.name, target.credential, RULES[reason].scope
    if scope == "target":
        return ("target", target.name, target.provider.base_url)
    if scope == "model":
        return ("model", provider, target.provider.base_url, target.model)
    if reason is ErrorClass.RATE_LIMITED:
        return ("credential", provider, credential.name, target.model)
    return ("credential", provider, credential)


def keys_of(target: TargetSpec) -> tuple[HoldKey, ...]:
    """All that a hold which stands in the way of `target` can go by."""
    provider, credential = target.provider.name, target.credential
    return (
        ("target", target.name, target.provider.base_url),
        ("model", provider, target.provider.base_url, target.model),
        ("credential", provider, credential.name, target.model),
        ("credential", provider, credential),
    )
