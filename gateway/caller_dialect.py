"""What of a turn depends on the wire format that its caller speaks."""

from __future__ import annotations

from typing import Protocol

from gateway.http_errors import HttpError
from llm.dialects import openai_request
from llm.request import Call


class CallerDialect(Protocol):
    """A caller's wire format. What a provider speaks is another matter: see `llm/dialects/base.py`."""

    def read(self, body: bytes) -> Call:
        """Read a request. Raises InvalidRequest."""

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

    def error_body(self, error: HttpError) -> bytes:
        return error.body()

    def error_event(self, error: HttpError) -> bytes:
        return error.event()

    def trail_comment(self, trail: str) -> bytes:
        return f": stanchion-attempts {trail}\n\n".encode()
