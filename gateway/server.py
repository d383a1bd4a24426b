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
    """One connection."""

    __slots__ = ()

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
        self._header_timeout_s = header_timeout_s

    def __call__(self) -> web.RequestHandler:
        return GatewayProtocol(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._loop.call_later(self._header_timeout_s, self._check, handler, transport)

    def _check(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        if handler._request_count == 0 and not transport.is_closing():  # noqa: SLF001 - nothing public tells it
            transport.abort()


class GatewayRunner(web.AppRunner):
    """An application on a `GatewayServer`. `header_timeout_s`: until a new connection has sent its request head."""

    def __init__(self, app: web.Application, *, header_timeout_s: float) -> None:
        super().__init__(app, access_log=None, handle_signals=False, handler_cancellation=True, shutdown_timeout=1.0)
        self._header_timeout_s = header_timeout_s

    __slots__ = ("_header_timeout_s",)

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
