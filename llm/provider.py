"""A provider: the innermost `Llm`. It sends the caller's original in its dialect and reads the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from types import TracebackType

from llm.answer import Batch, Progress
from llm.classes import ErrorClass
from llm.classify import bad_response
from llm.dialects.base import AnswerReader, Dialect
from llm.errors import AttemptFailed, Failure
from llm.request import Call, LlmRequest
from llm.spec import TargetSpec
from llm.transport.base import Transport, TransportError, WireRequest, WireResponse

_ERROR_BODY_LIMIT = 256 * 1024
_ERROR_BODY_S = 1.0
"""Bytes of an error's body, and how long they are waited for, on the event loop's own time as all of the transport's."""

_PLAIN_BODY_LIMIT = 64 * 1024 * 1024
_SHORTEST_SECRET = 8
"""Characters; anything shorter is no key, and would mask words of the message."""
_MESSAGE_LIMIT = 2000
_WORD_LIMIT = 200
"""Characters of a failure's message, and of its type, code and param."""
_USER_AGENT = ("User-Agent", "stanchion")
_ACCEPT_STREAM = ("Accept", "text/event-stream")
_ACCEPT_JSON = ("Accept", "application/json")


class Provider:
    """One model of one provider over one transport. Raises AttemptFailed; entering waits for the head of the answer."""

    def __init__(self, target: TargetSpec, dialect: Dialect, transport: Transport, wall: Callable[[], float]) -> None:
        self._target, self._dialect, self._transport, self._wall = target, dialect, transport, wall
        self._headers = _headers(target, dialect)
        self._secrets = _secrets(target)

    def generate(self, request: LlmRequest) -> _Asked:
        assert request.limits is not None, "an attempt has limits"  # noqa: S101 - a programming error, not input
        call = request.call
        extra = (("traceparent", request.traceparent),) if request.traceparent else ()
        wire = WireRequest(
            self._target.provider.base_url + self._dialect.path(call),
            (*self._headers, _ACCEPT_STREAM if call.stream else _ACCEPT_JSON, *extra),
            call.body_for(self._target.model),
            request.limits.connect_s,
        )
        return _Asked(self._transport.send(wire), self._dialect, call, self._wall, self._secrets)


class _Asked:
    __slots__ = ("_call", "_dialect", "_secrets", "_sent", "_wall")

    def __init__(
        self,
        sent: AbstractAsyncContextManager[WireResponse],
        dialect: Dialect,
        call: Call,
        wall: Callable[[], float],
        secrets: tuple[str, ...],
    ) -> None:
        self._sent, self._dialect, self._call, self._wall, self._secrets = sent, dialect, call, wall, secrets

    async def __aenter__(self) -> ProviderStream:
        try:
            response = await self._sent.__aenter__()
        except TransportError as error:
            raise AttemptFailed(_failure(error)) from None
        if 200 <= response.status < 300:
            return ProviderStream(response, self._dialect, self._call, self._secrets)
        try:
            body = await _error_body(response)
            failure = self._dialect.failure(response.status, dict(response.headers), body, self._wall())
            raise AttemptFailed(_masked(failure, self._secrets))
        except BaseException as error:
            await self._sent.__aexit__(type(error), error, error.__traceback__)
            if isinstance(error, TransportError):
                failure = self._dialect.failure(response.status, dict(response.headers), b"", self._wall())
                raise AttemptFailed(failure) from None
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._sent.__aexit__(kind, error, trace)


class ProviderStream:
    """An open answer of a provider."""

    __slots__ = ("_call", "_dialect", "_failed", "_reader", "_response", "_secrets", "progress", "stream")

    def __init__(self, response: WireResponse, dialect: Dialect, call: Call, secrets: tuple[str, ...] = ()) -> None:
        self._response, self._dialect, self._call, self._secrets = response, dialect, call, secrets
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        self.stream = call.stream and kind == "text/event-stream"
        self._reader: AnswerReader | None = dialect.reader(call) if self.stream else None
        self.progress = self._reader.progress if self._reader else Progress()
        self._failed: AttemptFailed | None = None

    async def read(self) -> Batch | None:
        try:
            if self._failed is not None:
                raise self._failed
            return await (self._read_stream(self._reader) if self._reader else self._read_plain())
        except TransportError as error:
            if self.progress.ended:
                return None  # the connection broke after the terminator: nothing is missing
            if self.progress.finishing:
                return self.finish()  # it broke behind the last finish reason: only the terminator is missing
            raise AttemptFailed(_failure(error)) from None
        except AttemptFailed as error:
            raise AttemptFailed(_masked(error.failure, self._secrets)) from None

    def finish(self) -> Batch | None:
        """The provider lingers after its finish reason: end the answer now. Raises AttemptFailed when it is not complete."""
        return self._reader.end() if self._reader else None

    async def _read_stream(self, reader: AnswerReader) -> Batch | None:
        while True:
            data = await self._response.read_any()
            if not data:
                batch = reader.end()
                return batch if batch.data else None
            if reader.progress.ended:
                continue  # after the terminator: only the end of the body is waited for
            try:
                batch = reader.feed(data)
            except AttemptFailed as error:
                good = reader.take_good()
                if not good.data:
                    raise
                self._failed = error
                return good
            if (
                batch.data or reader.progress.finishing
            ):  # from the finish reason on other limits hold: whoever sets them is told
                return batch

    async def _read_plain(self) -> Batch | None:
        if self.progress.ended:
            return None
        body = await _read(self._response, _PLAIN_BODY_LIMIT)
        if self._call.stream:
            self._not_a_stream(body)
        return self._dialect.read_plain(body, self._call, self.progress)

    def _not_a_stream(self, body: bytes) -> None:
        """A stream was asked for and a plain body came: its error if it holds one, else a bad answer."""
        self._dialect.read_plain(body, self._call, Progress())
        raise AttemptFailed(bad_response("the provider answered a stream request with a body that is not a stream"))


async def _read(response: WireResponse, limit: int) -> bytes:
    """The whole body. Raises AttemptFailed over the limit."""
    parts: list[bytes] = []
    size = 0
    while data := await response.read_any():
        size += len(data)
        parts.append(data)
        if size > limit:
            raise AttemptFailed(bad_response(f"the provider's answer is larger than {limit} bytes"))
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _error_body(response: WireResponse) -> bytes:
    """What there is of an error's body after a moment: its status says enough for the rest not to be waited for."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_ERROR_BODY_S):
            while size <= _ERROR_BODY_LIMIT and (data := await response.read_any()):
                size += len(data)
                parts.append(data)
    except TimeoutError:
        pass
    return b"".join(parts)


def _headers(target: TargetSpec, dialect: Dialect) -> tuple[tuple[str, str], ...]:
    """Everything that goes upstream besides the body: an allow list of our own making, nothing of the caller's."""
    key = target.credential.api_key
    own = (("Content-Type", "application/json"), ("Accept-Encoding", "identity"), _USER_AGENT)
    return (*own, *(dialect.auth(key) if key else ()), *target.provider.headers)


def _secrets(target: TargetSpec) -> tuple[str, ...]:
    """What must not come back in a provider's words: its key, the values of its own headers, and its proxy's password."""
    proxy = target.provider.proxy
    values = (
        target.credential.api_key or "",
        *(value for _, value in target.provider.headers),
        *(proxy.secrets if proxy else ()),
    )
    secrets = (value for value in values if len(value) >= _SHORTEST_SECRET)
    return tuple(sorted(secrets, key=len, reverse=True))  # one may be the beginning of another


def _masked(failure: Failure, secrets: tuple[str, ...]) -> Failure:
    """The failure without the secrets that a provider repeats in its words, as some do with a refused key.

    They are masked first and cut then: a cut through a secret would leave its beginning.
    """

    def clean(text: str, limit: int) -> str:
        for secret in secrets:
            text = text.replace(secret, "***")
        return text[:limit]

    def word(text: str | None) -> str | None:
        return clean(text, _WORD_LIMIT) if text else text

    return replace(
        failure,
        message=clean(failure.message, _MESSAGE_LIMIT),
        type=word(failure.type),
        code=word(failure.code),
        param=word(failure.param),
    )


def _failure(error: TransportError) -> Failure:
    classes = {
        "connect": ErrorClass.CONNECT,
        "cut": ErrorClass.BAD_UPSTREAM_RESPONSE,
        "protocol": ErrorClass.BAD_UPSTREAM_RESPONSE,
        "capacity": ErrorClass.LOCAL_CAPACITY,
    }
    return Failure(classes[error.kind], error.message)
