"""Rounds: clients write, something fails and comes back, and what was told is held against what is stored."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import Any

from tests.partition.checker import Findings, check
from tests.partition.cluster import Cluster
from tests.partition.faults import FAULTS
from tests.partition.history import Op

PARTS = ("detect", "decide", "fence_wait", "promote", "open")
"""The steps of a failover, in their order."""


@dataclass(frozen=True, slots=True)
class Round:
    """`rto_s`: seconds from the fault to the first append that was acknowledged by a newer epoch; None where no
    epoch began. `parts_s`: of that, what the promotion says of its steps, and `first ok`, from its end on."""

    fault: str
    epochs: int
    findings: Findings
    rto_s: float | None
    parts_s: dict[str, float] = field(default_factory=dict)


async def play(cluster: Cluster, fault: str, number: int, random: Random) -> Round:
    """One round. Raises AssertionError where the shard does not become well again."""
    before = await cluster.well()
    held = await cluster.holder()
    cluster.write(f"r{number}", random)
    await cluster.written(100)
    began = time.monotonic()
    await FAULTS[fault](cluster, held, cluster.lease_s * random.uniform(3.5, 5.0))
    after = await cluster.well()
    ops = await cluster.stop_writing()
    findings = check(ops, await cluster.stored({op.session for op in ops}), may_lose=cluster.mode == "async")
    rto_s = _rto(ops, began, before["epoch"])
    parts = _parts(after["promotions"], before["epoch"], rto_s)
    return Round(fault, after["epoch"] - before["epoch"], findings, rto_s, parts)


def _rto(ops: Sequence[Op], began: float, epoch: int) -> float | None:
    firsts = [op.completed for op in ops if op.outcome == "ok" and op.epoch > epoch and op.completed > began]
    return min(firsts) - began if firsts else None


def _parts(promotions: Sequence[dict[str, Any]], epoch: int, rto_s: float | None) -> dict[str, float]:
    """Of the round's first promotion, if it was one because the primary was lost."""
    first = min((one for one in promotions if one["epoch"] > epoch), key=lambda one: one["epoch"], default=None)
    if first is None or first["kind"] != "failover" or first["forced"] or rto_s is None:
        return {}
    parts = {name: first["steps_s"].get(name, 0.0) for name in PARTS}
    return {**parts, "first ok": max(0.0, rto_s - sum(parts.values()))}


@dataclass(slots=True)
class Totals:
    """Of many rounds."""

    rounds: int = 0
    promotions: int = 0
    acknowledged: int = 0
    refused: int = 0
    lost: int = 0
    exported: int = 0
    overlap: int = 0
    twice: int = 0
    doubtful: dict[str, int] = field(default_factory=dict)
    rto_s: list[float] = field(default_factory=list)
    parts_s: dict[str, list[float]] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def add(self, one: Round) -> None:
        found = one.findings
        self.rounds += 1
        self.promotions += one.epochs
        self.acknowledged += found.acknowledged
        self.refused += found.refused
        self.lost += found.lost
        self.exported += found.exported
        self.overlap += found.overlap
        self.twice += found.twice
        for how, count in found.doubtful.items():
            self.doubtful[how] = self.doubtful.get(how, 0) + count
        self.broken += [f"{one.fault}: {sentence}" for sentence in found.broken]
        if one.parts_s and one.rto_s is not None:
            self.rto_s.append(one.rto_s)
            for name, seconds in one.parts_s.items():
                self.parts_s.setdefault(name, []).append(seconds)

    def row(self, name: str) -> str:
        doubts = ", ".join(f"{count} {how}" for how, count in sorted(self.doubtful.items())) or "none"
        rto = f"{median(self.rto_s):.2f} / {max(self.rto_s):.2f} s" if self.rto_s else "–"
        return (
            f"| {name} | {self.rounds} | {self.promotions} | {self.acknowledged} | {self.lost} | {self.exported} | "
            f"{self.overlap} | {self.twice} | {doubts} | {rto} |"
        )

    def split(self) -> str:
        return ", ".join(f"{name} {median(seconds):.2f} s" for name, seconds in self.parts_s.items())


HEAD = (
    "| run | rounds | new epochs | acknowledged | lost | of these exported | overlap | twice | in doubt | RTO median / max |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)
