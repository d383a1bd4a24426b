"""A transport without a network: each provider plays a script, on the clock of the test."""

from __future__ import annotations

import asyncio
from collections import deque
from random import Random
from types import TracebackType

from llm.attempt import AttemptRecord
from llm.dialects.openai import OpenAiChat
from llm.fallback import FallbackLlm
from llm.holds import Holds
from llm.provider_breaker import ProviderBreaker
from llm.spec import RouteSpec
from llm.target import Target, provider_breaker
from llm.transport.base import Counters, TransportError, WireRequest
from tests.fakes import chat
from tests.fakes.clock import ManualClock
from tests.lab import NoJitter

Step = bytes | float | TransportError
"""Bytes that arrive, seconds to wait, or a break of the connection; after the last one the body is over."""


class Script:
    """One answer. `hang`: after the last step nothing comes any more; `head_after`: seconds until the head."""

    def __init__(
        self,
        *steps: Step,
        status: int = 200,
        headers: dict[str, str] | None = None,
        head_after: float = 0.0,
        refused: TransportError | None = None,
        hang: bool = False,
    ) -> None:
        self.steps, self.status, self.hang = steps, status, hang
        self.headers = {"content-type": "text/event-stream", **(headers or {})}
        self.head_after, self.refused = head_after, refused


def good(text: str = "hello", usage: tuple[int, int] = (12, 3)) -> Script:
    pieces = [chat.role_chunk(), chat.text_chunk(text), chat.finish_chunk(), chat.usage_chunk(*usage), chat.DONE]
    return Script(*pieces)


def error(status: int, code: str | None = None, **headers: str) -> Script:
    body = chat.error_body(f"scripted {status}", "t", code)
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return Script(body, status=status, headers={"content-type": "application/json", **fields})


class Wire:
    """One provider's connections. `open`: how many stand now; `asked`: the requests, in order."""

    def __init__(self, clock: ManualClock, *scripts: Script, default: Script | None = None) -> None:
        self.clock, self._scripts, self._default = clock, deque(scripts), default or good()
        self.asked: list[WireRequest] = []
        self.open = 0

    def counters(self) -> Counters:
        return Counters(0, 0, 0, 0, 0)

    def send(self, request: WireRequest) -> _Sent:
        return _Sent(self, request)

    def next(self) -> Script:
        return self._scripts.popleft() if self._scripts else self._default

    async def close(self) -> None:
        """Nothing is held."""


class _Sent:
    def __init__(self, wire: Wire, request: WireRequest) -> None:
        self._wire, self._request = wire, request

    async def __aenter__(self) -> _Response:
        wire = self._wire
        wire.asked.append(self._request)
        script = wire.next()
        if script.refused is not None:
            raise script.refused
        if script.head_after:
            await wire.clock.sleep(script.head_after)
        wire.open += 1
        return _Response(wire.clock, script)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wire.open -= 1


class _Response:
    def __init__(self, clock: ManualClock, script: Script) -> None:
        self._clock, self._hang, self._steps = clock, script.hang, deque(script.steps)
        self.status, self.headers = script.status, script.headers

    async def read_any(self) -> bytes:
        while self._steps:
            step = self._steps.popleft()
            if isinstance(step, bytes):
                return step
            if isinstance(step, TransportError):
                raise step
            await self._clock.sleep(step)
        if self._hang:
            await asyncio.get_running_loop().create_future()
        return b""


class House:
    """A route over scripted providers, one target each, and everything that can be left behind by a request."""

    def __init__(self, clock: ManualClock, spec: RouteSpec, wires: dict[str, Wire]) -> None:
        self.clock, self.wires = clock, wires
        self.records: list[AttemptRecord] = []
        self.holds = Holds(clock.now)
        self.targets: dict[str, Target] = {}
        breakers: dict[str, ProviderBreaker] = {}
        random: Random = NoJitter()
        for stop in (*spec.stops, *spec.on_content_policy):
            one = stop.target
            breaker = breakers.setdefault(one.provider.name, provider_breaker(one, clock, random))
            self.targets[one.name] = Target(one, OpenAiChat(), wires[one.name], breaker, self.holds, clock)
        self.llm = FallbackLlm(spec, self.targets, self.holds, clock, random, self._observe)

    def _observe(self, record: AttemptRecord, first_output_s: float | None) -> None:
        self.records.append(record)

    @property
    def outcomes(self) -> list[tuple[str, str | None]]:
        return [(record.target, record.outcome) for record in self.records]

    def nothing_left(self) -> None:
        """No timer, no connection, no reservation, no probe."""
        assert self.clock.pending == 0
        assert [wire.open for wire in self.wires.values()] == [0] * len(self.wires)
        assert [target.quota.levels().in_flight for target in self.targets.values()] == [0] * len(self.targets)
        assert "half_open" not in [target.breaker.state for target in self.targets.values()]
