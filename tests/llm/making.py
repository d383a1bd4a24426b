"""Small makers of the objects that the models' tests need, with settings that a test names itself."""

from __future__ import annotations

import json
from typing import Any

from llm.dialects import openai_request
from llm.dialects.openai_request import ChatCall
from llm.policy import BreakerPolicy, HoldsPolicy, RetryPolicy, StreamPolicy, TimeoutsPolicy
from llm.request import Limits, LlmRequest
from llm.spec import Credential, ProviderSpec, RouteSpec, Stop, TargetSpec
from quota.policy import QuotaPolicy

KEY = Credential("default", "sk-test")


def provider(name: str = "p", *credentials: Credential) -> ProviderSpec:
    return ProviderSpec(name, "openai", f"http://{name}.test/v1", credentials or (KEY,))


def target(
    name: str = "p",
    *,
    of: ProviderSpec | None = None,
    credential: Credential = KEY,
    model: str | None = None,
    window: int | None = None,
    limit: int | None = None,
    capabilities: frozenset[str] | None = None,
    holds: HoldsPolicy | None = None,
    breaker: BreakerPolicy | None = None,
    quota: QuotaPolicy | None = None,
) -> TargetSpec:
    return TargetSpec(
        name=name,
        provider=of or provider(name),
        credential=credential,
        model=model or f"{name}-model",
        region="local",
        context_window=window,
        request_limit=limit,
        capabilities=capabilities,
        breaker=breaker or BreakerPolicy(),
        holds=holds or HoldsPolicy(),
        timeouts=TimeoutsPolicy(),
        retry=RetryPolicy(),
        quota=quota or QuotaPolicy(),
    )


def stop(spec: TargetSpec, timeouts: TimeoutsPolicy | None = None, retry: RetryPolicy | None = None) -> Stop:
    return Stop(spec, timeouts or TimeoutsPolicy(), retry or RetryPolicy(attempts=0))


def route(*stops: Stop, deadline_s: float = 60.0, on_content_policy: tuple[Stop, ...] = ()) -> RouteSpec:
    return RouteSpec("r", stops, on_content_policy, deadline_s, StreamPolicy())


def call(**fields: Any) -> ChatCall:
    body = {"model": "r", "messages": [{"role": "user", "content": "hi"}], **fields}
    return openai_request.read(json.dumps(body).encode())


def request(limits: Limits | None = None, *, deadline_at: float = 1060.0, **fields: Any) -> LlmRequest:
    """A request on the manual clock, which starts at 1000."""
    return LlmRequest("req_1", call(**fields), deadline_at, limits=limits)
