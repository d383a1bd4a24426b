"""The reply to one request: what has been written to the caller, and so how it can still end."""

from __future__ import annotations

import asyncio

from aiohttp import web

from availability.outcome import Outcome
from gateway import http_errors, turn
from gateway.caller_dialect import CallerDialect
from gateway.caller_stream import CallerStream
from gateway.http_errors import HttpError
from gateway.server import SERVER
from gateway.turn_recorder import TurnRecorder
from llm.attempt import trail_header
from llm.errors import RouteFailed, StreamInterrupted
from llm.fallback import CommittedStream
from stanchion.clock import Clock, Timer

_JSON = "application/json"

_SLOW_CALLER_S = 5.0
"""How long after the deadline a caller may still take to read what is ready."""

_SOCKET_TAKES = 32_768
"""Bytes that are written at once, whether the caller reads or not."""


class Reply:
    """Nothing, a head, or an answer has been written. Before a head an error is an answer of its own; after it the stream
    gets an error event and is broken off; inside of a plain answer only the connection can be cut. Every error that is
    told ends the turn, and its record says so.

    Make it in the task that answers, and call `release` on every ending.
    """

    __slots__ = ("_clock", "_dialect", "_out", "_request", "_sending", "_task", "_timer", "_turn", "stopped")

    def __init__(self, request: web.Request, clock: Clock, dialect: CallerDialect, turn: TurnRecorder) -> None:
        self._request, self._clock, self._dialect, self._turn = request, clock, dialect, turn
        self._task = asyncio.current_task()
        self._out: CallerStream | None = None
        self._sending = False
        self._timer: Timer | None = None
        self.stopped = False

    @property
    def begun(self) -> bool:
        """Whether the head of a stream has gone, and with it the status."""
        return self._out is not None and self._out.begun

    async def plain(self, body: bytes, answer: CommittedStream, deadline_at: float) -> web.Response:
        """Send one whole body. Raises ConnectionError when the caller has left."""
        if len(body) > _SOCKET_TAKES:
            self._guard(deadline_at)
        response = web.Response(body=body, headers=self.headers_of(answer))
        response.content_type = _JSON
        self._sending = True
        began = self._clock.now()
        await response.prepare(self._request)
        await response.write_eof()
        self._turn.waited_s += self._clock.now() - began
        return response

    def stream(self, heartbeat_s: float, deadline_at: float) -> CallerStream:
        """Events; nothing is sent before the stream is entered."""
        self._guard(deadline_at)
        self._out = CallerStream(self._request, self._clock, heartbeat_s, self._own_headers)
        return self._out

    def headers_of(self, answer: CommittedStream) -> dict[str, str]:
        return {
            **self._own_headers(),
            "x-stanchion-target": answer.target,
            "x-stanchion-model": answer.model,
            "x-stanchion-attempts": trail_header(answer.records),
        }

    async def failed(self, error: RouteFailed | StreamInterrupted) -> web.StreamResponse:
        """Nothing of the route answered, or the answer broke off."""
        if isinstance(error, StreamInterrupted):
            outcome = Outcome.STREAM_INTERRUPTED if self.begun else Outcome.FAILED
            return await self.fail(outcome, http_errors.interrupted(error))
        failure = http_errors.route_failed(error)
        return await self.fail(turn.failed(error), failure, self._dialect.trail_comment(failure.trail))

    async def fail(self, outcome: Outcome, error: HttpError, comment: bytes = b"") -> web.StreamResponse:
        """End the turn with an error; `comment` goes before its event."""
        if self._out is None or not self._out.begun:
            self._turn.ended(outcome, error.status, error)
            return self.error_response(error)
        self._turn.ended(outcome, 200, error)
        if comment:
            await self._out.write(comment)
        return await self._out.break_off(self._dialect.error_event(error))

    async def crashed(self) -> web.StreamResponse:
        """A fault of the gateway's own: an error answer, or an error event where an answer has begun; never both."""
        error = http_errors.unexpected()
        self._turn.ended(Outcome.FAILED, 500, error)
        if self._out is not None and self._out.begun:
            return await self._out.break_off(self._dialect.error_event(error))
        if self._sending:
            self._abort()
        return self.error_response(error)

    async def break_off(self) -> None:
        """The replica stops now: a stream that has begun gets its error event, who waits for an answer gets 503."""
        error = http_errors.stopped()
        if self._out is not None and self._out.begun:
            self._turn.ended(Outcome.STREAM_INTERRUPTED, 200, error)
            await self._out.break_off(self._dialect.error_event(error))
            return
        self._turn.ended(Outcome.FAILED, error.status, error)
        if self._task is not None and not self._sending:
            self.stopped = self._task.cancel()
            await asyncio.wait({self._task})
        elif self._request.transport is not None:
            self._request.transport.close()

    def error_response(self, error: HttpError) -> web.Response:
        """An error in place of an answer; the turn has its record already."""
        response = web.Response(
            status=error.status,
            body=self._dialect.error_body(error),
            headers={**self._own_headers(), **error.header_fields()},
        )
        response.content_type = _JSON
        if error.close:
            response.force_close()
        return response

    def release(self) -> None:
        """The turn is over: nothing of it stays behind."""
        if self._timer is not None:
            self._timer.cancel()

    def _guard(self, deadline_at: float) -> None:
        """A caller who does not read what is ready is let go some time after the deadline."""
        self._timer = self._clock.call_at(deadline_at + _SLOW_CALLER_S, self._abort)

    def _abort(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()

    def _own_headers(self) -> dict[str, str]:
        request_id = self._turn.request_id
        return {"x-stanchion-request-id": request_id, "x-request-id": request_id, "Server": SERVER}
