"""What clients saw, as lines of JSON on the one monotonic clock of the machine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TextIO

Outcome = Literal["ok", "fail", "info"]
"""Acknowledged; refused, so that nothing may be stored; or nobody can say."""


@dataclass(frozen=True, slots=True)
class Op:
    """One append, with all its attempts: the client repeats it with its id until it is answered.

    `invoked`: the first attempt began. `sent`, `completed`: the last one began and ended. `attempts`: how many. `doubtful`: how
    many of them ended without an answer, or in doubt. `epoch`: the one that acknowledged it, later than the one of its
    `position` where it was there already. `store` and `duplicate` as acknowledged. `reply`: what the last refusal said.
    """

    proc: str
    session: str
    event_id: str
    outcome: Outcome
    invoked: float
    sent: float
    completed: float
    attempts: int = 1
    doubtful: int = 0
    epoch: int = 0
    position: str = ""
    store: str = ""
    duplicate: bool = False
    reply: str = ""


def write(op: Op, to: TextIO) -> None:
    to.write(json.dumps(asdict(op)) + "\n")
    to.flush()


def read(files: Iterable[Path]) -> list[Op]:
    """All operations, in the order in which they ended. A line that a killed process left unfinished is none."""
    found = []
    for file in files:
        for line in file.read_text("utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                found.append(Op(**json.loads(line)))
    return sorted(found, key=lambda op: op.completed)
