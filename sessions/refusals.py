"""One table from a refusal's code, as both backends give it, to the error that a caller meets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sessions import errors


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal as a value: its code and the arguments of its error."""

    code: str
    details: tuple[str | int, ...] = ()

    def error(self) -> errors.Refused:
        return refused(self.code, self.details)


_KINDS: Mapping[str, tuple[Callable[..., errors.Refused], tuple[type, ...]]] = {
    "NOT_GRANTED": (errors.NotGranted, (int,)),
    "CLOCK_BACK": (errors.ClockBack, (int, int)),
    "FENCED": (errors.Fenced, (int, int)),
    "STORE_BEHIND": (errors.StoreBehind, (int, int)),
    "LEASE_EXPIRED": (errors.LeaseExpired, (int,)),
    "WRONG_STORE": (errors.WrongStore, (int, str)),
    "STALE_EPOCH": (errors.StaleEpoch, (int, int)),
    "EPOCH_REUSED": (errors.EpochReused, (int,)),
    "REVOKED": (errors.EpochRevoked, (int,)),
    "DEADLINE_TOO_FAR": (errors.DeadlineTooFar, (int, int, int)),
    "NO_SESSION": (errors.SessionNotFound, ()),
    "GONE": (errors.SessionGone, (str, int)),
    "EXISTS": (errors.SessionExists, (int,)),
    "CONFLICT": (errors.VersionConflict, (int, int)),
    "MIXED_IDS": (errors.EventIdsMixed, (int, int)),
    "LIMIT": (errors.LimitExceeded, (str, int, int)),
}


def refused(code: str, details: Sequence[object]) -> errors.Refused:
    """The error for a code and its details, which may come as text. Raises ValueError for an answer that is none of these."""
    kind, types = _KINDS.get(code, (None, ()))
    if kind is None or len(details) != len(types):
        raise ValueError(f"the store answered {code!r:.40} with {len(details)} details, which is no refusal known here")
    return kind(*(read(detail) for read, detail in zip(types, details, strict=True)))
