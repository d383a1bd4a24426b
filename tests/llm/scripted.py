"""Providers that misbehave in every way there is, in memory and on the clock of the test.

Everything that a target says bears its mark, `p#2` for the second answer of `p`, so that bytes of two answers in one are
seen. A transport refuses what no real one would be asked: a read after its exchange was left, or leaving it twice.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType, TracebackType

from llm.transport.base import Counters, Kind, TransportError, WireRequest
from tests.fakes import chat
from tests.fakes.clock import ManualClock

MARK = re.compile(rb"[a-z]#\d+")
INPUT_TOKENS = 12
HANG = "hang"
Step = bytes | float | TransportError | str

_CUT = TransportError("cut", "the connection broke")
_ERRORS: Mapping[str, dict[str, object]] = MappingProxyType(
    {
        "error_500": {"code": 500, "message": "scripted"},
        "error_overloaded": {"type": "overloaded_error", "message": "scripted"},
        "error_quota": {"code": "insufficient_quota", "message": "scripted"},
        "error_rate": {"code": "rate_limit_exceeded", "message": "scripted"},
        "error_content": {"code": "content_policy_violation", "message": "scripted"},
        "error_400": {"code": 400, "message": "scripted"},
    }
)
COMPLETE_ENDINGS = ("done", "no_done", "no_finish", "finish_hang", "done_hang", "finish_cut", "done_cut")
BROKEN_ENDINGS = ("end", "cut", "stall", "pings", "malformed", "finish_error", *_ERRORS)


@dataclass(frozen=True)
class Script:
    """One answer. Times in seconds: `head_after` before the head (or the refusal), `gap` before each piece of text.

    `refused`: the transport fails in place of a head. A status other than 200 is an error answer, whose body may break
    (`ending` `cut`) or stall. `pieces` of text; a plain answer has them all in one. `joined`: what comes at one time
    comes in one read. `slow_close`: leaving the exchange takes a turn of the event loop.
    """

    refused: Kind | None = None
    head_after: float = 0.0
    status: int = 200
    code: str | None = None
    retry_after: str | None = None
    pieces: int = 2
    gap: float = 0.0
    joined: bool = False
    ending: str = "done"
    usage: bool = True
    not_a_stream: bool = False
    slow_close: bool = False

    def complete(self, *, stream: bool) -> bool:
        """Whether a caller may be told that it has a whole answer."""
        good = self.refused is None and self.status == 200 and self.pieces > 0
        return good and self.ending in COMPLETE_ENDINGS and not (stream and self.not_a_stream)

    def text(self, mark: str) -> str:
        return "".join(self.texts(mark))

    def texts(self, mark: str) -> list[str]:
        return [f"{mark}:{number} " for number in range(self.pieces)]


class Transport:
    """One target's connections: `played` are its answers in the order in which they were asked for."""

    def __init__(self, name: str, clock: ManualClock, scripts: Sequence[Script], default: Script) -> None:
        self.name, self.clock = name, clock
        self._scripts, self._default = deque(scripts), default
        self.played: list[Script] = []
        self.open = 0

    def send(self, request: WireRequest) -> _Exchange:
        return _Exchange(self, request)

    def next(self) -> tuple[str, Script]:
        self.played.append(self._scripts.popleft() if self._scripts else self._default)
        return f"{self.name}#{len(self.played)}", self.played[-1]

    def counters(self) -> Counters:
        return Counters(self.open, 0, 0, 0, 0)

    async def close(self) -> None:
        """Nothing is held."""


class _Exchange:
    def __init__(self, transport: Transport, request: WireRequest) -> None:
        self._transport, self._stream = transport, dict(request.headers)["Accept"] == "text/event-stream"
        self._response: _Response | None = None

    async def __aenter__(self) -> _Response:
        transport = self._transport
        self._mark, self._script = transport.next()
        transport.open += 1
        try:
            if self._script.head_after:
                await transport.clock.sleep(self._script.head_after)
            if self._script.refused is not None:
                raise TransportError(self._script.refused, f"{self._mark} scripted")
        except BaseException:
            transport.open -= 1
            raise
        self._response = _Response(transport.clock, self._script, self._mark, stream=self._stream)
        return self._response

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._response is not None, "it was left without having been entered"
        assert not self._response.left, "it was left twice"
        self._response.left = True
        try:
            if self._script.slow_close:
                await asyncio.sleep(0)
        finally:
            self._transport.open -= 1


class _Response:
    def __init__(self, clock: ManualClock, script: Script, mark: str, *, stream: bool) -> None:
        self._clock, self.status, self.left = clock, script.status, False
        streamed = stream and not script.not_a_stream and script.status == 200
        self.headers = {"content-type": "text/event-stream" if streamed else "application/json"}
        if script.retry_after is not None:
            self.headers["retry-after"] = script.retry_after
        self._steps = deque(_events(script, mark) if streamed else _body(script, mark))
        self._due: float | None = None

    async def read_any(self) -> bytes:
        assert not self.left, "a read after the exchange was left"
        while self._steps:
            step = self._steps[0]
            if isinstance(step, TransportError):
                raise step
            if step == HANG:
                await asyncio.get_running_loop().create_future()
            if isinstance(step, float):
                self._due = self._clock.now() + step if self._due is None else self._due
                await self._clock.sleep(self._due - self._clock.now())
                self._due = None
            self._steps.popleft()
            if isinstance(step, bytes):
                return step
        return b""


def _events(script: Script, mark: str) -> list[Step]:
    """The steps of a stream."""
    finish, done = chat.finish_chunk(chunk_id=mark, model=mark), chat.DONE
    usage = [chat.usage_chunk(INPUT_TOKENS, script.pieces, chunk_id=mark)] if script.usage else []
    endings: dict[str, list[Step]] = {
        "done": [finish, *usage, done],
        "no_done": [finish, *usage],
        "no_finish": [*usage, done],
        "finish_hang": [finish, *usage, HANG],
        "done_hang": [finish, *usage, done, HANG],
        "finish_cut": [finish, *usage, _CUT],
        "done_cut": [finish, *usage, done, _CUT],
        "end": [],
        "cut": [_CUT],
        "stall": [HANG],
        "pings": [0.4, b": ping\n\n"] * 30,
        "malformed": [b"data: {nonsense\n\n"],
        "finish_error": [finish, chat.error_event({"code": 500, "message": mark})],
    }
    if script.ending in _ERRORS:
        endings[script.ending] = [chat.error_event({**_ERRORS[script.ending], "message": mark})]
    steps: list[Step] = [b": ping\n\n", chat.role_chunk(chunk_id=mark, model=mark)]
    for text in script.texts(mark):
        steps += [script.gap] if script.gap else []
        steps.append(chat.text_chunk(text, chunk_id=mark, model=mark))
    steps += endings[script.ending]
    return _joined(steps) if script.joined else steps


def _joined(steps: list[Step]) -> list[Step]:
    """The same steps, what comes at one time in one."""
    found: list[Step] = []
    for step in steps:
        if isinstance(step, bytes) and found and isinstance(found[-1], bytes):
            found[-1] += step
        else:
            found.append(step)
    return found


def _body(script: Script, mark: str) -> list[Step]:
    """The steps of a plain answer, good or bad."""
    if script.status == 200:
        usage = (INPUT_TOKENS, script.pieces) if script.usage else None
        body = chat.completion(script.text(mark), completion_id=mark, model=mark, finish="stop", usage=usage)
    else:
        body = chat.error_body(f"{mark} scripted {script.status}", "t", script.code)
    wait: list[Step] = [script.gap] if script.gap else []
    half = body[: len(body) // 2]
    if script.ending == "cut":
        return [*wait, half, _CUT]
    if script.ending in ("stall", "pings"):
        return [*wait, half, HANG]
    if script.ending in COMPLETE_ENDINGS or script.status != 200:
        return [*wait, body]
    if script.ending in _ERRORS:
        return [*wait, json.dumps({"error": {**_ERRORS[script.ending], "message": mark}}).encode()]
    return [*wait, half]
