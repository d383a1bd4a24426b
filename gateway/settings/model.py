"""What the gateway runs with: every reference followed, every default applied, nothing left to look up per request."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from gateway.policy import GatewayPolicy
from llm.spec import RouteSpec, TargetSpec


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller. `key_sha256` is the digest of its key (32 bytes); the key itself is not kept."""

    name: str
    key_sha256: bytes = field(repr=False)
    routes: frozenset[str] | None
    priority: str
    residency: frozenset[str] | None = None

    def may_use(self, route: str) -> bool:
        return self.routes is None or route in self.routes


@dataclass(frozen=True, slots=True)
class Settings:
    """The resolved settings. `targets` and `routes` keep the order of the file."""

    gateway: GatewayPolicy
    callers: tuple[Caller, ...]
    targets: tuple[TargetSpec, ...]
    routes: tuple[RouteSpec, ...]
    regions: tuple[str, ...]
    path: str


def digest(key: str) -> bytes:
    """SHA-256 of a caller's key; header bytes that are no UTF-8 are a key like any other, and an unknown one."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
