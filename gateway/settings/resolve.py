"""From the valid file to what the gateway runs with: defaults applied, references followed, keys digested."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from gateway.policy import CallerPolicy, SettingsFile
from gateway.settings.model import Caller, Settings, digest
from llm.order import by_region
from llm.policy import DefaultsPolicy, ProviderPolicy, RetryPolicy, RoutePolicy, TargetPolicy
from llm.proxy import parse as parse_proxy
from llm.spec import CanarySpec, Credential, ProviderSpec, RouteSpec, Stop, TargetSpec
from quota.policy import QuotaPolicy
from regions.spec import authority_spec, sessions_spec
from regions.topology import DEFAULT_PLACEMENT

SOLE_CREDENTIAL = "default"
"""Name of the one credential of a provider that names none."""


def resolve(file: SettingsFile, path: str, version: str, authorities: Mapping[str, str]) -> Settings:
    """The settings of a file that passed every check. `path` is kept for messages and reloads.

    `authorities`: the certificates, in PEM, of each provider that names some of its own.
    """
    providers = {name: _provider(name, policy, authorities.get(name)) for name, policy in file.providers.items()}
    targets = {
        name: _target(name, policy, providers[policy.provider], file.gateway.region, file.defaults)
        for name, policy in file.targets.items()
    }
    routes = tuple(_route(name, policy, targets, file) for name, policy in file.routes.items())
    used = dict.fromkeys([file.gateway.region, *(target.region for target in targets.values())])
    return Settings(
        gateway=file.gateway,
        callers=tuple(_caller(policy) for policy in file.callers),
        targets=tuple(targets.values()),
        routes=routes,
        regions=tuple(used if file.regions is None else file.regions),
        path=path,
        version=version,
        authority=None if file.authority is None else authority_spec(file.authority),
        sessions=sessions_spec(file.sessions),
        ca_files=tuple(dict.fromkeys(one.ca_file for one in file.providers.values() if one.ca_file)),
    )


def _provider(name: str, policy: ProviderPolicy, ca_pem: str | None) -> ProviderSpec:
    if policy.credentials:
        credentials = tuple(Credential(each.name, each.api_key.get_secret_value()) for each in policy.credentials)
    else:
        key = policy.api_key.get_secret_value() if policy.api_key is not None else None
        credentials = (Credential(SOLE_CREDENTIAL, key),)
    return ProviderSpec(
        name=name,
        dialect=policy.dialect,
        base_url=policy.base_url,
        credentials=credentials,
        headers=tuple(policy.headers.items()),
        max_connections=policy.max_connections,
        max_connection_age_s=policy.max_connection_age,
        pool_wait_s=policy.pool_wait,
        proxy=parse_proxy(policy.proxy.get_secret_value()) if policy.proxy is not None else None,
        ca_pem=ca_pem,
    )


def _target(
    name: str, policy: TargetPolicy, provider: ProviderSpec, own_region: str, defaults: DefaultsPolicy
) -> TargetSpec:
    named = (each for each in provider.credentials if policy.credential in (None, each.name))
    return TargetSpec(
        name=name,
        provider=provider,
        credential=next(named),
        model=policy.model,
        region=policy.region or own_region,
        context_window=policy.context_window,
        request_limit=policy.request_limit,
        capabilities=None if policy.capabilities is None else frozenset(policy.capabilities),
        breaker=defaults.breaker.merged(policy.breaker),
        holds=defaults.holds.merged(policy.holds),
        timeouts=defaults.timeouts.merged(policy.timeouts),
        retry=defaults.retry.merged(policy.retry),
        quota=policy.quota or QuotaPolicy(),
        weight=policy.weight,
    )


def _route(name: str, policy: RoutePolicy, targets: dict[str, TargetSpec], file: SettingsFile) -> RouteSpec:
    def stop(target_name: str) -> Stop:
        target = targets[target_name]
        # What the target merged keeps only written keys in its set, so the route's go on top of both.
        return Stop(target, target.timeouts.merged(policy.timeouts), target.retry.merged(policy.retry))

    stops = tuple(map(stop, policy.targets))
    return RouteSpec(
        name=name,
        stops=by_region(stops, file.gateway.region) if policy.prefer == "region" else stops,
        on_content_policy=tuple(map(stop, policy.on_content_policy)),
        deadline_s=file.defaults.deadline if policy.deadline is None else policy.deadline,
        stream=file.defaults.stream.merged(policy.stream),
        hedge=policy.hedge,
        canary=_canary(policy, stop),
        residency=None if policy.residency is None else frozenset(policy.residency),
    )


def _canary(policy: RoutePolicy, stop: Callable[[str], Stop]) -> CanarySpec | None:
    """A canary is tried once: what it cannot do the others do, without waiting for it."""
    if policy.canary is None:
        return None
    tried = stop(policy.canary.target or policy.targets[1])
    return CanarySpec(replace(tried, retry=RetryPolicy(attempts=0), canary=True), policy.canary.share)


def _caller(policy: CallerPolicy) -> Caller:
    key = policy.key
    key_sha256 = bytes.fromhex(policy.key_sha256 or "") if key is None else digest(key.get_secret_value())
    routes = None if policy.routes is None else frozenset(policy.routes)
    residency = None if policy.residency is None else frozenset(policy.residency)
    apps = None if policy.apps is None else frozenset(policy.apps)
    placement = policy.placement or DEFAULT_PLACEMENT
    return Caller(policy.name, key_sha256, routes, policy.priority, residency, placement, apps)
