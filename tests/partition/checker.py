"""Whether what clients were told holds, given what is stored in the end and what was exported: pure.

The rules are those of the promise. An acknowledged append is stored exactly once, at the position that was told - or, where
replication is asynchronous, in the exported tail of a promotion. A refused one is nowhere. Positions of a session have no gaps,
and their epochs never go back. And once somebody was told of a newer epoch, no append that began after that is acknowledged by
an older one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.partition.history import Op

Position = tuple[int, int]
"""Epoch and number."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What there is in the end. `events`: of each session the ids and positions, in order. `exported`: ids and positions of the
    tails of promotions."""

    events: Mapping[str, Sequence[tuple[str, Position]]]
    exported: frozenset[tuple[str, Position]] = frozenset()


@dataclass(slots=True)
class Findings:
    """`lost`: acknowledged and not stored at the end; `exported`: how many of them are in a tail. `doubtful`: operations that
    were in doubt at some time, by how that ended. `overlap`: appends that began after a newer epoch had acknowledged one, and
    were acknowledged by an older epoch. `broken`: sentences, one for each rule that does not hold."""

    acknowledged: int = 0
    refused: int = 0
    lost: int = 0
    exported: int = 0
    overlap: int = 0
    twice: int = 0
    doubtful: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)


def check(ops: Sequence[Op], stored: Stored, *, may_lose: bool) -> Findings:
    """`may_lose`: acknowledged appends may be in the exported tail in place of the store."""
    found = Findings()
    where = {event_id: at for events in stored.events.values() for event_id, at in events}
    for session, events in stored.events.items():
        _in_order(session, events, found)
    tail_ids = {event_id for event_id, _ in stored.exported}
    for op in ops:
        if op.outcome == "ok":
            _acknowledged(op, where, stored, found, may_lose=may_lose)
        elif op.outcome == "fail":
            found.refused += 1
            if op.event_id in where or op.event_id in tail_ids:
                found.broken.append(f"{op.event_id} was refused ({op.reply}), and is stored")
        if op.doubtful:
            found.doubtful[_how(op, where, tail_ids)] += 1
    _overlaps(ops, found)
    return found


def _in_order(session: str, events: Sequence[tuple[str, Position]], found: Findings) -> None:
    counts = Counter(event_id for event_id, _ in events)
    for event_id, count in counts.items():
        if count > 1:
            found.twice += 1
            found.broken.append(f"{event_id} is stored {count} times")
    numbers = [number for _, (_, number) in events]
    if numbers != list(range(1, len(numbers) + 1)):
        gap = next(at for at, number in enumerate(numbers, 1) if number != at)
        found.broken.append(f"{session} has number {numbers[gap - 1]} where {gap} was to be")
    epochs = [epoch for _, (epoch, _) in events]
    if epochs != sorted(epochs):
        found.broken.append(f"the epochs of {session} go back")


def _acknowledged(op: Op, where: Mapping[str, Position], stored: Stored, found: Findings, *, may_lose: bool) -> None:
    found.acknowledged += 1
    told = _position(op.position)
    if told[0] > op.epoch:
        found.broken.append(f"{op.event_id} was acknowledged in epoch {op.epoch} with a position of {told[0]}")
    at = where.get(op.event_id)
    if at == told:
        return
    if (op.event_id, told) in stored.exported:
        found.lost += 1
        found.exported += 1
        if not may_lose:
            found.broken.append(f"{op.event_id} was acknowledged, and is only in an exported tail")
    elif at is not None:
        found.broken.append(f"{op.event_id} was acknowledged at {told}, and is at {at}")
    else:
        found.lost += 1
        found.broken.append(f"{op.event_id} was acknowledged in epoch {op.epoch}, and is nowhere")


def _how(op: Op, where: Mapping[str, Position], tail_ids: set[str]) -> str:
    if op.outcome == "ok":
        return "was stored" if op.duplicate else "stored by repeating"
    if op.event_id in where:
        return "stored, never told"
    return "in the tail" if op.event_id in tail_ids else "not stored"


def _overlaps(ops: Sequence[Op], found: Findings) -> None:
    acknowledged = sorted((op for op in ops if op.outcome == "ok"), key=lambda op: op.completed)
    ends = [op.completed for op in acknowledged]
    newest: list[int] = []
    for op in acknowledged:
        newest.append(max(op.epoch, newest[-1] if newest else 0))
    for op in acknowledged:
        before = bisect_left(ends, op.sent)
        if before and newest[before - 1] > op.epoch:
            found.overlap += 1
            found.broken.append(
                f"{op.event_id} began when epoch {newest[before - 1]} had acknowledged, and epoch {op.epoch} acknowledged it "
                f"({op}, after {acknowledged[before - 1]})"
            )


def _position(text: str) -> Position:
    epoch, _, number = text.partition("-")
    return int(epoch), int(number)
