"""Starts a program that must not outlive the one that started it.

On Linux the kernel ends it when its parent is gone, even when the parent was killed and could not clean up. The setting
survives `exec`, so the program runs under the same process id and knows nothing of it. Elsewhere it runs without.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def leashed(command: Sequence[str]) -> list[str]:
    """The command line that runs `command` on a leash held by this process (by the thread that starts it)."""
    return [sys.executable, "-m", "gateway.demo.leash", str(os.getpid()), *command]


def main(argv: Sequence[str]) -> int:
    """`PARENT_PID PROGRAM ARGUMENTS…`: replaces this process; returns only if the parent is gone already."""
    parent, command = int(argv[0]), list(argv[1:])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() == parent:  # else it ended before the leash was on
        os.execvp(command[0], command)  # noqa: S606 - no shell is the point
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
