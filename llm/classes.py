"""What an attempt can end as, and what follows from it: the one table that retries, fallback, breaker and holds read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Literal


class ErrorClass(StrEnum):
    """Why an attempt did not succeed. The values stand in headers, bodies, metrics and logs."""

    CONNECT = "connect"
    TIMEOUT_FIRST_TOKEN = "timeout_first_token"  # noqa: S105 - a class name
    TIMEOUT_IDLE = "timeout_idle"
    TIMEOUT_TOTAL = "timeout_total"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    RATE_LIMITED = "rate_limited"
    QUOTA_EXHAUSTED = "quota_exhausted"
    CREDENTIAL = "credential"
    MODEL_UNAVAILABLE = "model_unavailable"
    BAD_UPSTREAM_RESPONSE = "bad_upstream_response"
    CONTEXT_LENGTH = "context_length"
    TOO_LARGE = "too_large"
    CONTENT_POLICY = "content_policy"
    BAD_REQUEST = "bad_request"
    LOCAL_CAPACITY = "local_capacity"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"


CALLERS_FAULT = frozenset(
    {ErrorClass.BAD_REQUEST, ErrorClass.CONTENT_POLICY, ErrorClass.CONTEXT_LENGTH, ErrorClass.TOO_LARGE}
)
"""What a request itself brings about: no target is to blame, and the caller's answer is a 4xx."""


class Skip(StrEnum):
    """Why a target was passed over without an attempt."""

    HOLD = "hold"
    BREAKER = "breaker"
    QUOTA = "quota"
    CONTEXT_WINDOW = "context_window"
    REQUEST_LIMIT = "request_limit"
    CAPABILITY = "capability"
    RESIDENCY = "residency"


class Verdict(StrEnum):
    """What an attempt says about its target. Only failures and successes are samples of a breaker."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEUTRAL = "neutral"


RetryHere = Literal["never", "backoff", "hint"]
"""`backoff`: after a jittered wait, or the provider's hint. `hint`: only when the provider named a time."""

Onward = Literal["any", "larger_window", "larger_limit", "content_policy", "nowhere"]
"""Which other targets can cure the error."""

HoldScope = Literal["credential", "model", "target"]


@dataclass(frozen=True, slots=True)
class Rule:
    """What follows from a class.

    `hold` names the key of `HoldsPolicy` that gives the time when the provider gave none; `floor` makes that time the
    least, whatever the provider said.
    """

    retry_here: RetryHere
    onward: Onward
    verdict: Verdict
    hold: Literal["rate_limit", "quota", "credential", "model", "overloaded"] | None = None
    scope: HoldScope = "target"
    floor: bool = False


_FAILURE, _NEUTRAL = Verdict.FAILURE, Verdict.NEUTRAL

RULES: Mapping[ErrorClass, Rule] = MappingProxyType(
    {
        ErrorClass.CONNECT: Rule("backoff", "any", _FAILURE),
        ErrorClass.TIMEOUT_FIRST_TOKEN: Rule("never", "any", _FAILURE),
        ErrorClass.TIMEOUT_IDLE: Rule("never", "any", _FAILURE),
        ErrorClass.TIMEOUT_TOTAL: Rule("never", "any", _FAILURE),
        ErrorClass.OVERLOADED: Rule("backoff", "any", _FAILURE, hold="overloaded", scope="target"),
        ErrorClass.SERVER_ERROR: Rule("backoff", "any", _FAILURE),
        ErrorClass.RATE_LIMITED: Rule("hint", "any", _NEUTRAL, hold="rate_limit", scope="credential"),
        ErrorClass.QUOTA_EXHAUSTED: Rule("never", "any", _NEUTRAL, hold="quota", scope="credential", floor=True),
        ErrorClass.CREDENTIAL: Rule("never", "any", _NEUTRAL, hold="credential", scope="credential", floor=True),
        ErrorClass.MODEL_UNAVAILABLE: Rule("never", "any", _NEUTRAL, hold="model", scope="model", floor=True),
        ErrorClass.BAD_UPSTREAM_RESPONSE: Rule("never", "any", _FAILURE),
        ErrorClass.CONTEXT_LENGTH: Rule("never", "larger_window", _NEUTRAL),
        ErrorClass.TOO_LARGE: Rule("never", "larger_limit", _NEUTRAL),
        ErrorClass.CONTENT_POLICY: Rule("never", "content_policy", _NEUTRAL),
        ErrorClass.BAD_REQUEST: Rule("never", "nowhere", _NEUTRAL),
        ErrorClass.LOCAL_CAPACITY: Rule("never", "any", _NEUTRAL),
        ErrorClass.DEADLINE: Rule("never", "any", _NEUTRAL),
        ErrorClass.CANCELLED: Rule("never", "nowhere", _NEUTRAL),
    }
)
