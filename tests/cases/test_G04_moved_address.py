"""A provider's name that moves to another address, and one that cannot be resolved for a while."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from aiohappyeyeballs import AddrInfoType

from llm.spec import ProviderSpec
from llm.transport.http1 import Http1Transport
from tests.cases.drive import said, start
from tests.fakes.behaviours import sse, wait
from tests.fakes.chat import DONE, finish_chunk, role_chunk, text_chunk
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.lab import Json, Lab, config, lab

TTL_S = 5.0
STEP_S = 0.05
"""Twenty requests a second."""


class Names:
    """The machine's resolver: it knows one name, remembers it for its TTL, and fails where it stands for nobody."""

    def __init__(self, clock: ManualClock, to: Upstream | None) -> None:
        self.to, self._clock = to, clock
        self._kept, self._until = to, clock.now() + TTL_S

    async def __call__(self, *_: object, **__: object) -> Sequence[AddrInfoType]:
        if self._clock.now() >= self._until:
            self._kept, self._until = self.to, self._clock.now() + TTL_S
        if self._kept is None:
            self._until = 0.0
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", self._kept.port))]


def moving(names: Names, clock: ManualClock) -> Json:
    """How the laboratory is made."""

    def connections(spec: ProviderSpec) -> Http1Transport:
        return Http1Transport(spec, getaddrinfo=names, now=clock.now)

    return {"clock": clock, "transports": connections}


def values(age: str) -> Json:
    long = {"deadline": "1h", "timeouts": {"idle": "1h", "total": "1h"}, "retry": {"attempts": 0}}
    return config({"p": "http://provider.test/v1"}, provider_p={"max_connection_age": age}, route=long)


def stale(g: Lab) -> int:
    return g.service.engine.providers["p"].transport.counters().stale_lookups


async def steadily(g: Lab, clock: ManualClock, seconds: float) -> None:
    """Requests, each of them answered, for so long."""
    for _ in range(round(seconds / STEP_S)):
        assert (await g.chat()).status == 200
        clock.advance(STEP_S)


async def test_G04_new_requests_follow_the_name_and_a_stream_is_not_cut() -> None:
    clock, go = ManualClock(), asyncio.Event()
    async with Upstream("first") as first, Upstream("second") as second:
        names = Names(clock, first)
        async with lab(values("10s"), **moving(names, clock)) as g:
            first.script(sse(role_chunk(), text_chunk("to the "), wait(go), text_chunk("end"), finish_chunk(), DONE))
            stream = start(g.chat(stream=True))
            await first.wait_for_requests(1)
            await steadily(g, clock, 30.0)
            names.to = second
            assert second.attempts == 0
            await steadily(g, clock, TTL_S + 10.0)
            before = first.attempts
            await steadily(g, clock, 5.0)
            assert first.attempts == before
            assert second.attempts >= 5.0 / STEP_S
            assert first.attempts + second.attempts == 1 + 50.0 / STEP_S
            go.set()
            assert said(await stream, stream=True) == "to the end"
            assert stale(g) == 0


async def test_G04_while_the_resolver_fails_the_last_address_serves() -> None:
    clock = ManualClock()
    async with Upstream("first") as first, Upstream("second") as second:
        names = Names(clock, first)
        async with lab(values("1s"), **moving(names, clock)) as g:
            await steadily(g, clock, 5.0)
            names.to = None
            await steadily(g, clock, 20.0)
            assert first.attempts == 25.0 / STEP_S
            assert first.connections_made >= 20
            assert 10 <= stale(g) <= 20
            names.to = second
            await steadily(
                g, clock, 5.0 + 1.0
            )  # no longer is a failure remembered, and then a connection may still be young
            before, counted = first.attempts, stale(g)
            await steadily(g, clock, 3.0)
            assert (first.attempts, stale(g)) == (before, counted)
            assert (await g.target("p"))["breaker"]["failures"] == 0


async def test_G04_a_name_that_cannot_be_resolved_for_long_is_seen() -> None:
    clock = ManualClock()
    async with Upstream("first") as first:
        names = Names(clock, first)
        async with lab(values("1s"), **moving(names, clock)) as g:
            await steadily(g, clock, TTL_S)
            names.to = None
            clock.advance(TTL_S)
            assert (await g.chat()).status == 200
            clock.advance(600.0)
            refused = await g.chat()
            assert (refused.status, refused.error["class"]) == (503, "connect")
            assert "host name cannot be resolved" in refused.error["message"]
            assert "provider.test" not in refused.body.decode() + g.out.getvalue()
