"""Metrics of the connections to providers, read from the transports when they are scraped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from llm.transport.base import Transport


class UpstreamMetrics(Collector):
    """`transports`: those of now, by the provider's name. One that replaces another begins its counts at 0, which rates
    take for the restart that it is."""

    def __init__(self, transports: Callable[[], Mapping[str, Transport]]) -> None:
        self._transports = transports

    def collect(self) -> Iterable[Metric]:
        connections = GaugeMetricFamily(
            "stanchion_upstream_connections",
            "Connections to a provider: in use (those being made too), or idle.",
            labels=["provider", "state"],
        )
        waiting = GaugeMetricFamily(
            "stanchion_upstream_waiting", "Requests that wait for a connection of the pool.", labels=["provider"]
        )
        resent = CounterMetricFamily(
            "stanchion_upstream_resent",
            "Requests that a stale connection lost and that were sent once more.",
            labels=["provider"],
        )
        stale = CounterMetricFamily(
            "stanchion_upstream_stale_lookups",
            "Connections made to the last good addresses, since the name could not be resolved.",
            labels=["provider"],
        )
        for provider, transport in self._transports().items():
            counters = transport.counters()
            connections.add_metric([provider, "in_use"], counters.in_use)
            connections.add_metric([provider, "idle"], counters.idle)
            waiting.add_metric([provider], counters.waiting)
            resent.add_metric([provider], counters.resent)
            stale.add_metric([provider], counters.stale_lookups)
        return (connections, waiting, resent, stale)
