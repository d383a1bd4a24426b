"""aiohttp's server with what it lacks for the open: a limit on slow request heads, and errors in JSON.

aiohttp answers bytes that are not HTTP with a page of text and logs a traceback; here the caller gets the dialect's error
and the log nothing of what was sent.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from gateway.http_errors import HttpError

KEEPALIVE_S = 75.0
SERVER = "stanchion"
"""The Server header: the product, not what it is made of."""


class GatewayProtocol(web.RequestHandler):
    """One connection. A request head that has begun, or a connection that has just come, has `header_timeout_s` seconds."""

    __slots__ = ("_head_timer", "_header_timeout_s")

    def __init__(self, manager: web.Server, *, header_timeout_s: float, **kwargs: Any) -> None:
        super().__init__(manager, **kwargs)
        self._header_timeout_s = header_timeout_s
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        requests = self._request_count
        super().data_received(data)
        if self._request_count != requests:
            self._head_came()
        elif self._waiter is not None and self._head_timer is None:  # idle, and bytes that are no whole head yet
            self._await_head()

    def _await_head(self) -> None:
        self._head_timer = self._loop.call_later(self._header_timeout_s, self._too_slow)

    def _head_came(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if self.transport is not None:
            self.transport.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if status == 400:
            error = HttpError(400, "bad_request", "the request is not valid HTTP", retry=False, close=True)
        else:
            error = HttpError(status, "internal", "the gateway failed on this request", retry=False, close=True)
        response = web.Response(status=status, body=error.body(), headers={"Server": SERVER, **error.header_fields()})
        response.content_type = "application/json"
        response.force_close()
        return response


class GatewayServer(web.Server):
    """Makes the connections, and closes those that do not send a request head in time."""

    def __init__(self, *args: Any, header_timeout_s: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.header_timeout_s = header_timeout_s

    def __call__(self) -> web.RequestHandler:
        return GatewayProtocol(self, loop=self._loop, header_timeout_s=self.header_timeout_s, **self._kwargs)


class GatewayRunner(web.AppRunner):
    """An application on a `GatewayServer`. `header_timeout_s`: until a new connection has sent its request head."""

    def __init__(self, app: web.Application, *, header_timeout_s: float) -> None:
        super().__init__(app, access_log=None, handle_signals=False, handler_cancellation=True, shutdown_timeout=1.0)
        self._header_timeout_s = header_timeout_s

    __slots__ = ("_header_timeout_s",)

    def limit_heads(self, header_timeout_s: float) -> None:
        """Another limit, for connections that come from now on."""
        self._header_timeout_s = header_timeout_s
        if isinstance(self.server, GatewayServer):
            self.server.header_timeout_s = header_timeout_s

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return GatewayServer(
            made.request_handler,
            request_factory=made.request_factory,
            handler_cancellation=True,
            header_timeout_s=self._header_timeout_s,
            keepalive_timeout=KEEPALIVE_S,
            access_log=None,
            lingering_time=1.0,
        )
