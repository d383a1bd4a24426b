"""Errors of this package.

    QuotaError
    └── QuotaRefused    a reservation does not fit now, or never

A refusal is an answer, not a failure of a target: it says whether to wait, to take another target or to give up.
"""

from __future__ import annotations

from typing import Literal

Kind = Literal["requests", "tokens", "concurrency"]
"""What a target's quota limits."""


class QuotaError(Exception):
    """Base of everything that this package raises on purpose."""


class QuotaRefused(QuotaError):
    """A reservation was refused, and nothing was taken.

    `kind`: the limit that decides: one that can never be met, else concurrency, else the bucket that takes longest.
    `retry_after_s`: seconds until this very reservation fits if nobody else takes anything, over all buckets that
    are short; None where no time can be told (concurrency) or none will do (`never`). `never`: it asks for more than
    the bucket holds when full. `limit` and `needed`: what the limit is and what was asked for, in requests, tokens
    or requests in flight.
    """

    def __init__(
        self, kind: Kind, *, limit: float, needed: int, retry_after_s: float | None = None, never: bool = False
    ) -> None:
        self.kind = kind
        self.limit = limit
        self.needed = needed
        self.retry_after_s = retry_after_s
        self.never = never
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        if self.kind == "concurrency":
            return f"all {self.limit:g} requests in flight are taken: try again when one has ended"
        if self.never:
            return (
                f"the request needs {self.needed} {self.kind} and the bucket holds {self.limit:g}: ask for a shorter "
                f"answer or raise the target's {self.kind}_per_minute or burst"
            )
        return f"not enough {self.kind} left for {self.needed}: try again in {self.retry_after_s:.3f} s"
