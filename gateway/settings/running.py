"""What a running process cannot change: a reload that asks for it is refused, with the place that asks."""

from __future__ import annotations

from gateway.policy import GatewayPolicy
from gateway.settings.nodes import Mapping, value_mark
from gateway.settings.problems import Findings, Path


def check_running(root: Mapping, gateway: GatewayPolicy, running: GatewayPolicy, findings: Findings) -> None:
    """Note what differs from `running` and is settled at the start. All else can be taken over."""
    for key in ("listen", "admin"):
        bound = getattr(running, key)
        if getattr(gateway, key) != bound:
            message = f"the running gateway is bound to {bound} and cannot move: restart it, or write {bound} again"
            _note(root, findings, key, message)
    if gateway.shared_state != running.shared_state:
        message = (
            "the running gateway shares with others elsewhere, or not at all: restart it, or write what it started with"
        )
        _note(root, findings, "shared_state", message)
    if gateway.tls is not None and running.tls is None:
        _note(root, findings, "tls", "the running gateway listens without TLS: restart it, or leave tls out")
    if gateway.tls is None and running.tls is not None:
        _note(root, findings, "tls", "the running gateway listens with TLS: restart it, or write tls again")


def _note(root: Mapping, findings: Findings, key: str, message: str) -> None:
    path: Path = ("gateway", key)
    findings.add(value_mark(root, path), path, message)
