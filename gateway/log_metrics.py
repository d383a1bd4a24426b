"""Lines of the log that were lost, so that a reader who is too slow or gone is seen."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.log import Log


class LogMetrics(Collector):
    """Read when it is scraped."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def collect(self) -> Iterable[Metric]:
        lost = CounterMetricFamily("stanchion_log_lines_lost", "Lines of the log that could not be written.")
        lost.add_metric([], self._log.lost)
        return (lost,)
