"""What the gateway runs with: every reference followed, every default applied, nothing left to look up per request."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from gateway.policy import GatewayPolicy
from llm.spec import RouteSpec, TargetSpec
from regions.policy import SessionsPolicy
from regions.spec import AuthoritySpec, SessionsSpec, sessions_spec
from regions.topology import DEFAULT_PLACEMENT


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller. `key_sha256` is the digest of its key (32 bytes); the key itself is not kept."""

    name: str
    key_sha256: bytes = field(repr=False)
    routes: frozenset[str] | None
    priority: str
    residency: frozenset[str] | None = None
    placement: str = DEFAULT_PLACEMENT
    apps: frozenset[str] | None = None

    def may_use(self, route: str) -> bool:
        return self.routes is None or route in self.routes


@dataclass(frozen=True, slots=True)
class Settings:
    """The resolved settings. `targets` and `routes` keep the order of the file.

    `version` is a short digest of the file's bytes as they were read. What the environment filled in has no part in it: a
    process keeps its environment, so that there the file says everything, and no digest tells anything of a key.
    """

    gateway: GatewayPolicy
    callers: tuple[Caller, ...]
    targets: tuple[TargetSpec, ...]
    routes: tuple[RouteSpec, ...]
    regions: tuple[str, ...]
    path: str
    version: str = ""
    ca_files: tuple[str, ...] = ()
    authority: AuthoritySpec | None = None
    sessions: SessionsSpec = field(default_factory=lambda: sessions_spec(SessionsPolicy()))


def version_of(data: bytes) -> str:
    """The version of the settings that a file of these bytes holds."""
    return hashlib.sha256(data).hexdigest()[:12]


def digest(key: str) -> bytes:
    """SHA-256 of a caller's key; header bytes that are no UTF-8 are a key like any other, and an unknown one."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
