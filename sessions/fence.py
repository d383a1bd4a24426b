"""The fence's decisions as pure functions: whether a write passes, and what a grant or revocation makes of the fence.

`redis/library.lua` has them a second time, in the server's language; the contract's tests run on both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sessions.refusals import Refusal
from sessions.store import CLOCK_TOLERANCE_MS

ENDLESS_MS = 2**53 - 1
"""The deadline of a grant that ends only by revocation, for a store that nobody else can take over."""


@dataclass(frozen=True, slots=True)
class FenceRow:
    """What a store keeps of its fence."""

    epoch: int = 0
    granted_to: str = ""
    deadline_ms: int = 0
    revoked: bool = False
    high_water_ms: int = 0
    gseq: int = 0
    fork_gseq: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision: the fence afterwards, and the refusal if there is one. The fence is kept in both cases."""

    fence: FenceRow
    refusal: Refusal | None = None


def clock_back(fence: FenceRow, now_ms: int) -> Refusal | None:
    """Whether the store's clock went back further than clocks do."""
    behind_ms = fence.high_water_ms - now_ms
    return Refusal("CLOCK_BACK", (fence.epoch, behind_ms)) if behind_ms > CLOCK_TOLERANCE_MS else None


def judge_write(fence: FenceRow, *, identity: str, epoch: int | None, now_ms: int) -> Verdict:
    """The first four checks of a write, in their order. `epoch` None asks only whether the grant holds, as readers do."""
    if not fence.granted_to or fence.granted_to != identity:
        return Verdict(fence, Refusal("NOT_GRANTED", (fence.epoch,)))
    if (refusal := clock_back(fence, now_ms)) is not None:
        return Verdict(replace(fence, deadline_ms=0, revoked=True), refusal)
    seen = replace(fence, high_water_ms=max(fence.high_water_ms, now_ms))
    if epoch is not None and epoch != fence.epoch:
        return Verdict(seen, Refusal("FENCED" if epoch < fence.epoch else "STORE_BEHIND", (fence.epoch, epoch)))
    if now_ms >= fence.deadline_ms:
        return Verdict(seen, Refusal("LEASE_EXPIRED", (fence.epoch,)))
    return Verdict(seen)


def judge_grant(
    fence: FenceRow, *, own: str, epoch: int, identity: str, deadline_ms: int, now_ms: int, longest_ms: int
) -> Verdict:
    """A grant to `identity`, at the store that is `own`."""
    if identity != own:
        return Verdict(fence, Refusal("WRONG_STORE", (fence.epoch, own)))
    if epoch < fence.epoch or epoch < 1:
        return Verdict(fence, Refusal("STALE_EPOCH", (fence.epoch, epoch)))
    renewal = epoch == fence.epoch
    if renewal and fence.granted_to != identity:
        return Verdict(fence, Refusal("EPOCH_REUSED", (epoch,)))
    if renewal and fence.revoked:
        return Verdict(fence, Refusal("REVOKED", (epoch,)))
    if renewal and (refusal := clock_back(fence, now_ms)) is not None:
        return Verdict(replace(fence, deadline_ms=0, revoked=True), refusal)
    if deadline_ms - now_ms > longest_ms:
        return Verdict(fence, Refusal("DEADLINE_TOO_FAR", (fence.epoch, deadline_ms - now_ms, longest_ms)))
    if renewal:
        later = max(deadline_ms, fence.deadline_ms)
        return Verdict(replace(fence, deadline_ms=later, high_water_ms=max(fence.high_water_ms, now_ms)))
    return Verdict(FenceRow(epoch, identity, deadline_ms, high_water_ms=now_ms, gseq=fence.gseq, fork_gseq=fence.gseq))


def judge_revoke(fence: FenceRow, *, own: str, epoch: int) -> Verdict:
    """A revocation of `epoch`: of one that has not come yet too, so that its grant finds the door shut."""
    if epoch < fence.epoch or epoch < 1:
        return Verdict(fence, Refusal("STALE_EPOCH", (fence.epoch, epoch)))
    if epoch == fence.epoch:
        return Verdict(replace(fence, deadline_ms=0, revoked=True))
    return Verdict(replace(fence, epoch=epoch, granted_to=own, deadline_ms=0, revoked=True, fork_gseq=fence.gseq))
