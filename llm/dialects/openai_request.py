"""OpenAI chat completions, the request: read once, sent byte for byte with only the model and stream options changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from llm.errors import InvalidRequest
from llm.jsonspan import RepeatedTooOften, Span, members, splice

BYTES_PER_TOKEN = 4
"""Estimate for input: English text in common tokenizers has about four bytes a token (OpenAI's own rule of thumb)."""

IMAGE_TOKENS = 1000
"""Estimate for one image, in place of its encoded bytes (OpenAI vision guide: about 85 to 1500 a picture)."""

AUDIO_BYTES_PER_TOKEN = 1000
"""Estimate for audio, from its encoded bytes: OpenAI counts ten tokens a second, and a compressed second is about 10 kB in
base64 (64 kbit/s)."""

WAV_BYTES_PER_TOKEN = 6400
"""The same for uncompressed audio: a second is 64 kB in base64 (16 bits at 24 kHz)."""

_ESCAPE_SURPLUS = 3
"""Bytes by which `\\uXXXX` is longer than most letters so written are in UTF-8: a text has the same estimate either way."""

_NUL = b"\\u0000"
_DATA_URL = re.compile(rb'"data:[^"]{256,}"')


@dataclass(frozen=True, slots=True)
class ChatCall:
    """A chat completion as the caller sent it. `usage_asked`: the caller wants the usage chunk of a stream. `stops`: it gave
    stop sequences. `models`: where the model's name stands. `edits`: what asks for the usage, or the stream, that it did not
    ask for. `written`: which fields of a stream the body has. `streamable`: a stream can stand for the plain answer.
    """

    body: bytes = field(repr=False)
    model: str
    stream: bool
    usage_asked: bool
    input_tokens: int
    output_cap: int | None
    choices: int
    stops: bool
    needs: frozenset[str]
    models: tuple[Span, ...] = field(repr=False)
    edits: tuple[tuple[int, int, bytes], ...] = field(repr=False)
    written: tuple[str, ...]
    streamable: bool

    @property
    def size(self) -> int:
        return len(self.body)

    def body_for(self, model: str) -> bytes:
        """The caller's bytes with the model replaced and, in a stream, usage asked for. Nothing else changes."""
        name = orjson.dumps(model)
        edits = [(start, end, name) for _, start, end in self.models]
        edits += self.edits
        return splice(self.body, edits)

    def streamed(self) -> ChatCall:
        """The same plain call, asked for as a stream that tells its usage.

        It is the call itself where that is a stream already, or where a stream cannot stand for it (`streamable`).
        """
        if self.stream or not self.streamable:
            return self
        try:
            spans = members(self.body, self.written) if self.written else []
        except RepeatedTooOften:
            return self  # the provider says what it takes
        values = {"stream": b"true", "stream_options": b'{"include_usage":true}'}
        edits = [(start, end, values[key]) for key, start, end in spans]
        added = b"".join(b',"%b":%b' % (key.encode(), values[key]) for key in values if key not in self.written)
        at = self.models[0].end
        return replace(self, stream=True, usage_asked=True, edits=(*edits, (at, at, added)))


def read(body: bytes) -> ChatCall:
    """Read a caller's body. Raises InvalidRequest, which says what is wrong and where."""
    if _NUL in body and _NUL in body.replace(b"\\\\", b"__"):  # an escaped backslash before a u is none
        raise InvalidRequest("the body holds a NUL character (\\u0000), which providers refuse: remove it")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(_not_json(body, error)) from None
    if not isinstance(value, dict):
        raise InvalidRequest("the body has to be a JSON object")
    model = value.get("model")
    if not isinstance(model, str) or not model:
        raise InvalidRequest("model has to be a non-empty text: the name of a route (see GET /v1/models)", "model")
    stream = value.get("stream")
    if stream is not None and not isinstance(stream, bool):
        raise InvalidRequest("stream has to be true or false", "stream")
    messages = value.get("messages")
    if not isinstance(messages, list) or not messages:
        raise InvalidRequest("messages has to be a non-empty list", "messages")
    options = value.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise InvalidRequest("stream_options has to be an object", "stream_options")
    usage_asked = bool(options and options.get("include_usage") is True)
    choices, cap = _count(value, "n") or 1, _output_cap(value)
    models, edits = _places(body, usage=bool(stream) and not usage_asked, options="stream_options" in value)
    return ChatCall(
        body=body,
        model=model,
        stream=bool(stream),
        usage_asked=usage_asked,
        input_tokens=_input_tokens(body, messages),
        output_cap=cap,
        choices=choices,
        stops=bool(value.get("stop")),
        needs=_needs(value, messages),
        models=models,
        edits=edits,
        written=tuple(key for key in ("stream", "stream_options") if key in value),
        streamable=_streams(value),
    )


def _places(body: bytes, *, usage: bool, options: bool) -> tuple[tuple[Span, ...], tuple[tuple[int, int, bytes], ...]]:
    """Where the model stands, and with `usage` the edits that ask for it. `options`: the body has stream options."""
    try:
        spans = members(body, ("model", "stream_options") if usage and options else ("model",))
    except RepeatedTooOften as error:
        raise InvalidRequest(f"{error.key} is given too often: give it once", error.key) from None
    if not usage:
        return tuple(spans), ()
    models = tuple(span for span in spans if span.key == "model")
    if not options:
        at = models[0].end
        return models, ((at, at, b',"stream_options":{"include_usage":true}'),)
    return models, tuple((start, end, _asking(body[start:end])) for key, start, end in spans if key == "stream_options")


def _asking(options: bytes) -> bytes:
    """Stream options that ask for usage too."""
    written = orjson.loads(options)
    kept = written if isinstance(written, dict) else {}  # null, or the lesser of repeated keys
    return orjson.dumps({**kept, "include_usage": True})


def _not_json(body: bytes, error: orjson.JSONDecodeError) -> str:
    if not body.strip():
        return "the body is empty: send a JSON object with model and messages"
    return f"the body is not valid JSON: {error.msg.split(': line')[0]} (line {error.lineno}, column {error.colno})"


def _count(value: dict[str, Any], key: str) -> int | None:
    number = value.get(key)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise InvalidRequest(f"{key} has to be a whole number of at least 1", key)
    return number


def _output_cap(value: dict[str, Any]) -> int | None:
    """The larger of the two caps: which one a target honours is the target's affair."""
    caps = [cap for key in ("max_tokens", "max_completion_tokens") if (cap := _count(value, key)) is not None]
    return max(caps, default=None)


def _input_tokens(body: bytes, messages: list[Any]) -> int:
    size, images, audio = len(body), 0, 0
    if size > 2000 and b'"data:' in body:
        for match in _DATA_URL.finditer(body):
            size, images = size - len(match[0]), images + 1
    if b"\\u" in body:  # an escaped backslash before a u is none
        size -= _ESCAPE_SURPLUS * max(body.count(b"\\u") - body.count(b"\\\\u"), 0)
    if b"input_audio" in body:
        for encoded, tokens in _recordings(messages):
            size, audio = size - encoded, audio + tokens
    return max(size, 0) // BYTES_PER_TOKEN + images * IMAGE_TOKENS + audio


def _recordings(messages: list[Any]) -> Iterator[tuple[int, int]]:
    """Encoded bytes and estimated tokens of each piece of audio."""
    for part in _parts(messages):
        recording = part.get("input_audio")
        if not isinstance(recording, dict):
            continue
        data = recording.get("data")
        if isinstance(data, str) and not data.startswith("data:"):  # a data URL is taken out with the images
            per_token = WAV_BYTES_PER_TOKEN if recording.get("format") == "wav" else AUDIO_BYTES_PER_TOKEN
            yield len(data), len(data) // per_token + 1


def _parts(messages: list[Any]) -> Iterator[dict[str, Any]]:
    """The parts of all messages whose content is a list."""
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict):
                yield part


def _streams(value: dict[str, Any]) -> bool:
    """Whether a plain call has the same answer as a stream. Spoken output streams as `pcm16` only; and stream options are
    refused in a plain call, which a stream would hide."""
    audio, modalities = value.get("audio"), value.get("modalities")
    spoken = bool(audio) or (isinstance(modalities, list) and "audio" in modalities)
    if spoken and not (isinstance(audio, dict) and audio.get("format") == "pcm16"):
        return False
    return value.get("stream_options") is None


def _needs(value: dict[str, Any], messages: list[Any]) -> frozenset[str]:
    needs = set()
    if value.get("tools") or value.get("functions"):
        needs.add("tools")
    wanted = value.get("response_format")
    if isinstance(wanted, dict) and wanted.get("type") == "json_schema":
        needs.add("json_schema")
    if value.get("logprobs"):
        needs.add("logprobs")
    for part in _parts(messages):
        if part.get("type") == "image_url":
            needs.add("vision")
        elif part.get("type") == "input_audio":
            needs.add("audio")
    return frozenset(needs)
