"""What one target may still be asked for, in this process: reserve before an attempt, settle after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quota.bucket import Bucket
from quota.errors import Kind, QuotaRefused
from quota.policy import QuotaPolicy

_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Level:
    """A bucket at one moment, in requests or tokens. `level` may be below zero, and is never above `capacity`."""

    level: float
    capacity: float


@dataclass(frozen=True, slots=True)
class Levels:
    """A target's quota at one moment; None for what is not limited."""

    requests: Level | None
    tokens: Level | None
    in_flight: int
    concurrency: int | None


class Reservation:
    """What one attempt holds of its target's quota, until it is settled or released, whatever the ending.

    Only the first of all calls to `settle` and `release` counts; later ones do nothing. It knows the buckets that it was
    taken from: one that came later, with a change of the settings, is charged with what was used and given nothing back.
    """

    __slots__ = ("_quota", "_requests", "_settled", "_tokens", "priority", "tokens")

    def __init__(
        self, quota: TargetQuota, tokens: int, priority: str, from_requests: Bucket | None, from_tokens: Bucket | None
    ) -> None:
        self.tokens = tokens
        self.priority = priority
        self._quota, self._requests, self._tokens = quota, from_requests, from_tokens
        self._settled = False

    @property
    def settled(self) -> bool:
        """Whether it holds nothing any more."""
        return self._settled

    def settle(self, tokens: int) -> None:
        """The provider was asked, and `tokens` were used (input and output; 0 for an attempt that failed).

        Frees the concurrency slot and gives back what was not used; the request itself stays counted. Use above the
        reservation is taken too, below zero if need be. Raises ValueError for a number below 0, and changes nothing.
        """
        if tokens < 0:
            raise ValueError(f"{tokens} tokens cannot have been used: settle with 0 or more")
        self._close(requests=1, tokens=tokens)

    def release(self) -> None:
        """Nothing reached the provider: gives back everything, the request included."""
        self._close(requests=0, tokens=0)

    def _close(self, *, requests: int, tokens: int) -> None:
        """The end, with what was really used."""
        if not self._settled:
            self._settled = True
            held = (self._requests, 1 - requests, -requests), (self._tokens, self.tokens - tokens, -tokens)
            self._quota._return(*held)  # noqa: SLF001 - two halves of one thing


class TargetQuota:
    """A target's buckets for requests and tokens, and its requests in flight.

    A bucket holds rate × burst, at least one request; a limit that the policy does not write is not applied. `now`
    gives monotonic seconds. No method waits, so each is one atomic step on an event loop; not for several threads.
    """

    def __init__(self, policy: QuotaPolicy, now: Callable[[], float]) -> None:
        self._now = now
        self._in_flight = 0
        self._concurrency: int | None = None
        self._requests: Bucket | None = None
        self._tokens: Bucket | None = None
        self.retune(policy)

    def reserve(self, tokens: int, priority: str = "interactive") -> Reservation:
        """Take one request, `tokens` tokens and one slot in flight, all of them or nothing.

        `tokens` is the most that the attempt is expected to use, input and output together. `priority` goes into
        the reservation; for now all classes are treated alike. Raises QuotaRefused, after which every level is as
        it was, and ValueError for a number below 0.
        """
        if tokens < 0:
            raise ValueError(f"{tokens} tokens cannot be reserved: reserve 0 or more")
        now = self._now()
        if (refusal := self._refusal(tokens, now)) is not None:
            raise refusal
        if self._requests is not None:
            self._requests.take(1, now)
        if self._tokens is not None:
            self._tokens.take(tokens, now)
        self._in_flight += 1
        return Reservation(self, tokens, priority, self._requests, self._tokens)

    def retune(self, policy: QuotaPolicy) -> None:
        """Other limits from now on. What is in flight stays so, and settles here.

        A bucket keeps its level, never above its new capacity; more capacity does not fill it. A limit that is new starts
        with a full bucket, as at start; one that is not written any more is gone with its bucket.
        """
        now = self._now()
        self._concurrency = policy.concurrency
        self._requests = _retuned(self._requests, policy.requests_per_minute, policy.burst, at_least=1.0, now=now)
        self._tokens = _retuned(self._tokens, policy.tokens_per_minute, policy.burst, at_least=0.0, now=now)

    @property
    def token_capacity(self) -> float | None:
        """What the bucket of tokens holds when it is full; None without a limit."""
        return None if self._tokens is None else self._tokens.capacity

    def levels(self) -> Levels:
        """The levels, refilled to now."""
        now = self._now()
        return Levels(
            requests=_level(self._requests, now),
            tokens=_level(self._tokens, now),
            in_flight=self._in_flight,
            concurrency=self._concurrency,
        )

    def _refusal(self, tokens: int, now: float) -> QuotaRefused | None:
        asked: tuple[tuple[Kind, Bucket | None, int], ...] = (
            ("requests", self._requests, 1),
            ("tokens", self._tokens, tokens),
        )
        longest: QuotaRefused | None = None
        longest_s = 0.0
        for kind, bucket, needed in asked:
            if bucket is None:
                continue
            if bucket.never_fits(needed):
                return QuotaRefused(kind, limit=bucket.capacity, needed=needed, never=True)
            if (wait_s := bucket.wait_s(needed, now)) > longest_s:
                longest_s = wait_s
                longest = QuotaRefused(kind, limit=bucket.capacity, needed=needed, retry_after_s=wait_s)
        if self._concurrency is not None and self._in_flight >= self._concurrency:
            return QuotaRefused("concurrency", limit=self._concurrency, needed=1)
        return longest

    def _return(self, requests: _Held, tokens: _Held) -> None:
        """The end of a reservation."""
        now = self._now()
        self._in_flight -= 1
        for bucket, (source, back, used) in ((self._requests, requests), (self._tokens, tokens)):
            if bucket is not None and (amount := back if bucket is source else used):
                bucket.correct(amount, now)


_Held = tuple[Bucket | None, int, int]
"""The bucket that was taken from, what goes back to it (below 0: is taken beyond), and what any other one gets (0 or below)."""


def _retuned(
    bucket: Bucket | None, per_minute: int | None, burst_s: float, *, at_least: float, now: float
) -> Bucket | None:
    if per_minute is None:
        return None
    # Multiplied before it is divided: 70 a minute with a burst of 60 s hold 70, not a fraction less.
    capacity, rate_per_s = max(per_minute * burst_s / _MINUTE_S, at_least), per_minute / _MINUTE_S
    if bucket is None:
        return Bucket(capacity=capacity, rate_per_s=rate_per_s, now=now)
    bucket.retune(capacity=capacity, rate_per_s=rate_per_s, now=now)
    return bucket


def _level(bucket: Bucket | None, now: float) -> Level | None:
    return None if bucket is None else Level(bucket.level(now), bucket.capacity)
