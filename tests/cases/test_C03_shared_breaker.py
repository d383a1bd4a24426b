"""A bad model opens its own breaker; a provider's opens when two of its models fail or its connections do."""

from __future__ import annotations

import pytest

from tests.cases.drive import MODES, breaker, by_model, said
from tests.fakes.behaviours import Behaviour, answer, status
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.lab import Json, Lab, config, lab

BAD = status(500)


def two_models(p: Upstream, s: Upstream) -> Json:
    values = config({"p": p, "s": s}, defaults={"retry": {"attempts": 0}, "breaker": {"minimum": 5}})
    values["targets"] = {
        "p1": {"provider": "p", "model": "m1"},
        "p2": {"provider": "p", "model": "m2"},
        "p3": {"provider": "p", "model": "m3"},
        "s": {"provider": "s", "model": "s-model"},
    }
    values["routes"] = {name: {"targets": [f"p{name[1]}", "s"]} for name in ("m1", "m2", "m3")}
    return values


def models(m1: Behaviour, m2: Behaviour) -> Behaviour:
    return by_model({"m1": m1, "m2": m2, "m3": answer()})


async def ask(g: Lab, model: str, times: int, *, stream: bool = False) -> None:
    for _ in range(times):
        assert said(await g.chat(model, stream=stream), stream=stream)


@pytest.mark.parametrize("stream", MODES)
async def test_C03_one_bad_model_blocks_only_itself(stream: bool) -> None:
    clock = ManualClock()
    async with Upstream("p", default=models(BAD, answer())) as p, Upstream("s") as s:
        async with lab(two_models(p, s), clock) as g:
            await ask(g, "m1", 10, stream=stream)
            assert p.attempts == 5
            assert await breaker(g, "p1") == ("open", 5, 5)
            assert (await breaker(g, "p2"))[0] == "closed"

            served = await g.chat("m2", stream=stream)
            assert said(served, stream=stream) == "hello from p"
            assert served.trail == ["p2 class=success"]
            assert await breaker(g, "s") == ("closed", 10, 0)


async def test_C03_two_bad_models_open_the_whole_provider() -> None:
    clock = ManualClock()
    async with Upstream("p", default=models(BAD, BAD)) as p, Upstream("s") as s:
        async with lab(two_models(p, s), clock) as g:
            await ask(g, "m1", 5)
            assert said(await g.chat("m3"), stream=False) == "hello from p"
            await ask(g, "m2", 5)
            before = p.attempts
            other = await g.chat("m3")
            assert other.trail == ["p3 skip=breaker", "s class=success"]
            assert p.attempts == before
            assert (await breaker(g, "s"))[0] == "closed"

            p.default = models(answer(), answer())
            await clock.run(10.0)
            assert said(await g.chat("m3"), stream=False) == "hello from p"


async def test_C03_two_targets_of_one_bad_model_do_not_open_the_provider() -> None:
    async with Upstream("p", default=models(BAD, answer())) as p, Upstream("s") as s:
        values = two_models(p, s)
        values["targets"]["again"] = {"provider": "p", "model": "m1"}
        values["routes"]["m1"] = {"targets": ["p1", "again", "s"]}
        async with lab(values, ManualClock()) as g:
            await ask(g, "m1", 5)
            assert (await breaker(g, "p1"))[0] == (await breaker(g, "again"))[0] == "open"
            assert said(await g.chat("m2"), stream=False) == "hello from p"


async def test_C03_failing_connections_open_the_whole_provider() -> None:
    clock = ManualClock()
    async with Upstream("p") as p, Upstream("s") as s, lab(two_models(p, s), clock) as g:
        await p.stop()
        await ask(g, "m1", 5)
        other = await g.chat("m2")
        assert other.trail == ["p2 skip=breaker", "s class=success"]

        await p.start()
        await clock.run(10.0)
        assert said(await g.chat("m2"), stream=False) == "hello from p"


@pytest.mark.parametrize("path", ["/v1/images/edits", "/v1/audio/transcriptions", "/v1/files"])
async def test_C03_uploads_have_no_route_and_open_no_breaker(path: str) -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nm1\r\n--x--\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    async with Upstream("p", default=BAD) as p, Upstream("s") as s, lab(two_models(p, s), ManualClock()) as g:
        for _ in range(10):
            refused = await g.post(path, part, headers=kind)
            assert (refused.status, refused.error["class"]) == (404, "not_found")
        body_of_chat = await g.post("/v1/chat/completions", part, headers=kind)
        assert (body_of_chat.status, body_of_chat.error["class"]) == (415, "bad_request")
        assert (p.attempts, s.attempts) == (0, 0)
        for target in ("p1", "p2", "p3", "s"):
            assert await breaker(g, target) == ("closed", 0, 0)
