"""The errors of models, drawn as a tree:

LlmError
├── InvalidRequest        the caller's request cannot be sent to any provider
├── AttemptFailed         one attempt on one target ended badly (see `Failure`)
├── NotAdmitted           a target was passed over without an attempt
│   ├── BreakerOpen       its breaker is open, or its probe is in flight
│   └── QuotaShort        its bucket or its concurrency has no room
├── RouteFailed           nothing of the route answered; carries the trail
└── StreamInterrupted     the answer broke off after output had reached the caller; carries the trail
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm.classes import RULES, ErrorClass, Skip, Verdict

if TYPE_CHECKING:
    from llm.attempt import Trail


@dataclass(frozen=True, slots=True)
class Failure:
    """What is known of a failed attempt.

    `status`, `type`, `code` and `param` are the provider's own words, None where it said nothing; `retry_after_s` is the
    provider's hint in seconds. `message` is fit for a caller: it never holds a key or a URL. `quoted`: it is the
    provider's own wording, which may repeat what the caller sent, and is for that caller alone.
    """

    error_class: ErrorClass
    message: str
    status: int | None = None
    type: str | None = None
    code: str | None = None
    param: str | None = None
    retry_after_s: float | None = None
    quoted: bool = False

    @property
    def verdict(self) -> Verdict:
        return RULES[self.error_class].verdict


class LlmError(Exception):
    """Base of this package's errors."""


class InvalidRequest(LlmError):
    """The request is malformed. `param` names the field, where one is to blame."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message, self.param = message, param


class AttemptFailed(LlmError):
    """One attempt ended badly."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.error_class}: {failure.message}")
        self.failure = failure


class NotAdmitted(LlmError):
    """A target was passed over. `retry_after_s`: seconds until it may be tried, None when no time helps or is known."""

    skip: Skip

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message, self.retry_after_s = message, retry_after_s


class BreakerOpen(NotAdmitted):
    skip = Skip.BREAKER


class QuotaShort(NotAdmitted):
    """`never`: the request is larger than the whole bucket, waiting cannot help."""

    skip = Skip.QUOTA

    def __init__(self, message: str, retry_after_s: float | None, *, never: bool) -> None:
        super().__init__(message, retry_after_s)
        self.never = never


class RouteFailed(LlmError):
    """Nothing of the route answered.

    `final`: the provider's failure to hand on as it came (no other target can cure it, or there was only one).
    `failure`: the last failure, None when no attempt was made. `deadline`: the request's time ran out.
    `retry_after_s`: seconds until a target can be tried again, None when not known or of no use.
    `rate_limits_only`: every hold that stood in the way is a rate limit, or a bucket without room.
    `never_fits`: the request is larger than the buckets. `unfit`: no target can serve such a request, and why.
    """

    def __init__(
        self,
        message: str,
        trail: Trail,
        *,
        failure: Failure | None = None,
        final: bool = False,
        deadline: bool = False,
        retry_after_s: float | None = None,
        rate_limits_only: bool = False,
        never_fits: bool = False,
        unfit: Skip | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.trail, self.failure, self.final = message, trail, failure, final
        self.deadline, self.retry_after_s, self.rate_limits_only = deadline, retry_after_s, rate_limits_only
        self.never_fits, self.unfit = never_fits, unfit


class StreamInterrupted(LlmError):
    """The answer broke off after its first output."""

    def __init__(self, failure: Failure, trail: Trail) -> None:
        super().__init__(failure.message)
        self.failure, self.trail = failure, trail
