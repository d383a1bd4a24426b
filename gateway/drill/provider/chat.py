"""What an OpenAI-compatible chat API sends: answers, stream events, errors, objections to a request."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

CREATED = 1_700_000_000
CHUNK_ID = "chatcmpl-fake"
MODEL = "fake-model"
DONE = b"data: [DONE]\n\n"

ToolCall = tuple[str, str, str]
"""Id, function name and arguments (JSON text) of one call."""
Usage = tuple[int, int]
"""Input and output tokens."""


def event(payload: Any, name: str | None = None) -> bytes:
    """One server-sent event with a JSON value."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(payload, ensure_ascii=False)}\n\n".encode()


def delta_chunk(
    delta: dict[str, Any], finish: str | None = None, *, chunk_id: str = CHUNK_ID, model: str = MODEL
) -> bytes:
    """A chat chunk with any delta."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return event(_chunk([choice], chunk_id, model))


def role_chunk(*, chunk_id: str = CHUNK_ID, model: str = MODEL) -> bytes:
    """The opening chunk: a role and no text, so no output yet."""
    return delta_chunk({"role": "assistant", "content": ""}, chunk_id=chunk_id, model=model)


def text_chunk(text: str, *, chunk_id: str = CHUNK_ID, model: str = MODEL) -> bytes:
    """A piece of the answer."""
    return delta_chunk({"content": text}, chunk_id=chunk_id, model=model)


def tool_chunk(
    arguments: str = "",
    *,
    index: int = 0,
    call_id: str | None = None,
    name: str | None = None,
    chunk_id: str = CHUNK_ID,
    model: str = MODEL,
) -> bytes:
    """A piece of a tool call: the first of a call has `call_id` and `name`, later ones arguments only."""
    call: dict[str, Any] = {"index": index, "function": {"arguments": arguments}}
    if call_id is not None:
        call |= {"id": call_id, "type": "function"}
    if name is not None:
        call["function"]["name"] = name
    return delta_chunk({"tool_calls": [call]}, chunk_id=chunk_id, model=model)


def finish_chunk(reason: str | None = "stop", *, chunk_id: str = CHUNK_ID, model: str = MODEL) -> bytes:
    """The chunk that carries the finish reason."""
    return delta_chunk({}, reason, chunk_id=chunk_id, model=model)


def usage_chunk(tokens_in: int = 12, tokens_out: int = 3, *, chunk_id: str = CHUNK_ID, model: str = MODEL) -> bytes:
    """The chunk that carries the usage and no choice."""
    return event(_chunk([], chunk_id, model) | {"usage": usage_body((tokens_in, tokens_out))})


def error_event(error: dict[str, Any], name: str | None = None) -> bytes:
    """An error inside a stream; `name` writes an `event:` line before it."""
    return event({"error": error}, name)


def usage_body(usage: Usage) -> dict[str, int]:
    return {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}


def error_body(message: str, kind: str, code: str | int | None = None, param: str | None = None) -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}}).encode()


def words(text: str) -> list[str]:
    """The text cut before each word; joined again it is the same text."""
    return re.findall(r"\s*\S+|\s+$", text)


def completion(
    text: str | None,
    *,
    completion_id: str,
    model: str,
    finish: str,
    usage: Usage | None,
    tool_calls: Sequence[ToolCall] = (),
) -> bytes:
    """A whole answer, as a plain call gets it."""
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    if tool_calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in tool_calls
        ]
    body: dict[str, Any] = {
        "id": completion_id,
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
    }
    if usage is not None:
        body["usage"] = usage_body(usage)
    return json.dumps(body, ensure_ascii=False).encode()


def stream(
    text: str | None,
    *,
    completion_id: str,
    model: str,
    finish: str,
    usage: Usage | None,
    tool_calls: Sequence[ToolCall] = (),
) -> list[bytes]:
    """The same answer as events: role, words, calls in pieces, finish reason, usage (if any), `[DONE]`."""
    events = [role_chunk(chunk_id=completion_id, model=model)]
    events += [text_chunk(word, chunk_id=completion_id, model=model) for word in words(text or "")]
    for index, (call_id, name, arguments) in enumerate(tool_calls):
        opening = tool_chunk(index=index, call_id=call_id, name=name, chunk_id=completion_id, model=model)
        middle = len(arguments) // 2
        events.append(opening)
        events += [
            tool_chunk(piece, index=index, chunk_id=completion_id, model=model)
            for piece in (arguments[:middle], arguments[middle:])
            if piece
        ]
    events.append(finish_chunk(finish, chunk_id=completion_id, model=model))
    if usage is not None:
        events.append(usage_chunk(*usage, chunk_id=completion_id, model=model))
    events.append(DONE)
    return events


def objection(body: Any) -> str | None:
    """Why a real API refuses this request with 400 (the first reason); None when it would take it."""
    if not isinstance(body, dict):
        return "We could not parse the JSON body of your request."
    streamed = body.get("stream")
    if streamed is not None and not isinstance(streamed, bool):
        return "Invalid type for 'stream': expected a boolean."
    if body.get("stream_options") is not None and not streamed:
        return "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    if not isinstance(body.get("model"), str) or not body["model"]:
        return "you must provide a model parameter"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "Invalid 'messages': expected an array with minimum length 1."
    for name, low, high in (("temperature", 0, 2), ("top_p", 0, 1), ("n", 1, 128)):
        value = body.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            return f"Invalid type for '{name}': expected a number."
        if value is not None and not low <= value <= high:
            return f"Invalid '{name}': expected a value from {low} to {high}."
    return next((found for index, item in enumerate(messages) if (found := _message_objection(index, item))), None)


def _message_objection(index: int, message: Any) -> str | None:
    where = f"messages[{index}]"
    if not isinstance(message, dict):
        return f"Invalid type for '{where}': expected an object."
    role = message.get("role")
    if role not in ("developer", "system", "user", "assistant", "tool", "function"):
        return f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', and 'tool'."
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        return f"Missing required parameter: '{where}.tool_call_id'."
    content = message.get("content")
    if isinstance(content, str | list) or (content is None and role == "assistant" and message.get("tool_calls")):
        return None
    return f"Invalid value for 'content': expected a string, got {type(content).__name__} ('{where}')."


def _chunk(choices: list[dict[str, Any]], chunk_id: str, model: str) -> dict[str, Any]:
    return {
        "id": chunk_id,
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": model,
        "choices": choices,
    }
