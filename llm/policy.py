"""The settings of models: providers, targets, routes, and the policies that either may override."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr, TypeAdapter, WithJsonSchema, field_validator

from llm.commit import FIRST_OUTPUT, Commit
from llm.commit import parse as parse_commit
from llm.proxy import parse as parse_proxy
from quota.policy import QuotaPolicy
from stanchion.model import Policy
from stanchion.units import Count, Duration, Share, Size

DIALECTS = ("openai",)
"""Wire formats that this version speaks to a provider."""

Dialect = Literal["openai"]


class BreakerPolicy(Policy):
    """When a target is left alone: the share of failed attempts in a sliding window."""

    window: Duration = Field(30.0, gt=0, description="How far back attempts count.")
    minimum: Count = Field(5, ge=1, description="Attempts in the window below which the breaker stays closed.")
    failure_ratio: Share = Field(0.5, gt=0, description="Share of failed attempts at which it opens.")
    consecutive: Count = Field(
        5, ge=1, description="Failures in a row at which it opens whatever the share; never below the minimum."
    )
    cooldown: Duration = Field(
        10.0, gt=0, description="Time open before one probe; the real one is 1 to 1.25 times it."
    )
    successes: Count = Field(1, ge=1, description="Good probes in a row that close it again.")


class HoldsPolicy(Policy):
    """How long a target is not chosen after a refusal that names no time; the least of some that do."""

    rate_limit: Duration = Field(30.0, description="After a rate limit without a hint.")
    quota: Duration = Field(600.0, description="After a spent account; a shorter hint does not shorten it.")
    credential: Duration = Field(300.0, description="After a refused key; a shorter hint does not shorten it.")
    model: Duration = Field(300.0, description="After an unknown or retired model; a shorter hint does not shorten it.")
    overloaded: Duration = Field(0.0, description="After an overload without a hint.")


class RetryPolicy(Policy):
    """Further tries on the same target."""

    attempts: Count = Field(1, le=10, description="Further tries after the first one.")
    max_wait: Duration = Field(3.0, description="Longest wait before a further try.")


class TimeoutsPolicy(Policy):
    """Limits of one attempt."""

    connect: Duration = Field(3.0, gt=0, description="Until the connection stands, TLS included.")
    first_output: Duration = Field(10.0, gt=0, description="Until the first output of a stream.")
    idle: Duration = Field(15.0, gt=0, description="Between outputs of a stream; pings do not count.")
    total: Duration = Field(120.0, gt=0, description="The whole attempt.")


_COMMIT_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            {"enum": ["first_output", "complete"]},
            {
                "type": "object",
                "properties": {"tokens": {"type": "integer", "minimum": 1}},
                "required": ["tokens"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"time": TypeAdapter(Duration).json_schema()},
                "required": ["time"],
                "additionalProperties": False,
            },
        ]
    }
)


class StreamPolicy(Policy):
    """How a streamed answer reaches the caller."""

    commit: Annotated[Commit, BeforeValidator(parse_commit), _COMMIT_SCHEMA] = Field(
        FIRST_OUTPUT, description="From when on the answer is the caller's and no other target can serve."
    )
    heartbeat: Duration = Field(15.0, gt=0, description="A comment line after this long without a byte to the caller.")
    linger: Duration = Field(2.0, description="How long a provider may hold the connection after its finish reason.")
    upstream: Literal["as_asked", "always"] = Field(
        "as_asked", description="always: the provider is asked for a stream for plain callers too."
    )


class HedgePolicy(Policy):
    """A second target is asked beside the first one when that takes long; the first answer wins."""

    after: Duration = Field(gt=0, description="How long the first target is waited for.")
    budget: Share = Field(0.05, gt=0, description="Share of the route's requests that may ask twice.")


class CanaryPolicy(Policy):
    """A little live traffic for a target that is not the preferred one."""

    target: str | None = Field(None, description="The target; the route's second one if not written.")
    share: Share = Field(gt=0, description="Share of the route's requests that try it first.")


class CredentialPolicy(Policy):
    """One of several keys of a provider."""

    name: str = Field(min_length=1)
    api_key: SecretStr


class ProviderPolicy(Policy):
    """One provider: an address, a wire format and one or more keys."""

    dialect: Dialect = Field(description="Wire format that the provider speaks.")
    base_url: str = Field(description="What the dialect's SDK takes as its base URL; for openai with /v1.")
    api_key: SecretStr | None = Field(None, description="The provider's key.")
    credentials: tuple[CredentialPolicy, ...] | None = Field(
        None, min_length=1, description="Several keys, each with holds of its own."
    )
    auth: Literal["key", "none"] = Field("key", description="none: the provider asks for no key.")
    headers: dict[str, str] = Field(
        default_factory=dict, repr=False, description="Headers sent with every request to the provider."
    )
    proxy: SecretStr | None = Field(None, description="URL of an HTTP proxy on the way; an empty text means none.")
    ca_file: str | None = Field(
        None, description="Certificates in PEM that are trusted in place of the system's; an empty text means none."
    )
    max_connections: Count = Field(512, gt=0, description="Connections to the provider at once.")
    max_connection_age: Duration = Field(300.0, gt=0, description="Age at which an idle connection is not used again.")
    pool_wait: Duration = Field(1.0, gt=0, description="Longest wait for a free connection of the pool.")

    @field_validator("base_url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        advice = "write http:// or https://, a host, and the path that the SDK takes"
        if not value.isprintable() or " " in value:  # urlsplit would drop some of these in silence
            raise ValueError(f"the URL holds a blank or a control character: {advice}")
        try:
            parts = urlsplit(value)
            port = parts.port
        except ValueError:  # its message quotes the host and what stands before it
            raise ValueError(f"the value is not a URL: {advice}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
            raise ValueError(f"the value is not a URL: {advice}")
        if parts.username or parts.password:
            raise ValueError("the URL carries a user or a password: put the key under api_key")
        if parts.query or parts.fragment:
            raise ValueError("the URL carries a query or a fragment: leave both out")
        return value.rstrip("/")

    @field_validator("proxy")
    @classmethod
    def _is_proxy(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            parse_proxy(value.get_secret_value())
        return value


Capability = Literal["tools", "vision", "audio", "json_schema", "logprobs"]


class TargetPolicy(Policy):
    """One model at one provider in one region."""

    provider: str
    model: str = Field(min_length=1, description="The model's name at the provider.")
    credential: str | None = Field(
        None, description="Which of the provider's credentials; the first one if not written."
    )
    region: str | None = Field(None, description="Where it runs; the gateway's own region if not written.")
    context_window: Count | None = Field(None, gt=0, description="Tokens of input that the model takes.")
    request_limit: Size | None = Field(None, gt=0, description="Bytes of request body that the provider takes.")
    capabilities: tuple[Capability, ...] | None = Field(
        None, description="What the model can do; all of it if not written."
    )
    breaker: BreakerPolicy | None = None
    holds: HoldsPolicy | None = None
    timeouts: TimeoutsPolicy | None = None
    retry: RetryPolicy | None = None
    quota: QuotaPolicy | None = None
    weight: Count | None = Field(
        None, description="Share of requests among neighbours in a route that have a weight too."
    )


class RoutePolicy(Policy):
    """The model name that callers ask for, and the targets that may answer, the preferred one first."""

    targets: tuple[str, ...] = Field(min_length=1)
    deadline: Duration | None = Field(None, gt=0, description="Bound on everything that one request waits for.")
    timeouts: TimeoutsPolicy | None = None
    retry: RetryPolicy | None = None
    stream: StreamPolicy | None = None
    on_content_policy: tuple[str, ...] = Field((), description="Targets to ask when a provider refuses the content.")
    prefer: Literal["order", "region"] = Field(
        "order", description="region: of each model the targets in the gateway's own region first."
    )
    hedge: HedgePolicy | None = None
    canary: CanaryPolicy | None = None
    residency: tuple[str, ...] | None = Field(
        None, min_length=1, description="The only regions whose targets may see the requests."
    )

    @field_validator("on_content_policy", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


class DefaultsPolicy(Policy):
    """What targets and routes have unless they say otherwise."""

    breaker: BreakerPolicy = Field(default_factory=BreakerPolicy)
    holds: HoldsPolicy = Field(default_factory=HoldsPolicy)
    timeouts: TimeoutsPolicy = Field(default_factory=TimeoutsPolicy)
    retry: RetryPolicy = Field(default_factory=RetryPolicy)
    stream: StreamPolicy = Field(default_factory=StreamPolicy)
    deadline: Duration = Field(120.0, gt=0)
