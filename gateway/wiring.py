"""The one place where everything is put together: nothing below makes its own clock, randomness, pool or log."""

from __future__ import annotations

import functools
import ssl
from collections.abc import Callable
from random import Random
from typing import TextIO

from gateway.engine import Engine
from gateway.live import Live
from gateway.log import Log
from gateway.log_metrics import LogMetrics
from gateway.log_writer import LogWriter
from gateway.metrics import Metrics
from gateway.regional.metrics import RegionalMetrics
from gateway.service import Service, Tally
from gateway.sessions.metrics import SessionMetrics
from gateway.sessions.wiring import boot_clock, build_sessions
from gateway.settings.model import Settings
from gateway.upstream_metrics import UpstreamMetrics
from llm.attempt import AttemptRecord
from llm.spec import ProviderSpec
from llm.transport.base import Transport
from llm.transport.http1 import Http1Transport
from regions.crash import CrashPoint, nowhere
from stanchion.clock import Clock, SystemClock


def build(
    settings: Settings,
    log_to: TextIO | LogWriter,
    *,
    clock: Clock | None = None,
    random: Random | None = None,
    transports: Callable[[ProviderSpec], Transport] | None = None,
    new_id: Callable[[], str] | None = None,
    crash: CrashPoint = nowhere,
) -> Service:
    """A service for these settings. It has to be called inside a running loop; close its `engine` and `stores` at the end."""
    boot = boot_clock if clock is None else clock.now
    clock = clock or SystemClock()
    log = Log(settings.gateway.log, clock.wall, log_to)
    tally = Tally()
    tally.follow(settings)

    def attempt_ended(record: AttemptRecord, first_output_s: float | None) -> None:
        metrics.attempt(record, first_output_s)
        tally.attempt(record, clock.now())

    def breaker_changed(name: str, state: str) -> None:
        log.event("info" if state == "closed" else "warning", "breaker", of=name, state=state)
        if service.sharing is not None:
            service.sharing.told(name, state)

    transports = transports or http1_transports()
    random = random or Random()  # noqa: S311 - jitter, not a secret
    live = Live.of(settings, Engine(settings, clock, random, transports, attempt_ended, breaker_changed))
    metrics = Metrics(live, clock.wall)
    stores = build_sessions(settings, log, clock, boot, crash)
    service = Service(
        live=live,
        clock=clock,
        metrics=metrics,
        log=log,
        tally=tally,
        stores=stores,
        session_metrics=SessionMetrics(metrics.registry),
        new_id=new_id or (lambda: f"req_{random.getrandbits(96):024x}"),
        started_at=clock.now(),
        random=random,
    )
    metrics.registry.register(
        UpstreamMetrics(lambda: {n: one.transport for n, one in service.engine.providers.items()})
    )
    metrics.registry.register(LogMetrics(log))
    if stores.install is not None:
        metrics.registry.register(RegionalMetrics(stores.install))
    return service


def http1_transports() -> Callable[[ProviderSpec], Transport]:
    """Makes transports that trust the system's certificates together: to read them takes 35 ms, in which every request would
    wait at a reload, for each provider that comes."""
    system = functools.cache(ssl.create_default_context)

    def make(spec: ProviderSpec) -> Transport:
        may_need = spec.ca_pem is None and (spec.base_url.startswith("https:") or spec.proxy is not None)
        return Http1Transport(spec, system() if may_need else None)

    return make
