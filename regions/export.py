"""What a promotion lost, written out by the region that was left, and told to the shard that goes on.

A file of JSON lines, of which the first says what it is and the last how much: a file without its last line is one that was
not finished, and the export is done again. Nothing of it is ever put back by itself: what came after stands.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from regions.record import Loss
from sessions.model import SessionKey
from sessions.tail import Lost, LostCreation, LostDeletion, LostEvent, LostSession, LostState

_AT_ONCE = 500
"""Lines that are written together."""


@dataclass(frozen=True, slots=True)
class Exported:
    """`events` and `turns`: how many, a turn being one append. `sessions`: what each lost; no events where only its
    creation or deletion was lost."""

    file: Path
    events: int
    turns: int
    creations: int
    deletions: int
    sessions: dict[SessionKey, LostSession]

    def as_dict(self) -> dict[str, Any]:
        return {
            "file": str(self.file), "events": self.events, "turns": self.turns, "sessions": len(self.sessions),
            "creations": self.creations, "deletions": self.deletions,
        }  # fmt: skip


def file_of(folder: Path, shard: str, loss: Loss) -> Path:
    return folder / f"{shard}-epoch-{loss.epoch}-{loss.identity[:8]}.jsonl"


async def export(tail: AsyncIterator[Lost], folder: Path, shard: str, loss: Loss) -> Exported:
    """Write the tail to its file, which replaces one that is there: the same store has the same tail. Raises OSError and what
    the store raises."""
    path = file_of(folder, shard, loss)
    head = {"shard": shard, "epoch": loss.epoch, "region": loss.region, "above_gseq": loss.fork_gseq}
    count: Counter[str] = Counter()
    sessions: dict[SessionKey, LostSession] = {}
    turns: set[int] = set()
    out = await asyncio.to_thread(_Unfinished, path)
    try:
        lines = [_line({"kind": "tail", "version": 1, **head})]
        async for lost in tail:
            lines.append(_line(_row(lost)))
            count[type(lost).__name__] += 1
            before = sessions.setdefault(lost.key, LostSession())
            if isinstance(lost, LostEvent):
                stored = lost.stored
                sessions[lost.key] = LostSession(before.events + 1, stored.version, stored.position.seq)
                turns.add(lost.stored.gseq)
            if len(lines) == _AT_ONCE:
                await asyncio.to_thread(out.write, lines)
                lines = []
        end = {"kind": "end", "events": count["LostEvent"], "turns": len(turns), "sessions": len(sessions)}
        await asyncio.to_thread(out.write, [*lines, _line(end)])
        await asyncio.to_thread(out.finish)
    finally:
        out.close()
    return Exported(path, count["LostEvent"], len(turns), count["LostCreation"], count["LostDeletion"], sessions)


class _Unfinished:
    """A file that takes its name when it is whole and on the disk."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._part = path, path.with_suffix(".part")
        self._file = os.fdopen(os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")

    def write(self, lines: list[bytes]) -> None:
        self._file.writelines(lines)

    def finish(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._part.replace(self._path)

    def close(self) -> None:
        self._file.close()


def _row(lost: Lost) -> dict[str, Any]:
    key = {"app": lost.key.app, "user": lost.key.user, "session": lost.key.session}
    match lost:
        case LostEvent():
            stored, event = lost.stored, lost.stored.event
            return {
                "kind": "event", **key, "position": str(stored.position), "version": stored.version, "gseq": stored.gseq,
                "at_ms": stored.at_ms, "event_id": event.event_id, "invocation_id": event.invocation_id,
                "author": event.author, "tag": event.tag, "body": orjson.Fragment(event.body),
            }  # fmt: skip
        case LostCreation():
            return {"kind": "creation", **key, "gseq": lost.gseq}
        case LostDeletion():
            return {"kind": "deletion", **key, "gseq": lost.gseq, "reason": lost.reason, "at_ms": lost.at_ms}
        case LostState():
            return {"kind": "state", **key, "state": dict(lost.state)}


def _line(row: dict[str, Any]) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
