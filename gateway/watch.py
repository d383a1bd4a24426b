"""The file watch: whether the content of the settings file, or of a file it names, is another one than what was read last.

It looks at the content through the path as it was given, every two seconds, and at nothing else: so an editor that puts a
new file in the place of the old one, a symbolic link that is turned to another folder (as Kubernetes does with its mounts)
and a network mount that tells nobody are all the same to it. What has changed has to look the same once more before it is
read, since it may be half written; a file that is missing counts as unchanged.
"""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from gateway.settings.model import Settings, version_of
from stanchion.clock import Clock

POLL_S = 2.0
_LARGEST = 4_000_000
"""Bytes that are looked at. None of the files is that large: the settings are refused above 1 MB."""

Content = Mapping[str, str | None]
"""For each path a digest of what stands there; None for what cannot be read, or is no file."""


def files_of(settings: Settings) -> tuple[str, ...]:
    """The files that these settings come from: their own, the certificate with its key, and those that providers are
    believed by."""
    tls = settings.gateway.tls
    return (settings.path, *((tls.cert, tls.key) if tls is not None else ()), *settings.ca_files)


def content_of(paths: Iterable[str]) -> Content:
    """What stands in these files now. Blocks while it reads; they are small, and no more than 4 MB are read of any."""
    return {path: _digest(Path(path)) for path in paths}


def _digest(path: Path) -> str | None:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None  # opening a pipe would wait for its writer
        with path.open("rb") as file:
            return version_of(file.read(_LARGEST))
    except (OSError, ValueError):
        return None


class Watch:
    """Calls `changed` when the content is a new one. `read`: what was read last, whatever came of it."""

    def __init__(
        self,
        clock: Clock,
        paths: Callable[[], Iterable[str]],
        read: Callable[[], Content],
        changed: Callable[[], Awaitable[object]],
    ) -> None:
        self._clock, self._paths, self._read, self._changed = clock, paths, read, changed
        self._seen: Content | None = None

    async def run(self, on: Callable[[], bool]) -> None:
        """Look every `POLL_S` seconds while it is `on`, until cancelled."""
        while True:
            await self._clock.sleep(POLL_S)
            if on():
                await self.look()

    async def look(self) -> None:
        """One look. Returns when `changed` is done, where it was called."""
        read = self._read()
        found = await asyncio.to_thread(content_of, tuple(self._paths()))  # a mount may be slow, or away
        now = {path: digest or read.get(path) for path, digest in found.items()}
        settled, self._seen = now == self._seen, now
        if settled and any(digest != read.get(path) for path, digest in now.items()):
            self._seen = None
            await self._changed()
