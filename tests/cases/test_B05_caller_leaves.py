"""B05: the caller goes away: the provider's connection is closed, all is given back, and nobody is to blame."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from availability.outcome import Outcome, standing
from tests.fakes.behaviours import answer, cut_after, gate, silent, status
from tests.fakes.clock import ManualClock
from tests.fakes.exchange import Exchange
from tests.fakes.upstream import Upstream
from tests.gateway.wire import chat_body, chat_request, idle, serves, until, wire
from tests.lab import Lab, config, lab

TOKENS_A_MINUTE = 60_000
CAPACITY = 10_000  # of the bucket: ten seconds' worth
QUOTA = {"requests_per_minute": 600, "tokens_per_minute": TOKENS_A_MINUTE, "concurrency": 4}


@asynccontextmanager
async def metered(p: Upstream, s: Upstream) -> AsyncIterator[Lab]:
    """Two targets, the first behind a quota, on a clock that stands still: nothing is refilled."""
    async with lab(config({"p": p, "s": s}, target_p={"quota": QUOTA}), ManualClock()) as g:
        yield g


async def left_alone(g: Lab, p: Upstream, s: Upstream, used_tokens: int) -> None:
    """All is as before, but for the tokens that were used."""
    await idle(g)
    assert await g.metric("stanchion_upstream_connections", provider="p", state="in_use") == 0
    target = await g.target("p")
    assert target["quota"]["in_flight"] == 0
    assert target["quota"]["tokens"] == {"level": CAPACITY - used_tokens, "capacity": CAPACITY}
    assert target["breaker"] == {"state": "closed", "samples": 0, "failures": 0, "retry_in_s": 0}
    assert target["hold"] is None
    assert s.attempts == 0
    assert [(turn["outcome"], turn["status"]) for turn in g.turns] == [("client_closed", 499)]
    assert standing(Outcome.CLIENT_CLOSED) == "excluded"
    assert await g.metric("stanchion_turns_total", route="r", outcome="client_closed") == 1
    assert await g.metric("stanchion_attempts_total", target="p", outcome="cancelled") == 1
    p.default = answer(usage=(1, 1))
    await serves(g)
    assert p.attempts == 2


def input_tokens(*, stream: bool | None = None) -> int:
    """What the gateway estimates for the request that is sent here."""
    return len(chat_body() if stream is None else chat_body(stream=stream)) // 4


async def test_B05_a_while_a_plain_call_runs() -> None:
    async with Upstream("p", default=silent()) as p, Upstream("s") as s, metered(p, s) as g:
        async with wire(g) as w:
            w.send(chat_request())
            seen = await p.wait_for_requests(1)
            assert (await g.target("p"))["quota"]["in_flight"] == 1
            w.abort()
            await seen.wait_closed()
        await left_alone(g, p, s, input_tokens())


async def test_B05_b_before_the_first_token_of_a_stream() -> None:
    async with Upstream("p", default=silent()) as p, Upstream("s") as s, metered(p, s) as g:
        async with wire(g) as w:
            w.send(chat_request(stream=True))
            seen = await p.wait_for_requests(1)
            w.abort()
            await seen.wait_closed()
        await left_alone(g, p, s, input_tokens(stream=True))


async def test_B05_c_after_three_pieces() -> None:
    async with Upstream("p", default=cut_after(3, silent())) as p, Upstream("s") as s, metered(p, s) as g:
        async with wire(g) as w:
            w.send(chat_request(stream=True))
            await w.head()
            await w.until_seen(b"p2 ")
            w.abort()
            await p.requests[0].wait_closed()
        await left_alone(g, p, s, input_tokens(stream=True) + 3)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_a_caller_that_closes_in_order_has_left_too(stream: bool) -> None:
    async with Upstream("p", default=silent()) as p, Upstream("s") as s, metered(p, s) as g:
        async with wire(g) as w:
            w.send(chat_request(stream=stream))
            seen = await p.wait_for_requests(1)
            await w.close()
            await seen.wait_closed()
        await left_alone(g, p, s, input_tokens(stream=stream))


async def test_during_the_wait_before_a_retry() -> None:
    clock = ManualClock()
    async with Upstream("p", default=status(500)) as p, Upstream("s") as s:
        async with lab(config({"p": p, "s": s}), clock) as g:
            async with wire(g) as w:
                w.send(chat_request())
                await until(lambda: g.service.tally.targets["p"].attempts == 1)
                w.abort()
                await idle(g)
            await clock.run(60)
            assert (p.attempts, s.attempts) == (1, 0)
            assert g.turns[-1]["outcome"] == "client_closed"


async def test_on_the_second_target_the_first_ones_failure_stays_counted() -> None:
    values = {"retry": {"attempts": 0}}
    async with Upstream("p", default=status(500)) as p, Upstream("s", default=silent()) as s:
        async with lab(config({"p": p, "s": s}, defaults=values), ManualClock()) as g:
            async with wire(g) as w:
                w.send(chat_request())
                seen = await s.wait_for_requests(1)
                w.abort()
                await seen.wait_closed()
            await idle(g)
            assert (await g.target("p"))["breaker"]["failures"] == 1
            assert (await g.target("s"))["breaker"]["samples"] == 0
            assert g.turns[-1]["outcome"] == "client_closed"
            assert await g.metric("stanchion_attempts_total", target="p", outcome="server_error") == 1
            assert await g.metric("stanchion_attempts_total", target="s", outcome="cancelled") == 1


async def test_many_that_leave_together_give_every_place_back() -> None:
    values = {"provider_p": {"max_connections": 10, "pool_wait": "30s"}}
    go = asyncio.Event()
    async with Upstream("p", default=gate(go, answer())) as p, lab(config({"p": p}, **values), ManualClock()) as g:
        for _ in range(3):
            async with wire(g) as a, wire(g) as b, wire(g) as c, wire(g) as d:
                before = p.attempts
                for w in (a, b, c, d):
                    w.send(chat_request(stream=True))
                await p.wait_for_requests(before + 4)
                for w in (a, b, c, d):
                    w.abort()
                await idle(g)
        go.set()
        answers = await asyncio.gather(*(g.chat() for _ in range(10)))
        assert [one.status for one in answers] == [200] * 10


async def test_what_was_tried_before_the_caller_left_is_on_record() -> None:
    values = {"retry": {"attempts": 0}}
    async with Upstream("p", default=status(500)) as p, Upstream("s", default=silent()) as s:
        async with lab(config({"p": p, "s": s}, defaults=values), ManualClock()) as g:
            async with wire(g) as w:
                w.send(chat_request())
                await s.wait_for_requests(1)
                w.abort()
                await idle(g)
            assert [entry.split(";")[1] for entry in g.turns[-1]["attempts"]] == [
                "class=server_error",
                "class=cancelled",
            ]
            assert "overhead_ms" not in g.turns[-1]
            moves = {"from": "p", "to": "s", "reason": "server_error"}
            assert await g.metric("stanchion_failovers_total", **moves) == 1


async def test_B05_while_an_answer_is_held_to_its_end() -> None:
    """The provider has sent three pieces that the caller has not seen; they were used all the same."""
    sent = asyncio.Event()

    async def told_and_silent(exchange: Exchange) -> None:
        sent.set()
        await silent()(exchange)

    async with Upstream("p") as p, Upstream("s") as s, metered(p, s) as g:
        p.script(cut_after(3, told_and_silent))
        async with wire(g) as w:
            w.send(chat_request(stream=True).replace(b"\r\n\r\n", b"\r\nx-stanchion-commit: complete\r\n\r\n", 1))
            await sent.wait()
            await asyncio.sleep(0.05)  # the pieces are on their way through the socket
            w.abort()
            await p.requests[0].wait_closed()
        await left_alone(g, p, s, input_tokens(stream=True) + 3)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_B05_while_a_hedge_runs_beside_the_first_attempt(stream: bool) -> None:
    """Both connections are closed, and both targets get back what they gave."""
    clock = ManualClock()
    hedge = {"hedge": {"after": "2s", "budget": "100%"}}
    async with Upstream("p", default=silent()) as p, Upstream("s", default=silent()) as s:
        values = config({"p": p, "s": s}, target_p={"quota": {**QUOTA}}, target_s={"quota": {**QUOTA}}, route=hedge)
        async with lab(values, clock) as g:
            before = clock.pending
            async with wire(g) as w:
                w.send(chat_request(stream=True) if stream else chat_request())
                await p.wait_for_requests(1)
                await clock.run(2)
                await s.wait_for_requests(1)
                w.abort()
                await p.requests[0].wait_closed()
                await s.requests[0].wait_closed()
            await idle(g)
            used = input_tokens(stream=True) if stream else input_tokens()
            for name, missing in (("p", 0), ("s", used)):  # the first bucket was refilled meanwhile
                target = await g.target(name)
                assert target["quota"]["in_flight"] == 0
                assert target["quota"]["tokens"]["level"] == CAPACITY - missing
                assert target["breaker"]["samples"] == 0
                assert await g.metric("stanchion_upstream_connections", provider=name, state="in_use") == 0
                assert await g.metric("stanchion_attempts_total", target=name, outcome="cancelled") == 1
            assert [(turn["outcome"], turn["status"]) for turn in g.turns] == [("client_closed", 499)]
            assert clock.pending == before, "a timer was left behind"


async def test_B05_while_a_held_answer_is_being_read_its_attempt_has_long_succeeded() -> None:
    """Nothing of the provider's is in use any more: its place is free, and it did its work."""
    long = ("w" * 4000 + " ") * 2800  # more than sockets take, so that the caller leaves in mid-answer
    async with (
        Upstream("p", default=answer(long)) as p,
        lab(config({"p": p}, target_p={"quota": {"concurrency": 1}})) as g,
    ):
        async with wire(g) as w:
            w.send(chat_request(stream=True).replace(b"\r\n\r\n", b"\r\nx-stanchion-commit: complete\r\n\r\n", 1))
            await w.head()
            assert (await g.target("p"))["quota"]["in_flight"] == 0
            w.abort()
        await idle(g)
        assert g.turns[-1]["outcome"] == "client_closed"
        assert await g.metric("stanchion_attempts_total", target="p", outcome="success") == 1
