"""Named points at which a test has the process die, to see whether somebody else goes on. Off unless handed in."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

CrashPoint = Callable[[str], None]
"""Called with the name of each step that is about to be taken."""

VARIABLE = "STANCHION_CRASH_AT"


def nowhere(name: str) -> None:
    """Goes on."""


def from_environment(environ: Mapping[str, str]) -> CrashPoint:
    """Dies, without any cleaning up, at the point that the variable names."""
    wanted = environ.get(VARIABLE)
    if not wanted:
        return nowhere

    def at(name: str) -> None:
        if name == wanted:
            os._exit(137)

    return at
