"""Which shard a session lives in, from its id alone.

An id that the gateway made says its shard: `<shard>.<ULID>`. Every other id is hashed, with app and user, to one of `SLOTS`
slots, and its placement's map says the slot's shard. The map is recorded at the authority: a shard that is added takes no slot
by itself, so no session is looked for where it is not.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from regions.errors import UnknownShard
from sessions.model import SessionKey

SLOTS = 1024
DEFAULT_PLACEMENT = "default"

_GENERATED = re.compile(r"([a-z0-9][a-z0-9-]{0,31})\.([0-7][0-9A-HJKMNP-TV-Z]{25})", re.ASCII)
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A shard's store in one region."""

    region: str
    url: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ShardSpec:
    """A shard, as the settings have it. Times in seconds. `rpo_turns` None: no loss is agreed to."""

    name: str
    home: str
    nodes: Mapping[str, NodeSpec]
    sync: bool = False
    lease_s: float = 6.0
    renew_s: float = 1.5
    rpo_turns: int | None = None
    rto_s: float | None = None
    automatic: bool = True
    quiet_s: float = 60.0
    may_degrade: bool = False
    promote_command: tuple[str, ...] | None = None
    promote_timeout_s: float = 60.0

    @property
    def peers(self) -> tuple[str, ...]:
        """The regions beside the home, in the order of the settings."""
        return tuple(region for region in self.nodes if region != self.home)


@dataclass(frozen=True, slots=True)
class SlotMap:
    """A placement's slots: `shards[slots[i]]` is the shard of slot i. Both as they are recorded at the authority."""

    placement: str
    shards: tuple[str, ...]
    slots: tuple[int, ...]

    def shard_of(self, key: SessionKey) -> str:
        return self.shards[self.slots[slot_of(key)]]


def even_map(placement: str, shards: Sequence[str]) -> SlotMap:
    """The map of a new placement: slots dealt out in turn."""
    return SlotMap(placement, tuple(shards), tuple(slot % len(shards) for slot in range(SLOTS)))


def slot_of(key: SessionKey) -> int:
    """The slot of an id that a caller chose. Names are divided by a byte that none of them holds."""
    text = "\0".join((key.app, key.user, key.session))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % SLOTS


def shard_of(key: SessionKey, shards: Mapping[str, ShardSpec], slot_map: SlotMap) -> str:
    """The session's shard. Raises UnknownShard for an id that names one which is not there."""
    if (made := _GENERATED.fullmatch(key.session)) is None:
        return slot_map.shard_of(key)
    if made[1] not in shards:
        known = ", ".join(shards)
        raise UnknownShard(
            f"the session id names the shard {made[1]!r}, and this gateway has {known}: ask a gateway of the install that "
            "made the id, or create a session anew"
        )
    return made[1]


def new_session_id(shard: str, unix_ms: int, random_bits: int) -> str:
    """`<shard>.<ULID>` of a time and 80 random bits."""
    number = (unix_ms & (2**48 - 1)) << 80 | random_bits & (2**80 - 1)
    return f"{shard}." + "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))
