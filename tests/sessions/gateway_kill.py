"""A gateway with a SQLite file is killed at random moments: `python -m tests.sessions.gateway_kill --times 200`.

Clients append over HTTP and repeat, with its id, whatever was not acknowledged. In the end every acknowledged append has to be
there once, at the position that was told, and positions have to be dense.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import aiohttp

from tests.sessions.redis_server import free_port

ROOT = Path(__file__).parents[2]
SETTINGS = """\
version: 1
gateway: {{listen: "127.0.0.1:{listen}", admin: "127.0.0.1:{admin}", watch: false}}
providers: {{none: {{dialect: openai, base_url: "http://127.0.0.1:9/v1"}}}}
targets: {{none: {{provider: none, model: none}}}}
routes: {{none: {{targets: [none]}}}}
sessions: {{path: "{path}"}}
"""
WRITERS = 6
_GIVE_UP_S = 30.0


@dataclass(slots=True)
class Result:
    """`again`: acknowledged only when they were repeated. `there_already`: of these, how many had been stored the first time.
    `wrong`: sentences, one for each promise that was not kept."""

    kills: int = 0
    acknowledged: int = 0
    again: int = 0
    there_already: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.kills} kills: {self.acknowledged} acknowledged, {self.again} of them only when repeated "
            f"({self.there_already} had been stored), {len(self.wrong)} promises broken"
        )


class Gateway:
    """The process, started again after each kill."""

    def __init__(self, folder: Path) -> None:
        self._settings = folder / "stanchion.yaml"
        self._log = folder / "gateway.log"
        listen, admin = free_port(), free_port()
        self.url, self.admin = f"http://127.0.0.1:{listen}", f"http://127.0.0.1:{admin}"
        self._settings.write_text(SETTINGS.format(listen=listen, admin=admin, path=folder / "sessions.db"), "utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self, http: aiohttp.ClientSession) -> None:
        process = self._begin()
        end = time.monotonic() + _GIVE_UP_S
        while time.monotonic() < end:
            with suppress(aiohttp.ClientError):
                async with http.get(f"{self.admin}/readyz") as response:
                    if response.status == 200:
                        return
            if process.poll() is not None:
                break
            await asyncio.sleep(0.02)
        raise AssertionError(self._log.read_text("utf-8")[-2000:])

    def _begin(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "gateway", "serve", "--config", str(self._settings)]
            self._process = subprocess.Popen(command, cwd=ROOT, env=dict(os.environ), stdout=log, stderr=log)
        return self._process

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()


class Writer:
    """Appends one event after the other to a session of its own."""

    def __init__(self, http: aiohttp.ClientSession, url: str, name: str, result: Result) -> None:
        self.http, self.name, self.result = http, name, result
        self.path = f"{url}/v1/apps/shop/users/ann/sessions"
        self.told: dict[str, str] = {}
        self.stopped = False

    async def run(self) -> None:
        await self._until_answered(self.path, {"id": self.name}, (201, 409))
        number = 0
        while not self.stopped:
            event_id = f"{self.name}-{number}"
            body = {"events": [{"event_id": event_id, "body": {"n": number}}], "state": {"n": number}}
            answer, tries = await self._until_answered(f"{self.path}/{self.name}/events", body, (201,))
            self.told[event_id] = answer["position"]
            self.result.acknowledged += 1
            if tries > 1:
                self.result.again += 1
                self.result.there_already += bool(answer["duplicate"])
            number += 1

    async def _until_answered(self, url: str, body: Any, good: tuple[int, ...]) -> tuple[Any, int]:
        tries, end = 0, time.monotonic() + _GIVE_UP_S
        while time.monotonic() < end:
            tries += 1
            with suppress(aiohttp.ClientError, TimeoutError):
                async with self.http.post(url, json=body) as response:
                    if response.status in good:
                        return await response.json(), tries
            await asyncio.sleep(0.02)
        raise AssertionError(f"{url} was not answered within {_GIVE_UP_S:g} s")

    async def compare(self) -> None:
        """What is stored against what was told."""
        stored: list[tuple[str, str]] = []
        after = ""
        while True:
            async with self.http.get(f"{self.path}/{self.name}?limit=1000{after}") as response:
                row = await response.json()
            stored += [(event["event_id"], event["position"]) for event in row["events"]]
            if not row["more"]:
                break
            after = f"&after={stored[-1][1]}"
        ids = [event_id for event_id, _ in stored]
        where = dict(stored)
        wrong = self.result.wrong
        wrong += [f"{one} is stored {ids.count(one)} times" for one in sorted(set(ids)) if len(ids) != len(where)]
        wrong += [
            f"{one} was told {at} and is at {where.get(one)}" for one, at in self.told.items() if where.get(one) != at
        ]
        numbers = [int(at.partition("-")[2]) for _, at in stored]
        if numbers != list(range(1, len(numbers) + 1)):
            wrong.append(f"the positions of {self.name} have gaps")
        if row["state"].get("n") != len(ids) - 1:
            wrong.append(f"the state of {self.name} is not of its last append")


async def play(folder: Path, times: int, seed: int) -> Result:
    random, result = Random(seed), Result()
    gateway = Gateway(folder)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as http:
        try:
            await gateway.start(http)
            writers = [Writer(http, gateway.url, f"s{number}", result) for number in range(WRITERS)]
            running = [asyncio.ensure_future(writer.run()) for writer in writers]
            for _ in range(times):
                await asyncio.sleep(random.uniform(0.0, 0.4))
                gateway.kill()
                result.kills += 1
                await gateway.start(http)
            for writer in writers:
                writer.stopped = True
            await asyncio.gather(*running)
            for writer in writers:
                await writer.compare()
        finally:
            gateway.kill()
    return result


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sessions.gateway_kill")
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stanchion-kill-") as folder:
        result = asyncio.run(play(Path(folder), options.times, options.seed))
    print(result)
    for sentence in result.wrong[:20]:
        print(sentence, file=sys.stderr)
    return 1 if result.wrong or not result.again else 0


if __name__ == "__main__":
    sys.exit(main())
