"""A caller's body: read within bounds of size and time, whatever the caller does, and a large one parsed in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import aiohttp
from aiohttp import web

from gateway.body_structure import check_structure
from gateway.http_errors import HttpError

T = TypeVar("T")

LARGE = 500_000
"""Bytes from which a body is parsed in a thread. Measured, a smaller one takes some milliseconds, if it is no more structure
than text."""


async def read_body(request: web.BaseRequest, limit: int, timeout_s: float) -> bytes:
    """The whole body, decompressed. Raises HttpError: 408, 413, 415 or 400.

    The declared length is refused before anything is read; otherwise the count is what decides, after decompression.
    """
    _check_type(request)
    declared = request.content_length
    if declared is not None and declared > limit:
        raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    content = request.content
    try:
        if declared is not None and content.is_eof():
            return await content.read()
        async with asyncio.timeout(timeout_s):
            while data := await content.readany():
                size += len(data)
                if size > limit:
                    raise _too_large(limit)
                parts.append(data)
    except TimeoutError:
        message = f"the body did not arrive within {timeout_s:g} s (gateway.body_timeout)"
        raise HttpError(408, "bad_request", message, close=True) from None
    except (aiohttp.web.RequestPayloadError, aiohttp.http.HttpProcessingError):
        message = "the body cannot be read: its framing or its Content-Encoding is broken"
        raise HttpError(400, "bad_request", message, retry=False, close=True) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


class LargeBodies:
    """Parses large bodies beside the event loop.

    Parsing holds the interpreter's lock, but lets go of it between its steps: measured with twelve megabytes, the loop
    waits for 20 ms in place of 60. It is one thread, since the loop would have to wait for all of them. Whoever is
    cancelled leaves the queue; what is being parsed is parsed to its end.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="large-bodies")

    async def parse(self, body: bytes, read: Callable[[bytes], T]) -> T:
        """`read(body)`, with what it raises; HttpError 413 where the body is all structure."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, _parse, body, read)

    async def beside(self, body: bytes, change: Callable[[bytes], T]) -> T:
        """`change(body)`, beside the event loop where the body is large."""
        if len(body) <= LARGE:
            return change(body)
        return await asyncio.get_running_loop().run_in_executor(self._thread, change, body)

    def close(self) -> None:
        """Nothing can be parsed any more."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _parse(body: bytes, read: Callable[[bytes], T]) -> T:
    check_structure(body)
    return read(body)


def _check_type(request: web.BaseRequest) -> None:
    kind = request.headers.get("Content-Type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        message = "the Content-Type has to be application/json"
        raise HttpError(415, "bad_request", message, retry=False)


def _too_large(limit: int) -> HttpError:
    message = f"the body is larger than {limit} bytes (gateway.max_body)"
    return HttpError(413, "too_large", message, code="request_too_large", retry=False, close=True)
