"""A kept connection that the provider has closed costs nobody anything; a new one closed without an answer is its failure."""

from __future__ import annotations

import pytest

from tests.cases.drive import MODES, attempts, breaker, said, start, until
from tests.fakes.behaviours import Behaviour, answer, close, reset, silent
from tests.fakes.exchange import Exchange
from tests.fakes.upstream import Upstream
from tests.lab import Json, Lab, config, lab

TIMES = 50


def values(p: Upstream, s: Upstream, retries: int = 0) -> Json:
    return config({"p": p, "s": s}, defaults={"retry": {"attempts": retries}, "breaker": {"minimum": 5}})


def resent(g: Lab, provider: str) -> int:
    return g.service.engine.providers[provider].transport.counters().resent


def lost_on_reuse(end: Behaviour) -> Behaviour:
    """The first request of a connection is answered; at the second one, read to its end, the connection ends."""
    used: set[int] = set()

    async def play(exchange: Exchange) -> None:
        number = exchange.seen.connection
        await (end if number in used else answer())(exchange)
        used.add(number)

    return play


async def nothing_failed(g: Lab, s: Upstream) -> None:
    assert s.attempts == 0
    assert await breaker(g, "p") == ("closed", TIMES, 0)
    assert await attempts(g, "p", "success") == TIMES


@pytest.mark.parametrize("stream", MODES)
async def test_J03_closed_at_rest_is_noticed_before_a_request_is_lost(stream: bool) -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(values(p, s)) as g:
        for number in range(1, TIMES + 1):
            served = await g.chat(stream=stream)
            assert said(served, stream=stream) == "hello from p"
            assert served.trail == ["p class=success"]
            assert p.attempts == p.connections_made == number
            await until(lambda: p.close_idle() == 1)
            await until(lambda: p.connections_open == 0)
        await nothing_failed(g, s)


@pytest.mark.parametrize("stream", MODES)
async def test_J03_closed_just_before_the_next_request_is_written(stream: bool) -> None:
    """Whether the gateway has heard of the end when it writes is left to chance: the caller cannot tell."""
    async with Upstream("p") as p, Upstream("s") as s, lab(values(p, s)) as g:
        for _ in range(TIMES):
            asked = start(g.chat(stream=stream))
            p.close_idle()
            served = await asked
            assert said(served, stream=stream) == "hello from p"
            assert served.trail == ["p class=success"]
        assert p.attempts == TIMES
        await nothing_failed(g, s)


@pytest.mark.parametrize("stream", MODES)
@pytest.mark.parametrize("end", [close(), reset()], ids=["closed", "reset"])
async def test_J03_lost_on_a_reused_connection_is_sent_once_more_on_a_new_one(end: Behaviour, stream: bool) -> None:
    async with Upstream("p", default=lost_on_reuse(end)) as p, Upstream("s") as s, lab(values(p, s)) as g:
        for number in range(1, TIMES + 1):
            served = await g.chat(stream=stream)
            assert said(served, stream=stream) == "hello from p"
            assert served.trail == ["p class=success"]
            # each after the first is lost on the connection of the one before, and comes again on its own
            assert p.connections_made == number
            assert p.attempts == 2 * number - 1
            assert resent(g, "p") == number - 1
        for lost, again in zip(p.requests[1::2], p.requests[2::2], strict=True):
            assert lost.body == again.body
            assert again.connection == lost.connection + 1
        await nothing_failed(g, s)
        assert resent(g, "s") == 0


async def test_J03_sent_once_more_uses_no_retry() -> None:
    """The one retry is still there when the request that was sent again fails too; then it is used up."""
    async with Upstream("p") as p, Upstream("s") as s, lab(values(p, s, retries=1)) as g:
        p.script(answer(), close(), close(), answer())
        assert (await g.chat()).trail == ["p class=success"]
        served = await g.chat()
        assert served.text == "hello from p"
        assert served.trail == ["p class=connect", "p class=success"]
        assert (p.attempts, p.connections_made, resent(g, "p")) == (4, 3, 1)
        assert s.attempts == 0
        assert await breaker(g, "p") == ("closed", 3, 1)


async def test_J03_sent_at_most_once_more() -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(values(p, s)) as g:
        p.script(answer(), close(), close())
        assert (await g.chat()).text == "hello from p"
        served = await g.chat()
        assert served.text == "hello from s"
        assert served.trail == ["p class=connect", "s class=success"]
        assert (p.attempts, p.connections_made, resent(g, "p")) == (3, 2, 1)
        assert await breaker(g, "p") == ("closed", 2, 1)


async def test_J03_a_request_that_got_a_byte_of_an_answer_is_not_sent_again() -> None:
    async def begins(exchange: Exchange) -> None:
        exchange.write(b"HTTP/1.1 200")
        exchange.cut()

    async with Upstream("p") as p, Upstream("s") as s, lab(values(p, s)) as g:
        p.script(answer(), begins)
        assert (await g.chat()).text == "hello from p"
        served = await g.chat()
        assert served.trail == ["p class=bad_upstream_response", "s class=success"]
        assert (p.attempts, p.connections_made, resent(g, "p")) == (2, 1, 0)


async def test_J03_a_caller_who_leaves_is_no_lost_request() -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(values(p, s)) as g:
        p.script(answer(), silent())
        assert (await g.chat()).text == "hello from p"
        asked = start(g.chat())
        seen = await p.wait_for_requests(2)
        asked.cancel()
        await seen.wait_closed()
        assert (await g.chat()).text == "hello from p"
        assert (p.attempts, resent(g, "p")) == (3, 0)


@pytest.mark.parametrize("stream", MODES)
@pytest.mark.parametrize("end", [close(), reset()], ids=["closed", "reset"])
async def test_J03_a_new_connection_closed_without_an_answer_is_the_providers_failure(
    end: Behaviour, stream: bool
) -> None:
    async with Upstream("p", default=end) as p, Upstream("s") as s, lab(values(p, s)) as g:
        for number in range(1, 5):
            served = await g.chat(stream=stream)
            assert said(served, stream=stream) == "hello from s"
            assert served.trail == ["p class=connect", "s class=success"]
            assert (p.attempts, p.connections_made) == (number, number)
            assert await breaker(g, "p") == ("closed", number, number)
        assert resent(g, "p") == 0
        assert await attempts(g, "p", "connect") == 4
        await g.chat(stream=stream)
        assert (await breaker(g, "p"))[0] == "open"
