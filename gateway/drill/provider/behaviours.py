"""What a fake provider does with one request.

A behaviour is any `async def` of an `Exchange`, so anybody may write one; those here are composable:
`delay` and `gate` take another one, and the steps of `sse` are bytes or behaviours.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from gateway.drill.provider import chat
from gateway.drill.provider.exchange import Encoding, Exchange, Headers

Behaviour = Callable[[Exchange], Awaitable[None]]
Step = bytes | Behaviour
"""Of a stream: bytes to send as one write, or something to do."""

_EVENT_STREAM = "text/event-stream"


def answer(
    text: str | None = None,
    usage: chat.Usage | None = (12, 3),
    finish: str | None = None,
    tool_calls: Sequence[chat.ToolCall] = (),
    model: str | None = None,
    headers: Headers | None = None,
    encoding: Encoding | None = None,
    piece_delay_s: float = 0.0,
) -> Behaviour:
    """A good answer: JSON, or a stream when the request asks for one.

    The text is `hello from NAME` if none is given (null where there are tool calls only), the model the one
    that the request names, the finish reason `stop` or `tool_calls`, the id `chatcmpl-NAME-NUMBER`. A stream
    has one chunk per word, and a usage chunk only where the request asks for it. `piece_delay_s`: between the
    pieces of a stream.
    """

    async def play(exchange: Exchange) -> None:
        body = _json_or_nothing(exchange.seen.body)
        asked_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        streamed = body.get("stream") is True
        said = f"hello from {exchange.name}" if text is None and not tool_calls else text
        build = chat.stream if streamed else chat.completion
        built = build(
            said,
            completion_id=f"chatcmpl-{exchange.name}-{exchange.number}",
            model=model or str(body.get("model", chat.MODEL)),
            finish=finish or ("tool_calls" if tool_calls else "stop"),
            usage=usage if asked_usage or not streamed else None,
            tool_calls=tool_calls,
        )
        if isinstance(built, bytes):
            exchange.respond(200, built, headers=headers, encoding=encoding)
            return
        steps: list[Step] = []
        for piece in built:
            steps += [piece, pause(piece_delay_s)] if piece_delay_s else [piece]
        await sse(*steps, headers=headers, encoding=encoding)(exchange)

    return play


def raw(
    body: bytes,
    status: int = 200,
    content_type: str = "application/json",
    headers: Headers | None = None,
    encoding: Encoding | None = None,
) -> Behaviour:
    """Any body as a whole answer."""

    async def play(exchange: Exchange) -> None:
        exchange.respond(status, body, content_type=content_type, headers=headers, encoding=encoding)

    return play


def status(
    code: int,
    error_code: str | int | None = None,
    message: str | None = None,
    type: str | None = None,  # noqa: A002 - the name of the field in the answer
    headers: Headers | None = None,
    body: bytes | None = None,
    encoding: Encoding | None = None,
) -> Behaviour:
    """An error of the API, or with `body` that body under the same status."""
    kind = type or {401: "authentication_error", 429: "rate_limit_error"}.get(
        code, "server_error" if code >= 500 else "invalid_request_error"
    )
    said = f"scripted {code}" if message is None else message
    return raw(
        chat.error_body(said, kind, error_code) if body is None else body,
        code,
        headers=headers,
        encoding=encoding,
    )


def redirect(url: str, code: int = 307) -> Behaviour:
    return raw(b"", code, content_type="text/plain", headers={"Location": url})


def html(code: int = 200) -> Behaviour:
    """A page, as a load balancer or a login wall sends it in place of the API."""
    return raw(b"<!doctype html><html><body><h1>Be right back</h1></body></html>", code, "text/html; charset=utf-8")


def truncated(body: bytes, missing: int = 10, end: Behaviour | None = None) -> Behaviour:
    """A plain answer `missing` bytes short of the length it promised; then `end`, a cut unless given."""

    async def play(exchange: Exchange) -> None:
        exchange.begin(200, content_type="application/json", length=len(body) + missing)
        await exchange.send(body)
        await (end or cut())(exchange)

    return play


def garbage() -> Behaviour:
    """Bytes that are not HTTP, then the end of the connection."""

    async def play(exchange: Exchange) -> None:
        exchange.write(b"\x15\x03\x01\x00\x02\x02\x46 not HTTP at all\r\n\r\n")
        exchange.cut()

    return play


def silent() -> Behaviour:
    """Never answer; the connection stays open until the client leaves."""

    async def play(exchange: Exchange) -> None:
        await exchange.hang()

    return play


def cut() -> Behaviour:
    """Close the connection (FIN) without the proper end of what was begun.

    A client may drop what it has received and not yet read when the end arrives: where pieces are counted,
    put a `wait` before the `cut` or `rst` and set the event when they are there.
    """

    async def play(exchange: Exchange) -> None:
        exchange.cut()

    return play


def rst() -> Behaviour:
    """Reset the connection; see `cut` for pieces that are still on their way."""

    async def play(exchange: Exchange) -> None:
        exchange.reset()

    return play


def close() -> Behaviour:
    """FIN without a byte of an answer."""
    return cut()


def reset() -> Behaviour:
    """RST before any byte of an answer."""
    return rst()


def end() -> Behaviour:
    """The proper end of a stream. One whose steps run out ends like this by itself."""

    async def play(exchange: Exchange) -> None:
        exchange.finish()

    return play


def wait(event: asyncio.Event) -> Behaviour:
    """Go on when the event is set."""

    async def play(_exchange: Exchange) -> None:
        await event.wait()

    return play


def pause(seconds: float) -> Behaviour:
    """Go on after a time, on the clock that the provider was given."""

    async def play(exchange: Exchange) -> None:
        await exchange.sleep(seconds)

    return play


def gate(event: asyncio.Event, then: Behaviour) -> Behaviour:
    """Do `then` when the event is set."""
    return _first(wait(event), then)


def delay(seconds: float, then: Behaviour) -> Behaviour:
    """Do `then` after a time, on the clock that the provider was given."""
    return _first(pause(seconds), then)


def sse(
    *steps: Step,
    status: int = 200,
    content_type: str = _EVENT_STREAM,
    headers: Headers | None = None,
    encoding: Encoding | None = None,
) -> Behaviour:
    """A scripted stream, chunked. Bytes are sent as given, one write each; nothing is added to them."""

    async def play(exchange: Exchange) -> None:
        exchange.begin(status, content_type=content_type, headers=headers, encoding=encoding)
        for step in steps:
            if isinstance(step, bytes):
                await exchange.send(step)
            else:
                await step(exchange)
            if exchange.over:
                return
        exchange.finish()

    return play


def cut_after(n_pieces: int, end: Behaviour | None = None, until: asyncio.Event | None = None) -> Behaviour:
    """A stream of a role and `n_pieces` text pieces (`p0 `, `p1 `, …) that then breaks off.

    It breaks off when `until` is set, at once without one; `end` says how, by `cut()` unless given.
    """
    steps: list[Step] = [chat.role_chunk(), *(chat.text_chunk(f"p{number} ") for number in range(n_pieces))]
    if until is not None:
        steps.append(wait(until))
    return sse(*steps, end or cut())


def _first(step: Behaviour, then: Behaviour) -> Behaviour:
    async def play(exchange: Exchange) -> None:
        await step(exchange)
        await then(exchange)

    return play


def _json_or_nothing(body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
