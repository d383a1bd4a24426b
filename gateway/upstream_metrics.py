"""Metrics of the connections to providers, read from the transports when they are scraped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from llm.transport.base import Counters, Transport


class UpstreamMetrics(Collector):
    """`transports`: those of now, by the provider's name. What one counted whose place another has taken stays in the sum,
    as far as it was seen at a scrape."""

    def __init__(self, transports: Callable[[], Mapping[str, Transport]]) -> None:
        self._transports = transports
        self._seen: dict[str, tuple[Transport, Counters]] = {}
        self._before: dict[str, tuple[int, int]] = {}

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
        now = self._transports()
        for provider, (_, last) in self._seen.items():
            if provider not in now:  # gone with a reload; what was counted stays
                resent_before, stale_before = self._before.get(provider, (0, 0))
                resent.add_metric([provider], resent_before + last.resent)
                stale.add_metric([provider], stale_before + last.stale_lookups)
        for provider, transport in now.items():
            counters = transport.counters()
            connections.add_metric([provider, "in_use"], counters.in_use)
            connections.add_metric([provider, "idle"], counters.idle)
            waiting.add_metric([provider], counters.waiting)
            resent_before, stale_before = self._counted_before(provider, transport, counters)
            resent.add_metric([provider], resent_before + counters.resent)
            stale.add_metric([provider], stale_before + counters.stale_lookups)
        return (connections, waiting, resent, stale)

    def _counted_before(self, provider: str, transport: Transport, counters: Counters) -> tuple[int, int]:
        """Requests sent once more, and stale lookups, of the transports that this one replaced."""
        resent, stale = self._before.get(provider, (0, 0))
        last = self._seen.get(provider)
        if last is not None and last[0] is not transport:
            resent, stale = resent + last[1].resent, stale + last[1].stale_lookups
            self._before[provider] = (resent, stale)
        self._seen[provider] = (transport, counters)
        return resent, stale
