"""Which slots each placement maps to which shard, and which placement each caller has: recorded at the authority once.

The settings of all gateways have to agree with the record. What differs is refused before a session is looked for where it is
not. A shard that is new in a placement takes no slots: it gets the sessions that are made at its home.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from regions.authority.base import Authority, settled_swap
from regions.errors import AuthorityNonsense, RegionsError, SwapConflict
from regions.topology import SLOTS, SlotMap, even_map

CALLERS = "placements-of-callers"

_TRIES = 8


class PlacementRefused(RegionsError):
    """The settings and the record say different things of where sessions are."""


async def settle_map(authority: Authority, placement: str, shards: Sequence[str]) -> SlotMap:
    """The placement's recorded map; the first to ask records an even one. Raises PlacementRefused and AuthorityError."""
    name = f"placements/{placement}"
    for _ in range(_TRIES):
        found = await authority.read(name)
        try:
            if found is None:
                made = even_map(placement, shards)
                await settled_swap(authority, name, None, _encode(made))
                return made
            recorded = _decode(name, placement, found.value)
            grown = _agreed(recorded, shards)
            if grown != recorded:
                await settled_swap(authority, name, found.revision, _encode(grown))
        except SwapConflict:
            continue
        return grown
    raise PlacementRefused(
        f"the placement {placement} is changed by others again and again: start one gateway at a time"
    )


async def settle_callers(authority: Authority, placements: Mapping[str, str]) -> None:
    """Record each caller's placement. Raises PlacementRefused for one that is recorded with another, and AuthorityError."""
    for _ in range(_TRIES):
        found = await authority.read(CALLERS)
        recorded = {} if found is None else _callers(found.value)
        for caller, placement in placements.items():
            if (before := recorded.get(caller, placement)) != placement:
                raise PlacementRefused(
                    f"the caller {caller} has the placement {before!r} by the authority's record and {placement!r} by the "
                    f"settings, where its sessions would be looked for and not be found: write {before!r}, or give the "
                    "caller another name and let it begin anew"
                )
        if not placements.keys() - recorded.keys():
            return
        try:
            value = orjson.dumps({**recorded, **placements}, option=orjson.OPT_SORT_KEYS)
            await settled_swap(authority, CALLERS, None if found is None else found.revision, value)
        except SwapConflict:
            continue
        return
    raise PlacementRefused("the callers' placements are changed by others again and again: start one gateway at a time")


def _agreed(recorded: SlotMap, shards: Sequence[str]) -> SlotMap:
    gone = [shard for shard in recorded.shards if shard not in shards]
    used = [shard for shard in gone if recorded.shards.index(shard) in recorded.slots]
    if used:
        raise PlacementRefused(
            f"the placement {recorded.placement} has no shard {used[0]!r} in the settings, and by the authority's record some "
            "of its sessions are there: write it back; a shard is taken out of use by moving its slots first"
        )
    new = [shard for shard in shards if shard not in recorded.shards]
    return SlotMap(recorded.placement, (*recorded.shards, *new), recorded.slots)


def _encode(one: SlotMap) -> bytes:
    return orjson.dumps({"shards": one.shards, "slots": one.slots})


def _decode(name: str, placement: str, value: bytes) -> SlotMap:
    try:
        row: Any = orjson.loads(value)
        shards, slots = tuple(map(str, row["shards"])), tuple(map(int, row["slots"]))
        if len(slots) != SLOTS or not all(0 <= slot < len(shards) for slot in slots):
            raise ValueError("its slots are not those of its shards")
    except (ValueError, TypeError, KeyError) as error:
        raise AuthorityNonsense(f"the register {name} holds no map of slots ({error}): restore it") from None
    return SlotMap(placement, shards, slots)


def _callers(value: bytes) -> dict[str, str]:
    try:
        row = orjson.loads(value)
        return {str(caller): str(placement) for caller, placement in row.items()}
    except (ValueError, AttributeError) as error:
        raise AuthorityNonsense(f"the register {CALLERS} cannot be read ({error}): restore it") from None
