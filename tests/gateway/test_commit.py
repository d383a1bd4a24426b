"""When a streamed answer is the caller's: every form of commit, from the settings and from the request."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes import chat
from tests.fakes.behaviours import Behaviour, Step, cut, rst, silent, sse, wait
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.gateway.wire import chat_request, idle, serves, until, wire
from tests.lab import config, lab

COMPLETE = {"x-stanchion-commit": "complete"}


def pieces(count: int, *, name: str = "p") -> list[bytes]:
    """A role and so many text pieces of about one token each, marked with the target's name."""
    return [chat.role_chunk(), *(chat.text_chunk(f"{name}{number:03d} ") for number in range(count))]


def whole(count: int, *, name: str = "p") -> list[bytes]:
    return [*pieces(count, name=name), chat.finish_chunk(), chat.DONE]


BROKEN: dict[str, Step] = {
    "cut": cut(),
    "reset": rst(),
    "error": chat.error_event({"message": "too much", "type": "overloaded_error"}),
    "nonsense": b"data: {nonsense}\n\n",
    "no-finish": b": nothing more\n\n",
}


@pytest.mark.parametrize("broken", BROKEN)
async def test_a_held_answer_that_breaks_off_is_rescued_unseen(broken: str) -> None:
    route = {"retry": {"attempts": 0}}
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=route)) as g:
        p.default = sse(*pieces(40), BROKEN[broken])
        got = await g.chat(stream=True, headers=COMPLETE)
        assert (got.status, got.clean, got.streamed_text) == (200, True, "hello from s")
        assert b"p0" not in got.body
        assert got.headers["x-stanchion-target"] == "s"
        assert g.turns[-1]["outcome"] == "rescued"
        assert (await g.target("p"))["breaker"]["failures"] == 1
        await idle(g)


async def test_a_stall_in_a_held_answer_is_rescued_by_the_idle_limit() -> None:
    clock = ManualClock()
    route = {"timeouts": {"idle": "5s"}}
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=route), clock) as g:
        stalled = asyncio.Event()

        async def stall(exchange: object) -> None:
            stalled.set()
            await asyncio.Event().wait()

        p.script(sse(*pieces(40), stall))
        asked = asyncio.ensure_future(g.chat(stream=True, headers=COMPLETE))
        await stalled.wait()
        target = g.service.engine.targets["p"]
        await until(lambda: target.quota.levels().in_flight == 1)
        await asyncio.sleep(0.05)  # what was sent has to arrive, and the clock stands still meanwhile
        await clock.run(5.1)
        got = await asked
        assert (got.clean, got.streamed_text) == (True, "hello from s")
        assert got.trail == ["p class=timeout_idle", "s class=success"]


async def test_a_held_answer_is_sent_whole_and_its_attempt_is_over_before_the_caller_reads() -> None:
    async with Upstream("p") as p, lab(config({"p": p}, target_p={"quota": {"concurrency": 1}})) as g:
        p.script(sse(*whole(60)))
        async with wire(g) as w:
            w.send(chat_request(stream=True).replace(b"\r\n\r\n", b"\r\nx-stanchion-commit: complete\r\n\r\n", 1))
            status, headers = await w.head()
            assert (status, headers["x-stanchion-attempts"].split(";")[:2]) == (200, ["p", "class=success"])
            assert (await g.target("p"))["quota"]["in_flight"] == 0
            text = await w.until_seen(b"[DONE]")
            assert text.count(b"p0") == 60
        await idle(g)
        assert await g.metric("stanchion_attempts_total", target="p", outcome="success") == 1


async def test_the_routes_commit_holds_without_a_header_and_a_header_may_weaken_it() -> None:
    route = {"stream": {"commit": "complete"}}
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}, route=route)) as g:
        p.default = sse(*pieces(3), cut())
        assert (await g.chat(stream=True)).streamed_text == "hello from s"
        got = await g.chat(stream=True, headers={"x-stanchion-commit": "first_output"})
        assert (got.clean, got.headers["x-stanchion-target"]) == (False, "p")


@pytest.mark.parametrize(("sent", "rescued"), [(10, True), (200, False)])
async def test_so_many_tokens_commit(sent: int, rescued: bool) -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s})) as g:
        p.script(sse(*pieces(sent), cut()))
        got = await g.chat(stream=True, headers={"x-stanchion-commit": "tokens=50"})
        assert got.clean is rescued
        if rescued:
            assert got.streamed_text == "hello from s"
        else:
            assert len(got.error_events) == 1
            assert "hello" not in got.streamed_text


async def test_an_answer_shorter_than_the_tokens_is_sent_at_its_end() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        got = await g.chat(stream=True, headers={"x-stanchion-commit": "tokens=5000"})
        assert (got.clean, got.streamed_text) == (True, "hello from p")


async def test_a_time_commits_while_the_provider_is_waited_for() -> None:
    clock = ManualClock()
    go = asyncio.Event()
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}), clock) as g:
        p.script(sse(*pieces(3), wait(go), *whole(0)[1:]))
        async with wire(g) as w:
            w.send(chat_request(stream=True).replace(b"\r\n\r\n", b"\r\nx-stanchion-commit: time=2s\r\n\r\n", 1))
            head = asyncio.ensure_future(w.head())
            target = g.service.engine.targets["p"]
            await until(lambda: target.quota.levels().in_flight == 1 and p.attempts == 1)
            await asyncio.sleep(0.05)
            await clock.run(1.9)
            assert not head.done()
            await clock.run(0.2)
            await head
            text = await w.until_seen(b"p002")
            go.set()
            text += await w.until_seen(b"[DONE]")
        assert text.count(b"p0") == 3
        assert s.attempts == 0
        await idle(g)


async def test_before_its_time_a_cut_is_rescued() -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}), ManualClock()) as g:
        p.script(sse(*pieces(3), cut()))
        got = await g.chat(stream=True, headers={"x-stanchion-commit": "time=2s"})
        assert (got.clean, got.streamed_text) == (True, "hello from s")


async def test_a_heartbeat_keeps_a_caller_whose_answer_is_held() -> None:
    clock = ManualClock()
    go = asyncio.Event()
    async with Upstream("p") as p, lab(config({"p": p}, route={"timeouts": {"idle": "60s"}}), clock) as g:
        p.script(sse(*pieces(3), wait(go), *whole(0)[1:]))
        async with wire(g) as w:
            w.send(chat_request(stream=True).replace(b"\r\n\r\n", b"\r\nx-stanchion-commit: complete\r\n\r\n", 1))
            await until(lambda: p.attempts == 1)
            await asyncio.sleep(0.05)
            await clock.run(14.9)
            await clock.run(0.2)
            assert (await w.head())[0] == 200
            assert await w.piece() == b": waiting\n\n"
            go.set()
            text = await w.until_seen(b"[DONE]")
            assert b": stanchion-attempts p;class=success" in text
            assert text.count(b"p0") == 3
        await idle(g)


@pytest.mark.parametrize("written", ["whole", "tokens", "tokens=0", "tokens=x", "time=2", "time=0s", "", "complete=1"])
async def test_a_header_that_says_nothing_is_refused_with_what_to_write(written: str) -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        got = await g.chat(stream=True, headers={"x-stanchion-commit": written})
        assert (got.status, got.error["param"]) == (400, "x-stanchion-commit")
        assert "first_output, complete, tokens=50 or time=2s" in got.error["message"]
        assert p.attempts == 0
        await serves(g)


async def test_a_plain_call_takes_no_notice() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        for commit in ("complete", "tokens=5", "time=2s"):
            assert (await g.chat(headers={"x-stanchion-commit": commit})).text == "hello from p"


async def test_while_another_target_is_left_a_held_stream_leaves_it_its_time() -> None:
    """With a deadline of 20 s the first target has 10 of them, though its total would be 120."""
    clock = ManualClock()
    ticking: Behaviour = sse(*pieces(1), silent())
    async with (
        Upstream("p") as p,
        Upstream("s") as s,
        lab(config({"p": p, "s": s}, route={"deadline": "20s", "timeouts": {"idle": "100s"}}), clock) as g,
    ):
        p.script(ticking)
        asked = asyncio.ensure_future(g.chat(stream=True, headers=COMPLETE))
        await until(lambda: p.attempts == 1)
        await asyncio.sleep(0.05)
        await clock.run(10.1)
        got = await asked
        assert got.trail == ["p class=timeout_total", "s class=success"]


async def test_a_provider_that_hangs_after_its_finish_reason_is_ended_by_linger_though_the_usage_was_waited_for() -> (
    None
):
    clock = ManualClock()
    sent = asyncio.Event()

    async def told(exchange: object) -> None:
        sent.set()

    async with Upstream("p") as p, lab(config({"p": p}), clock) as g:
        p.script(sse(*pieces(3), chat.finish_chunk(), told, silent()))
        asked = asyncio.ensure_future(g.chat(stream=True, max_tokens=50))
        await sent.wait()
        await asyncio.sleep(0.05)
        await clock.run(2.1)
        got = await asked
        assert (got.clean, got.streamed_text.count("p0")) == (True, 3)
        assert got.trail == ["p class=success"]


async def test_a_gated_usage_decides_over_the_finish_reason() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        p.script(sse(*pieces(3), chat.finish_chunk(), chat.usage_chunk(12, 50), chat.DONE))
        got = await g.chat(stream=True, max_tokens=50)
        reasons = [c["finish_reason"] for e in got.events if isinstance(e, dict) for c in e["choices"]]
        assert [reason for reason in reasons if reason] == ["length"]
        assert not any(e.get("usage") for e in got.events if isinstance(e, dict))
