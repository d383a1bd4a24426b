"""Metrics: written from outcome and attempt records, and read from the live targets when they are scraped.

Every label comes from the settings or from a fixed set, and every series that can be named beforehand is there with 0
from the start, so that the first error of a kind is seen as an increase. A reload adds the series of its names. Counters
never go down: those of names that are gone stay; what is read live (states, levels, turns under way) goes with its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from availability.outcome import Outcome
from gateway import process_metrics
from gateway.live import Live
from gateway.turn import OutcomeRecord
from llm.attempt import SUCCESS, AttemptRecord, Role
from llm.classes import ErrorClass, Skip
from llm.order import orders

LONG_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 450, 600)
"""Bounds for whole turns and first outputs, up to the longest request."""

SHORT_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1, 5)
"""Bounds for the gateway's own time."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NO_ROUTE = "other"
_STATES = {"closed": 0, "half_open": 1, "open": 2}


@dataclass(frozen=True, slots=True)
class _OfRoute:
    """A route's series, looked up once."""

    turns: Mapping[Outcome, Counter]
    rescues: Counter
    duration: Histogram
    overhead: Histogram


class Metrics:
    """The registry of one gateway. `wall` is Unix time."""

    def __init__(self, live: Live, wall: Callable[[], float]) -> None:
        self._wall = wall
        self.registry = CollectorRegistry()
        self._turns = self._counter("stanchion_turns", "Turns that are over.", ["route", "outcome"])
        self._attempts = self._counter("stanchion_attempts", "Attempts that are over.", ["target", "outcome"])
        self._rescues = self._counter(
            "stanchion_rescues", "Turns answered by another target than the first.", ["route"]
        )
        self._failovers = self._counter(
            "stanchion_failovers", "Moves from one target to the next.", ["from", "to", "reason"]
        )
        self._duration = self._histogram(
            "stanchion_turn_duration_seconds", "From a turn's head to its last byte.", ["route"], LONG_S
        )
        self._first = self._histogram(
            "stanchion_first_output_seconds", "From a streamed attempt's start to its first output.", ["target"], LONG_S
        )
        self._overhead = self._histogram(
            "stanchion_overhead_seconds", "What the gateway itself took of a turn.", ["route"], SHORT_S
        )
        self._extra = self._counter(
            "stanchion_extra_attempts_total",
            "Attempts of canaries and hedges, by how they ended.",
            ["route", "role", "outcome"],
        )
        self._reloads = self._counter(
            "stanchion_settings_reloads", "Reloads of the settings, by what came of them.", ["result"]
        )
        self._last_good = self._gauge(
            "stanchion_settings_last_reload_successful", "1 if the last settings that were read are the ones in force."
        )
        self._last_good_at = self._gauge(
            "stanchion_settings_last_reload_success_timestamp_seconds", "When the settings in force were taken over."
        )
        self._degraded = Gauge(
            "stanchion_store_degraded",
            "1 while a store is lost and the gateway goes on without it.",
            ["store"],
            registry=self.registry,
        )
        self._of_route: dict[str, _OfRoute] = {}
        self._attempts_of: dict[tuple[str, str], Counter] = {}
        self._first_of: dict[str, Histogram] = {}
        self._moves_preset: set[tuple[str, str]] = set()
        self._turns_now: dict[str, int] = {}
        for outcome in Outcome:
            self._turns.labels(_NO_ROUTE, outcome.value)
        for result in ("applied", "refused"):
            self._reloads.labels(result)
        self._last_good.set(1)
        self._last_good_at.set(wall())
        self._state = _State(live, self._turns_now)
        self.follow(live)
        self.registry.register(self._state)
        process_metrics.register(self.registry)

    def follow(self, live: Live) -> None:
        """Have the series of these settings, the new ones at 0, and read the state of their targets from now on."""
        for name, route in live.routes.items():
            if name not in self._of_route:
                self._preset_route(name)
            for order in orders(route):
                self._preset_moves([stop.target.name for stop in order])
        for target in live.engine.targets:
            if target not in self._first_of:
                self._preset_target(target)
        self._state.live = live

    def reloaded(self, *, applied: bool) -> None:
        """Count a reload."""
        self._reloads.labels("applied" if applied else "refused").inc()
        self._last_good.set(applied)
        if applied:
            self._last_good_at.set(self._wall())

    def store_degraded(self, store: str, *, degraded: bool) -> None:
        """Whether a store that this gateway uses is lost."""
        self._degraded.labels(store).set(degraded)

    def turn_began(self, route: str) -> None:
        self._turns_now[route] = self._turns_now.get(route, 0) + 1

    def turn_left(self, route: str) -> None:
        self._turns_now[route] -= 1

    def turn(self, record: OutcomeRecord) -> None:
        """Count a turn that is over."""
        of_route = self._of_route.get(record.route or "")
        if of_route is None:
            self._turns.labels(_NO_ROUTE, record.outcome.value).inc()
            return
        of_route.turns[record.outcome].inc()
        if record.outcome is Outcome.RESCUED:
            of_route.rescues.inc()
        of_route.duration.observe(record.duration_s)
        if record.overhead_s is not None:
            of_route.overhead.observe(record.overhead_s)
        for one in record.records:
            if one.role is not None:
                self._extra.labels(record.route, one.role, one.outcome).inc()
        for before, after in _moves(record.records):
            self._failovers.labels(before.target, after.target, before.outcome or str(before.skip)).inc()

    def attempt(self, record: AttemptRecord, first_output_s: float | None) -> None:
        """Count an attempt that is over."""
        self._attempts_of[record.target, record.outcome or ""].inc()
        if first_output_s is not None:
            self._first_of[record.target].observe(first_output_s)

    def exposition(self) -> bytes:
        """The text that Prometheus scrapes."""
        return generate_latest(self.registry)

    def _counter(self, name: str, words: str, labels: list[str]) -> Counter:
        return Counter(name, words, labels, registry=self.registry)

    def _gauge(self, name: str, words: str) -> Gauge:
        return Gauge(name, words, registry=self.registry)

    def _histogram(self, name: str, words: str, labels: list[str], bounds: Sequence[float]) -> Histogram:
        return Histogram(name, words, labels, buckets=bounds, registry=self.registry)

    def _preset_route(self, route: str) -> None:
        self._of_route[route] = _OfRoute(
            {outcome: self._turns.labels(route, outcome.value) for outcome in Outcome},
            self._rescues.labels(route),
            self._duration.labels(route),
            self._overhead.labels(route),
        )
        for outcome in (SUCCESS, *(c.value for c in ErrorClass)):
            for role in get_args(Role):
                self._extra.labels(route, role, outcome)

    def _preset_moves(self, stops: Sequence[str]) -> None:
        reasons = [*(c.value for c in ErrorClass), *(s.value for s in Skip)]
        for position, before in enumerate(stops):
            for after in stops[position + 1 :]:
                if after == before or (before, after) in self._moves_preset:
                    continue  # a target may stand among the stops and again under on_content_policy
                self._moves_preset.add((before, after))
                for reason in reasons:
                    self._failovers.labels(before, after, reason)

    def _preset_target(self, target: str) -> None:
        for name in (SUCCESS, *(c.value for c in ErrorClass)):
            self._attempts_of[target, name] = self._attempts.labels(target, name)
        self._first_of[target] = self._first.labels(target)


def _moves(records: Sequence[AttemptRecord]) -> Iterable[tuple[AttemptRecord, AttemptRecord]]:
    """Each target that was left, with the one that was asked next.

    Targets that were only passed over on the way are none; the first one counts as left where nothing was asked before.
    Nor is a hedge that did not win, nor anything beside a target that answered.
    """
    asked = [record for record in records if record.role != "hedge" or record.outcome == SUCCESS]
    left: AttemptRecord | None = asked[0] if asked else None
    for record in asked[1:]:
        if left is not None and left.outcome == SUCCESS:
            return
        if record.skip is None:
            if left is not None and left.target != record.target:
                yield left, record
            left = record


class _State(Collector):
    """State that is read when it is asked for, so that it is never stale. `turns`: under way, by route."""

    def __init__(self, live: Live, turns: Mapping[str, int]) -> None:
        self.live, self._turns = live, turns

    def collect(self) -> Iterable[Metric]:
        breaker = GaugeMetricFamily("stanchion_breaker_state", "0 closed, 1 half open, 2 open.", labels=["target"])
        hold = GaugeMetricFamily(
            "stanchion_hold_seconds", "Seconds that a target is still held.", labels=["target", "reason"]
        )
        level = GaugeMetricFamily("stanchion_quota_level", "What a bucket holds now.", labels=["target", "kind"])
        capacity = GaugeMetricFamily("stanchion_quota_capacity", "What a bucket can hold.", labels=["target", "kind"])
        in_flight = GaugeMetricFamily("stanchion_in_flight", "Turns under way.", labels=["route"])
        for route in (*self.live.routes, *(self._turns.keys() - self.live.routes.keys())):
            if (turns := self._turns.get(route, 0)) or route in self.live.routes:
                in_flight.add_metric([route], turns)
        holds = self.live.engine.holds
        for name, target in self.live.engine.targets.items():
            breaker.add_metric([name], _STATES[target.breaker_view().state])
            held = target.hold()
            for reason in _HOLD_REASONS:
                left = holds.seconds_left(held) if held is not None and held.reason is reason else 0.0
                hold.add_metric([name, reason.value], left)
            levels = target.quota.levels()
            for kind, bucket in (("requests", levels.requests), ("tokens", levels.tokens)):
                if bucket is not None:
                    level.add_metric([name, kind], bucket.level)
                    capacity.add_metric([name, kind], bucket.capacity)
        return (breaker, hold, level, capacity, in_flight)


_HOLD_REASONS = (
    ErrorClass.RATE_LIMITED,
    ErrorClass.QUOTA_EXHAUSTED,
    ErrorClass.CREDENTIAL,
    ErrorClass.MODEL_UNAVAILABLE,
    ErrorClass.OVERLOADED,
)
