"""The chat API of the scripted provider, which the drills ship with, under the name that tests know it by."""

from __future__ import annotations

from gateway.drill.provider.chat import (
    CHUNK_ID,
    CREATED,
    DONE,
    MODEL,
    ToolCall,
    Usage,
    completion,
    delta_chunk,
    error_body,
    error_event,
    event,
    finish_chunk,
    objection,
    role_chunk,
    stream,
    text_chunk,
    tool_chunk,
    usage_body,
    usage_chunk,
    words,
)

__all__ = [
    "CHUNK_ID",
    "CREATED",
    "DONE",
    "MODEL",
    "ToolCall",
    "Usage",
    "completion",
    "delta_chunk",
    "error_body",
    "error_event",
    "event",
    "finish_chunk",
    "objection",
    "role_chunk",
    "stream",
    "text_chunk",
    "tool_chunk",
    "usage_body",
    "usage_chunk",
    "words",
]
