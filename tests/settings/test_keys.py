"""Mistyped, doubled, unknown, missing and unserved keys, and values of the wrong kind."""

from __future__ import annotations

import pytest

from tests.settings.writing import VALID, changed, load_text, problem, problems


def test_I02_a_mistyped_key_is_refused_with_the_one_that_is_meant() -> None:
    found = problem(changed(("    targets: [", "    targts: [a]\n    targets: [")))
    assert (found.line, found.column, found.path) == (18, 5, "routes.support.targts")
    assert found.message == "the key 'targts' is not known here: did you mean 'targets'?"


def test_I02_a_word_of_other_gateways_leads_to_ours() -> None:
    found = problem(VALID + "    fallbaks: [gpt-us]\n")
    assert found.path == "routes.support.fallbaks"
    assert found.line == 19
    assert found.message.endswith("did you mean 'targets'?")


def test_I02_an_unknown_key_without_a_near_match_gets_the_list() -> None:
    found = problem(VALID + "    zzz: 1\n")
    assert "use targets, deadline, timeouts" in found.message


def test_I02_an_unknown_key_three_levels_down() -> None:
    found = problem(changed(("provider: p\n", "provider: p\n    quota: {requests_per_minut: 5}\n")))
    assert (found.line, found.column) == (12, 13)
    assert found.path == "targets.gpt-eu.quota.requests_per_minut"
    assert found.message.endswith("did you mean 'requests_per_minute'?")


def test_I02_a_key_that_stands_twice() -> None:
    found = problem(changed(("model: m\n", "model: m\n    model: n\n")))
    assert (found.line, found.column, found.path) == (13, 5, "targets.gpt-eu.model")
    assert "twice, first in line 12" in found.message


def test_I02_two_providers_with_one_name() -> None:
    found = problem(changed(("targets:\n", "  p: {dialect: openai, base_url: http://h/v1}\ntargets:\n")))
    assert (found.line, found.path) == (9, "providers.p")
    assert "first in line 6" in found.message


def test_I02_a_route_to_a_target_that_does_not_exist() -> None:
    found = problem(changed(("[gpt-eu, gpt-us]", "[gpt-eu, gpt-uk]")))
    assert (found.line, found.column, found.path) == (18, 23, "routes.support.targets[1]")
    assert "there is no target 'gpt-uk' (did you mean" in found.message


def test_I02_a_target_at_a_provider_that_does_not_exist() -> None:
    found = problem(changed(("provider: p", "provider: q")))
    assert (found.line, found.column, found.path) == (11, 15, "targets.gpt-eu.provider")


def test_I02_a_wrong_type() -> None:
    found = problem(VALID + "    retry: {attempts: many}\n")
    assert (found.line, found.column, found.path) == (19, 23, "routes.support.retry.attempts")
    assert found.message == "'many' is not a whole number: write digits only, such as 5"


def test_I02_all_problems_in_one_run_in_the_order_of_their_lines() -> None:
    text = changed(
        ("version: 1", "version: 2"),
        ("127.0.0.1:8080", "8080"),
        ("dialect: openai", "dialect: opnai"),
        ("provider: p", "provider: q"),
        ("model: m\n", "model: m\n    model: m\n"),
        ("[gpt-eu, gpt-us]", "[gpt-eu, gpt-eu]\n    fallbaks: []\n    deadline: ${UNSET}"),
    )
    found = problems(text)
    assert [(each.line, each.path) for each in found] == [
        (1, "version"),
        (3, "gateway.listen"),
        (7, "providers.p.dialect"),
        (11, "targets.gpt-eu.provider"),
        (13, "targets.gpt-eu.model"),
        (19, "routes.support.targets[1]"),
        (20, "routes.support.fallbaks"),
        (21, "routes.support.deadline"),
    ]
    first = found[0]
    assert str(first) == f"{first.file}:1:10: version: '2' is not known here: write 1"
    assert first.as_dict() == {
        "file": first.file,
        "line": 1,
        "column": 10,
        "path": "version",
        "message": first.message,
    }
    assert "did you mean 'openai'" in found[2].message


@pytest.mark.parametrize(
    ("old", "new", "path", "words"),
    [
        ("    model: m\n", "", "targets.gpt-eu.model", "'model' is missing: write it"),
        ("version: 1\n", "", "version", "'version' is missing"),
        ("model: m", "model: [m]", "targets.gpt-eu.model", "a single text is needed, but a list"),
        ("model: m", "model: ''", "targets.gpt-eu.model", "an empty text"),
        ("model: m", "model:", "targets.gpt-eu.model", "nothing is written here"),
        ("model: m", "quota:\n    model: m", "targets.gpt-eu.quota", "nothing is written here"),
        ("[gpt-eu, gpt-us]", "gpt-eu", "routes.support.targets", "a list is needed, but a text"),
        ("[gpt-eu, gpt-us]", "[]", "routes.support.targets", "at least 1"),
        ("model: m", "model: m\n    quota: 5", "targets.gpt-eu.quota", "use requests_per_minute,"),
        ("model: m", "model: m\n    quota: {concurrency: 0}", "targets.gpt-eu.quota.concurrency", "more than 0"),
        ("model: m", "model: m\n    quota: {concurrency: [1]}", "targets.gpt-eu.quota.concurrency", "a list stands"),
        ("model: m", "model: m\n    capabilities: [tool]", "targets.gpt-eu.capabilities[0]", "mean 'tools'?"),
        ("model: m", "model: m\n    retry: {attempts: 11}", "targets.gpt-eu.retry.attempts", "10 or less"),
        ("model: m", "model: m\n    breaker: {minimum: 0}", "targets.gpt-eu.breaker.minimum", "1 or more"),
        ("model: m", "model: m\n    breaker: {failure_ratio: 2}", "targets.gpt-eu.breaker.failure_ratio", "between"),
        ("http://127.0.0.1:9/v1", "ftp://h/v1", "providers.p.base_url", "not a URL"),
        ("http://127.0.0.1:9/v1", "http://h:99999/v1", "providers.p.base_url", "not a URL"),
        ("http://127.0.0.1:9/v1", '"http://h/\\nv1"', "providers.p.base_url", "control character"),
        ("http://127.0.0.1:9/v1", "http://h/v1\n    headers: {a: [b]}", "providers.p.headers.a", "single text"),
        ("http://127.0.0.1:9/v1", "https://h\n    credentials: []", "providers.p.credentials", "at least 1"),
        ("[gpt-eu, gpt-us]", "[[gpt-eu]]", "routes.support.targets[0]", "a single text is needed, but a list"),
        ("dialect: openai", "dialect: {a: b}", "providers.p.dialect", "a mapping stands here: write openai"),
    ],
)
def test_I02_what_is_missing_or_of_the_wrong_kind_is_said_in_plain_words(
    old: str, new: str, path: str, words: str
) -> None:
    found = problem(changed((old, new)))
    assert found.path == path
    assert words in found.message


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("version: 1", "version: 1\nobjectives: []", "objectives"),
        ("version: 1", "version: 1\nquota: {backend: local}", "quota"),
        ("    targets: [", "    strict: true\n    targets: [", "routes.support.strict"),
        ("model: m", "model: m\n    quota: {max_wait: 2s}", "targets.gpt-eu.quota.max_wait"),
        ("dialect: openai", "dialect: gemini", "providers.p.dialect"),
        ("version: 1", "version: 1\ncallers: [{name: a, key: k, quota: x}]", "callers[0].quota"),
    ],
)
def test_I02_what_this_version_does_not_serve_is_refused_and_not_ignored(old: str, new: str, path: str) -> None:
    found = problem(changed((old, new)))
    assert found.path == path
    assert "this version does not serve" in found.message


def test_I02_one_target_for_refused_content_needs_no_list() -> None:
    settings = load_text(VALID + "    on_content_policy: gpt-eu\n")
    assert [stop.target.name for stop in settings.routes[0].on_content_policy] == ["gpt-eu"]
