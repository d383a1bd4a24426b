"""A reload is one step: every request is answered by one version of the settings, and reloads do not overlap."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref

import pytest

from gateway import reload as reload_module
from gateway.settings.load import load
from tests.fakes.behaviours import answer, status
from tests.fakes.upstream import Exchange, Upstream
from tests.gateway.wire import GUARD_S, idle, until
from tests.lab import Answer, Json, Lab, config, lab, write

RELOADS, CALLERS = 20, 50


def version(k: int, p: Upstream, s: Upstream) -> Json:
    """Settings in which all that a request can meet says which version they are."""

    def of(name: str) -> tuple[Json, Json]:
        provider = {"api_key": f"sk-{name}-{k}", "headers": {"x-version": str(k)}, "max_connections": 200 + k % 3}
        return provider, {"model": f"{name}-{k}", "quota": {"requests_per_minute": 1_000_000 + k}}

    (provider_p, target_p), (provider_s, target_s) = of("p"), of("s")
    return config(
        {"p": p, "s": s},
        provider_p=provider_p,
        provider_s=provider_s,
        target_p=target_p,
        target_s=target_s,
        defaults={"retry": {"attempts": 0}, "breaker": {"minimum": 100_000}, "deadline": f"{100 + k}s"},
    )


async def test_every_request_is_answered_by_one_version() -> None:
    done = 0
    turned = asyncio.Condition()
    asked: dict[str, Answer] = {}

    async def until_the_next_reload(exchange: Exchange) -> None:
        """The first target fails after the settings have changed: the second one is asked under them, or it is not."""
        async with turned:
            since = done
            await turned.wait_for(lambda: done > since or done == RELOADS)
        await status(503)(exchange)

    async with Upstream("p", default=until_the_next_reload) as p, Upstream("s") as s:
        async with lab(version(0, p, s)) as g:

            async def caller(number: int) -> None:
                turn = 0
                while done < RELOADS:
                    name = f"{number}-{turn}"
                    asked[name] = await g.chat(user=name, stream=bool(turn % 2))
                    turn += 1

            async with asyncio.timeout(4 * GUARD_S):
                callers = [asyncio.ensure_future(caller(number)) for number in range(CALLERS)]
                for k in range(1, RELOADS + 1):
                    await p.wait_for_requests(p.attempts + (1 if k > 1 else CALLERS))
                    assert (await g.reload(version(k, p, s))).status == 200
                    async with turned:
                        done = k
                        turned.notify_all()
                await asyncio.gather(*callers)
            assert (await g.chat(user="last")).headers["x-stanchion-model"] == f"s-{RELOADS}"
            await idle(g)
            await until(lambda: p.connections_open <= 250 and all(seen.over for seen in (*p.requests, *s.requests)))
    seen: dict[str, set[str]] = {name: set() for name in asked}
    for upstream in (p, s):
        for one in upstream.requests:
            body = one.json
            if body["user"] in seen:
                key = str(one.header("Authorization")).rpartition("-")[2]
                seen[body["user"]] |= {body["model"].rpartition("-")[2], key, str(one.header("x-version"))}
    assert len(asked) >= CALLERS * 2
    assert {name: answered.status for name, answered in asked.items() if answered.status != 200} == {}
    for name, answered in asked.items():
        assert seen[name] == {answered.headers["x-stanchion-model"].rpartition("-")[2]}, name
    assert len(set().union(*seen.values())) >= RELOADS // 2, "the versions were really asked"


async def test_two_at_once_come_one_after_the_other_and_the_last_file_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, under_way, most = asyncio.get_running_loop(), 0, 0
    begun, go = asyncio.Event(), asyncio.Event()

    def slowly(*arguments: object) -> object:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result(GUARD_S)
        under_way -= 1
        return load(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(reload_module, "load", slowly)
    async with Upstream("p") as p, lab(config({"p": p})) as g:

        def deadline(seconds: int) -> Json:
            return config({"p": p}, defaults={"deadline": f"{seconds}s"})

        first = asyncio.ensure_future(g.reload(deadline(1)))
        await begun.wait()
        write(g.path, deadline(2))
        others = [g.server.reloader.request("test") for _ in range(5)]
        assert (await g.chat()).status == 200, "requests are served meanwhile"
        go.set()
        results = [await other for other in others]
        assert len({id(result) for result in results}) == 1, "those that waited had the same file to read"
        assert most == 1
        assert (await first).status == 200
        assert g.service.settings.routes[0].deadline_s == 2
        assert results[0].version == g.service.settings.version
        assert sum(line["event"] == "reload" for line in g.log) == 2


async def test_a_reload_goes_on_when_its_caller_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    begun, go = asyncio.Event(), asyncio.Event()

    def slowly(*arguments: object) -> object:
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result(GUARD_S)
        return load(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(reload_module, "load", slowly)
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        asked = asyncio.ensure_future(g.reload(config({"p": p}, defaults={"deadline": "9s"})))
        await begun.wait()
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        go.set()
        await until(lambda: g.service.settings.routes[0].deadline_s == 9)


async def test_a_drain_that_begins_meanwhile_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(*arguments: object) -> object:
        g.service.draining = True
        return load(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(reload_module, "load", meanwhile)
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        before = g.service.live
        assert (await g.reload(config({"p": p}, defaults={"deadline": "9s"}))).status == 422
        assert g.service.live is before


async def test_what_has_not_changed_is_the_same_object() -> None:
    async with Upstream("p") as p, Upstream("s") as s:
        values = config({"p": p, "s": s})
        values["routes"]["only-s"] = {"targets": ["s"], "hedge": {"after": "1s"}}
        async with lab(values) as g:
            before = g.service.engine
            values["targets"]["p"]["weight"] = "1"
            await g.reload(values)
            now = g.service.engine
            assert now is not before
            assert now.targets["s"] is before.targets["s"]
            assert now.targets["p"] is not before.targets["p"]
            assert now.routes["only-s"] is before.routes["only-s"], "what its hedges have saved up stays"
            assert now.routes["r"] is not before.routes["r"]


async def served(g: Lab) -> None:
    body = json.loads((await g.chat()).body)
    assert body["choices"]


async def test_a_hundred_reloads_leave_nothing_behind() -> None:
    async with Upstream("p", default=answer()) as p, lab(config({"p": p})) as g:
        await served(g)
        first = [weakref.ref(one) for one in (g.service.engine, g.service.engine.providers["p"].transport)]
        for k in range(100):
            await g.reload(config({"p": p}, provider_p={"max_connections": 10 + k}))
            if k % 10 == 0:
                await served(g)
        await until(lambda: p.connections_open <= 1)
        assert not g.server.reloader._tasks
        gc.collect()
        assert [one() for one in first] == [None, None]
