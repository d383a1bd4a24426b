"""The demo's processes end when they should: on request, and with the one that started them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from gateway.demo.leash import leashed
from gateway.demo.processes import Child, ModelEvent, ModelProcess, StartError, keep_alive

STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.stderr.write("up")
sys.stderr.flush()
time.sleep(60)
"""


def holds(path: Path, text: str) -> bool:
    return path.exists() and text in path.read_text()


def gone(pid: int) -> bool:
    """Whether the process has ended, even where whoever adopted it has not looked yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def until(path: Path, text: str) -> None:
    for _ in range(200):
        if holds(path, text):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{path} never held {text!r}")


def child(folder: Path, code: str) -> Child:
    return Child("child", (sys.executable, "-c", code), folder / "child.log")


async def test_it_tells_how_it_ended(tmp_path: Path) -> None:
    entry = child(tmp_path, "import sys; sys.stderr.write('last words'); sys.exit(3)")
    await entry.launch()
    assert await entry.ended() == "exit code 3"
    assert "last words" in str(entry.failed("ended"))
    assert not entry.running
    await entry.stop()


async def test_a_stubborn_one_is_killed(tmp_path: Path) -> None:
    entry = child(tmp_path, STUBBORN)
    await entry.launch()
    await until(entry.log, "up")
    await entry.stop(grace_s=0.2)
    assert entry.ending == "SIGKILL"


async def test_one_that_never_started_is_stopped_already(tmp_path: Path) -> None:
    await child(tmp_path, "").stop()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the leash")
async def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    log, pid = tmp_path / "log", tmp_path / "pid"
    inner = f"import os,time; open({str(pid)!r},'w').write(str(os.getpid())+'.'); time.sleep(60)"
    outer = (
        "import subprocess,sys; from gateway.demo.leash import leashed;"
        f"subprocess.run(leashed([sys.executable,'-c',{inner!r}]))"
    )
    with log.open("wb") as output:
        parent = await asyncio.create_subprocess_exec(sys.executable, "-c", outer, stderr=output)
    await until(pid, ".")
    parent.kill()
    await parent.wait()
    number = int(pid.read_text().rstrip("."))
    for _ in range(100):
        if gone(number):
            return
        await asyncio.sleep(0.05)
    os.kill(number, signal.SIGKILL)
    raise AssertionError("it outlived its parent")


def test_the_leash_keeps_the_command() -> None:
    assert leashed(["a", "b c"])[-2:] == ["a", "b c"]


async def test_a_model_that_cannot_be_loaded(tmp_path: Path) -> None:
    entry = ModelProcess("model-a", tmp_path / "missing.gguf", tmp_path / "model.log")
    with pytest.raises(StartError, match=r"model-a ended before it was ready \(exit code 1\)"):
        await entry.start()
    assert not entry.running


class Fragile(ModelProcess):
    """Starts a program that ends by itself; cannot be started more than `lives` times."""

    def __init__(self, folder: Path, lives: int) -> None:
        super().__init__("fragile", folder / "none.gguf", folder / "fragile.log")
        self._command = (sys.executable, "-c", "pass")
        self.lives = lives

    async def start(self, timeout_s: float = 60.0) -> None:
        if not self.lives:
            raise StartError("no life left")
        self.lives -= 1
        await self.launch()


async def test_the_dead_are_brought_back(tmp_path: Path) -> None:
    events: list[ModelEvent] = []
    model = Fragile(tmp_path, lives=2)
    await model.start()
    await keep_alive(model, pause_s=0.01, tell=events.append)
    assert [event.kind for event in events] == ["died", "back", "died", "failed"]
    assert [event.detail for event in events] == ["exit code 0", "", "exit code 0", "no life left"]
