"""The command line as a user runs it: a process with arguments, an environment and an exit code."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LEFT_OUT = ("STANCHION_ADMIN_TOKEN", "FORCE_COLOR", "COLUMNS", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")


@dataclass(frozen=True)
class Finished:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


def environment(**more: str) -> dict[str, str]:
    """This process's environment without what would change a result, and with `more`."""
    kept = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


async def stanchion(*arguments: str, env: Mapping[str, str] | None = None, timeout_s: float = 30.0) -> Finished:
    """Run `stanchion ARGUMENTS` to its end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gateway",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(**(env or {})),
        cwd=ROOT,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), timeout_s)
    except BaseException:
        process.kill()
        await process.wait()
        raise
    assert process.returncode is not None
    return Finished(process.returncode, out.decode(), err.decode())
