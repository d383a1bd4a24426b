"""The OpenAI chat dialect as a provider speaks it."""

from __future__ import annotations

from llm.answer import Batch, Progress
from llm.classify import classify_status
from llm.dialects.base import AnswerReader
from llm.dialects.openai_answer import ChatStreamReader, read_plain
from llm.dialects.openai_request import ChatCall
from llm.errors import Failure
from llm.request import Call


class OpenAiChat:
    """`POST {base_url}/chat/completions` with a bearer key."""

    name = "openai"

    def path(self, call: Call) -> str:
        return "/chat/completions"

    def auth(self, api_key: str) -> tuple[tuple[str, str], ...]:
        return (("Authorization", f"Bearer {api_key}"),)

    def reader(self, call: Call) -> AnswerReader:
        if isinstance(call, ChatCall):
            return ChatStreamReader(
                usage_asked=call.usage_asked, choices=call.choices, stops=call.stops, output_cap=call.output_cap
            )
        return ChatStreamReader(usage_asked=False, choices=call.choices)

    def read_plain(self, body: bytes, call: Call, progress: Progress) -> Batch:
        stops = isinstance(call, ChatCall) and call.stops
        return read_plain(body, progress, output_cap=call.output_cap, stops=stops)

    def failure(self, status: int, headers: dict[str, str], body: bytes, wall: float) -> Failure:
        return classify_status(status, headers, body, wall)
