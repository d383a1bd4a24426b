"""The shard's record at the authority: which store is the primary of which epoch, and how far a change of that has come.

It is the one thing that decides. Every change of it is a compare-and-set on the record that was read, so whoever acts on an
old one is told so, and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import orjson

from regions.errors import AuthorityNonsense

Stage = Literal["open", "switching", "opening"]
"""`open`: the holder's store takes writes while its lease is renewed. `switching`: a planned switchover has begun; nobody
renews. `opening`: the holder of a new epoch is settled, and its store is not open yet."""

Mode = Literal["async", "sync", "degraded", "joining"]
"""How a write is acknowledged. `sync`: with confirmation from a peer. `degraded`: a sync shard that for the time being
acknowledges without. `joining`: writers wait for confirmation already, but what came before may be missing at the peer."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A promotion after which acknowledged writes may be missing, until they are counted and exported.

    `epoch`: the one that was left. `region`: where its store is, and `identity` which one. `acknowledged`: whether acknowledged
    writes may be among what is missing; behind a sync epoch there are none. `fork_gseq`: what the new primary had of it, None
    until it is open. `exported`: the tail was written out, by then with `events` and `turns`.
    """

    epoch: int
    region: str
    identity: str
    acknowledged: bool = True
    fork_gseq: int | None = None
    exported: bool = False
    events: int = 0
    turns: int = 0


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """`holder`: a region. `store_identity`: its store's in this epoch, empty until it is promoted. `gseq` and `writes_s`: the
    shard's count of writes at the last renewal, and how many a second came lately. `renew_n`: counts renewals over all epochs.

    `target`: the region that a switchover goes to, empty otherwise. `source` and `source_identity`: the region that the last
    change of holder left, and its store. `sealed_gseq`: the count of writes at which that was revoked; None where nobody could
    revoke it, so that its lease has to be waited for. `losses`: newest last.

    `by`, `reason`, `at`: who changed epoch or stage last, why, and when in Unix seconds. They are for people, and for how
    long no promotion begins by itself; nothing else is decided by them.
    """

    epoch: int
    holder: str
    store_identity: str
    stage: Stage = "open"
    mode: Mode = "async"
    sync_peers: tuple[str, ...] = ()
    renew_n: int = 0
    gseq: int = 0
    writes_s: float = 0.0
    target: str = ""
    source: str = ""
    source_identity: str = ""
    sealed_gseq: int | None = None
    by: str = ""
    reason: str = ""
    at: float = 0.0
    losses: tuple[Loss, ...] = ()

    def encode(self) -> bytes:
        return orjson.dumps(self)

    @property
    def possible_loss(self) -> bool:
        """Whether acknowledged writes may be missing, of which nobody has counted how many."""
        return any(loss.acknowledged and not loss.exported for loss in self.losses)

    def renewed(self, gseq: int, writes_s: float) -> ShardRecord:
        return replace(self, renew_n=self.renew_n + 1, gseq=max(gseq, self.gseq), writes_s=round(writes_s, 3))


_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("holder", "store_identity", "target", "source", "source_identity", "by", "reason"), (str,)),
    **dict.fromkeys(("epoch", "renew_n", "gseq"), (int,)),
    **dict.fromkeys(("writes_s", "at"), (int, float)),
    "sealed_gseq": (int, type(None)),
}


def decode(name: str, value: bytes) -> ShardRecord:
    """The record that stands in the register `name`. Raises AuthorityNonsense for anything else."""
    try:
        row = orjson.loads(value)
        record = _record(row)
    except (ValueError, TypeError, KeyError) as error:
        raise AuthorityNonsense(
            f"the register {name} holds no shard's record ({error}): another program writes there, or it was changed by "
            "hand; restore it, or give this install a prefix of its own"
        ) from None
    return record


def _record(row: Any) -> ShardRecord:
    if not isinstance(row, dict):
        raise TypeError("it is no object")
    known = {field.name for field in fields(ShardRecord)}
    if unknown := sorted(row.keys() - known):
        raise ValueError(f"unknown field {unknown[0]!r}, perhaps of a newer version")
    for name, types in _TYPES.items():
        if name in row and (not isinstance(row[name], types) or isinstance(row[name], bool)):
            raise TypeError(f"{name} is {type(row[name]).__name__}")
    if row.get("stage", "open") not in get_args(Stage) or row.get("mode", "async") not in get_args(Mode):
        raise ValueError("its stage or mode is not known, perhaps of a newer version")
    if row["epoch"] < 1 or not row["holder"]:
        raise ValueError("it names no epoch or no holder")
    peers = tuple(str(peer) for peer in row.get("sync_peers", ()))
    losses = tuple(Loss(**loss) for loss in row.get("losses", ()))
    return ShardRecord(**{**row, "sync_peers": peers, "losses": losses})
