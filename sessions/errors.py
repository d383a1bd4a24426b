"""The errors of the session stores, drawn as a tree:

SessionsError
├── InvalidInput              the caller's names, events or state cannot be stored by anyone
├── Refused                   the store looked and said no: nothing was written
│   ├── FenceRefused          this store may not take this write
│   │   ├── NotGranted        it holds no grant under its present identity
│   │   ├── ClockBack         its clock went back; its grant is revoked
│   │   ├── Fenced            the caller's epoch is over
│   │   ├── StoreBehind       the caller's epoch is newer than the store's
│   │   ├── LeaseExpired      the grant's deadline has passed, or the grant was revoked
│   │   └── ReadOnlyStore     the store is a replica
│   ├── GrantRefused          a grant or a revocation was not taken
│   │   ├── WrongStore        it names another store
│   │   ├── StaleEpoch        its epoch is older than the store's
│   │   ├── EpochReused       its epoch was granted to another identity
│   │   ├── EpochRevoked      its epoch was revoked
│   │   └── DeadlineTooFar    its deadline is further away than a lease may be
│   ├── SessionNotFound       no such session
│   │   └── SessionGone       there was one: it was deleted, or expired
│   ├── SessionExists         the session's name is taken
│   ├── VersionConflict       the session has another version than the writer expected
│   ├── EventIdsMixed         some of the ids are stored and some are not, or in another order
│   └── LimitExceeded         a size or number is over its limit
├── StoreUnavailable          the store was not asked, or said that it cannot: nothing was written
│   ├── StoreBusy             too many wait for it already
│   └── StoreClosed           it was closed here
├── InDoubt                   a write may or may not be stored; `event_id` tells by lookup
└── OpenRefused               the store cannot be used as it is
    └── StoreTooNew           a newer version of this program wrote it

`FenceRefused` and `InDoubt` are for the layer above: it asks the authority for the primary and repeats the write once, with
the same event ids. Every other refusal is the caller's to solve.
"""

from __future__ import annotations


class SessionsError(Exception):
    """Base of what this package raises on purpose."""


class InvalidInput(SessionsError):
    """What was handed in cannot be stored. `what` names the part that is to blame."""

    def __init__(self, what: str, message: str) -> None:
        super().__init__(f"{what}: {message}")
        self.what = what


class Refused(SessionsError):
    """The store refused, and changed nothing that a reader can see. `code` is the refusal's name on the wire."""

    code: str


class FenceRefused(Refused):
    """The store may not take this write. `epoch` is the one that the store knows, 0 for none."""

    def __init__(self, epoch: int, message: str) -> None:
        super().__init__(message)
        self.epoch = epoch


class NotGranted(FenceRefused):
    code = "NOT_GRANTED"

    def __init__(self, epoch: int) -> None:
        super().__init__(
            epoch,
            f"this store holds no grant under its present identity (the last epoch it knows is {epoch}): it was copied, "
            "restarted, replaced or never granted; ask the authority for the primary, or grant it a new epoch",
        )


class ClockBack(FenceRefused):
    """`behind_ms`: how far the store's clock is behind the latest time that it has seen."""

    code = "CLOCK_BACK"

    def __init__(self, epoch: int, behind_ms: int) -> None:
        super().__init__(
            epoch,
            f"the store's clock went back by {behind_ms} ms, so its lease cannot be trusted and epoch {epoch} is revoked: "
            "mend the clock, then grant a new epoch",
        )
        self.behind_ms = behind_ms


class Fenced(FenceRefused):
    code = "FENCED"

    def __init__(self, epoch: int, asked: int) -> None:
        super().__init__(
            epoch,
            f"epoch {asked} is over, the store is at epoch {epoch}: read the authority and repeat the write with the same "
            "event ids",
        )
        self.asked = asked


class StoreBehind(FenceRefused):
    code = "STORE_BEHIND"

    def __init__(self, epoch: int, asked: int) -> None:
        super().__init__(
            epoch,
            f"the store is at epoch {epoch} and the write at epoch {asked}: this is an old primary, or the grant of epoch "
            f"{asked} has not come yet; read the authority and repeat the write there",
        )
        self.asked = asked


class LeaseExpired(FenceRefused):
    code = "LEASE_EXPIRED"

    def __init__(self, epoch: int) -> None:
        super().__init__(
            epoch,
            f"the store's grant of epoch {epoch} is over or was revoked: its lease has to be renewed, or another store is "
            "the primary now; read the authority",
        )


class ReadOnlyStore(FenceRefused):
    code = "READONLY"

    def __init__(self, epoch: int = 0) -> None:
        super().__init__(
            epoch, "the store is a replica and takes no writes: read the authority and write to the primary"
        )


class GrantRefused(Refused):
    """A grant or revocation was not taken. `epoch` is the store's own."""

    def __init__(self, epoch: int, message: str) -> None:
        super().__init__(message)
        self.epoch = epoch


class WrongStore(GrantRefused):
    code = "WRONG_STORE"

    def __init__(self, epoch: int, identity: str) -> None:
        super().__init__(
            epoch,
            f"the grant names another store than this one, which is {identity}: it was restarted, promoted or replaced "
            "since; read its identity again and record it at the authority first",
        )
        self.identity = identity


class StaleEpoch(GrantRefused):
    code = "STALE_EPOCH"

    def __init__(self, epoch: int, asked: int) -> None:
        super().__init__(
            epoch, f"epoch {asked} is older than the store's, {epoch}: another promotion came first, do nothing here"
        )
        self.asked = asked


class EpochReused(GrantRefused):
    code = "EPOCH_REUSED"

    def __init__(self, epoch: int) -> None:
        super().__init__(
            epoch, f"epoch {epoch} was granted to another store identity: take a new epoch from the authority"
        )


class EpochRevoked(GrantRefused):
    code = "REVOKED"

    def __init__(self, epoch: int) -> None:
        super().__init__(epoch, f"epoch {epoch} was revoked here for good: take a new epoch from the authority")


class DeadlineTooFar(GrantRefused):
    code = "DEADLINE_TOO_FAR"

    def __init__(self, epoch: int, ahead_ms: int, limit_ms: int) -> None:
        super().__init__(
            epoch,
            f"the deadline is {ahead_ms} ms ahead of the store's clock and a lease may be {limit_ms} ms: compute it from "
            "the store's own time, or compare the clocks",
        )
        self.ahead_ms, self.limit_ms = ahead_ms, limit_ms


class SessionNotFound(Refused):
    code = "NO_SESSION"

    def __init__(self, message: str = "there is no such session: create it first") -> None:
        super().__init__(message)


class SessionGone(SessionNotFound):
    """`reason`: `deleted`, `expired`, or `lost` by a promotion. `at_ms`: when, in Unix milliseconds of the store."""

    code = "GONE"

    def __init__(self, reason: str, at_ms: int) -> None:
        what = "its events are in the exported tail" if reason == "lost" else "its events are gone"
        by = " by a promotion, which was seen" if reason == "lost" else ""
        super().__init__(f"the session was {reason}{by} at {at_ms} ms (Unix time): create it anew, {what}")
        self.reason, self.at_ms = reason, at_ms


class SessionExists(Refused):
    code = "EXISTS"

    def __init__(self, version: int) -> None:
        super().__init__(f"there is such a session already, at version {version}: read it, or choose another name")
        self.version = version


class VersionConflict(Refused):
    """`version`: what the session has. `expected`: what the writer thought."""

    code = "CONFLICT"

    def __init__(self, version: int, expected: int) -> None:
        super().__init__(
            f"the session is at version {version}, not {expected}: somebody else wrote; read what is new, and decide again"
        )
        self.version, self.expected = version, expected


class EventIdsMixed(Refused):
    code = "MIXED_IDS"

    def __init__(self, stored: int, asked: int) -> None:
        super().__init__(
            f"{stored} of {asked} event ids are stored already, but not as this one append: repeat an append with exactly "
            "its own ids in their order, or give new events new ids"
        )
        self.stored, self.asked = stored, asked


class LimitExceeded(Refused):
    """`what`: the limit's name in `Limits`. `actual`: what it would have been."""

    code = "LIMIT"

    def __init__(self, what: str, limit: int, actual: int) -> None:
        super().__init__(
            f"{what} would be {actual} and may be {limit}: send less, start another session, or raise the limit; "
            "nothing was stored"
        )
        self.what, self.limit, self.actual = what, limit, actual


class StoreUnavailable(SessionsError):
    """The store cannot be used now, and what was asked did not happen. Trying again is safe."""


class StoreBusy(StoreUnavailable):
    def __init__(self, waiting: int) -> None:
        super().__init__(f"{waiting} operations wait for the store already: try again later")


class StoreClosed(StoreUnavailable):
    def __init__(self) -> None:
        super().__init__("the store is closed: nothing can be asked of it any more")


class InDoubt(SessionsError):
    """A write was sent, and whether it is stored is not known. `event_id`: the first one of the write, or a creation's
    `write_id`; None where the write has none (a deletion, counts), which may simply be repeated.

    Looking the id up tells `committed` for certain. `Absent` holds for the moment only: the lost write may still be on its way.
    What settles it is repeating the write with the same ids and the same expected version: it is stored at most once.
    """

    def __init__(self, event_id: str | None, why: str) -> None:
        super().__init__(
            f"whether the write is stored is not known ({why}): repeat it with the same ids and the same expected version, "
            "or look its event id up"
        )
        self.event_id, self.why = event_id, why


class OpenRefused(SessionsError):
    """The store cannot be used as it is; the message says what to do."""


class StoreTooNew(OpenRefused):
    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"the store has schema version {found} and this program knows {known}: run the newer program, or restore a "
            "backup from before the upgrade"
        )
        self.found, self.known = found, known
