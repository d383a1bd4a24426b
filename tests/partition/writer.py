"""A client of one gateway, as a process: appends to sessions one event after the other, and writes down what it was told."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TextIO

import aiohttp

from tests.partition.history import Op, write

APP, USER = "shop", "ann"
CALLER_KEY = "a-caller-of-the-partition-tests"

_ATTEMPT_S = 8.0
_PAUSE_S = 0.005
_RETRY_S = 0.03
_GIVES_UP = 0.2
"""The share of refused events that are not tried again, so that there are some that must never turn up."""


class Writer:
    """Writes one session. `told` takes the history."""

    def __init__(self, http: aiohttp.ClientSession, url: str, session: str, told: TextIO, random: Random) -> None:
        self._http, self._told, self._random = http, told, random
        self._sessions = f"{url}/v1/apps/{APP}/users/{USER}/sessions"
        self.session = session
        self.stopped = False

    async def run(self) -> None:
        if not await self._create():
            return
        number = 0
        while not self.stopped:
            await self._append(f"{self.session}-{number}")
            number += 1
            await asyncio.sleep(_PAUSE_S)

    async def _create(self) -> bool:
        """False where it was stopped before there was a session."""
        while not self.stopped:
            try:
                async with self._http.post(self._sessions, json={"id": self.session}) as response:
                    if response.status in (201, 409):
                        return True
            except (aiohttp.ClientError, TimeoutError):
                pass
            await asyncio.sleep(_RETRY_S)
        return False

    async def _append(self, event_id: str) -> None:
        first = time.monotonic()
        op = Op(self.session, self.session, event_id, "info", first, first, first, attempts=0)
        while True:
            op = await self._attempt(replace(op, sent=time.monotonic(), attempts=op.attempts + 1))
            given_up = op.outcome == "fail" and self._random.random() < _GIVES_UP
            if op.outcome == "ok" or self.stopped or given_up:
                break
            await asyncio.sleep(_RETRY_S)
        if op.outcome == "fail" and op.doubtful:  # an earlier attempt may have been stored
            op = replace(op, outcome="info")
        write(op, self._told)

    async def _attempt(self, op: Op) -> Op:
        event = {"event_id": op.event_id, "body": op.event_id}
        try:
            async with self._http.post(f"{self._sessions}/{self.session}/events", json={"events": [event]}) as response:
                answer = await response.json()
                status, headers = response.status, response.headers
        except aiohttp.ClientConnectorError as error:  # it was not sent
            return replace(op, outcome="fail", completed=time.monotonic(), reply=str(error))
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            return replace(op, outcome="info", completed=time.monotonic(), doubtful=op.doubtful + 1, reply=repr(error))
        ended = replace(op, completed=time.monotonic())
        if status == 201:
            return replace(
                ended, outcome="ok", epoch=int(headers["x-stanchion-epoch"]), position=answer["position"],
                store=headers["x-stanchion-store-region"], duplicate=answer["duplicate"],
            )  # fmt: skip
        told = answer.get("error", {})
        reply = f"{status} {told.get('code')}: {told.get('message')}"
        if status >= 500 and told.get("code") not in ("store_unavailable", "fence_lost"):
            return replace(ended, outcome="info", doubtful=op.doubtful + 1, reply=reply)
        return replace(ended, outcome="fail", reply=reply)


async def write_sessions(url: str, name: str, sessions: int, file: Path, seed: int) -> None:
    loop = asyncio.get_running_loop()
    timeout = aiohttp.ClientTimeout(total=_ATTEMPT_S)
    headers = {"authorization": f"Bearer {CALLER_KEY}"}
    with file.open("a", encoding="utf-8") as told:
        async with aiohttp.ClientSession(timeout=timeout, headers=headers) as http:
            writers = [Writer(http, url, f"{name}-{n}", told, Random(f"{seed}-{n}")) for n in range(sessions)]

            def stop() -> None:
                for one in writers:
                    one.stopped = True

            loop.add_signal_handler(signal.SIGTERM, stop)
            print("ready", flush=True)
            await asyncio.gather(*(one.run() for one in writers))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.partition.writer")
    parser.add_argument("--url", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--sessions", type=int, default=2)
    parser.add_argument("--history", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    asyncio.run(write_sessions(options.url, options.name, options.sessions, options.history, options.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
