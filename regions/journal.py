"""What stays of each promotion: one entry for each epoch, kept at the authority."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import orjson

from regions.authority.base import Authority
from regions.errors import AuthorityNonsense, SwapConflict

Kind = Literal["failover", "switchover", "reopen", "bootstrap"]

_TRIES = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """One promotion. `steps_s`: seconds of each step, `detect`, `decide`, `fence_wait`, `promote` and `open` among them.

    `loss_bound`: the most that could be lost, as it was known when it was decided; None where that was not known. `lost`: what
    the exported tail held, `events`, `turns` and `file`; None until it is exported. `at`: Unix seconds. `done`: it is open.
    """

    shard: str
    epoch: int
    kind: Kind
    source: str
    to: str
    by: str
    reason: str
    at: float
    forced: bool = False
    loss_bound: int | None = 0
    fork_gseq: int | None = None
    steps_s: Mapping[str, float] = field(default_factory=dict)
    lost: Mapping[str, Any] | None = None
    done: bool = False

    def as_dict(self) -> dict[str, Any]:
        row = asdict(self)
        row["from"] = row.pop("source")
        return row


class Journal:
    """The entries of all shards."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority

    async def write(self, entry: Entry) -> None:
        """Write the entry of its epoch, or add to the one that is there: steps and the figures that were not known before.

        Raises what the authority raises."""
        for _ in range(_TRIES):
            found = await self._authority.read(_name(entry.shard, entry.epoch))
            merged = entry if found is None else _merged(_decoded(_name(entry.shard, entry.epoch), found.value), entry)
            try:
                await self._authority.swap(
                    _name(entry.shard, entry.epoch),
                    None if found is None else found.revision,
                    orjson.dumps(asdict(merged)),
                )
            except SwapConflict:
                continue
            return

    async def exported(self, shard: str, epoch: int, lost: Mapping[str, Any]) -> None:
        """Note what the promotion of `epoch` lost."""
        found = await self._authority.read(_name(shard, epoch))
        if found is not None:
            await self.write(replace(_decoded(_name(shard, epoch), found.value), lost=lost))

    async def entries(self, shard: str, newest: int = 20) -> tuple[Entry, ...]:
        """The shard's last promotions, the newest first."""
        found = await self._authority.read_all(f"promotions/{shard}/")
        return tuple(_decoded(name, one.value) for name, one in sorted(found.items(), reverse=True)[:newest])


def _name(shard: str, epoch: int) -> str:
    return f"promotions/{shard}/{epoch:010d}"


def _merged(old: Entry, new: Entry) -> Entry:
    return replace(
        new,
        steps_s={**old.steps_s, **new.steps_s},
        lost=new.lost or old.lost,
        fork_gseq=old.fork_gseq if new.fork_gseq is None else new.fork_gseq,
        forced=old.forced or new.forced,
        loss_bound=old.loss_bound if new.loss_bound is None else new.loss_bound,
        done=old.done or new.done,
        at=old.at or new.at,
    )


def _decoded(name: str, value: bytes) -> Entry:
    try:
        return Entry(**orjson.loads(value))
    except (ValueError, TypeError) as error:
        raise AuthorityNonsense(
            f"the register {name} holds no promotion ({error}): another program writes there, or a newer version did"
        ) from None
