"""How fast appends are, and what the fence costs: `python -m tests.sessions.bench [--seconds 3] [--folder DIR]`.

For each backend the same is done by a plain append (a row in a table of one, an entry in a stream by the same connections) and
by the fenced one, in turns within one run, so that both meet the same machine. Figures are of this process and one server.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from sessions.model import Event, SessionKey
from sessions.redis.store import RedisStore
from sessions.sqlite.store import SqliteStore
from sessions.sqlite.transaction import transaction
from sessions.store import SessionStore
from stanchion.clock import SystemClock
from tests.sessions.redis_server import RedisServer, binary, until

BODY = b'{"text":"' + b"x" * 480 + b'"}'
ROUNDS = 5

Append = Callable[[int, int], Awaitable[object]]
"""One append: of which writer, and the how manieth."""


async def measure(append: Append, writers: int, seconds: float, offset: int) -> list[float]:
    """Latencies in seconds of `writers` that append one after the other, each for itself."""
    took: list[float] = []
    end = time.perf_counter() + seconds

    async def write(writer: int) -> None:
        number = offset
        while (started := time.perf_counter()) < end:
            await append(writer, number)
            took.append(time.perf_counter() - started)
            number += 1

    await asyncio.gather(*(write(writer) for writer in range(writers)))
    return took


async def compare(name: str, plain: Append, fenced: Append, seconds: float) -> None:
    """Both in turns, for one writer and for sixteen."""
    for writers in (1, 16):
        took: dict[str, list[float]] = {"plain": [], "fenced": []}
        for turn in range(ROUNDS):
            for kind, append in (("plain", plain), ("fenced", fenced)):
                took[kind] += await measure(append, writers, seconds / ROUNDS, (writers * 100 + turn) * 1_000_000)
        for kind, times in took.items():
            p50, p99 = statistics.median(times) * 1e3, statistics.quantiles(times, n=100)[98] * 1e3
            print(
                f"{name:9} {writers:2} writers {kind:6} {len(times) / seconds:8.0f}/s  p50 {p50:6.2f} ms  p99 {p99:6.2f} ms"
            )
        print(f"{name:9} {writers:2} writers fenced/plain throughput {len(took['fenced']) / len(took['plain']):.2f}")


async def prepare(store: SessionStore, epoch: int) -> Append:
    for writer in range(16):
        await store.create(SessionKey("bench", "user", f"s{writer}"), epoch=epoch, write_id="w")

    async def append(writer: int, number: int) -> object:
        event = Event(f"e{number}", BODY, "inv", "agent")
        key = SessionKey("bench", "user", f"s{writer}")
        return await store.append(key, [event], epoch=epoch, expected_version=None, state={"n": number})

    return append


async def sqlite(folder: Path, seconds: float) -> None:
    store = await SqliteStore.open(folder / "bench.db", clock=SystemClock())
    fenced = await prepare(store, (await store.take()).epoch)

    def table(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE plain (writer INTEGER, number INTEGER, body BLOB, PRIMARY KEY (writer, number))")

    await store._writer.run(table)

    async def plain(writer: int, number: int) -> object:
        def insert(db: sqlite3.Connection) -> None:
            with transaction(db):
                db.execute("INSERT INTO plain VALUES (?, ?, ?)", (writer, number, BODY))

        return await store._writer.run(insert)

    await compare("sqlite", plain, fenced, seconds)
    await store.close()


async def redis(folder: Path, seconds: float) -> None:
    with RedisServer(folder, "appendonly yes", "appendfsync everysec") as server:
        store = RedisStore(server.url, shard="bench", now=time.monotonic)

        async def renew() -> None:
            while True:
                fence = await store.fence()
                await store.grant(1, fence.identity, fence.now_ms + 30_000)
                await asyncio.sleep(5)

        renewing = asyncio.ensure_future(renew())
        await until(lambda: _granted(store))
        fenced = await prepare(store, 1)

        async def plain(writer: int, number: int) -> object:
            return await store._link.ask(("XADD", f"plain:{writer}", "*", "id", f"e{number}", "b", BODY))

        await compare("redis", plain, fenced, seconds)
        renewing.cancel()
        await store.close()


async def _granted(store: SessionStore) -> bool:
    return (await store.fence()).epoch > 0


def machine() -> str:
    """What the figures were taken on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if "model name" in line), "?")
    system = (
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )
    return f"{os.cpu_count()} x {model}, {system}, body {len(BODY)} bytes"


async def main(seconds: float, folder: Path) -> None:
    await sqlite(folder, seconds)
    if binary() is not None:
        await redis(folder, seconds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--folder", type=Path, default=None, help="on the disk to be measured")
    asked = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory(dir=asked.folder) as made:
        uvloop.run(main(asked.seconds, Path(made)))
