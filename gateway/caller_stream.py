"""The caller's side of a streamed answer: the head, whole events, heartbeats, and the two ways to end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from aiohttp import web

from stanchion.clock import Clock, Timer

_HEARTBEAT = b": waiting\n\n"
_NO_BUFFERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class CallerStream:
    """Server-sent events to one caller.

    While nothing is written for `heartbeat_s`, a comment line goes out, so that proxies and callers keep the connection; the
    first one sends the head early, with status 200 and without the trail. Leave the context on every ending.
    """

    def __init__(
        self, request: web.BaseRequest, clock: Clock, heartbeat_s: float, early_head: Callable[[], Mapping[str, str]]
    ) -> None:
        self._request, self._clock, self._heartbeat_s, self._early_head = request, clock, heartbeat_s, early_head
        self._response: web.StreamResponse | None = None
        self._timer: Timer | None = None
        self._last = clock.now()
        self._beat: asyncio.Task[None] | None = None
        self.early = False

    async def __aenter__(self) -> CallerStream:
        self._timer = self._clock.call_at(self._last + self._heartbeat_s, self._due)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._beat is not None:
            self._beat.cancel()
            await asyncio.gather(self._beat, return_exceptions=True)

    @property
    def begun(self) -> bool:
        """Whether the head has been sent."""
        return self._response is not None

    @property
    def response(self) -> web.StreamResponse:
        assert self._response is not None, "the head comes first"  # noqa: S101 - a programming error
        return self._response

    async def begin(self, headers: Mapping[str, str]) -> None:
        """Send the head, unless a heartbeat has."""
        if self._beat is not None:
            await asyncio.gather(self._beat, return_exceptions=True)
        if self._response is None:
            await self._send_head(headers)

    async def write(self, data: bytes) -> None:
        """Whole events. Raises ConnectionError when the caller has left."""
        self._last = self._clock.now()
        await self.response.write(data)
        self._last = self._clock.now()

    async def end(self) -> web.StreamResponse:
        await self.response.write_eof()
        return self.response

    async def break_off(self, event: bytes) -> web.StreamResponse:
        """One error event, then the connection is closed without the terminating chunk.

        SDKs take a clean end of the body for success; a body that is cut is an error in all of them.
        """
        response = self.response
        response.force_close()
        try:
            await response.write(event)
        except ConnectionError:
            return response
        transport = self._request.transport
        if transport is not None:
            transport.close()
        return response

    async def _send_head(self, headers: Mapping[str, str]) -> None:
        response = web.StreamResponse(headers={**headers, **_NO_BUFFERS})
        response.content_type = "text/event-stream"
        self._response = response
        await response.prepare(self._request)

    def _due(self) -> None:
        self._timer = None
        now = self._clock.now()
        if now - self._last >= self._heartbeat_s - 0.001:
            self._last = now
            self._beat = asyncio.get_running_loop().create_task(self._heartbeat())
        self._timer = self._clock.call_at(self._last + self._heartbeat_s, self._due)

    async def _heartbeat(self) -> None:
        try:
            if self._response is None:
                self.early = True
                await self._send_head(self._early_head())
            await self.response.write(_HEARTBEAT)
        except ConnectionError:
            return  # the caller has left; whoever writes next, or the cancelled handler, says so
