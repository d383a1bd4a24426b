"""A real `redis-server` process on a free port of loopback, in a folder of the test's."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sessions.redis.link import Link, connections

START_S = 20.0


def binary() -> str | None:
    """Where the server is, None if it is not installed."""
    return shutil.which("redis-server")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class RedisServer:
    """Started by entering, ended by its process on leaving. `settings` are lines of its configuration."""

    def __init__(self, folder: Path, *settings: str, port: int | None = None) -> None:
        self.folder, self.port = folder, port or free_port()
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            'save ""',
            f"dir {self.folder}",
            f"logfile {self.folder}/log",
            "enable-debug-command yes",
            "repl-diskless-sync-delay 0",
            *self._settings,
        ]
        config = self.folder / "redis.conf"
        config.write_text("\n".join(lines) + "\n")
        found = binary()
        assert found is not None
        self._process = subprocess.Popen([found, str(config)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            assert self._process.poll() is None, (self.folder / "log").read_text()
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as plain:
                    plain.sendall(b"PING\r\n")
                    if plain.recv(100)[:1] in {b"+", b"-"}:  # -NOAUTH is an answer too
                        return
            except OSError:
                pass
            time.sleep(0.02)
        raise AssertionError("redis-server did not start")

    def signal(self, number: signal.Signals) -> None:
        """To this process, and no other."""
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None

    async def command(self, *parts: str | bytes | int) -> Any:
        """Ask the server one thing, on a connection of its own. Raises what it refuses."""
        link = Link(connections(self.url, 5.0), most=1, timeout_s=10.0, wait_s=5.0, connect_timeout_s=5.0)
        try:
            (answer,) = await link.ask(parts)
        finally:
            await link.close()
        if isinstance(answer, Exception):
            raise answer
        return answer


async def until(condition: Callable[[], Awaitable[object]], seconds: float = 20.0) -> None:
    """Wait until an awaitable condition is true, for what another process does in its own time."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - another process's doing has no event
            await asyncio.sleep(0.01)
