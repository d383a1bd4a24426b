"""Metrics of the process itself: memory, CPU and open files under their usual names, and the tasks of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


def register(registry: CollectorRegistry) -> None:
    """Add them to what is scraped. The process figures come from /proc and are missing where there is none."""
    ProcessCollector(registry=registry)
    registry.register(_Tasks())


class _Tasks(Collector):
    """It has to be scraped inside the event loop, as the admin address does."""

    def collect(self) -> Iterable[Metric]:
        tasks = GaugeMetricFamily("stanchion_event_loop_tasks", "Tasks of the event loop that are not over.")
        tasks.add_metric([], len(asyncio.all_tasks()))
        return (tasks,)
