"""I02: a running gateway refuses a broken reload, with every problem, and goes on with the old settings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.upstream import Upstream
from tests.lab import Json, config, lab

PROVIDERS = """
providers:
  p: {dialect: openai, base_url: "URL", api_key: sk-p}
"""
REST = """
targets:
  p: {provider: p, model: m}
routes:
  r: {targets: [p]}
"""
HEAD = """version: 1
gateway: {listen: "127.0.0.1:0", admin: "127.0.0.1:0"}"""

BROKEN = {
    "a mistyped key": (HEAD + PROVIDERS + REST + "  s: {tragets: [p]}\n", {"routes.s.tragets", "routes.s.targets"}),
    "an unknown key three levels down": (
        HEAD + PROVIDERS + REST.replace("model: m", "model: m, breaker: {fuse: 3}"),
        {"targets.p.breaker.fuse"},
    ),
    "a key twice": (HEAD + "\nversion: 1" + PROVIDERS + REST, {"version"}),
    "a provider twice": (
        HEAD + PROVIDERS + '  p: {dialect: openai, base_url: "URL", api_key: sk-q}' + REST,
        {"providers.p"},
    ),
    "a name that nothing declares": (HEAD + PROVIDERS + REST.replace("[p]", "[p, q]"), {"routes.r.targets[1]"}),
    "a wrong type": (HEAD + PROVIDERS + REST + "defaults: {retry: {attempts: many}}\n", {"defaults.retry.attempts"}),
    "several": (
        HEAD + "\nfallbaks: {}" + PROVIDERS + REST.replace("[p]", "[q]") + "defaults: {deadline: 60}\n",
        {"fallbaks", "routes.r.targets[0]", "defaults.deadline"},
    ),
    "no YAML": (HEAD + PROVIDERS + REST + "  - [\n", {""}),
}


async def problems(answer: Any) -> list[Json]:
    assert answer.status == 422
    assert answer.json["applied"] is False
    found: list[Json] = answer.json["problems"]
    return found


@pytest.mark.parametrize("name", BROKEN)
async def test_I02_a_broken_reload_is_refused_with_every_problem_and_changes_nothing(name: str) -> None:
    text, paths = BROKEN[name]
    async with Upstream("p") as p, Upstream("other") as other:
        async with lab(config({"p": p})) as g:
            live, listed = g.service.live, (await g.get("/admin/v1/targets", admin=True)).json
            g.path.write_text(text.replace("URL", other.base_url))
            found = await problems(await g.reload())
            assert {problem["path"] for problem in found} == paths
            assert all(problem["line"] >= 1 and problem["column"] >= 1 and problem["message"] for problem in found)
            (line,) = [line for line in g.log if line["event"] == "reload"]
            assert (line["level"], line["applied"], len(line["problems"])) == ("error", False, len(found))
            assert all(problem["message"] in " ".join(line["problems"]) for problem in found)
            assert await g.metric("stanchion_settings_reloads_total", result="refused") == 1
            assert await g.metric("stanchion_settings_last_reload_successful") == 0
            assert g.service.live is live
            now = (await g.get("/admin/v1/targets", admin=True)).json
            assert {**now, "uptime_s": 0} == {**listed, "uptime_s": 0}
            assert (await g.chat()).headers["x-stanchion-target"] == "p"
            assert (p.attempts, other.attempts) == (1, 0)


async def test_I02_the_mistyped_key_comes_with_what_was_meant() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        g.path.write_text((HEAD + PROVIDERS + REST + "  s: {tragets: [p]}\n").replace("URL", p.base_url))
        found = {problem["path"]: problem for problem in await problems(await g.reload())}
        assert "did you mean 'targets'" in found["routes.s.tragets"]["message"]
        assert found["routes.s.tragets"]["line"] == len(g.path.read_text().splitlines())


async def test_I02_a_whole_file_is_taken_over_after_a_broken_one() -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p})) as g:
        g.path.write_text("version: 1\n")
        assert (await g.reload()).status == 422
        assert (await g.reload(config({"s": s}))).status == 200
        assert (await g.chat()).headers["x-stanchion-target"] == "s"
        assert await g.metric("stanchion_settings_last_reload_successful") == 1
