"""Metrics of the sessions API."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram


class SessionMetrics:
    """Registered once, with the gateway's own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "stanchion_session_requests_total", "Requests for sessions, by operation and status.", ["op", "status"],
            registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "stanchion_session_duration_seconds", "Duration of requests for sessions.", ["op"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 3, 10), registry=registry,
        )  # fmt: skip
        self._doubts = Counter(
            "stanchion_in_doubt_total", "Writes in doubt, by how that ended.", ["shard", "how"], registry=registry
        )
        self._expired = Counter(
            "stanchion_sessions_expired_total", "Sessions deleted by their retention.", registry=registry
        )

    def request(self, op: str, status: int, seconds: float) -> None:
        self._requests.labels(op, str(status)).inc()
        self._seconds.labels(op).observe(seconds)

    def doubt(self, shard: str, how: str) -> None:
        self._doubts.labels(shard, how).inc()

    def expired(self, number: int) -> None:
        self._expired.inc(number)
