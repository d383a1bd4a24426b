"""A reload: what goes on, what is new, and what is refused, on the admin address of a running gateway."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fakes import chat
from tests.fakes.behaviours import answer, gate, sse, status, wait
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.gateway.wire import chat_request, until, wire
from tests.lab import Json, Lab, config, lab

NO_RETRY: Json = {"retry": {"attempts": 0}}


async def applied(g: Lab, values: Json) -> str:
    """Reload these settings; their version."""
    answered = await g.reload(values)
    assert (answered.status, answered.json["applied"]) == (200, True), answered.body
    return str(answered.json["version"])


async def refused(g: Lab, values: Json) -> list[Json]:
    answered = await g.reload(values)
    assert (answered.status, answered.json["applied"]) == (422, False), answered.body
    problems = answered.json["problems"]
    assert all(problem.keys() == {"file", "line", "column", "path", "message"} for problem in problems)
    assert all(problem["file"] == str(g.path) for problem in problems)
    return list(problems)


async def state(g: Lab, name: str) -> str:
    return str((await g.target(name))["breaker"]["state"])


async def test_new_settings_hold_from_the_next_request_on() -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p})) as g:
        before = (await g.get("/admin/v1/targets", admin=True)).json["settings_version"]
        assert before == g.service.settings.version
        assert (await g.chat()).headers["x-stanchion-target"] == "p"
        version = await applied(g, config({"s": s}))
        assert version not in ("", before)
        assert (await g.get("/admin/v1/targets", admin=True)).json["settings_version"] == version
        assert (await g.chat()).headers["x-stanchion-target"] == "s"
        assert p.attempts == 1
        assert [line["event"] for line in g.log] == ["turn", "reload", "turn"]
        line = g.log[1]
        assert (line["applied"], line["trigger"]) == (True, "admin")
        assert (line["settings_version"], line["before"]) == (version, before)
        assert (line["targets"], line["routes"]) == (["+s", "-p"], ["~r"])
        assert await applied(g, config({"p": p})) == before, "the same file is the same version"


async def test_a_stream_runs_on_to_its_end_on_its_old_target() -> None:
    go = asyncio.Event()
    script = sse(chat.text_chunk("one "), wait(go), chat.text_chunk("two"), chat.finish_chunk(), chat.DONE)
    async with Upstream("p", default=script) as p, Upstream("s") as s, lab(config({"p": p})) as g:
        async with wire(g) as w:
            w.send(chat_request(stream=True))
            await w.head()
            await w.until_seen(b"one ")
            values = config({"s": s})
            values["routes"] = {"other": {"targets": ["s"]}}
            await applied(g, values)
            assert (await g.chat()).status == 404
            assert (await g.chat("other")).headers["x-stanchion-target"] == "s"
            assert p.connections_open == 1, "the connection in use stays"
            assert await g.metric("stanchion_in_flight", route="r") == 1
            go.set()
            await w.until_seen(b"[DONE]")
            assert await w.piece() == b""
        await until(lambda: p.connections_open == 0)
        assert p.connections_made == 1
        assert [(turn.get("target"), turn["outcome"]) for turn in g.turns] == [
            (None, "rejected"),
            ("s", "success"),
            ("p", "success"),
        ]
        assert await g.metric("stanchion_turns_total", route="r", outcome="success") == 1
        assert "stanchion_in_flight{route=" in (text := await exposition(g))
        assert 'stanchion_in_flight{route="r"}' not in text


async def exposition(g: Lab) -> str:
    return (await g.get("/metrics", admin=True)).body.decode()


async def test_a_request_that_waits_is_answered_by_the_route_that_it_came_for() -> None:
    """It falls back to a target that is gone, over connections that are closed already."""
    go = asyncio.Event()
    async with Upstream("p", default=gate(go, status(503))) as p, Upstream("s") as s, Upstream("n") as n:
        async with lab(config({"p": p, "s": s}, defaults=NO_RETRY)) as g:
            asked = asyncio.ensure_future(g.chat())
            await p.wait_for_requests(1)
            await applied(g, config({"n": n}))
            go.set()
            assert (await asked).trail == ["p class=overloaded", "s class=success"]
            await until(lambda: p.connections_open == s.connections_open == 0)
            assert (await g.chat()).trail == ["n class=success"]


async def test_a_request_whose_body_is_still_on_its_way_keeps_the_settings_that_it_began_with() -> None:
    request = chat_request(user="me")
    async with Upstream("p") as p, Upstream("s") as s:
        async with lab(config({"p": p}, callers=[{"name": "one", "key": "old-key"}])) as g, wire(g) as w:
            w.send(request.replace(b"\r\n", b"\r\nAuthorization: Bearer old-key\r\n", 1)[:-10])
            await w.drain()
            await until(lambda: g.service.in_flight)
            values = config({"s": s}, callers=[{"name": "one", "key": "new-key"}])
            values["routes"] = {"other": {"targets": ["s"]}}
            await applied(g, values)
            w.send(request[-10:])
            answered = await w.answer()
            assert (answered.status, answered.headers["x-stanchion-target"]) == (200, "p")
            assert await g.metric("stanchion_turns_total", route="r", outcome="success") == 1


async def test_an_open_breaker_stays_open_with_its_time_under_other_numbers() -> None:
    clock = ManualClock()
    strict: Json = {"breaker": {"minimum": 1, "failure_ratio": "1%"}, **NO_RETRY}
    wide: Json = {"breaker": {"minimum": 50, "window": "5m", "cooldown": "1h", "successes": "1"}, **NO_RETRY}
    async with Upstream("p", default=status(500)) as p, Upstream("s") as s:
        async with lab(config({"p": p, "s": s}, defaults=strict), clock) as g:
            await g.chat()
            await clock.run(4)
            assert (await g.target("p"))["breaker"]["retry_in_s"] == 6
            breaker = g.service.engine.targets["p"].breaker
            await applied(g, config({"p": p, "s": s}, defaults=wide))
            assert g.service.engine.targets["p"].breaker is breaker
            assert (await g.target("p"))["breaker"]["retry_in_s"] == 6
            assert await g.metric("stanchion_breaker_state", target="p") == 2
            assert (await g.chat()).trail == ["p skip=breaker", "s class=success"]
            await clock.run(6)
            assert (await g.chat()).trail == ["p class=server_error", "s class=success"]
            assert (await g.target("p"))["breaker"]["retry_in_s"] == 3600, "the probe failed under the new numbers"


async def test_samples_of_the_breaker_and_of_the_provider_go_on() -> None:
    """A failure before the reload and one after it together open the breaker."""
    two: Json = {"breaker": {"minimum": 2}, **NO_RETRY}
    async with Upstream("p", default=status(500)) as p, lab(config({"p": p}, defaults=two), ManualClock()) as g:
        await g.chat()
        other = {"breaker": {"minimum": 2, "window": "60s"}, "deadline": "90s", **NO_RETRY}
        await applied(g, config({"p": p}, defaults=other))
        assert await state(g, "p") == "closed"
        await g.chat()
        assert await state(g, "p") == "open"


async def test_another_model_under_the_name_is_another_target() -> None:
    strict: Json = {"breaker": {"minimum": 1}, **NO_RETRY}
    async with Upstream("p", default=status(500)) as p:
        async with lab(config({"p": p}, defaults=strict), ManualClock()) as g:
            await g.chat()
            old = g.service.engine.targets["p"]
            assert await state(g, "p") == "open"
            await applied(g, config({"p": p}, defaults=strict, target_p={"model": "another"}))
            assert await state(g, "p") == "closed"
            assert old.breaker.state == "open"
            assert await g.metric("stanchion_breaker_state", target="p") == 0
            assert await g.metric("stanchion_attempts_total", target="p", outcome="server_error") == 1
            assert (await g.target("p"))["counts"] == {"attempts": 1, "success": 0}


async def test_a_late_result_of_the_target_before_says_nothing_of_the_one_now() -> None:
    go = asyncio.Event()
    strict: Json = {"breaker": {"minimum": 1}, **NO_RETRY}
    async with Upstream("p", default=gate(go, status(500))) as p:
        async with lab(config({"p": p}, defaults=strict), ManualClock()) as g:
            asked = asyncio.ensure_future(g.chat())
            await p.wait_for_requests(1)
            await applied(g, config({"p": p}, defaults=strict, target_p={"model": "another"}))
            go.set()
            await asked
            assert (await g.target("p"))["breaker"]["samples"] == 0
            assert await state(g, "p") == "closed"
            assert not [line for line in g.log if line["event"] == "breaker"]


async def test_a_target_that_is_gone_is_not_heard_any_more() -> None:
    """Two models at one provider: of the one that is gone neither its opening is told, nor does it count for the provider."""
    go = asyncio.Event()
    strict: Json = {"breaker": {"minimum": 1}, **NO_RETRY}

    def values(p: Upstream, *models: str) -> Json:
        made = config({"p": p}, defaults=strict)
        made["targets"] = {name: {"provider": "p", "model": name} for name in models}
        made["routes"] = {"r": {"targets": list(models)}}
        return made

    async with Upstream("p", default=gate(go, status(500))) as p, lab(values(p, "m1", "m2"), ManualClock()) as g:
        provider = g.service.engine.providers["p"].breaker
        asked = asyncio.ensure_future(g.chat())
        await p.wait_for_requests(1)
        await applied(g, values(p, "m2"))
        assert g.service.engine.providers["p"].breaker is provider
        p.script(status(500))
        await g.chat()
        assert await state(g, "m2") == "open"
        go.set()
        await asked
        assert provider.breaker.state == "closed"
        assert [line["of"] for line in g.log if line["event"] == "breaker"] == ["m2"]


async def test_the_breaker_of_a_provider_takes_the_new_numbers_over() -> None:
    async with Upstream("p") as p, lab(config({"p": p}, defaults={"breaker": {"minimum": 50}, **NO_RETRY})) as g:
        provider = g.service.engine.providers["p"].breaker
        await applied(g, config({"p": p}, defaults={"breaker": {"minimum": 1}, **NO_RETRY}))
        await p.stop()
        await g.chat()
        assert provider.breaker.state == "open"
        assert g.service.engine.providers["p"].breaker is provider


QUOTA = {"requests_per_minute": 60, "tokens_per_minute": 6000, "burst": "60s", "concurrency": 3}


async def levels(g: Lab) -> tuple[float, float, float, float, int, int | None]:
    quota = (await g.target("p"))["quota"]
    requests, tokens = quota["requests"], quota["tokens"]
    return (
        *(requests["level"], requests["capacity"], tokens["level"], tokens["capacity"]),
        *(quota["in_flight"], quota["concurrency"]),
    )


async def test_buckets_keep_their_level_and_settle_what_was_in_flight() -> None:
    go, clock = asyncio.Event(), ManualClock()
    async with Upstream("p", default=gate(go, answer(usage=(100, 50)))) as p:
        async with lab(config({"p": p}, target_p={"quota": QUOTA}), clock) as g:
            asked = [asyncio.ensure_future(g.chat(max_tokens=1000)) for _ in range(2)]
            await p.wait_for_requests(2)
            reserved = 6000 - (await levels(g))[2]
            assert reserved >= 2000
            larger = {"requests_per_minute": 600, "tokens_per_minute": 60_000, "burst": "60s", "concurrency": 1}
            await applied(g, config({"p": p}, target_p={"quota": larger}))
            assert await levels(g) == (58, 600, 6000 - reserved, 60_000, 2, 1), "more capacity does not fill a bucket"
            assert (await g.chat()).json["error"]["class"] == "shed", "two are in flight where one is allowed now"
            clock.advance(1)
            assert (await levels(g))[0::2][:2] == (68, 6000 - reserved + 1000)
            go.set()
            await asyncio.gather(*asked)
            await until(lambda: not g.service.in_flight)
            assert await levels(g) == (68, 600, 7000 - 2 * 150, 60_000, 0, 1)
            assert await g.metric("stanchion_quota_level", target="p", kind="tokens") == 6700
            assert await g.metric("stanchion_quota_capacity", target="p", kind="tokens") == 60_000


async def test_a_smaller_bucket_clips_its_level_and_a_limit_can_come_and_go() -> None:
    async with Upstream("p", default=answer(usage=(100, 50))) as p:
        async with lab(config({"p": p}, target_p={"quota": QUOTA}), ManualClock()) as g:
            await g.chat()
            await applied(g, config({"p": p}, target_p={"quota": {"requests_per_minute": 6, "burst": "60s"}}))
            quota = (await g.target("p"))["quota"]
            assert quota["requests"] == {"level": 6, "capacity": 6}
            assert (quota["tokens"], quota["concurrency"]) == (None, None)
            assert 'stanchion_quota_level{kind="tokens"' not in await exposition(g)
            await applied(g, config({"p": p}, target_p={"quota": QUOTA}))
            assert (await levels(g))[:4] == (6, 60, 6000, 6000), "a limit that is new starts full"


async def test_what_was_learned_of_answers_goes_on() -> None:
    tokens = {"tokens_per_minute": 60_000, "burst": "60s"}
    async with Upstream("p", default=answer(usage=(10, 2000))) as p:
        async with lab(config({"p": p}, target_p={"quota": tokens}), ManualClock()) as g:
            await g.chat()
            estimate = g.service.engine.targets["p"].estimate
            assert estimate.expect(None) == 2000
            await applied(g, config({"p": p}, target_p={"quota": tokens, "context_window": 8000}))
            assert g.service.engine.targets["p"].estimate is estimate
            assert (estimate.expect(None), estimate.context_window) == (2000, 8000)


async def hold(g: Lab, name: str = "p") -> Any:
    found = (await g.target(name))["hold"]
    return found and found["reason"]


@pytest.mark.parametrize(
    ("failure", "reason", "cleared"),
    [
        (status(429, "insufficient_quota"), "quota_exhausted", True),
        (status(401), "credential", True),
        (status(429), "rate_limited", False),
        (status(404, "model_not_found"), "model_unavailable", False),
        (status(503, headers={"Retry-After": "60"}), "overloaded", False),
    ],
)
async def test_a_new_key_clears_what_was_the_keys_own_fault(failure: Any, reason: str, cleared: bool) -> None:
    async with Upstream("p", default=failure) as p, Upstream("s") as s:
        async with lab(config({"p": p, "s": s}, defaults=NO_RETRY), ManualClock()) as g:
            await g.chat()
            assert await hold(g) == reason
            unchanged = config({"p": p, "s": s}, defaults={**NO_RETRY, "deadline": "100s"}, target_p={"weight": "1"})
            await applied(g, unchanged)
            assert await hold(g) == reason, "nothing else clears it"
            p.default = answer()
            new_key = {"api_key": "sk-new"}
            await applied(g, config({"p": p, "s": s}, defaults=NO_RETRY, provider_p=new_key))
            assert await hold(g) == (None if cleared else reason)
            await g.chat()
            assert [seen.header("Authorization") for seen in p.requests] == (
                ["Bearer sk-p", "Bearer sk-new"] if cleared else ["Bearer sk-p"]
            )


async def test_only_the_changed_credential_is_cleared() -> None:
    def values(p: Upstream, one: str, two: str) -> Json:
        keys = [{"name": "one", "api_key": one}, {"name": "two", "api_key": two}]
        made = config({"p": p}, defaults=NO_RETRY)
        del made["providers"]["p"]["api_key"]
        made["providers"]["p"]["credentials"] = keys
        made["targets"] = {
            "t1": {"provider": "p", "model": "m1", "credential": "one"},
            "t2": {"provider": "p", "model": "m2", "credential": "two"},
        }
        made["routes"] = {"r": {"targets": ["t1", "t2"]}}
        return made

    async with Upstream("p", default=status(402)) as p, lab(values(p, "sk-1", "sk-2"), ManualClock()) as g:
        await g.chat()
        assert (await hold(g, "t1"), await hold(g, "t2")) == ("quota_exhausted", "quota_exhausted")
        await applied(g, values(p, "sk-1", "sk-new"))
        assert (await hold(g, "t1"), await hold(g, "t2")) == ("quota_exhausted", None)
        await applied(g, values(p, "sk-other", "sk-new"))
        assert await hold(g, "t1") is None
        await applied(g, values(p, "sk-1", "sk-new"))
        assert await hold(g, "t1") is None, "the key of before is another chance too"


async def test_a_late_refusal_of_the_old_key_does_not_hold_the_new_one() -> None:
    go = asyncio.Event()
    async with Upstream("p", default=gate(go, status(401))) as p:
        async with lab(config({"p": p}, defaults=NO_RETRY), ManualClock()) as g:
            asked = asyncio.ensure_future(g.chat())
            await p.wait_for_requests(1)
            await applied(g, config({"p": p}, defaults=NO_RETRY, provider_p={"api_key": "sk-new"}))
            p.default = answer()
            go.set()
            assert (await asked).error["class"] == "credential"
            assert await hold(g) is None
            assert (await g.chat()).status == 200
            assert p.requests[-1].header("Authorization") == "Bearer sk-new"


@pytest.mark.parametrize(
    ("changed", "kept"),
    [
        ({"api_key": "sk-new"}, True),
        ({"headers": {"x-team": "blue"}}, True),
        ({"max_connections": 7}, False),
        ({"pool_wait": "2s"}, False),
        ({"max_connection_age": "1m"}, False),
    ],
)
async def test_connections_are_kept_while_what_makes_them_is_the_same(changed: Json, kept: bool) -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        await g.chat()
        await applied(g, config({"p": p}, provider_p=changed))
        await until(lambda: p.connections_open == kept)
        await g.chat()
        assert [seen.connection for seen in p.requests] == ([1, 1] if kept else [1, 2])


async def test_another_address_is_asked_at_once_and_keeps_what_was_learned() -> None:
    async with Upstream("old") as old, Upstream("new") as new:
        async with lab(config({"p": old}, target_p={"quota": QUOTA}), ManualClock()) as g:
            await g.chat()
            quota = g.service.engine.targets["p"].quota
            await applied(g, config({"p": new}, target_p={"quota": QUOTA}))
            await until(lambda: old.connections_open == 0)
            await g.chat()
            assert (old.attempts, new.attempts) == (1, 1)
            assert g.service.engine.targets["p"].quota is quota


async def test_series_of_new_names_begin_at_zero_and_counters_never_go_down() -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p})) as g:
        await g.chat()
        values = config({"s": s, "n": "http://127.0.0.1:9/v1"})
        values["routes"]["q"] = {"targets": ["s", "n"]}
        await applied(g, values)
        assert await g.metric("stanchion_turns_total", route="q", outcome="failed") == 0
        assert await g.metric("stanchion_attempts_total", target="s", outcome="connect") == 0
        assert await g.metric("stanchion_failovers_total", **{"from": "s", "to": "n", "reason": "connect"}) == 0
        assert await g.metric("stanchion_in_flight", route="q") == 0
        assert await g.metric("stanchion_attempts_total", target="p", outcome="success") == 1
        assert await g.metric("stanchion_turns_total", route="r", outcome="success") == 1
        text = await exposition(g)
        assert 'stanchion_breaker_state{target="s"}' in text
        assert 'stanchion_breaker_state{target="p"}' not in text
        assert 'stanchion_hold_seconds{reason="credential",target="p"}' not in text
        await applied(g, config({"p": p}))
        await g.chat()
        assert await g.metric("stanchion_attempts_total", target="p", outcome="success") == 2
        assert (await g.target("p"))["counts"] == {"attempts": 2, "success": 2}


async def test_reloads_are_counted() -> None:
    clock = ManualClock()
    async with Upstream("p") as p, lab(config({"p": p}), clock) as g:

        async def seen() -> list[float]:
            names = ("successful", "success_timestamp_seconds")
            counts = [await g.metric("stanchion_settings_reloads_total", result=one) for one in ("applied", "refused")]
            return [*counts, *[await g.metric(f"stanchion_settings_last_reload_{name}") for name in names]]

        start = clock.wall()
        assert await seen() == [0, 0, 1, start]
        clock.advance(10)
        await refused(g, config({"p": p}, nonsense={}))
        assert await seen() == [0, 1, 0, start]
        await applied(g, config({"p": p}))
        assert await seen() == [1, 1, 1, start + 10]


@pytest.mark.parametrize(
    ("gateway", "path"),
    [
        ({"listen": "127.0.0.1:1"}, "gateway.listen"),
        ({"admin": "127.0.0.1:1"}, "gateway.admin"),
    ],
)
async def test_what_needs_a_restart_is_refused_with_its_place(gateway: Json, path: str) -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        version = g.service.settings.version
        values = config({"p": p})
        values["gateway"].update(gateway)
        (problem,) = await refused(g, values)
        assert problem["path"] == path
        assert "restart" in problem["message"]
        line = g.path.read_text("utf-8").splitlines()[problem["line"] - 1]
        assert line[problem["column"] - 1 :] == "127.0.0.1:1"
        assert g.service.settings.version == version


async def test_all_else_of_the_gateway_is_taken_over() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        values = config({"p": p})
        values["gateway"].update(
            admin_token="secret-token",
            max_body="32B",
            header_timeout="1h",
            drain="7s",
            region="eu",
            log={"level": "error"},
            watch="false",
        )
        await applied(g, values)
        assert (await g.get("/admin/v1/targets", admin=True)).status == 401
        token = {"Authorization": "Bearer secret-token"}
        assert (await g.get("/admin/v1/targets", admin=True, headers=token)).json["region"] == "eu"
        assert (await g.chat()).status == 413
        assert g.log == [], "its own line is below the new level already"
        for runner in (g.server._public, g.server._admin):
            assert getattr(runner.server, "header_timeout_s", None) == 3600
        assert (await g.reload(config({"p": p}))).status == 401, "a reload asks for the token"
        assert g.service.settings.version == str(g.service.live.settings.version)


async def test_the_token_is_asked_for_and_web_pages_are_sent_away() -> None:
    async with Upstream("p") as p:
        values = config({"p": p})
        async with lab(values) as g:
            for origin, code in (("https://evil.example", 403), ("http://localhost:3000", 200)):
                async with g.session.post(g.admin_url + "/admin/v1/reload", headers={"Origin": origin}) as response:
                    assert response.status == code
            assert (await g.get("/admin/v1/reload", admin=True)).status == 405
        values["gateway"]["admin_token"] = "secret-token"
        async with lab(values) as g:
            for token, code in (("secret-token", 200), ("other", 401)):
                headers = {"Authorization": f"Bearer {token}"}
                async with g.session.post(g.admin_url + "/admin/v1/reload", headers=headers) as response:
                    assert response.status == code


async def test_callers_are_those_of_the_new_settings() -> None:
    def keyed(key: str) -> Json:
        return config({"p": p}, callers=[{"name": "one", "key": key}])

    async with Upstream("p") as p, lab(keyed("old-key")) as g:
        await applied(g, keyed("new-key"))
        assert (await g.chat(headers={"Authorization": "Bearer old-key"})).status == 401
        assert (await g.chat(headers={"Authorization": "Bearer new-key"})).status == 200
        models = await g.get("/v1/models", headers={"Authorization": "Bearer new-key"})
        assert [one["id"] for one in models.json["data"]] == ["r"]


async def test_variables_come_from_the_process_environment() -> None:
    values = config({"p": "http://127.0.0.1:9/v1"}, provider_p={"api_key": "${KEY}"})
    async with lab(values, environ={"KEY": "sk-from-there"}) as g:
        await applied(g, {**values, "defaults": {"deadline": "9s"}})
        assert g.service.settings.targets[0].credential.api_key == "sk-from-there"
        values["providers"]["p"]["api_key"] = "${NOT_SET}"
        (problem,) = await refused(g, values)
        assert "NOT_SET" in problem["message"]
        assert "sk-from-there" not in g.out.getvalue()


async def test_a_reload_while_draining_is_refused() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        version = g.service.settings.version
        g.service.draining = True
        (problem,) = await refused(g, config({"p": p}, defaults=NO_RETRY))
        assert "drains" in problem["message"]
        assert g.service.settings.version == version


async def test_a_fault_of_the_gateways_own_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p})) as g:
        live = g.service.live

        def no_connections(spec: object) -> None:
            raise RuntimeError("sk-p")

        monkeypatch.setattr(live.engine, "_make_transport", no_connections)
        (problem,) = await refused(g, config({"p": p, "s": s}, defaults={"breaker": {"minimum": 1}}))
        assert "crash" in problem["message"]
        assert [line["event"] for line in g.log] == ["crash", "reload"]
        assert "sk-p" not in g.out.getvalue()
        assert g.service.live is live
        assert (await g.chat()).status == 200
