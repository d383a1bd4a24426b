"""Reloads: the settings file is read again, checked as at start, and taken over as a whole or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gateway.service import Service
from gateway.settings.load import load
from gateway.settings.model import Settings
from gateway.settings.problems import Problem, SettingsError
from gateway.watch import Content, content_of, files_of
from llm.spec import RouteSpec, TargetSpec
from stanchion.faults import place_of

Ready = Callable[[], None]
Prepare = Callable[[Settings], Ready]
"""Makes ready whatever else has to change with the settings, in a thread and changing nothing; what it returns changes it,
at once and without fail. Raises SettingsError where that cannot be."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What came of a reload: `version` is that of the settings in force now, `problems` why the new ones are not."""

    version: str
    problems: tuple[Problem, ...] = ()

    @property
    def applied(self) -> bool:
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        if self.applied:
            return {"applied": True, "version": self.version}
        return {"applied": False, "version": self.version, "problems": [one.as_dict() for one in self.problems]}


class Reloader:
    """Reloads the settings of a service, one reload after the other. It has to be closed.

    `environ` is the environment that the variables of the file are taken from. `read` is the content of the files as it was
    when they were read last, whatever came of it.
    """

    def __init__(self, service: Service, environ: Mapping[str, str], prepare: Prepare) -> None:
        self._service, self._environ, self._prepare = service, environ, prepare
        self._one = asyncio.Lock()
        self._waiting: asyncio.Task[Reloaded] | None = None
        self._tasks: set[asyncio.Task[Reloaded]] = set()
        settings = service.settings
        self.read: Content = {**content_of(files_of(settings)), settings.path: settings.version}

    def request(self, trigger: str) -> asyncio.Task[Reloaded]:
        """A reload that reads the file after this call; it goes on whoever waits for it. `trigger` is for the log.

        Who asks while another reload waits for its turn gets that one: it has not read anything yet.
        """
        if self._waiting is None:
            self._waiting = asyncio.ensure_future(self._reload(trigger))
            self._tasks.add(self._waiting)
            self._waiting.add_done_callback(self._tasks.discard)
        return self._waiting

    async def reload(self, trigger: str) -> Reloaded:
        """A reload, waited for. It goes on should the wait be cancelled."""
        return await asyncio.shield(self.request(trigger))

    async def close(self) -> None:
        """Wait for what is under way. The service has to drain before, so that nothing is taken over any more."""
        await asyncio.gather(*self._tasks)

    async def _reload(self, trigger: str) -> Reloaded:
        service = self._service
        async with self._one:
            self._waiting = None
            before = service.settings
            try:
                self._refuse_while_draining()
                # In a thread: it takes tens of milliseconds, for which no request should wait.
                settings, ready = await asyncio.to_thread(self._check, before)
                self._refuse_while_draining()
                retired = service.take_over(settings)
                ready()
            except SettingsError as error:
                return self._refused(trigger, error.problems)
            except Exception as error:  # noqa: BLE001 - a fault of the gateway's own must not end what runs
                service.log.event("error", "crash", kind=type(error).__name__, where=place_of(error))
                message = "the gateway failed over these settings and goes on with the old ones: see crash in its log"
                return self._refused(trigger, (self._problem(message),))
            self._applied(trigger, before, settings)
            await retired.retire(service.engine)
            return Reloaded(settings.version)

    def _check(self, running: Settings) -> tuple[Settings, Ready]:
        """The file's settings, checked in full, and what has to change with them. Raises SettingsError."""
        if _is_pipe(Path(running.path)):
            message = "the settings came through a pipe, which is read once: write them to a file, and start with that"
            raise SettingsError((self._problem(message),))
        before = self.read = content_of(files_of(running))
        settings = load(Path(running.path), self._environ, running.gateway)
        if (other := _fixed(running, settings)) is not None:
            raise SettingsError((self._problem(other),))
        # What was seen before it was loaded counts: a file that changes in between is found by the watch, and loaded again.
        now = content_of(files_of(settings))
        self.read = {
            **{path: before.get(path, digest) for path, digest in now.items()},
            settings.path: settings.version,
        }
        return settings, self._prepare(settings)

    def _refuse_while_draining(self) -> None:
        if self._service.draining:
            raise SettingsError((self._problem("the gateway drains and will stop: start another one"),))

    def _problem(self, message: str) -> Problem:
        return Problem(self._service.settings.path, 1, 1, "", message)

    def _refused(self, trigger: str, problems: tuple[Problem, ...]) -> Reloaded:
        version = self._service.settings.version
        said = [str(problem) for problem in problems]
        self._service.metrics.reloaded(applied=False)
        self._service.log.event(
            "error", "reload", applied=False, trigger=trigger, settings_version=version, problems=said
        )
        return Reloaded(version, problems)

    def _applied(self, trigger: str, before: Settings, now: Settings) -> None:
        self._service.metrics.reloaded(applied=True)
        self._service.log.event(
            "info", "reload", applied=True, trigger=trigger, settings_version=now.version, before=before.version,
            targets=_difference(before.targets, now.targets), routes=_difference(before.routes, now.routes),
        )  # fmt: skip


def _fixed(running: Settings, settings: Settings) -> str | None:
    """What of the sessions cannot change while the gateway runs."""
    kept = replace(settings.sessions, retention_s=running.sessions.retention_s)
    placements = {caller.name: caller.placement for caller in running.callers}
    moved = [one.name for one in settings.callers if placements.get(one.name, one.placement) != one.placement]
    if kept != running.sessions or settings.authority != running.authority:
        return (
            "sessions and authority cannot change while the gateway runs, but for the retention: restart it, or write the "
            "old ones again"
        )
    if moved:
        return f"the placement of the caller {moved[0]} cannot change, since its sessions do not move: write the old one again"
    return None


def _is_pipe(path: Path) -> bool:
    try:
        return path.is_fifo()
    except OSError:
        return False  # reading it says why it cannot be read


def _difference(before: Sequence[TargetSpec | RouteSpec], now: Sequence[TargetSpec | RouteSpec]) -> list[str] | None:
    """Names that came (`+`), went (`-`) or mean something else now (`~`); None where there are none."""
    old, new = ({one.name: one for one in specs} for specs in (before, now))
    came = [f"+{name}" for name in new if name not in old]
    went = [f"-{name}" for name in old if name not in new]
    other = [f"~{name}" for name, spec in new.items() if name in old and old[name] != spec]
    return [*came, *went, *other] or None
