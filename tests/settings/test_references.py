"""Names across the file."""

from __future__ import annotations

import pytest

from tests.settings.writing import VALID, changed, load_text, problem, problems

TWO_KEYS = "http://127.0.0.1:9/v1\n    credentials: [{name: a, api_key: k}, {name: b, api_key: l}]"


@pytest.mark.parametrize(
    ("old", "new", "path", "words"),
    [
        (
            "[gpt-eu, gpt-us]",
            "[gpt-eu, gpt-eu]",
            "routes.support.targets[1]",
            "'gpt-eu' stands twice, first in line 18",
        ),
        ("[gpt-eu, gpt-us]", "[support]", "routes.support.targets[0]", "routes list targets, 'support' is a route"),
        ("[gpt-eu, gpt-us]", "[gpt-eu]\n    on_content_policy: x", "routes.support.on_content_policy", "no target 'x'"),
        (
            "[gpt-eu, gpt-us]",
            "[gpt-eu]\n    on_content_policy: [x]",
            "routes.support.on_content_policy[0]",
            "no target",
        ),
        (
            "version: 1",
            "version: 1\ncallers: [{name: a, key: k, routes: [suport]}]",
            "callers[0].routes[0]",
            "'support'?",
        ),
        (
            "version: 1",
            "version: 1\ncallers: [{name: a, key: k}, {name: a, key: l}]",
            "callers[1].name",
            "'a' stands twice",
        ),
        ("version: 1", "version: 1\nregions: {local: {}, eu: {}}\n", "", ""),
        ("version: 1", "version: 1\nregions: {eu: {}}\n", "gateway.region", "is 'local' if not written"),
        ("gateway:", "regions: {eu-w: {}}\ngateway:\n  region: eu-v", "gateway.region", "did you mean 'eu-w'?"),
        ("model: m", "model: m\n    region: a b", "targets.gpt-eu.region", "a blank"),
        ("model: m", "model: m\n    region: ''", "targets.gpt-eu.region", "the name is empty"),
        ("gpt-eu:\n", "gpt-ey:\n", "routes.support.targets[0]", "did you mean 'gpt-"),
        ("  support:", '  "":', "routes", ""),
        ("  support:", "  a b:", 'routes."a b"', "a blank"),
        ("  support:", '  "a\\nb":', 'routes."a\\nb"', "a control character"),
        (
            "model: m",
            "model: m\n    credential: a",
            "targets.gpt-eu.credential",
            "the provider 'p' names no credentials",
        ),
        ("model: m", '"model": "m\\n"', "targets.gpt-eu.model", "a line break"),
        ("version: 1", 'version: 1\ncallers: [{name: "a\\n", key: k}]', "callers[0].name", "a line break"),
    ],
)
def test_I02_names(old: str, new: str, path: str, words: str) -> None:
    text = changed((old, new))
    if not path:
        load_text(text)
        return
    found = problem(text)
    assert found.path.startswith(path)
    assert words in found.message


@pytest.mark.parametrize("name", ["a;b", '"a,b"', "a=b", '"a b"', "é", '"a\\x01"', '""'])
def test_I02_target_and_provider_names_fit_into_headers(name: str) -> None:
    extra = f"  {name}: {{provider: p, model: m}}\nroutes:"
    assert "headers and metrics" in problem(changed(("routes:", extra))).message
    extra = f"  {name}: {{dialect: openai, base_url: http://h/v1}}\ntargets:"
    assert "headers and metrics" in problem(changed(("targets:", extra))).message


def test_I02_a_targets_region_is_one_of_the_regions() -> None:
    found = problem(changed(("model: m", "model: m\n    region: eu-wst")) + "regions: {local: {}, eu-west: {}}\n")
    assert (found.path, found.line) == ("targets.gpt-eu.region", 13)
    assert "did you mean 'eu-west'?" in found.message


def test_I02_a_targets_credential_is_one_of_its_provider() -> None:
    text = changed(("http://127.0.0.1:9/v1", TWO_KEYS), ("model: m", "model: m\n    credential: c"))
    found = problem(text)
    assert found.path == "targets.gpt-eu.credential"
    assert "there is no credential 'c' at the provider 'p'" in found.message
    assert load_text(text.replace("credential: c", "credential: b")).targets[0].credential.api_key == "l"


def test_I02_two_credentials_with_one_name() -> None:
    found = problem(changed(("http://127.0.0.1:9/v1", TWO_KEYS.replace("name: b", "name: a"))))
    assert found.path == "providers.p.credentials[1].name"


def test_I02_references_are_checked_where_the_models_already_failed() -> None:
    text = changed(("version: 1", "version: 7"), ("provider: p", "provider: x"), ("model: m", "model: ${U}"))
    assert [each.path for each in problems(text)] == ["version", "targets.gpt-eu.provider", "targets.gpt-eu.model"]


def test_I02_nothing_follows_from_a_section_that_is_broken() -> None:
    found = problem(VALID.partition("targets:")[0] + "targets:\nroutes: {support: {targets: [a]}}\n")
    assert found.path == "targets"


def test_a_target_may_serve_refused_content_and_the_route() -> None:
    assert len(load_text(VALID + "    on_content_policy: [gpt-eu]\n").routes[0].on_content_policy) == 1
