"""What the providers of the soak do: mostly answer, and every so often one of everything that they can do wrong."""

from __future__ import annotations

from random import Random

from tests.fakes import chat
from tests.fakes.behaviours import (
    Behaviour,
    Step,
    answer,
    cut,
    cut_after,
    garbage,
    html,
    pause,
    raw,
    reset,
    rst,
    silent,
    sse,
    status,
    truncated,
)
from tests.fakes.exchange import Exchange

_LONG = "word " * 400


def faults(name: str) -> list[Behaviour]:
    """One of each. Texts are marked with the provider's name, so that a splice is seen."""
    opening = [chat.role_chunk(), chat.text_chunk(f"{name} says ")]
    return [
        status(500),
        status(503),
        status(529, type="overloaded_error"),
        status(429, headers={"Retry-After": "1"}),
        status(429),
        status(408),
        status(502, body=b"<html>bad gateway</html>"),
        html(),
        garbage(),
        reset(),
        cut(),
        silent(),
        raw(b""),
        raw(b'{"choices": null}'),
        raw(b'{"error": {"code": 502, "message": "inside"}}'),
        truncated(b'{"choices": ['),
        cut_after(0),
        cut_after(3),
        cut_after(3, rst()),
        sse(*opening, silent()),
        sse(*opening, chat.error_event({"message": "too much", "type": "overloaded_error"})),
        sse(*opening, b"data: {nonsense}\n\n"),
        sse(*opening, chat.finish_chunk()),
        sse(*opening, chat.DONE),
        sse(*opening, chat.finish_chunk(), silent()),
        sse(*opening, chat.finish_chunk(), chat.DONE, silent()),
        sse(chat.role_chunk(), chat.finish_chunk(), chat.DONE),
        sse(chat.role_chunk(), silent()),
    ]


def slow(name: str, pieces: int = 8) -> Behaviour:
    steps: list[Step] = [chat.role_chunk()]
    for number in range(pieces):
        steps += [pause(0.03), chat.text_chunk(f"{name}{number} ")]
    return sse(*steps, chat.finish_chunk(), chat.DONE)


class Moody:
    """A provider's behaviour: drawn anew for each request. `share`: how many of a hundred go wrong; may be changed."""

    def __init__(self, name: str, random: Random, share: int) -> None:
        self._name, self._random, self.share = name, random, share
        self._faults = faults(name)
        self._good = [
            answer(f"{name} says hello"),
            answer(f"{name} says hello", encoding="gzip"),
            answer(f"{name} says {_LONG}"),
            answer(None, tool_calls=[("call_1", "look", '{"at": 1}')]),
        ]

    async def __call__(self, exchange: Exchange) -> None:
        if self._random.random() * 100 < self.share:
            behaviour = self._random.choice(self._faults)
        elif self._random.random() < 0.1 and b'"stream": true' in exchange.seen.body:
            behaviour = slow(self._name)
        else:
            behaviour = self._random.choice(self._good)
        await behaviour(exchange)
