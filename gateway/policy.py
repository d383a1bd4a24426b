"""The settings of the gateway itself, and the root of the settings file."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, SecretStr, field_validator

from llm.policy import DefaultsPolicy, ProviderPolicy, RoutePolicy, TargetPolicy
from regions.policy import AuthorityPolicy, RegionPolicy, SessionsPolicy
from sessions.redis.link import connections
from stanchion.model import Policy
from stanchion.units import Duration, Flag, Size

_ADDRESS = re.compile(r"^(\[[0-9A-Fa-f:.%\w]+\]|[^:\[\]\s]+):(\d{1,5})$")


def split_address(value: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT` or `[IPV6]:PORT`. Raises ValueError."""
    match = _ADDRESS.match(value)
    if match is None or int(match[2]) > 65535:
        raise ValueError(f"{value!r} is not an address: write HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080")
    return match[1].strip("[]"), int(match[2])


class TlsPolicy(Policy):
    """Certificate and key files of the listen address, in PEM."""

    cert: str
    key: str


class LogPolicy(Policy):
    """What is logged, and how it looks."""

    format: Literal["json", "text"] = "json"
    level: Literal["debug", "info", "warning", "error"] = "info"


class GatewayPolicy(Policy):
    """Addresses and limits of the gateway process."""

    region: str = Field("local", min_length=1, description="The region that this gateway runs in.")
    listen: str = Field("127.0.0.1:8080", description="Where agents connect.")
    admin: str = Field("127.0.0.1:8081", description="Metrics and administration.")
    tls: TlsPolicy | None = None
    admin_token: SecretStr | None = Field(
        None, description="Bearer token of the admin address; required beyond loopback."
    )
    max_body: Size = Field(32_000_000, gt=0, description="Largest request body, after decompression.")
    header_timeout: Duration = Field(10.0, gt=0, description="Until a connection has sent its request head.")
    body_timeout: Duration = Field(30.0, gt=0, description="Until the whole request body has arrived.")
    drain: Duration = Field(30.0, description="How long running requests may take to end after SIGTERM.")
    log: LogPolicy = Field(default_factory=LogPolicy)
    watch: Flag = Field(True, description="Whether a change of this file, or of certificates it names, is taken over.")
    shared_state: SecretStr | None = Field(
        None, description="URL of the Redis by which the gateways of this region share breakers and holds."
    )

    @field_validator("listen", "admin")
    @classmethod
    def _is_address(cls, value: str) -> str:
        split_address(value)
        return value

    @field_validator("shared_state")
    @classmethod
    def _is_redis(cls, value: SecretStr | None) -> SecretStr | None:
        advice = "write redis://HOST:PORT/0 or rediss://, with USER:PASSWORD@ before the host if it asks for them"
        if value is None:
            return None
        try:
            connections(value.get_secret_value(), 1.0)
        except ValueError:  # it speaks of the sessions' Redis
            raise ValueError(f"the value is not the URL of a Redis: {advice}") from None
        return value


class CallerPolicy(Policy):
    """One caller: a name, a key, and the routes it may use."""

    name: str = Field(min_length=1)
    key: SecretStr | None = None
    key_sha256: str | None = Field(
        None, pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the key, in lower-case hex."
    )
    routes: tuple[str, ...] | None = Field(None, description="Routes it may use; all if not written.")
    priority: Literal["interactive", "standard", "batch"] = "interactive"
    residency: tuple[str, ...] | None = Field(
        None, min_length=1, description="The only regions whose targets may see its requests."
    )
    placement: str | None = Field(
        None, description="Which shards hold its sessions; the placement `default` if not written."
    )
    apps: tuple[str, ...] | None = Field(
        None, min_length=1, description="Whose sessions it may use; all if not written."
    )


class SettingsFile(Policy):
    """The root of the settings file."""

    version: Literal["1"]
    gateway: GatewayPolicy = Field(default_factory=GatewayPolicy)
    callers: tuple[CallerPolicy, ...] = ()
    providers: dict[str, ProviderPolicy] = Field(min_length=1)
    targets: dict[str, TargetPolicy] = Field(min_length=1)
    defaults: DefaultsPolicy = Field(default_factory=DefaultsPolicy)
    routes: dict[str, RoutePolicy] = Field(min_length=1)
    regions: dict[str, RegionPolicy] | None = None
    authority: AuthorityPolicy | None = None
    sessions: SessionsPolicy = Field(default_factory=SessionsPolicy)

    @field_validator("regions", mode="before")
    @classmethod
    def _empty_regions(cls, value: Any) -> Any:
        return (
            {name: {} if body is None else body for name, body in value.items()} if isinstance(value, dict) else value
        )
