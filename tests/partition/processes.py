"""Processes of a place: started, frozen, killed and started again; only ever by their own pid."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Process:
    """`command` as it is started each time. `environ` is added to this process's own."""

    def __init__(self, command: Sequence[str], log: Path, environ: Mapping[str, str] | None = None) -> None:
        self.command, self.log, self.environ = list(command), log, dict(environ or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, **environ: str) -> None:
        assert not self.runs
        variables = {**os.environ, **self.environ, **environ}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command, cwd=ROOT, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def freeze(self) -> None:
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """At once, and it leaves nothing behind."""
        if self._process is not None:
            if self.runs:
                self._send(signal.SIGCONT)
                self._process.kill()
            self._process.wait()

    def end(self, seconds: float = 20.0) -> int:
        """As a person would; the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(seconds)

    def tail(self, characters: int = 3000) -> str:
        return self.log.read_text("utf-8", "replace")[-characters:] if self.log.exists() else ""

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
