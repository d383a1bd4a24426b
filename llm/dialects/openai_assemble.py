"""OpenAI chat completions: a whole stream put together to the one body that a plain request would have got.

For plain callers whose provider is asked for a stream. What the gateway's reader has passed is taken for granted: JSON
events that are chunks, under whatever name, and a complete answer. Everything else in the stream (comments, a provider's
own events) says nothing of the answer. The rules, by where a field stands (OpenAI's reference of the chunk and the
completion object; the accumulation in its SDKs):

- **top level**: the last value counts, null and empty text never replace one; objects that are not of the dialect are
  merged key by key. `object` is the completion's, `obfuscation` has no place in it.
- **choice**, beside its delta: the same. `logprobs` have their lists extended.
- **delta**: texts are put together, known or not, except those that name something (`role`, `id`, `type`, `name`,
  `object`: the first one counts); lists are extended; objects are merged key by key; of anything else the last counts.
- **tool calls**: function name, arguments and a custom tool's input are put together; the first id counts; of anything
  else the last. Which call a piece belongs to is said at `_Calls`.
- `content` is null where nothing but a call, a refusal or audio came.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import orjson

from llm.sse import EventSplitter, read_event

Json = dict[str, Any]

_NAMING = frozenset({"role", "id", "type", "name", "object"})
_STREAM_ONLY = frozenset({"choices", "object", "obfuscation", "usage"})
_KINDS = ("function", "custom")
_WITHOUT_CONTENT = ("tool_calls", "function_call", "refusal", "audio")
_FIRST = ("id", "object", "created", "model", "choices", "usage", "service_tier", "system_fingerprint")


def assemble(events: bytes) -> bytes:
    """The completion that a whole stream says, as JSON. `events` are server-sent events as `ChatStreamReader` passes them.

    Raises ValueError where it cannot be written: objects in objects without end.
    """
    top: Json = {}
    choices: dict[int, _Choice] = {}
    usage: Any = None
    for raw in EventSplitter(len(events) + 1).feed(events):
        chunk = _chunk(raw)
        for key, value in chunk.items():
            if key not in _STREAM_ONLY:
                _keep_last(top, key, value)
        usage = chunk.get("usage") or usage
        for choice in chunk.get("choices") or ():
            index = choice.get("index") or 0
            if index not in choices:
                choices[index] = _Choice()
            choices[index].add(choice)
    body = {**top, "object": "chat.completion", "choices": [choices[index].whole(index) for index in sorted(choices)]}
    if usage:
        body["usage"] = usage
    try:
        return orjson.dumps({key: body[key] for key in (*_FIRST, *body) if key in body})
    except orjson.JSONEncodeError:
        raise ValueError("the answer's objects are nested too deeply") from None


def _chunk(raw: bytes) -> Json:
    """The event's chunk; an empty one where it holds none."""
    _, data = read_event(raw)
    if not data or data.strip() == b"[DONE]":
        return {}
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}  # a provider's own event: a chunk that is not JSON is never passed on
    return value if isinstance(value, dict) and ("choices" in value or value.get("usage")) else {}


class _Choice:
    """One answer, as far as it has come."""

    def __init__(self) -> None:
        self._fields: Json = {}
        self._logprobs: Json | None = None
        self._message: Json = {}
        self._calls = _Calls()

    def add(self, choice: Json) -> None:
        for key, value in choice.items():
            if key == "logprobs":
                self._add_logprobs(value)
            elif key not in ("delta", "index", "message"):  # some repeat the whole message beside each delta
                _keep_last(self._fields, key, value)
        delta = choice.get("delta")
        for key, value in delta.items() if isinstance(delta, dict) else ():
            if key == "tool_calls":
                self._calls.add(value)
            elif key in ("function_call", "audio") and isinstance(value, dict):
                part = self._message.get(key)
                if not isinstance(part, dict):
                    part = self._message[key] = {}
                for name, piece in value.items():
                    _put_together(part, name, piece, texts=name in ("name", "arguments", "data", "transcript"))
            else:
                _put_together(self._message, key, value, texts=key not in _NAMING)

    def whole(self, index: int) -> Json:
        fields = {"finish_reason": None, **self._fields}
        finish = fields.pop("finish_reason")
        return {
            "index": index,
            "message": self._whole_message(),
            "logprobs": self._logprobs,
            "finish_reason": finish,
            **fields,
        }

    def _whole_message(self) -> Json:
        message: Json = {"role": None, "content": None, "refusal": None, **self._message}
        message = {key: _joined(value) for key, value in message.items()}
        message["role"] = message["role"] or "assistant"
        if isinstance(audio := message.get("audio"), dict):
            message["audio"] = _whole_audio(audio)
        if isinstance(legacy := message.get("function_call"), dict):
            message["function_call"] = {name: _joined(value) for name, value in legacy.items()}
        calls = self._calls.whole()
        if calls:
            message["tool_calls"] = calls
        if not message["content"] and any(message.get(key) for key in _WITHOUT_CONTENT):
            message["content"] = None
        return message

    def _add_logprobs(self, value: Any) -> None:
        if not isinstance(value, dict):
            return
        if self._logprobs is None:
            self._logprobs = {}
        for key, piece in value.items():
            _put_together(self._logprobs, key, piece, texts=False)


_LOOKS = 64
"""How often the arguments of one call are parsed to see whether they are complete. Each look reads all of them."""


class _Calls:
    """The tool calls of one answer.

    A piece belongs to the call of its index. Providers that count wrong or not at all are known by the id: a piece that
    begins a call (it has a name) under another id, or without one after arguments that are complete, is another call
    even where the index is the same. Without an index the id says which, then its place in the chunk where that holds
    several pieces, then it is the latest call. A new id without a name begins nothing: some providers draw one for each
    piece.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._taken: set[int] = set()
        self._free = 0

    def add(self, pieces: Any) -> None:
        if not isinstance(pieces, list):
            return
        touched: list[_Call] = []
        for place, piece in enumerate(pieces):
            if isinstance(piece, dict):
                call = self._call_of(piece, place if len(pieces) > 1 else None, touched)
                call.add(piece)
                if call.id:
                    self._by_id.setdefault(call.id, call)
                touched.append(call)

    def whole(self) -> list[Json]:
        return [call.whole() for call in sorted(self._calls, key=lambda call: call.place)]

    def _call_of(self, piece: Json, place: int | None, touched: list[_Call]) -> _Call:
        index, call_id = piece.get("index"), piece.get("id")
        if type(index) is int:
            call = self._by_index.get(index)
            if call is None or call.is_over(piece):
                call = self._by_index[index] = self._new(index if call is None else None)
            return call
        known = self._by_id.get(call_id) if isinstance(call_id, str) and call_id else None
        if known is not None:
            return known
        begins = _Call.named(piece)
        if place is not None and place < len(self._calls) and not begins:
            return self._calls[place]
        latest = self._calls[-1] if self._calls else None
        if latest is None or latest.is_over(piece) or (begins and latest in touched):
            return self._new(None)
        return latest

    def _new(self, place: int | None) -> _Call:
        call = _Call(self._free if place is None or place in self._taken else place)
        self._taken.add(call.place)
        self._free = max(self._free, call.place + 1)
        self._calls.append(call)
        return call


class _Call:
    """One tool call, as far as it has come. `place`: where it stands among the calls."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.id = ""
        self._fields: Json = {}
        self._tool: dict[str, Json] = {}
        self._looked = 0

    @staticmethod
    def named(piece: Json) -> bool:
        """Whether a piece tells a tool's name, as the first of a call does."""
        return any(isinstance(tool := piece.get(kind), dict) and tool.get("name") for kind in _KINDS)

    def is_over(self, piece: Json) -> bool:
        """Whether a piece that seems to belong here begins another call."""
        if not self.named(piece) or not any(_joined(tool.get("name")) for tool in self._tool.values()):
            return False
        call_id = piece.get("id")
        if call_id and self.id:
            return bool(call_id != self.id)
        parts = self._tool.get("function", {}).get("arguments")
        if _last_mark(parts) != "}" or self._looked >= _LOOKS:
            return False
        self._looked += 1
        arguments = _joined(parts)
        return isinstance(arguments, str) and _is_json(arguments)

    def add(self, piece: Json) -> None:
        for key, value in piece.items():
            if key == "id":
                self.id = self.id or (value if isinstance(value, str) else "")
            elif key in _KINDS:
                if not isinstance(value, dict):
                    continue
                tool = self._tool.setdefault(key, {})
                for name, part in value.items():
                    if name == "name" and part == _joined(tool.get("name")):
                        continue  # repeated in each piece
                    if name == "arguments" and isinstance(part, dict | list):
                        part = orjson.dumps(part).decode()
                    _put_together(tool, name, part, texts=name in ("name", "arguments", "input"))
            elif key != "index":
                _keep_last(self._fields, key, value)

    def whole(self) -> Json:
        kinds = {kind: {name: _joined(part) for name, part in tool.items()} for kind, tool in self._tool.items()}
        if not kinds:
            kinds = {"function": {}}
        for kind, tool in kinds.items():
            for name in ("name", "input" if kind == "custom" else "arguments"):
                tool[name] = tool.get(name) or ""
        fields = {**self._fields, "type": self._fields.get("type") or next(iter(kinds))}
        return {"id": self.id, "type": fields.pop("type"), **kinds, **fields}


class _Text(list[str]):
    """A text in pieces. They are joined once: adding each to the whole would copy it as often."""


def _put_together(fields: Json, key: str, value: Any, *, texts: bool) -> None:
    """Add a piece of a field: texts are collected, or with `texts` off the first that is not empty counts."""
    old = fields.get(key)
    if isinstance(value, str):
        if isinstance(old, _Text):
            old.append(value)
        elif isinstance(old, list):
            _add_text_part(old, value)
        elif texts and not old:
            fields[key] = _Text([value])
        elif not old:
            fields[key] = value
    elif isinstance(value, list) and isinstance(old, _Text):
        fields[key] = [*({"type": "text", "text": text} for text in [_joined(old)] if text), *value]
    elif isinstance(value, list) and isinstance(old, list):
        old.extend(value)
    elif isinstance(value, list):
        fields[key] = list(value)
    else:
        _keep_last(fields, key, value)


def _add_text_part(parts: list[Any], text: str) -> None:
    """A text behind content that comes as a list of parts."""
    if text:
        parts.append({"type": "text", "text": text})


def _keep_last(fields: Json, key: str, value: Any) -> None:
    """The last value counts, but null, empty text and a `created` of 0 replace nothing. Objects are merged key by key."""
    old = fields.get(key)
    if key in fields and (value is None or value == "" or (key == "created" and value == 0)):
        return
    fields[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value


def _last_mark(value: Any) -> str:
    """The last character that is no blank, without putting a long text together."""
    for piece in reversed(value if isinstance(value, _Text) else [value]):
        if isinstance(piece, str) and (text := piece.rstrip()):
            return text[-1]
    return ""


def _joined(value: Any) -> Any:
    return "".join(value) if isinstance(value, _Text) else value


def _whole_audio(audio: Json) -> Json:
    """Audio whose pieces, where they were encoded one by one, are one encoding."""
    whole = {name: _joined(value) for name, value in audio.items()}
    pieces = audio.get("data")
    if isinstance(pieces, _Text) and any(piece.endswith("=") for piece in pieces[:-1]):
        try:
            data = b"".join(base64.b64decode(piece, validate=True) for piece in pieces)
        except binascii.Error:
            return whole
        whole["data"] = base64.b64encode(data).decode()
    return whole


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
