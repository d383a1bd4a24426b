"""Targets and routes as a request meets them: plain, frozen, resolved when the settings were loaded."""

from __future__ import annotations

from dataclasses import dataclass, field

from llm.policy import BreakerPolicy, HedgePolicy, HoldsPolicy, RetryPolicy, StreamPolicy, TimeoutsPolicy
from llm.proxy import Proxy
from quota.policy import QuotaPolicy


@dataclass(frozen=True, slots=True)
class Credential:
    """A provider key under its name. `api_key` is None for providers that ask for none."""

    name: str
    api_key: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """An address with its wire format and its connection limits (`_s`: seconds).

    `ca_pem`: the certificates that are trusted in place of the system's.
    """

    name: str
    dialect: str
    base_url: str
    credentials: tuple[Credential, ...]
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    max_connections: int = 512
    max_connection_age_s: float = 300.0
    pool_wait_s: float = 1.0
    proxy: Proxy | None = None
    ca_pem: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """Provider + credential + model + region, with the policies of its own already merged with the defaults.

    `timeouts` and `retry` are what the target has on its own; a route's may override them (see `RouteSpec.stops`).
    """

    name: str
    provider: ProviderSpec
    credential: Credential
    model: str
    region: str
    context_window: int | None
    request_limit: int | None
    capabilities: frozenset[str] | None
    breaker: BreakerPolicy
    holds: HoldsPolicy
    timeouts: TimeoutsPolicy
    retry: RetryPolicy
    quota: QuotaPolicy
    weight: float | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """A target as one route uses it: the timeouts and retries that hold there. `canary`: it is only tried out."""

    target: TargetSpec
    timeouts: TimeoutsPolicy
    retry: RetryPolicy
    canary: bool = False


@dataclass(frozen=True, slots=True)
class CanarySpec:
    """The target that is tried out, and the share of requests, 0 to 1."""

    stop: Stop
    share: float


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """A model name that callers ask for. `stops` in order of preference; `deadline_s` bounds a whole request.

    `residency`: the only regions that may see its requests, None for all.
    """

    name: str
    stops: tuple[Stop, ...]
    on_content_policy: tuple[Stop, ...]
    deadline_s: float
    stream: StreamPolicy
    hedge: HedgePolicy | None = None
    canary: CanarySpec | None = None
    residency: frozenset[str] | None = None
