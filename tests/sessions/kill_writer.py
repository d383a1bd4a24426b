"""A process that appends until it is killed: `python -m tests.sessions.kill_writer FILE ROUND`. It says on its output what
was acknowledged, an id a line, each one after the store's answer; first of all the epoch that it took."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from sessions.errors import SessionNotFound
from sessions.model import Event
from sessions.sqlite.store import SqliteStore
from stanchion.clock import SystemClock
from tests.sessions.labs import KEY


async def main(path: Path, round_number: int) -> None:
    store = await SqliteStore.open(path, clock=SystemClock())
    epoch = (await store.take()).epoch
    try:
        version = (await store.info(KEY)).version
    except SessionNotFound:
        version = (await store.create(KEY, epoch=epoch, write_id="w")).version
    os.write(1, f"epoch {epoch}\n".encode())
    number = 0
    while True:
        ids = [f"{round_number}.{number}.{part}" for part in range(3)]
        given = [Event(one, b"x" * 300) for one in ids]
        answer = await store.append(KEY, given, epoch=epoch, expected_version=version, state={"n": number})
        version = answer.version
        os.write(1, "".join(f"{one}\n" for one in ids).encode())
        number += 1


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
