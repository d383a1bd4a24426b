"""The gateway process: bind, serve, drain, stop."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import ssl
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TextIO

from aiohttp import web

from gateway import applications
from gateway.certificate import Certificate, loaded
from gateway.log import quiet_libraries
from gateway.log_writer import LogWriter
from gateway.policy import TlsPolicy, split_address
from gateway.regional.admin import RegionalAdmin
from gateway.reload import Reloader
from gateway.server import GatewayRunner
from gateway.service import Service
from gateway.sessions.retention import Retention
from gateway.settings.model import Settings
from gateway.settings.problems import Problem, SettingsError
from gateway.shared.sharing import Sharing, start_sharing
from gateway.watch import Watch, files_of
from gateway.wiring import build
from regions.crash import from_environment
from stanchion import __version__

EXIT_OK, EXIT_CANNOT_BIND = 0, 3
_BACKLOG = 1024


class CannotBind(Exception):
    """An address cannot be used; the message says which and why."""


class Server:
    """A service behind its two addresses. `listen` and `admin` are the bound (host, port) once started.

    `environ`: where reloads take the variables of the settings from.
    """

    def __init__(self, service: Service, environ: Mapping[str, str] = MappingProxyType({})) -> None:
        self.service = service
        self.reloader = Reloader(service, environ, self._prepare)
        gateway = service.settings.gateway
        self._public = GatewayRunner(applications.public(service), header_timeout_s=gateway.header_timeout)
        self._regional = RegionalAdmin(service.stores.install, gateway.region)
        admin = applications.admin(service, self.reloader, self._regional)
        self._admin = GatewayRunner(admin, header_timeout_s=gateway.header_timeout)
        self._certificate: Certificate | None = None
        self._watching: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._sharing: Sharing | None = None
        self.listen: tuple[str, int] = ("", 0)
        self.admin: tuple[str, int] = ("", 0)

    async def start(self) -> None:
        """Bind both addresses, and begin with what other gateways of the region know. Raises CannotBind."""
        gateway = self.service.settings.gateway
        if gateway.shared_state is not None:
            self._sharing = await start_sharing(self.service, gateway.shared_state.get_secret_value())
        self.admin = await _bind(self._admin, gateway.admin, "gateway.admin", None)
        tls = None
        if gateway.tls is not None:
            self._certificate = _certificate(gateway.tls)
            tls = self._certificate.context
        self.listen = await _bind(self._public, gateway.listen, "gateway.listen", tls)
        service = self.service
        service.stores.start()
        retention = Retention(
            service.stores.sessions, lambda: service.settings.sessions.retention_s, service.clock, service.log,
            service.session_metrics,
        )  # fmt: skip
        self._keeping = asyncio.ensure_future(retention.run())

    def watch(self) -> None:
        """Reload from now on when the settings file or a certificate changes, as long as `gateway.watch` says so."""
        service, reloader = self.service, self.reloader
        watch = Watch(
            service.clock,
            lambda: files_of(service.settings),
            lambda: reloader.read,
            lambda: reloader.reload("file"),
        )
        self._watching = asyncio.ensure_future(
            watch.run(lambda: service.settings.gateway.watch and not service.draining)
        )

    async def drain(self) -> bool:
        """Readiness off, then wait until the running turns are over, at most `gateway.drain`. Whether they all were."""
        service = self.service
        service.draining = True
        until = service.clock.now() + service.settings.gateway.drain
        while service.in_flight and service.clock.now() < until:
            await service.clock.sleep(0.05)
        return not service.in_flight

    async def close(self) -> None:
        """Stop: what still runs is broken off with an error event."""
        self.service.draining = True
        for task in (self._watching, self._keeping):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self.reloader.close()
        await asyncio.gather(*(exchange.break_off() for exchange in self.service.running), return_exceptions=True)
        await self._public.cleanup()
        await self._admin.cleanup()
        if self._sharing is not None:
            await self._sharing.close()
        await self._regional.close()
        await self.service.stores.close()
        await self.service.engine.close()
        self.service.bodies.close()

    def _prepare(self, settings: Settings) -> Callable[[], None]:
        """What changes with the settings besides the service. Raises SettingsError."""
        gateway, certificate = settings.gateway, self._certificate
        try:
            context = None if gateway.tls is None or certificate is None else loaded(gateway.tls)
        except (OSError, ValueError):  # they have just been checked, and are written over meanwhile
            message = "certificate and key cannot be loaded: name two PEM files that fit, without passphrase"
            raise SettingsError((Problem(settings.path, 1, 1, "gateway.tls", message),)) from None

        def change() -> None:
            if context is not None and certificate is not None:
                certificate.use(context)
            for runner in (self._public, self._admin):
                runner.limit_heads(gateway.header_timeout)

        return change


def run(settings: Settings, environ: Mapping[str, str], log_to: TextIO | None = None) -> int:
    """Serve until SIGTERM or SIGINT; a second one stops at once. The exit code: 0, or 3 when an address is taken.

    SIGHUP reloads the settings, their variables taken from `environ`.
    """
    quiet_libraries()
    with LogWriter(log_to or sys.stderr) as out:
        main = _main(settings, environ, out)
        try:
            import uvloop
        except ImportError:  # not made for every platform; asyncio's own loop does
            return asyncio.run(main)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main)


async def _main(settings: Settings, environ: Mapping[str, str], log_to: LogWriter) -> int:
    service = build(settings, log_to, crash=from_environment(environ))
    server = Server(service, environ)
    log = service.log
    signals = _Signals()
    try:
        try:
            await server.start()
        except CannotBind as error:
            log.event("error", "start", message=str(error))
            return EXIT_CANNOT_BIND
        log.event(
            "info", "start", version=__version__, region=settings.gateway.region,
            listen=_address(*server.listen), admin=_address(*server.admin), settings=settings.path,
            settings_version=settings.version,
        )  # fmt: skip
        signals.on_hangup = lambda: server.reloader.request("SIGHUP")
        server.watch()
        _settle_memory()
        await signals.first.wait()
        log.event("info", "drain", in_flight=service.in_flight, seconds=service.settings.gateway.drain)
        drained = asyncio.ensure_future(server.drain())
        second = asyncio.ensure_future(signals.second.wait())
        await asyncio.wait({drained, second}, return_when=asyncio.FIRST_COMPLETED)
        for task in (drained, second):
            task.cancel()
        await asyncio.gather(drained, second, return_exceptions=True)
        log.event("info", "stop", broken_off=service.in_flight)
        return EXIT_OK
    finally:
        await server.close()


def _settle_memory() -> None:
    """What lives as long as the process is taken out of garbage collection, which otherwise walks it again and again:
    measured, it was the longest pause of a request."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


class _Signals:
    """SIGTERM and SIGINT, counted, and SIGHUP, which is passed over until somebody minds: it must not end the process."""

    def __init__(self) -> None:
        self.first, self.second = asyncio.Event(), asyncio.Event()
        self.on_hangup: Callable[[], object] = lambda: None
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, lambda: self.on_hangup())
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._came)

    def _came(self) -> None:
        (self.second if self.first.is_set() else self.first).set()


async def _bind(runner: web.AppRunner, address: str, key: str, tls: ssl.SSLContext | None) -> tuple[str, int]:
    await runner.setup()
    host, port = split_address(address)
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls, backlog=_BACKLOG).start()
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise CannotBind(f"{key}: cannot listen on {address}: {reason}; free it or set another address") from None
    bound = runner.addresses[0]
    return str(bound[0]), int(bound[1])


def _certificate(files: TlsPolicy) -> Certificate:
    try:
        return Certificate(files)
    except (OSError, ValueError):
        raise CannotBind("gateway.tls: certificate and key cannot be loaded: check the files and start again") from None


def _address(host: str, port: int, *, secure: bool = False) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{shown}:{port}"
