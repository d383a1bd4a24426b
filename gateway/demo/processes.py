"""The demo's processes: a model server, the gateway, and whoever brings a dead model back.

Each process gets a session of its own, so that Ctrl-C reaches only the demo, which then ends them in order; and each is on
the leash (see `gateway.demo.leash`), so that none is left when the demo itself is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gateway.demo.leash import leashed
from gateway.demo.model_server import READY

_LOG_LINES = 5


class StartError(Exception):
    """A process did not come up. The message ends with the last lines of its log."""


class Child:
    """A process of ours, started at most once at a time. What it writes goes to `log`."""

    def __init__(self, name: str, command: Sequence[str], log: Path, environ: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.log = log
        self._command = tuple(command)
        self._environ = dict(environ) if environ is not None else None
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Of the process that runs now, or ran last. Raises RuntimeError before the first start."""
        return self._started().pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def ending(self) -> str | None:
        """How it ended, `SIGKILL` or `exit code 1`; None while it runs."""
        code = self._started().returncode
        if code is None:
            return None
        if code >= 0:
            return f"exit code {code}"
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
        return f"signal {-code}"

    async def launch(self, *, piped: bool = False) -> asyncio.subprocess.Process:
        """Start the process and return without waiting for it to be of use. Raises StartError.

        `piped`: its stdout is for the caller to read, as far as it is ever written to, and not for the log.
        """
        if self.running:
            raise RuntimeError(f"{self.name} runs already")
        try:
            with self.log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *leashed(self._command),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE if piped else log,
                    stderr=log,
                    start_new_session=True,
                    env=self._environ,
                )
        except OSError as error:
            raise StartError(f"{self.name} could not be started: {error}") from error
        return self._process

    async def ended(self) -> str:
        """Wait for its end, however it comes."""
        await self._started().wait()
        return self.ending or ""

    async def stop(self, grace_s: float = 5.0) -> None:
        """End it: SIGTERM, and SIGKILL when that did not help. Nothing happens if it is gone already."""
        if self._process is None:
            return
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), grace_s)
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        await self._process.wait()

    def kill(self) -> None:
        """SIGKILL, as a crash would have it: nothing is finished, nobody is told."""
        if self.running:
            self._started().kill()

    def last_lines(self) -> str:
        """The end of its log, for a message."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(line for line in lines[-_LOG_LINES:] if line.strip())

    def failed(self, what: str) -> StartError:
        """The error that says what happened and shows the end of the log."""
        lines = self.last_lines()
        return StartError(f"{self.name} {what} (log: {self.log})" + (f"\n{lines}" if lines else ""))

    def _started(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._process


class ModelProcess(Child):
    """A model server on this machine. It comes back on the port that it had."""

    def __init__(self, name: str, model: Path, log: Path, port: int = 0) -> None:
        super().__init__(name, (), log)
        self._model = model
        self.port = port

    @property
    def base_url(self) -> str:
        """What the OpenAI SDK takes as its base URL. Only after the first start."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def start(self, timeout_s: float = 60.0) -> None:
        """Start it and wait until it answers. Raises StartError; nothing runs then."""
        arguments = ("--model", str(self._model), "--port", str(self.port), "--name", self.name)
        self._command = (sys.executable, "-m", "gateway.demo.model_server", *arguments)
        process = await self.launch(piped=True)
        try:
            if process.stdout is None:
                raise RuntimeError("launch() was asked for a pipe")
            line = await asyncio.wait_for(process.stdout.readline(), timeout_s)
            if not line.startswith(READY.encode()):
                await process.wait()
                raise self.failed(f"ended before it was ready ({self.ending})")
        except TimeoutError:
            await self.stop()
            raise self.failed(f"was not ready after {timeout_s:g} s") from None
        except BaseException:
            await self.stop()
            raise
        self.port = int(line.decode().rstrip().rpartition(":")[2])


@dataclass(frozen=True, slots=True)
class ModelEvent:
    """What happened to a model. `detail`: how it died, or why it does not come back."""

    kind: Literal["died", "back", "failed"]
    model: ModelProcess
    detail: str = ""


async def keep_alive(model: ModelProcess, *, pause_s: float, tell: Callable[[ModelEvent], None]) -> None:
    """Start the model again, `pause_s` after each death, until cancelled or until it cannot be started."""
    while True:
        tell(ModelEvent("died", model, await model.ended()))
        await asyncio.sleep(pause_s)
        try:
            await model.start()
        except StartError as error:
            tell(ModelEvent("failed", model, str(error)))
            return
        tell(ModelEvent("back", model))
