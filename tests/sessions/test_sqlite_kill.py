"""A writer is killed at a random moment, again and again, on one file: what it was told is there, once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from random import Random

import pytest

from sessions.model import Event, Position
from sessions.sqlite.store import SqliteStore
from stanchion.clock import SystemClock
from tests.sessions.labs import KEY, dense

ROUNDS = int(os.environ.get("STANCHION_KILL_ROUNDS", "40"))
"""200 and more for the long form."""

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(30 + 5 * ROUNDS)
async def test_every_acknowledged_append_survives_the_kill_of_its_writer_and_none_is_there_twice(
    tmp_path: Path,
) -> None:
    path = tmp_path / "sessions.db"
    random = Random(20261201)
    acknowledged: list[str] = []
    in_mid_write = 0
    for number in range(ROUNDS):
        told = await _one_life(path, number, random.uniform(0.0, 0.12))
        acknowledged += told
        store = await SqliteStore.open(path, clock=SystemClock())
        epoch = (await store.take()).epoch
        # What a writer does that was cut off: it repeats the append that it had no answer for.
        unanswered = [f"{number}.{len(told) // 3}.{part}" for part in range(3)]
        repeated = await store.append(
            KEY, [Event(one, b"x" * 300) for one in unanswered], epoch=epoch, expected_version=None
        )
        in_mid_write += repeated.duplicate
        acknowledged += unanswered
        await store.close()

    store = await SqliteStore.open(path, clock=SystemClock())
    await store.take()
    stored: list[str] = []
    positions: list[Position] = []
    while True:
        page = await store.read(KEY, after=positions[-1] if positions else None)
        stored += [event.event.event_id for event in page.events]
        positions += [event.position for event in page.events]
        if not page.more:
            break
    info = await store.info(KEY)
    await store.close()
    assert stored == acknowledged
    assert dense(positions)
    assert (info.events, info.version) == (len(stored), len(stored) // 3)
    print(f"{ROUNDS} kills, {len(stored)} events, {in_mid_write} killed between commit and answer")


async def _one_life(path: Path, number: int, seconds: float) -> list[str]:
    """Start a writer, kill it so long after it began to write, and return what it said."""
    writer = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.sessions.kill_writer",
        str(path),
        str(number),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert writer.stdout is not None
        first = await writer.stdout.readline()
        assert first == b"epoch 1\n"  # it holds its grant over all these deaths: the file is the same
        await asyncio.sleep(seconds)  # the moment of death is the point
        writer.send_signal(signal.SIGKILL)
        said = (await writer.stdout.read()).decode()
        assert await writer.wait() == -signal.SIGKILL
    finally:
        if writer.returncode is None:
            writer.kill()
            await writer.wait()
    whole, _, _ = said.rpartition("\n")
    return whole.split("\n") if whole else []
