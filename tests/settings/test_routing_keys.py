"""Commit, hedge, canary, weights, region preference and residency: what is taken and what is refused."""

from __future__ import annotations

import pytest

from llm.commit import COMPLETE, Commit
from tests.settings.writing import changed, load_text, problems

TARGETS = "    targets: [gpt-eu, gpt-us]"


def with_route(*lines: str) -> str:
    return changed((TARGETS, "\n".join([TARGETS, *(f"    {line}" for line in lines)])))


@pytest.mark.parametrize(
    ("written", "commit"),
    [
        ("first_output", Commit("first_output")),
        ("complete", COMPLETE),
        ("{tokens: 50}", Commit("tokens", tokens=50)),
        ("{time: 250ms}", Commit("time", time_s=0.25)),
    ],
)
def test_every_form_of_commit_is_taken(written: str, commit: Commit) -> None:
    [route] = load_text(with_route(f"stream: {{commit: {written}}}")).routes
    assert route.stream.commit == commit


@pytest.mark.parametrize(
    "written",
    [
        "whole",
        "{tokens: 0}",
        "{tokens: many}",
        "{time: 2}",
        "{time: 0s}",
        "{tokens: 5, time: 2s}",
        "{}",
        "[complete]",
        "5",
    ],
)
def test_other_forms_of_commit_are_refused_with_those_that_exist(written: str) -> None:
    [problem] = problems(with_route(f"stream: {{commit: {written}}}"))
    assert problem.path == "routes.support.stream.commit"
    assert "first_output, complete, {tokens: 50} or {time: 2s}" in problem.message


def test_a_canary_is_the_second_target_unless_one_is_named() -> None:
    [route] = load_text(with_route("canary: {share: 1%}")).routes
    assert route.canary is not None
    assert (route.canary.stop.target.name, route.canary.share) == ("gpt-us", 0.01)
    assert (route.canary.stop.canary, route.canary.stop.retry.attempts) == (True, 0)
    [route] = load_text(with_route("canary: {target: gpt-eu, share: 0.5}")).routes
    assert route.canary is not None
    assert route.canary.stop.target.name == "gpt-eu"


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        (with_route("canary: {target: gpt-uk, share: 1%}"), "routes.support.canary.target", "did you mean 'gpt-us'"),
        (with_route("canary: {share: 0%}"), "routes.support.canary.share", "more than 0"),
        (with_route("canary: {target: gpt-us}"), "routes.support.canary.share", "missing"),
        (
            changed((TARGETS, "    targets: [gpt-eu]\n    canary: {share: 1%}")),
            "routes.support.canary.target",
            "second",
        ),
        (with_route("hedge: {budget: 5%}"), "routes.support.hedge.after", "missing"),
        (with_route("hedge: {after: 0s}"), "routes.support.hedge.after", "more than 0"),
        (with_route("prefer: cheapest"), "routes.support.prefer", "order or region"),
        (with_route("residency: []"), "routes.support.residency", "at least 1"),
        (with_route("residency: [eu, eu]"), "routes.support.residency[1]", "twice"),
        (with_route("residency: [mars]"), "routes.support.residency", "no target of the route runs in these regions"),
        (
            changed(("version: 1", "version: 1\nregions: {local: {}}"), (TARGETS, f"{TARGETS}\n    residency: [loca]")),
            "routes.support.residency[0]",
            "did you mean 'local'",
        ),
        (
            changed(("version: 1", "version: 1\ncallers: [{name: a, key: k12345678, residency: [mars]}]")),
            "callers[0].residency",
            "'support' runs in regions that this caller allows",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, path: str, words: str) -> None:
    found = [(problem.path, problem.message) for problem in problems(text)]
    assert any(at == path and words in message for at, message in found), found


def test_a_caller_and_a_route_that_allow_no_common_region_are_refused() -> None:
    text = changed(
        ("version: 1", "version: 1\ncallers: [{name: a, key: k12345678, residency: [eu]}]"),
        ("    model: m\n  gpt-us:", "    model: m\n    region: eu\n  gpt-us:"),
        (TARGETS, f"{TARGETS}\n    residency: [local]"),
    )
    [problem] = problems(text)
    assert problem.path == "callers[0].residency"


def test_region_preference_keeps_models_in_their_order_and_puts_the_own_region_first() -> None:
    text = changed(
        (
            "  gpt-us:\n    provider: p\n    model: m",
            "  gpt-us: {provider: p, model: m}\n  big-eu: {provider: p, model: big, region: eu}"
            "\n  big-us: {provider: p, model: big}",
        ),
        ("    model: m\n  gpt-us:", "    model: m\n    region: eu\n  gpt-us:"),
        (TARGETS, "    targets: [gpt-eu, big-eu, gpt-us, big-us]\n    prefer: region"),
    )
    [route] = load_text(text).routes
    assert [stop.target.name for stop in route.stops] == ["gpt-us", "gpt-eu", "big-us", "big-eu"]
