"""Real `etcd` processes on free ports of loopback."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.sessions.redis_server import free_port

START_S = 30.0


def binary() -> str | None:
    """Where the server is, None if it is not installed."""
    return shutil.which("etcd")


class EtcdCluster:
    """A cluster of some members; started by entering, its processes ended on leaving."""

    def __init__(self, folder: Path, members: int = 1) -> None:
        self._folder = folder
        self._clients = [free_port() for _ in range(members)]
        self._peers = [free_port() for _ in range(members)]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def endpoints(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self._clients]

    def __enter__(self) -> Self:
        for member in range(len(self._clients)):
            self.start(member)
        for member in range(len(self._clients)):
            self._healthy(member)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in list(self._processes):
            self.kill(member)

    def start(self, member: int) -> None:
        found = binary()
        assert found is not None
        peers = ",".join(f"m{n}=http://127.0.0.1:{port}" for n, port in enumerate(self._peers))
        client, peer = self.endpoints[member], f"http://127.0.0.1:{self._peers[member]}"
        arguments = {
            "name": f"m{member}", "data-dir": str(self._folder / f"m{member}"), "initial-cluster": peers,
            "listen-client-urls": client, "advertise-client-urls": client,
            "listen-peer-urls": peer, "initial-advertise-peer-urls": peer, "initial-cluster-state": "new",
        }  # fmt: skip
        with (self._folder / f"m{member}.log").open("ab") as log:
            self._processes[member] = subprocess.Popen(
                [found, *(f"--{name}={value}" for name, value in arguments.items())], stdout=log, stderr=log
            )

    def signal(self, member: int, number: signal.Signals) -> None:
        self._processes[member].send_signal(number)

    def kill(self, member: int) -> None:
        process = self._processes.pop(member)
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()

    def _healthy(self, member: int) -> None:
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"{self.endpoints[member]}/health", timeout=1) as answer:
                    if b'"true"' in answer.read():
                        return
            except OSError:
                pass
            time.sleep(0.05)
        raise AssertionError((self._folder / f"m{member}.log").read_text()[-2000:])
