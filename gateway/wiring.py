"""The one place where everything is put together: nothing below makes its own clock, randomness, pool or log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TextIO

from gateway.callers import Callers
from gateway.engine import Engine
from gateway.log import Log
from gateway.metrics import Metrics
from gateway.service import Service, Tally, TargetTally
from gateway.settings.model import Settings
from llm.attempt import AttemptRecord
from llm.spec import ProviderSpec
from llm.transport.base import Transport
from llm.transport.http1 import Http1Transport
from stanchion.clock import Clock, SystemClock


def build(
    settings: Settings,
    log_to: TextIO,
    *,
    clock: Clock | None = None,
    random: Random | None = None,
    transports: Callable[[ProviderSpec], Transport] = Http1Transport,
    new_id: Callable[[], str] | None = None,
) -> Service:
    """A service for these settings. It has to be called inside a running loop; close `service.engine` at the end."""
    clock = clock or SystemClock()
    log = Log(settings.gateway.log, clock.wall, log_to)
    tally = Tally(
        {target.name: TargetTally() for target in settings.targets},
        {route.name: Counter() for route in settings.routes},
    )

    def attempt_ended(record: AttemptRecord, first_output_s: float | None) -> None:
        metrics.attempt(record, first_output_s)
        tally.attempt(record, clock.now())

    def breaker_changed(name: str, state: str) -> None:
        log.event("info" if state == "closed" else "warning", "breaker", of=name, state=state)

    random = random or Random()  # noqa: S311 - jitter, not a secret
    engine = Engine(settings, clock, random, transports, attempt_ended, breaker_changed)
    routes = {
        route.name: [stop.target.name for stop in (*route.stops, *route.on_content_policy)] for route in settings.routes
    }
    metrics = Metrics(routes, list(engine.targets.values()), engine.holds)
    return Service(
        settings=settings,
        clock=clock,
        engine=engine,
        callers=Callers(settings.callers),
        metrics=metrics,
        log=log,
        tally=tally,
        new_id=new_id or (lambda: f"req_{random.getrandbits(96):024x}"),
        started_at=clock.now(),
        routes={route.name: route for route in settings.routes},
    )
