"""OpenAI chat completions, the answer: plain bodies checked, streams read event by event and passed on as they came.

Corrected, and nothing else: a missing terminator after a finish reason, a missing finish reason before `[DONE]`, an empty
finish reason (sent as null), a usage chunk that the caller did not ask for (dropped), and in answers of one choice a finish
reason `stop` whose usage has reached the caller's cap (sent as `length`). For the last a stream's finish chunk waits for the
usage that follows it, which comes with it in one piece as a rule; the end of the stream and the linger limit end the wait.

An error inside a 200 keeps the class that its own code, type or words tell, in a stream and in a plain body. Where only a
number tells it, the two differ. A stream's error event comes after the status has gone out, so the number stands for the
status that it would have had: 503 is overloaded, 502 a server error, 400 a bad request. A plain body could have had that
status and was sent with 200 all the same: what would be a server error or a bad request by its number is a bad answer, on
which another target may do better.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import orjson

from llm.answer import NOTHING, Batch, Progress, Usage
from llm.classes import ErrorClass
from llm.classify import bad_response, classify_error
from llm.error_shapes import error_in
from llm.errors import AttemptFailed, Failure
from llm.sse import EventSplitter, EventTooLarge, read_event

DONE = b"data: [DONE]\n\n"
_NOTHING_SAID = b":\n\n"
"""In place of a provider's own events that hold no JSON: OpenAI's SDKs parse every event, whatever its name, and fail."""

_EMPTY_FINISH = re.compile(rb'(?<!\\)"finish_reason"\s*:\s*""')
_STOP_FINISH = re.compile(rb'(?<!\\)"finish_reason"\s*:\s*"stop"')
_OWN_EVENTS = ("", "message")
"""Names of events that hold chunks: the dialect gives none, and `message` is what that means."""

_OUTPUT_KEYS = ("content", "reasoning_content", "reasoning", "refusal", "audio", "function_call")
_CHARS_PER_TOKEN = 4


class ChatStreamReader:
    """Reads one stream of `choices` answers. `usage_asked`: the caller wants the usage chunk. `choices`: how many answers
    it asked for. `stops`: it gave stop sequences, so an empty answer can be what it asked for. `output_cap`: its bound of
    one choice, in tokens.
    """

    def __init__(
        self, *, usage_asked: bool, choices: int = 1, stops: bool = False, output_cap: int | None = None
    ) -> None:
        self.progress = Progress()
        self._cap = output_cap if choices <= 1 else None
        self._finish: list[bytes] | None = None
        self._usage_asked, self._choices, self._stops = usage_asked, max(choices, 1), stops
        self._splitter = EventSplitter()
        self._calls_in: dict[int, bool] = {}
        self._finished: set[int] = set()
        self._opening: dict[str, Any] = {}
        self._good: list[bytes] = []
        self._good_output = False

    def feed(self, data: bytes) -> Batch:
        try:
            for raw in self._splitter.feed(data):
                self._event(raw)
        except EventTooLarge as error:
            raise AttemptFailed(bad_response(f"the provider's stream is malformed: {error}")) from None
        return self.take_good()

    def take_good(self) -> Batch:
        if not self._good:
            return NOTHING
        batch = Batch(self._good[0] if len(self._good) == 1 else b"".join(self._good), self._good_output)
        self._good, self._good_output = [], False
        return batch

    def end(self) -> Batch:
        if self.progress.ended:
            return NOTHING
        rest = self._splitter.rest
        if rest.strip() and not self._finished:
            raise AttemptFailed(bad_response("the provider's stream ended inside an event"))
        if not self._finished or self._open_choices():
            raise AttemptFailed(bad_response("the provider's stream ended without a finish reason"))
        self._close()
        self._pass(DONE)
        return self.take_good()

    def _event(self, raw: bytes) -> None:
        if self.progress.ended:
            return
        name, data = read_event(raw)
        if not data:  # a comment, or an event that says nothing
            self._pass(raw)
            return
        if data.strip() == b"[DONE]":
            self._done(raw if data == b"[DONE]" else DONE)
            return
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError:
            if _foreign(name):
                self._pass(_NOTHING_SAID)
                return
            raise AttemptFailed(bad_response("the provider's stream holds an event that is not JSON")) from None
        if _foreign(name) and not (isinstance(chunk, dict) and (chunk.get("error") or "choices" in chunk)):
            self._pass(raw)
            return
        error = error_in(chunk)
        if error or name == "error":
            raise AttemptFailed(
                classify_error(error or chunk, None, otherwise="the provider's stream reports an error")
            )
        if not isinstance(chunk, dict):
            raise AttemptFailed(bad_response("the provider's stream holds an event that is not an object"))
        self._chunk(raw, chunk)

    def _chunk(self, raw: bytes, chunk: dict[str, Any]) -> None:
        choices = chunk.get("choices")
        usage = chunk.get("usage")
        if usage:
            self.progress.usage = read_usage(usage) or self.progress.usage
            if self._finish is not None:
                self._release()
        if choices is None and usage:
            choices = []
        if not isinstance(choices, list):
            raise AttemptFailed(bad_response("the provider's stream holds a chunk without choices"))
        if not self._opening:
            self._opening = {key: chunk[key] for key in ("id", "created", "model") if key in chunk}
            model = chunk.get("model")
            self.progress.model = model if isinstance(model, str) else None
        if not choices and usage and not self._usage_asked:
            return  # asked for by the gateway, not by the caller
        for choice in choices:
            if not isinstance(choice, dict):
                raise AttemptFailed(bad_response("the provider's stream holds a choice that is not an object"))
            raw = self._choice(raw, choice)
        if self._cap is not None and self.progress.finish_reason == "stop" and self._finish is None:
            self._finish = []
            self._pass(raw)
            if self.progress.usage is not None:
                self._release()
            return
        self._pass(raw)

    def _pass(self, raw: bytes) -> None:
        """One event for the caller, behind the finish chunk where that still waits for the usage."""
        (self._good if self._finish is None else self._finish).append(raw)

    def _release(self) -> None:
        """The usage is known, or will not come: the finish chunk and what followed it go on."""
        held, self._finish = self._finish, None
        if held and self._capped():
            held[0] = _STOP_FINISH.sub(b'"finish_reason":"length"', held[0])
            self.progress.finish_reason = "length"
        self._cap = None
        self._good += held or []

    def _capped(self) -> bool:
        """Whether the answer is as long as the caller let it be."""
        usage = self.progress.usage
        return self._cap is not None and usage is not None and usage.output_tokens >= self._cap

    def _choice(self, raw: bytes, choice: dict[str, Any]) -> bytes:
        index = choice.get("index")
        index = 0 if index is None else index
        if type(index) is not int or not 0 <= index < self._choices:  # a boolean is an int to isinstance
            raise AttemptFailed(bad_response("the provider's stream holds a choice that was not asked for"))
        delta = choice.get("delta")
        length = _output_length(delta) if isinstance(delta, dict) else 0
        calls = isinstance(delta, dict) and bool(delta.get("tool_calls"))
        self._calls_in[index] = self._calls_in.get(index, False) or calls
        if length:
            self._good_output = self.progress.output_seen = True
            self.progress.output_tokens_seen += max(length // _CHARS_PER_TOKEN, 1)
        finish = choice.get("finish_reason")
        if finish == "":
            raw = _EMPTY_FINISH.sub(b'"finish_reason":null', raw)
        elif isinstance(finish, str):
            self._finished.add(index)
            self.progress.finish_reason = finish
            self.progress.finishing = len(self._finished) >= self._choices
        return raw

    def _open_choices(self) -> list[int]:
        return [index for index in self._calls_in if index not in self._finished]

    def _done(self, raw: bytes) -> None:
        if not self.progress.output_seen and not self._finished:
            raise AttemptFailed(bad_response("the provider's stream ended without any output"))
        for index in self._open_choices():
            reason = "tool_calls" if self._calls_in[index] else "length" if self._capped() else "stop"
            self.progress.finish_reason = reason
            chunk = {
                "object": "chat.completion.chunk",
                **self._opening,
                "choices": [{"index": index, "delta": {}, "finish_reason": reason}],
            }
            self._pass(b"data: " + orjson.dumps(chunk) + b"\n\n")
        self._close()
        self._pass(raw)

    def _close(self) -> None:
        if not self.progress.output_seen and self.progress.finish_reason == "stop" and not self._stops:
            raise AttemptFailed(EMPTY)
        self.progress.ended = True
        if self._finish is not None:
            self._release()


EMPTY = Failure(ErrorClass.BAD_UPSTREAM_RESPONSE, "the provider's answer is complete and empty", 200)


def read_plain(body: bytes, progress: Progress, *, output_cap: int | None = None, stops: bool = False) -> Batch:
    """Check a whole answer. Raises AttemptFailed for everything that is not a completion with output.

    `output_cap`: the caller's bound of one choice, in tokens. `stops`: the caller gave stop sequences, so an empty answer
    that finished with `stop` can be what it asked for.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise AttemptFailed(bad_response("the provider answered 200 with a body that is not JSON")) from None
    error = error_in(value)
    if error:
        failure = classify_error(error, None, otherwise="the provider answered 200 with an error inside")
        raise AttemptFailed(_as_bad_response(failure))
    if not isinstance(value, dict):
        raise AttemptFailed(bad_response("the provider answered 200 with a body that is not an object"))
    choices = value.get("choices")
    if not isinstance(choices, list) or not choices or not all(isinstance(choice, dict) for choice in choices):
        raise AttemptFailed(bad_response("the provider answered 200 without choices"))
    output = 0
    for choice in choices:
        message = choice.get("message")
        if not isinstance(message, dict):
            raise AttemptFailed(bad_response("the provider answered 200 with a choice that has no message"))
        output += _output_length(message)
        finish = choice.get("finish_reason")
        if finish == "":
            body = _EMPTY_FINISH.sub(b'"finish_reason":null', body)
        elif isinstance(finish, str):
            progress.finish_reason = finish
    if not output and progress.finish_reason in (None, "stop") and not (stops and progress.finish_reason):
        raise AttemptFailed(EMPTY)
    progress.usage = usage = read_usage(value.get("usage"))
    capped = output_cap is not None and usage is not None and usage.output_tokens >= output_cap
    if capped and len(choices) == 1 and progress.finish_reason == "stop":
        body, progress.finish_reason = _STOP_FINISH.sub(b'"finish_reason":"length"', body), "length"
    model = value.get("model")
    progress.model = model if isinstance(model, str) else None
    progress.output_tokens_seen = output // _CHARS_PER_TOKEN
    progress.output_seen = progress.ended = True
    return Batch(body, True)


def read_usage(usage: Any) -> Usage | None:
    """Usage from the provider's object, None when it is not one."""
    if not isinstance(usage, dict):
        return None
    taken, given = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not isinstance(taken, int) or not isinstance(given, int):
        return None
    return Usage(max(taken, 0), max(given, 0))


def _as_bad_response(failure: Failure) -> Failure:
    """An error inside a plain 200 is a bad answer, unless its own words say what it is beyond a status (see above)."""
    if failure.error_class in (ErrorClass.SERVER_ERROR, ErrorClass.BAD_REQUEST):
        return replace(failure, error_class=ErrorClass.BAD_UPSTREAM_RESPONSE, status=200)
    return failure


def _foreign(name: str) -> bool:
    """Whether an event of this name is none of the dialect's: a provider's own ping, say. Errors may come under any name."""
    return name not in _OWN_EVENTS and name != "error"


def _output_length(delta: dict[str, Any]) -> int:
    """Characters of model output in a delta or message: text, reasoning, refusal, tool names and arguments."""
    content = delta.get("content")
    if content and isinstance(content, str):
        return len(content) + (_calls_length(delta["tool_calls"]) if delta.get("tool_calls") else 0)
    length = 0
    for key in _OUTPUT_KEYS:
        value = delta.get(key)
        if value:
            length += len(value) if isinstance(value, str | list) else 1
    return length + _calls_length(delta.get("tool_calls"))


def _calls_length(calls: Any) -> int:
    length = 0
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") or call.get("custom") if isinstance(call, dict) else None
        for key in ("name", "arguments", "input"):
            value = function.get(key) if isinstance(function, dict) else None
            length += len(value) if isinstance(value, str) else 0
    return length
