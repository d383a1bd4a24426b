"""What the drill's caller asks, what its two providers answer, and the pieces that the faults are made of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from gateway.drill.provider import chat
from gateway.drill.provider.behaviours import Behaviour, Step, answer, sse, status, truncated
from gateway.drill.provider.exchange import Exchange

PRIMARY, SECONDARY, ROUTE = "primary", "secondary", "drill"
TOKENS = 60
"""Words of every whole answer, one to an event. No two of them are alike, so that nothing can be missing or doubled unseen."""

MESSAGES: tuple[Mapping[str, str], ...] = (
    MappingProxyType({"role": "system", "content": "Answer in sixty words."}),
    MappingProxyType({"role": "user", "content": "When does a gateway earn trust?"}),
)


@dataclass(frozen=True, slots=True)
class Scripted:
    """The whole answer of one target: its words, and the usage that its provider counts."""

    target: str
    text: str
    usage: chat.Usage

    @property
    def model(self) -> str:
        """The model's name at the provider."""
        return f"{self.target}-model"

    @property
    def good(self) -> Behaviour:
        """The provider gives the whole answer, streamed or plain as it is asked."""
        return answer(self.text, usage=self.usage)

    def begun(self, tokens: int) -> list[bytes]:
        """The events of its stream up to so many words."""
        named = {"chunk_id": f"chatcmpl-{self.target}", "model": self.model}
        words = chat.words(self.text)[:tokens]
        return [chat.role_chunk(**named), *(chat.text_chunk(word, **named) for word in words)]

    def ended(self, finish: str | None = "stop") -> list[bytes]:
        """The events after its last word, but for the terminator."""
        named = {"chunk_id": f"chatcmpl-{self.target}", "model": self.model}
        return [
            chat.finish_chunk(finish, **named),
            chat.usage_chunk(*self.usage, chunk_id=named["chunk_id"], model=named["model"]),
        ]

    def body(self) -> bytes:
        """Its body as a plain answer."""
        return chat.completion(
            self.text,
            completion_id=f"chatcmpl-{self.target}",
            model=self.model,
            finish="stop",
            usage=self.usage,
        )


def _words(name: str) -> str:
    return " ".join(f"{name}-{number}" for number in range(1, TOKENS + 1))


FIRST = Scripted(PRIMARY, _words("north"), (21, TOKENS))
SECOND = Scripted(SECONDARY, _words("south"), (34, TOKENS))
ANSWERS = (FIRST, SECOND)


def question(*, stream: bool) -> dict[str, Any]:
    """The body that the caller sends."""
    body = {
        "model": ROUTE,
        "messages": [dict(message) for message in MESSAGES],
        "temperature": 0.2,
        "max_tokens": 400,
        "user": "drill",
    }
    return body | ({"stream": True, "stream_options": {"include_usage": True}} if stream else {})


def either(streamed: Behaviour, plain: Behaviour) -> Behaviour:
    """One behaviour for a request that asks for a stream, another for one that does not."""

    async def play(exchange: Exchange) -> None:
        await (streamed if exchange.seen.json.get("stream") is True else plain)(exchange)

    return play


def breaks_off(tokens: int, *endings: Behaviour) -> Behaviour:
    """The primary's answer up to so many words, in a plain body as far as they stand; then the endings, one after the other."""
    text = FIRST.body()
    cut_at = text.index(f"north-{tokens} ".encode())
    steps: list[Step] = [*FIRST.begun(tokens), *endings]

    async def end(exchange: Exchange) -> None:
        for ending in endings:
            await ending(exchange)

    return either(sse(*steps), truncated(text[:cut_at], missing=len(text) - cut_at, end=end))


def streamed(*steps: Step | list[bytes]) -> Behaviour:
    """A stream of these steps; lists of events are laid out flat."""
    flat: list[Step] = []
    for step in steps:
        flat += step if isinstance(step, list) else [step]
    return sse(*flat)


def no_prefill(then: Behaviour) -> Behaviour:
    """A model that does not continue a begun answer: a last message of the assistant is refused, as newer models do."""

    async def play(exchange: Exchange) -> None:
        if exchange.seen.json["messages"][-1]["role"] == "assistant":
            said = (
                "This model does not support assistant message prefill. The conversation must end with a user message."
            )
            await status(400, message=said)(exchange)
        else:
            await then(exchange)

    return play


def error_in_200(code: int | str, message: str) -> bytes:
    """The body of an error that came with the wrong status."""
    return json.dumps({"error": {"message": message, "code": code}}).encode()
