"""The callers of the soak, and what they check of every answer."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from random import Random
from typing import Any

import aiohttp

from tests.gateway.wire import Wire

LIMIT_S = 30.0
"""Beyond this a request counts as unanswered; its own deadline is far below."""

_NAMES = ("p", "s", "t")
_COMMITS = (None, "first_output", "complete", "tokens=2", "time=100ms")


class Findings:
    """What the callers saw: endings by name, and every answer that must not be."""

    def __init__(self) -> None:
        self.endings: Counter[str] = Counter()
        self.wrong: list[str] = []

    def note(self, ending: str) -> None:
        self.endings[ending] += 1

    def blame(self, what: str) -> None:
        if len(self.wrong) < 20:
            self.wrong.append(what)


class Caller:
    """Asks until it is told to stop: plain or streamed, patient or not, now and then nonsense."""

    def __init__(self, base: str, session: aiohttp.ClientSession, random: Random, findings: Findings) -> None:
        self._base, self._session, self._random, self._findings = base, session, random, findings
        self.stopping = False

    async def run(self) -> None:
        while not self.stopping:
            try:
                async with asyncio.timeout(LIMIT_S):
                    await self._one()
            except TimeoutError:
                self._findings.blame(f"a request was not answered within {LIMIT_S:g} s")

    async def _one(self) -> None:
        drawn = self._random.random()
        if drawn < 0.05:
            await self._nonsense()
        elif drawn < 0.15:
            await self._leave()
        else:
            await self._ask(stream=self._random.random() < 0.6)

    async def _nonsense(self) -> None:
        body, expected = self._random.choice(
            [
                (b"{", 400),
                (b"[]", 400),
                (b'{"model": "nobody", "messages": [{"role": "user", "content": "x"}]}', 404),
                (b'{"model": "r"}', 400),
            ]
        )
        async with self._session.post(self._url, data=body, headers=_KIND) as response:
            await response.read()
            if response.status != expected:
                self._findings.blame(f"nonsense was answered {response.status}, not {expected}")
            self._findings.note("nonsense")

    async def _leave(self) -> None:
        """Go away at some moment, from before the head to the middle of the body."""
        asked = asyncio.ensure_future(self._ask(stream=True, judged=False))
        await asyncio.sleep(self._random.random() * 0.15)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        self._findings.note("left")

    async def _ask(self, *, stream: bool, judged: bool = True) -> None:
        commit = self._random.choice(_COMMITS)
        headers = dict(_KIND) if commit is None else {**_KIND, "x-stanchion-commit": commit}
        fields: dict[str, Any] = {"model": "r", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
        if self._random.random() < 0.3:
            fields["max_tokens"] = 50
        body = json.dumps(fields).encode()
        if stream:
            status, got, whole = await self._by_socket(body, headers)
        else:
            async with self._session.post(self._url, data=body, headers=headers) as response:
                status, got, whole = response.status, await response.read(), True
        if judged:
            self._judge(status, got, whole=whole, stream=stream)

    async def _by_socket(self, body: bytes, headers: dict[str, str]) -> tuple[int, bytes, bool]:
        """A stream read from a socket: aiohttp's client drops what it has read when a body breaks off."""
        host, _, port = self._base.removeprefix("http://").rpartition(":")
        one = Wire(*await asyncio.open_connection(host, int(port)))
        try:
            fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\n{fields}Content-Length: {len(body)}\r\n\r\n"
            one.send(head.encode() + body)
            status, answered = await one.head()
            if "content-length" in answered:
                return status, await one.exactly(int(answered["content-length"])), True
            got = b""
            while piece := await one.piece():
                got += piece
                if self._random.random() < 0.02:
                    await asyncio.sleep(0.2)  # a slow reader
            return status, got, True
        except asyncio.IncompleteReadError:
            return status, got, False
        finally:
            one.abort()

    def _judge(self, status: int, body: bytes, *, whole: bool, stream: bool) -> None:
        if status != 200:
            error = json.loads(body).get("error", {})
            if not whole or not error.get("class"):
                self._findings.blame(f"{status} without an error of the dialect: {body[:200]!r}")
            self._findings.note(f"error {status}")
        elif not stream:
            text = _plain_text(json.loads(body))
            self._one_target(text)
            self._findings.note("answer")
        else:
            self._judge_stream(body, whole=whole)

    def _judge_stream(self, body: bytes, *, whole: bool) -> None:
        blocks = [block[6:] for block in body.split(b"\n\n") if block.startswith(b"data: ")]
        clean = bool(blocks) and blocks[-1] == b"[DONE]"
        events = [json.loads(block) for block in blocks if block != b"[DONE]"]
        errors = [event for event in events if "error" in event]
        self._one_target("".join(_stream_text(event) for event in events))
        if clean and whole and not errors:
            self._findings.note("stream")
        elif len(errors) == 1 and events[-1] is errors[0] and not clean and not whole:
            self._findings.note("stream, broken off in the open")
        else:
            self._findings.blame(f"a stream that ended neither clean nor with one error event: {body[-300:]!r}")

    def _one_target(self, text: str) -> None:
        names = {name for name in _NAMES if f"{name} says" in text or f"{name}0 " in text}
        if len(names) > 1:
            self._findings.blame(f"text of {sorted(names)} in one answer: {text[:200]!r}")

    @property
    def _url(self) -> str:
        return f"{self._base}/v1/chat/completions"


_KIND = {"Content-Type": "application/json"}


def _plain_text(body: dict[str, Any]) -> str:
    return "".join(choice["message"].get("content") or "" for choice in body["choices"])


def _stream_text(event: dict[str, Any]) -> str:
    return "".join((choice.get("delta") or {}).get("content") or "" for choice in event.get("choices", ()))
