"""The transport on aiohttp's client: one pooled session for each provider."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Mapping
from types import TracebackType

import aiohttp
import yarl
from aiohttp import hdrs
from aiohttp.payload import BytesPayload

from llm.spec import ProviderSpec
from llm.transport.base import TransportError, WireRequest, WireResponse

_IDLE_S = 30.0
_DNS_S = 10
_AT_ONCE = 1 << 20
"""Bytes of a body that aiohttp takes in one write; above that it warns that the event loop would be held up."""


class AiohttpTransport:
    """Connections to one provider, at most `max_connections` at once; a request waits `pool_wait_s` for one.

    It has to be made inside a running loop, and closed.
    """

    def __init__(self, spec: ProviderSpec) -> None:
        self._places = asyncio.Semaphore(spec.max_connections)
        self._pool_wait_s = spec.pool_wait_s
        self._limit = spec.max_connections
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                keepalive_timeout=_IDLE_S,
                ttl_dns_cache=_DNS_S,
                timeout_ceil_threshold=float("inf"),
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            skip_auto_headers=(hdrs.USER_AGENT, hdrs.ACCEPT_ENCODING, hdrs.CONTENT_TYPE),
            auto_decompress=True,
            trust_env=False,
            max_line_size=32_768,
            max_field_size=32_768,
        )
        self._urls: dict[str, yarl.URL] = {}
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}

    def send(self, request: WireRequest) -> _Sent:
        return _Sent(self, request)

    async def close(self) -> None:
        await self._session.close()

    async def take_place(self) -> None:
        """Wait for one of the provider's connections. Raises TransportError; every place has to be given back."""
        if not self._places.locked():
            await self._places.acquire()
            return
        try:
            async with asyncio.timeout(self._pool_wait_s):
                await self._places.acquire()
        except TimeoutError:
            raise TransportError(
                "capacity", f"all {self._limit} connections to the provider are in use (max_connections)"
            ) from None

    def give_place_back(self) -> None:
        self._places.release()

    async def open(self, request: WireRequest) -> aiohttp.ClientResponse:
        """Send on a connection of the pool and wait for the head. Raises TransportError."""
        url = self._urls.get(request.url)
        if url is None:
            url = self._urls[request.url] = yarl.URL(request.url, encoded=True)
        timeout = self._timeouts.get(request.connect_s)
        if timeout is None:
            timeout = self._timeouts[request.connect_s] = aiohttp.ClientTimeout(
                total=None, connect=request.connect_s, ceil_threshold=float("inf")
            )
        try:
            return await self._session.request(
                "POST",
                url,
                data=BytesPayload(request.body) if len(request.body) <= _AT_ONCE else io.BytesIO(request.body),
                headers=request.headers,
                allow_redirects=False,
                timeout=timeout,
            )
        except (aiohttp.ServerTimeoutError, TimeoutError):
            raise TransportError("connect", f"no connection to the provider within {request.connect_s:g} s") from None
        except (aiohttp.ClientResponseError, aiohttp.http.HttpProcessingError) as error:
            raise TransportError("protocol", f"the provider's answer is not HTTP ({_words(error)})") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise TransportError("connect", _connect_words(error)) from None


class _Sent:
    """A request on its way: a place in the pool, and the response that has to be given back or closed."""

    __slots__ = ("_request", "_response", "_transport")

    def __init__(self, transport: AiohttpTransport, request: WireRequest) -> None:
        self._transport, self._request = transport, request

    async def __aenter__(self) -> WireResponse:
        await self._transport.take_place()
        try:
            self._response = await self._transport.open(self._request)
        except BaseException:
            self._transport.give_place_back()
            raise
        return _Response(self._response)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transport.give_place_back()
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


class _Response:
    __slots__ = ("_content", "_response", "headers")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response, self._content = response, response.content
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}

    @property
    def status(self) -> int:
        return self._response.status

    async def read_any(self) -> bytes:
        try:
            return await self._content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(
                "cut", f"the provider's connection broke inside the answer ({_words(error)})"
            ) from None
        except aiohttp.http.HttpProcessingError as error:
            raise TransportError("protocol", f"the provider's answer is malformed ({_words(error)})") from None


def _connect_words(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return f"no TLS connection to the provider ({type(error).__name__})"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the provider's host name cannot be resolved"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno  # its own words hold the address
        return f"no connection to the provider ({os.strerror(number) if number else type(error.os_error).__name__})"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the provider closed the connection before an answer"
    return f"the connection to the provider broke before an answer ({type(error).__name__})"


def _words(error: Exception) -> str:
    """The kind of error, without addresses or payload, which may hold secrets."""
    return type(error).__name__
