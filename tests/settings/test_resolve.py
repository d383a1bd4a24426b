"""Defaults and overrides: what a request meets."""

from __future__ import annotations

from tests.settings.writing import VALID, changed, load_text


def test_written_keys_override_field_by_field_in_order() -> None:
    text = changed(
        (
            "model: m",
            "model: m\n    timeouts: {idle: 2s, total: 20s}\n    breaker: {minimum: 7}\n    holds: {model: 1s}",
        ),
        (
            "routes:",
            "defaults: {timeouts: {connect: 1s, idle: 1s}, breaker: {window: 9s}, retry: {attempts: 4}}\nroutes:",
        ),
        ("[gpt-eu, gpt-us]", "[gpt-eu, gpt-us]\n    timeouts: {total: 30s}\n    retry: {max_wait: 1s}"),
    )
    settings = load_text(text)
    eu, us = settings.targets
    assert (eu.timeouts.connect, eu.timeouts.first_output, eu.timeouts.idle, eu.timeouts.total) == (1, 10, 2, 20)
    assert (us.timeouts.connect, us.timeouts.idle, us.timeouts.total) == (1, 1, 120)
    assert (eu.breaker.window, eu.breaker.minimum, eu.breaker.cooldown) == (9, 7, 10)
    assert (eu.holds.model, eu.holds.quota) == (1, 600)
    stop = settings.routes[0].stops[0]
    assert (stop.timeouts.connect, stop.timeouts.idle, stop.timeouts.total) == (1, 2, 30)
    assert (stop.retry.attempts, stop.retry.max_wait) == (4, 1)
    assert stop.target is eu


def test_writing_a_built_in_value_overrides_a_default() -> None:
    text = changed(
        ("routes:", "defaults: {stream: {heartbeat: 1s, linger: 1s}, deadline: 9s}\nroutes:"),
        ("[gpt-eu, gpt-us]", "[gpt-eu]\n    stream: {heartbeat: 15s}"),
    )
    route = load_text(text).routes[0]
    assert (route.stream.heartbeat, route.stream.linger, route.deadline_s) == (15, 1, 9)
    assert load_text(text + "    deadline: 5s\n").routes[0].deadline_s == 5


def test_targets_and_routes_keep_their_order_and_defaults() -> None:
    settings = load_text(VALID + "  b: {targets: [gpt-us]}\n  a: {targets: [gpt-us, gpt-eu]}\n")
    assert [route.name for route in settings.routes] == ["support", "b", "a"]
    assert [stop.target.name for stop in settings.routes[2].stops] == ["gpt-us", "gpt-eu"]
    assert settings.regions == ("local",)
    assert settings.targets[0].region == "local"
    assert settings.routes[0].deadline_s == 120
    assert settings.targets[0].quota.requests_per_minute is None


def test_a_targets_region_is_the_gateways_unless_written() -> None:
    settings = load_text(changed(("gateway:", "gateway:\n  region: eu"), ("model: m", "model: m\n    region: us")))
    assert [target.region for target in settings.targets] == ["us", "eu"]
    assert settings.regions == ("eu", "us")


def test_a_target_that_names_no_credential_has_the_first_one() -> None:
    keys = "http://127.0.0.1:9/v1/\n    credentials: [{name: a, api_key: k}, {name: b, api_key: l}]"
    target = load_text(changed(("http://127.0.0.1:9/v1", keys))).targets[0]
    assert target.credential.name == "a"
    assert [each.name for each in target.provider.credentials] == ["a", "b"]
    assert target.provider.base_url == "http://127.0.0.1:9/v1"


def test_units_of_limits() -> None:
    text = changed(("model: m", "model: m\n    request_limit: 64KB\n    context_window: 10\n    capabilities: [tools]"))
    target = load_text(text).targets[0]
    assert (target.request_limit, target.context_window, target.capabilities) == (64_000, 10, frozenset({"tools"}))
