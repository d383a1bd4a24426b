"""What of a turn depends on the wire format that its caller speaks."""

from __future__ import annotations

from typing import Protocol

from gateway.http_errors import HttpError
from llm.dialects import openai_request
from llm.dialects.openai_assemble import assemble
from llm.dialects.openai_request import ChatCall
from llm.request import Call


class CallerDialect(Protocol):
    """A caller's wire format. What a provider speaks is another matter: see `llm/dialects/base.py`."""

    def read(self, body: bytes) -> Call:
        """Read a request. Raises InvalidRequest."""

    def streamed(self, call: Call) -> Call:
        """A plain request as one for a stream, usage included."""

    def assembled(self, events: bytes) -> bytes:
        """The body of a plain answer from a whole stream."""

    def error_body(self, error: HttpError) -> bytes:
        """An error in place of an answer."""

    def error_event(self, error: HttpError) -> bytes:
        """An error as the last event of a stream that has begun."""

    def trail_comment(self, trail: str) -> bytes:
        """The trail inside of a stream whose head went out before there was one; b"" where a stream has no comments."""


class OpenAiCaller:
    """OpenAI chat completions."""

    def read(self, body: bytes) -> Call:
        return openai_request.read(body)

    def streamed(self, call: Call) -> Call:
        return call.streamed() if isinstance(call, ChatCall) else call

    def assembled(self, events: bytes) -> bytes:
        return assemble(events)

    def error_body(self, error: HttpError) -> bytes:
        return error.body()

    def error_event(self, error: HttpError) -> bytes:
        return error.event()

    def trail_comment(self, trail: str) -> bytes:
        return f": stanchion-attempts {trail}\n\n".encode()
