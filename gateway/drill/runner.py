"""Runs the rows of a drill: every row under each way to commit, streamed and plain, each on a stage of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.drill.judge import Judgement, Verdict, worst
from gateway.drill.row import Row
from gateway.drill.seen import Commit
from gateway.drill.stage import NoAnswer, stage
from gateway.serve import CannotBind
from gateway.settings.problems import SettingsError
from stanchion.clock import SystemClock

COMMITS: tuple[Commit, ...] = ("first_output", "complete")
FAST = 10.0
"""How much faster time runs unless the real durations are asked for: at more, the machine's own delays would be judged."""

_AT_ONCE, _AT_ONCE_REAL = 8, 48
"""Stages at a time, with fast and with real time. They mostly wait, but one that is being set up holds up all others."""


class CannotRun(Exception):
    """The drill could not be run; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One scene: a row under one way to commit, streamed or plain. `seconds` are real ones."""

    row: Row
    commit: Commit
    stream: bool
    judgement: Judgement
    seconds: float

    @property
    def mode(self) -> str:
        return "streamed" if self.stream else "plain"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A whole drill. `seconds` are real ones."""

    rows: tuple[Row, ...]
    commits: tuple[Commit, ...]
    cells: tuple[Cell, ...]
    speed: float
    seconds: float

    def of(self, row: Row, commit: Commit) -> tuple[Cell, ...]:
        """The scenes of a row under one way to commit."""
        return tuple(cell for cell in self.cells if cell.row is row and cell.commit == commit)

    def verdict(self, row: Row, commit: Commit) -> Verdict:
        """That of the worst scene: streamed and plain both have to pass."""
        return worst([cell.judgement.verdict for cell in self.of(row, commit)])

    @property
    def ok(self) -> bool:
        """Whether no row fails."""
        return bool(self.cells) and all(cell.judgement.verdict is not Verdict.FAIL for cell in self.cells)


async def run(
    rows: Sequence[Row], commits: Sequence[Commit], *, speed: float, told: Callable[[int, int], None] | None = None
) -> Outcome:
    """Run them all. `told` hears after each scene how many of all are over. Raises CannotRun."""
    clock = SystemClock()
    began = clock.now()
    scenes = [
        (row, commit, stream)
        for row in rows
        for commit in commits
        for stream in (True, False)
        if (row.streamed if stream else row.plain)
    ]
    places = asyncio.Semaphore(_AT_ONCE_REAL if speed == 1 else _AT_ONCE)
    over = 0

    async def one(row: Row, commit: Commit, stream: bool) -> Cell:
        nonlocal over
        async with places:
            cell = await play(row, commit, stream=stream, speed=speed)
        over += 1
        if told is not None:
            told(over, len(scenes))
        return cell

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(*scene)) for scene in scenes]
    except* (OSError, CannotBind, SettingsError) as errors:
        raise CannotRun(_words(errors.exceptions[0])) from None
    cells = tuple(task.result() for task in tasks)
    return Outcome(tuple(rows), tuple(commits), cells, speed, clock.now() - began)


async def play(row: Row, commit: Commit, *, stream: bool, speed: float) -> Cell:
    """One scene, judged."""
    clock = SystemClock()
    began = clock.now()
    async with stage(row, commit, stream=stream, speed=speed) as live:
        await row.scene(live)
        try:
            judgement = row.judge(await live.observe())
        except NoAnswer as error:
            judgement = Judgement(Verdict.FAIL, str(error))
    return Cell(row, commit, stream, judgement, clock.now() - began)


def _words(error: BaseException) -> str:
    if isinstance(error, SettingsError):
        problem = error.problems[0]
        return f"the settings of the drill are refused: {problem.path}: {problem.message}"
    said = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return f"a scene could not be set up: {said}; free ports and file handles, and try again"
