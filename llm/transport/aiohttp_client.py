"""The transport on aiohttp's client: one pooled session for each provider."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
import yarl
from aiohttp import hdrs

from llm.spec import ProviderSpec
from llm.transport.base import TransportError, WireRequest, WireResponse

_IDLE_S = 30.0
_DNS_S = 10


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

    @asynccontextmanager
    async def send(self, request: WireRequest) -> AsyncIterator[WireResponse]:
        await self._take_place()
        response: aiohttp.ClientResponse | None = None
        try:
            response = await self._open(request)
            yield _Response(response)
        finally:
            self._places.release()
            if response is not None:
                if response.content.at_eof():
                    response.release()
                else:
                    response.close()

    async def close(self) -> None:
        await self._session.close()

    async def _take_place(self) -> None:
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

    async def _open(self, request: WireRequest) -> aiohttp.ClientResponse:
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
                data=request.body,
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
