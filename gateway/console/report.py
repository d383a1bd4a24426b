"""The answer of `GET /admin/v1/targets` as plain values.

A gateway of another version may send more or leave something out: what is missing stays None, what is new is passed over,
and nothing here raises.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Level:
    """How full one quota bucket is."""

    kind: str
    level: float
    capacity: float | None


@dataclass(frozen=True, slots=True)
class TargetReport:
    """One target. `_s`: seconds."""

    name: str
    provider: str = ""
    model: str = ""
    region: str = ""
    breaker: str = "closed"
    samples: int | None = None
    failures: int | None = None
    retry_in_s: float | None = None
    hold_reason: str | None = None
    hold_left_s: float | None = None
    in_flight: int | None = None
    concurrency: int | None = None
    levels: tuple[Level, ...] = ()
    error_class: str | None = None
    error_message: str = ""
    error_age_s: float | None = None
    attempts: int | None = None
    successes: int | None = None

    @property
    def usable(self) -> bool:
        """Whether a request can be sent there now. An open breaker past its cool-down takes a probe."""
        if self.hold_reason is not None:
            return False
        return self.breaker != "open" or (self.retry_in_s is not None and self.retry_in_s <= 0)


@dataclass(frozen=True, slots=True)
class RouteReport:
    """One route; `usable` of its `targets` can be tried now."""

    name: str
    targets: tuple[str, ...]
    usable: int
    turns: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A gateway at one moment."""

    targets: tuple[TargetReport, ...]
    routes: tuple[RouteReport, ...]
    version: str = ""
    region: str = ""
    uptime_s: float | None = None

    @property
    def ok(self) -> bool:
        """Every route has a target that can be tried; without routes in the answer, any target at all."""
        if self.routes:
            return all(route.usable > 0 for route in self.routes)
        return any(target.usable for target in self.targets)


def read_report(answer: Mapping[str, Any]) -> Report:
    """The report in the JSON object."""
    targets = tuple(_target(entry) for entry in _entries(answer.get("targets")))
    usable = {target.name for target in targets if target.usable}
    return Report(
        targets=targets,
        routes=tuple(_route(entry, usable) for entry in _entries(answer.get("routes"))),
        version=_text(answer.get("version")),
        region=_text(answer.get("region")),
        uptime_s=_number(answer.get("uptime_s")),
    )


def _target(entry: Mapping[str, Any]) -> TargetReport:
    breaker, quota = _mapping(entry.get("breaker")), _mapping(entry.get("quota"))
    hold, error, counts = _mapping(entry.get("hold")), _mapping(entry.get("last_error")), _mapping(entry.get("counts"))
    return TargetReport(
        name=_text(entry.get("name")) or "?",
        provider=_text(entry.get("provider")),
        model=_text(entry.get("model")),
        region=_text(entry.get("region")),
        breaker=_text(breaker.get("state")) or "closed",
        samples=_whole(breaker.get("samples")),
        failures=_whole(breaker.get("failures")),
        retry_in_s=_number(breaker.get("retry_in_s")),
        hold_reason=(_text(hold.get("reason")) or "held") if hold else None,
        hold_left_s=_number(hold.get("seconds_left")),
        in_flight=_whole(quota.get("in_flight")),
        concurrency=_whole(quota.get("concurrency")),
        levels=tuple(_levels(quota)),
        error_class=(_text(error.get("class")) or "error") if error else None,
        error_message=_text(error.get("message")),
        error_age_s=_number(error.get("seconds_ago")),
        attempts=_whole(counts.get("attempts")),
        successes=_whole(counts.get("success")),
    )


def _route(entry: Mapping[str, Any], usable: set[str]) -> RouteReport:
    listed = entry.get("targets")
    targets = tuple(_text(name) for name in listed) if isinstance(listed, list) else ()
    told = _whole(entry.get("usable"))
    return RouteReport(
        name=_text(entry.get("name")) or "?",
        targets=targets,
        usable=len(usable.intersection(targets)) if told is None else told,
        turns=tuple(
            (str(outcome), n)
            for outcome, count in _mapping(entry.get("turns")).items()
            if (n := _whole(count)) is not None
        ),
    )


def _levels(quota: Mapping[str, Any]) -> list[Level]:
    levels = []
    for kind in ("requests", "tokens"):
        bucket = _mapping(quota.get(kind))
        level = _number(bucket.get("level"))
        if level is not None:
            levels.append(Level(kind, level, _number(bucket.get("capacity"))))
    return levels


def _entries(value: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return "" if value is None or isinstance(value, dict | list) else str(value)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
