"""Metrics of shards and regions, read when they are scraped."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from regions.install import Install


class RegionalMetrics(Collector):
    """Of the shards of this gateway's install."""

    def __init__(self, install: Install) -> None:
        self._install = install

    def collect(self) -> Iterable[Metric]:
        epoch = _gauge("stanchion_region_epoch", "The shard's epoch.", "shard")
        holder = _gauge("stanchion_region_holder", "1 for the region that holds the shard.", "shard", "region")
        turns = _gauge(
            "stanchion_replication_lag_turns", "Writes that a store is behind the primary.", "shard", "region"
        )
        seconds = _gauge("stanchion_replication_lag_seconds", "Since when a store is behind.", "shard", "region")
        lease = _gauge("stanchion_lease_seconds", "For how long this gateway may acknowledge writes.", "shard")
        degraded = _gauge("stanchion_store_degraded", "1 while no write of a shard would be taken.", "store")
        loss = _gauge("stanchion_possible_loss", "1 while a promotion's loss is not exported.", "shard")
        up = _gauge("stanchion_authority_up", "1 while the authority answers.")
        answers = False
        for name, part in self._install.parts.items():
            watch, snapshot = part.observer.watch, part.observer.snapshot()
            answers = answers or not watch.error
            degraded.add_metric([name], float(bool(self._install.sessions.shards[name].closed_because())))
            if (record := watch.record) is None:
                continue
            epoch.add_metric([name], record.epoch)
            loss.add_metric([name], float(record.possible_loss))
            lease.add_metric([name], max(0.0, watch.lease.until - snapshot.now))
            for region in part.spec.nodes:
                holder.add_metric([name, region], float(region == record.holder))
                if (gseq := snapshot.node(region).gseq) is not None:
                    behind, since = part.observer.lag.of(snapshot.now, gseq)
                    turns.add_metric([name, region], behind)
                    seconds.add_metric([name, region], since)
        up.add_metric([], float(answers))
        return (epoch, holder, turns, seconds, lease, degraded, loss, up)


def _gauge(name: str, words: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, words, labels=list(labels))
