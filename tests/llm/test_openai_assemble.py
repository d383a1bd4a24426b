"""A whole stream put together: the body that a plain request would have got, and one that the official SDK takes."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from llm.answer import Progress
from llm.dialects.openai_answer import ChatStreamReader, read_plain
from llm.dialects.openai_assemble import assemble
from tests.fakes import chat
from tests.fakes.chat import DONE, delta_chunk, event, finish_chunk, role_chunk, text_chunk, tool_chunk, usage_chunk

Json = dict[str, Any]
HEAD: Json = {"id": "c", "object": "chat.completion.chunk", "created": 7, "model": "m"}


def chunk(*choices: Json, **fields: Any) -> bytes:
    return event({**HEAD, "choices": list(choices), **fields})


def delta(fields: Any, index: int | None = 0, **more: Any) -> bytes:
    choice: Json = {"delta": fields, **more} if index is None else {"index": index, "delta": fields, **more}
    return chunk(choice)


def whole(*events: bytes) -> Json:
    """What the events say, through the official SDK's model as well."""
    body = assemble(b"".join((*events, DONE)))
    value = json.loads(body)
    if all(choice["finish_reason"] for choice in value["choices"]) and value.get("id"):
        ChatCompletion.model_validate(value)
    assert isinstance(value, dict)
    return value


def message(*deltas: Any) -> Json:
    body = whole(role_chunk(), *(delta(each) for each in deltas), finish_chunk())
    made = body["choices"][0]["message"]
    assert isinstance(made, dict)
    return made


def calls(*pieces: Json | list[Json]) -> list[Json]:
    made = message(*({"tool_calls": piece if isinstance(piece, list) else [piece]} for piece in pieces))["tool_calls"]
    assert isinstance(made, list)
    return made


def function(name: str | None = None, arguments: Any = None, **fields: Any) -> Json:
    tool = {"name": name, "arguments": arguments}
    return {**fields, "function": {key: value for key, value in tool.items() if value is not None}}


def called(call_id: str, name: str, arguments: str) -> Json:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


# A whole answer.


@pytest.mark.parametrize(
    ("text", "tools", "finish"),
    [
        ("héllo 世界 🎉 out there", (), "stop"),
        (None, (("call_1", "weather", '{"city":"Łódź"}'), ("call_2", "weather", '{"city":"東京"}')), "tool_calls"),
        ("first a word", (("call_1", "now", "{}"),), "tool_calls"),
    ],
)
def test_a_stream_gives_the_plain_body(text: str | None, tools: tuple[chat.ToolCall, ...], finish: str) -> None:
    said: Json = {"completion_id": "c", "model": "m", "finish": finish, "usage": (12, 3), "tool_calls": tools}
    body = assemble(b"".join(chat.stream(text, **said)))
    plain = json.loads(chat.completion(text, **said))
    assert json.loads(body) == plain
    assert list(json.loads(body)) == list(plain)
    assert read_plain(body, Progress()).data == body
    assert ChatCompletion.model_validate_json(body).choices[0].message.content == text


def test_the_official_accumulation_agrees() -> None:
    events = [
        role_chunk(),
        text_chunk("a "),
        text_chunk("b"),
        tool_chunk("", call_id="c1", name="f"),
        tool_chunk('{"x":'),
        tool_chunk("1}"),
        tool_chunk("{}", index=1, call_id="c2", name="g"),
        finish_chunk("tool_calls"),
        usage_chunk(),
    ]
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for each in events:
        state.handle_chunk(ChatCompletionChunk.model_validate_json(each[6:]))
    theirs = state.get_final_completion().model_dump(exclude_unset=True)
    ours = whole(*events)
    for call in theirs["choices"][0]["message"]["tool_calls"]:
        call.pop("index")
        call["function"].pop("parsed_arguments", None)
    for key in ("id", "object", "created", "model"):
        assert ours[key] == theirs[key]
    ours_message, theirs_message = ours["choices"][0]["message"], theirs["choices"][0]["message"]
    for key in ("role", "content", "tool_calls"):
        assert ours_message[key] == theirs_message[key]


def test_what_the_reader_passes_is_what_is_put_together() -> None:
    reader = ChatStreamReader(usage_asked=True, output_cap=3)
    stream = b"".join([b": c\n\n", role_chunk(), b"data:\n\n", text_chunk("a"), finish_chunk(), usage_chunk(5, 3)])
    passed = reader.feed(stream).data + reader.end().data
    body = json.loads(assemble(passed))
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_every_line_end(end: bytes) -> None:
    stream = b"".join([role_chunk(), text_chunk("a"), finish_chunk(), DONE])
    assert json.loads(assemble(stream.replace(b"\n", end))) == json.loads(assemble(stream))


def test_many_small_pieces_are_put_together_once() -> None:
    piece = text_chunk("€")
    assert json.loads(assemble(piece * 20_000 + DONE))["choices"][0]["message"]["content"] == "€" * 20_000


# The top level.


def test_of_the_fields_of_the_answer_the_last_value_counts() -> None:
    body = whole(
        chunk(
            id="", model="", created=0, object="", prompt_filter_results=[{"prompt_index": 0}], system_fingerprint=None
        ),
        chunk(id="c1", service_tier=None, x_groq={"id": "req"}, obfuscation="abc"),
        delta({"content": "a"}),
        chunk(id="c2", model="m2", created=8, service_tier="default", system_fingerprint="fp", citations=["a"]),
        chunk(x_groq={"usage": {"n": 1}}, citations=["a", "b"], provider="P", flag=True),
        chunk({"index": 0, "finish_reason": "stop"}, flag=False, prompt_filter_results=None, usage=None),
        chunk(id="", model="", created=0, service_tier="", usage=chat.usage_body((1, 2))),
    )
    assert body == {
        "id": "c",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "choices": body["choices"],
        "usage": chat.usage_body((1, 2)),
        "service_tier": "default",
        "system_fingerprint": "fp",
        "prompt_filter_results": [{"prompt_index": 0}],
        "x_groq": {"id": "req", "usage": {"n": 1}},
        "citations": ["a", "b"],
        "provider": "P",
        "flag": False,
    }


def test_what_was_null_all_the_time_is_null_and_usage_is_left_out() -> None:
    body = whole(chunk({"index": 0, "delta": {"content": "a"}}, service_tier=None, usage=None))
    assert body["service_tier"] is None
    assert "usage" not in body


def test_of_usage_in_each_chunk_the_last_counts() -> None:
    told = [chat.usage_body((9, number)) for number in (1, 2)]
    body = whole(*(chunk({"index": 0, "delta": {"content": "a"}}, usage=usage) for usage in told), chunk(usage={}))
    assert body["usage"] == told[1]


def test_what_is_no_chunk_says_nothing() -> None:
    noise = [
        b": ping\n\n",
        b"\n\n",
        b"data:\n\n",
        b'event: ping\ndata: {"type":"ping","id":"x"}\n\n',
        b"event: keep-alive\ndata: not JSON\n\n",
        b'event: odd\ndata: ["x"]\n\n',
        b"id: 3\nretry: 7\n\n",
    ]
    events = [role_chunk(), text_chunk("a"), finish_chunk(), usage_chunk()]
    assert whole(*(part for each in events for part in (*noise, each))) == whole(*events)
    assert whole(event({"usage": {"prompt_tokens": 1}}))["usage"] == {"prompt_tokens": 1}


# Choices.


def test_choices_are_kept_apart_and_in_order() -> None:
    body = whole(
        delta({"content": "b"}, 1),
        chunk(
            {"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {"content": "b"}, "finish_reason": "stop"}
        ),
        delta({}, 0, finish_reason="length"),
    )
    assert [(c["index"], c["message"]["content"], c["finish_reason"]) for c in body["choices"]] == [
        (0, "a", "length"),
        (1, "bb", "stop"),
    ]


@pytest.mark.parametrize("nothing", [None, {}, "odd"])
def test_a_delta_may_be_missing(nothing: Any) -> None:
    body = whole(
        delta({"content": "a"}, None),
        delta(nothing),
        chunk({"index": 0, "finish_reason": "stop", "content_filter_results": {"hate": {"filtered": False}}}),
        chunk({"finish_reason": None, "content_filter_results": {"violence": {}}, "stop_reason": 7, "message": {}}),
        chunk({"index": None, "delta": {}, "content_filter_results": {}, "stop_reason": None}),
    )
    assert body["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "a", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
            "content_filter_results": {"hate": {"filtered": False}, "violence": {}},
            "stop_reason": 7,
        }
    ]


def test_logprobs_are_put_in_a_row() -> None:
    tokens: list[Json] = [{"token": token, "logprob": -0.25, "bytes": None, "top_logprobs": []} for token in "abc"]
    body = whole(
        delta({"content": "a"}, logprobs={"content": tokens[:1], "refusal": None}),
        delta({"content": "b"}, logprobs=None),
        delta({"content": "bc"}, logprobs={"content": tokens[1:]}),
        delta({"refusal": "no"}, logprobs={"refusal": tokens[:1]}),
        delta({}, logprobs={"content": None, "refusal": None}, finish_reason="stop"),
    )
    assert body["choices"][0]["logprobs"] == {"content": tokens, "refusal": tokens[:1]}


# Messages.


def test_texts_are_put_together_known_or_not_and_the_role_is_said_once() -> None:
    one, two = (
        {"type": "url_citation", "url_citation": {"start_index": n, "end_index": 9, "title": "t", "url": "u"}}
        for n in (1, 2)
    )
    made = message(
        {"role": "assistant", "reasoning_content": "x", "reasoning": "y", "thought": "z", "name": "n", "seen": 1},
        {"role": "", "reasoning_content": "x", "reasoning": "y", "thought": "z", "name": "n", "seen": 2},
        {"content": "a", "reasoning_content": None, "extra": {"a": 1}, "images": [1], "annotations": [one]},
        {"content": "b", "thought": "", "extra": {"b": 2}, "images": [2], "annotations": None, "odd": None},
        {"annotations": [two], "extra": None},
    )
    assert made == {
        "role": "assistant",
        "content": "ab",
        "refusal": None,
        "reasoning_content": "xx",
        "reasoning": "yy",
        "thought": "zz",
        "name": "n",
        "seen": 2,
        "extra": {"a": 1, "b": 2},
        "images": [1, 2],
        "annotations": [one, two],
        "odd": None,
    }


@pytest.mark.parametrize(
    ("said", "content"),
    [
        ({"tool_calls": [called("c", "f", "{}")]}, None),
        ({"function_call": {"name": "f", "arguments": "{}"}}, None),
        ({"refusal": "no"}, None),
        ({"audio": {"id": "a"}}, None),
        ({"content": "text", "tool_calls": [called("c", "f", "{}")]}, "text"),
        ({"tool_calls": []}, ""),
        ({"reasoning_content": "hm"}, ""),
    ],
)
def test_content_is_null_where_something_else_was_said(said: Json, content: str | None) -> None:
    assert json.loads(assemble(role_chunk() + delta(said) + DONE))["choices"][0]["message"]["content"] == content


def test_without_any_content_it_is_null() -> None:
    assert whole(delta({}, finish_reason="stop"))["choices"][0]["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": None,
    }


def test_content_in_parts_stays_in_parts() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    body = json.loads(
        assemble(
            delta({"content": "a"}) + delta({"content": [thought]}) + delta({"content": "b"}) + text_chunk("") + DONE
        )
    )
    assert body["choices"][0]["message"]["content"] == [
        {"type": "text", "text": "a"},
        thought,
        {"type": "text", "text": "b"},
    ]


def test_a_function_call_of_the_old_kind() -> None:
    made = message(
        {"function_call": {"name": "f", "arguments": ""}},
        {"function_call": {"arguments": '{"a":'}},
        {"function_call": {"arguments": "1}", "name": None}},
        {"function_call": None},
    )
    assert made["function_call"] == {"name": "f", "arguments": '{"a":1}'}


@pytest.mark.parametrize("size", [30, 31, 32])
def test_audio(size: int) -> None:
    """Pieces of a size that three does not divide are padded, each for itself."""
    sound = bytes(range(100))
    pieces = [base64.b64encode(sound[at : at + size]).decode() for at in range(0, len(sound), size)]
    made = message(
        {"audio": {"id": "a1", "transcript": "he"}},
        *({"audio": {"data": piece}} for piece in pieces),
        {"audio": {"transcript": "llo"}},
        {"audio": {"id": "a1", "expires_at": 99}},
    )
    assert made["audio"].pop("data") == base64.b64encode(sound).decode()
    assert made["audio"] == {"id": "a1", "transcript": "hello", "expires_at": 99}


def test_audio_that_is_no_base64_is_put_together_as_it_is() -> None:
    audio = [{"audio": {"id": "a", "expires_at": 1, "transcript": "", "data": data}} for data in ("A=", "?")]
    assert message(*audio)["audio"]["data"] == "A=?"


# Tool calls.


def test_calls_by_index() -> None:
    assert calls(
        function("f", "", index=0, id="c1", type="function"),
        function(arguments='{"a"', index=0),
        function("g", '{"b":', index=1, id="c2", type="function"),
        [function(arguments=":1}", index=0), function(arguments="2}", index=1)],
    ) == [called("c1", "f", '{"a":1}'), called("c2", "g", '{"b":2}')]


def test_calls_are_in_the_order_of_their_indices() -> None:
    assert [
        call["id"] for call in calls(function("g", "{}", index=3, id="c2"), function("f", "{}", index=1, id="c1"))
    ] == [
        "c1",
        "c2",
    ]


def test_custom_tools() -> None:
    made = calls(
        {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "shell", "input": ""}},
        {"index": 0, "custom": {"input": "ls "}},
        {"index": 0, "custom": {"input": "-l"}},
        {"index": 1, "id": "c2", "custom": {"name": "none"}},
    )
    assert made == [
        {"id": "c1", "type": "custom", "custom": {"name": "shell", "input": "ls -l"}},
        {"id": "c2", "type": "custom", "custom": {"name": "none", "input": ""}},
    ]


TWO = [called("c1", "f", '{"a":1}'), called("c2", "g", '{"b":2}')]


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(
            [
                function("f", '{"a":', id="c1"),
                function(arguments="1}", id="c1"),
                function("g", '{"b":', id="c2"),
                function(arguments="2}", id="c2"),
            ],
            id="no index, each with its id",
        ),
        pytest.param(
            [
                function("f", '{"a":', id="c1"),
                function(arguments="1}"),
                function("g", id="c2"),
                function(None, '{"b":2}'),
            ],
            id="no index, one after the other",
        ),
        pytest.param(
            [
                [function("f", "", id="c1"), function("g", "", id="c2")],
                [function(None, '{"a":'), function(None, '{"b":')],
                [function(None, "1}"), function(None, "2}")],
            ],
            id="no index, by place",
        ),
        pytest.param([TWO], id="no index, whole calls in one chunk"),
        pytest.param(
            [
                function("f", "", id="c1"),
                function("g", '{"b":', id="c2"),
                function(arguments='{"a":1}', id="c1"),
                function(arguments="2}", id="c2"),
            ],
            id="no index, by id in any order",
        ),
        pytest.param(TWO, id="no index, whole calls"),
        pytest.param([{**call, "index": 0} for call in TWO], id="one index for all"),
        pytest.param(
            [
                function("f", '{"a":', index=0, id="c1"),
                function(arguments="1}", index=0),
                function("g", '{"b":', index=0, id="c2"),
                function(arguments="2}", index=0),
            ],
            id="one index for all, in pieces",
        ),
        pytest.param(
            [
                function("f", '{"a":', index=0, id="c1"),
                function("f", "1}", index=0, id="c1"),
                function("g", '{"b":', index=1, id="c2"),
                function("g", "2}", index=1, id="c2"),
            ],
            id="id and name in each piece",
        ),
        pytest.param(
            [
                function("f", '{"a":', index=0, id="c1"),
                function("", "1}", index=0, id="drawn-1"),
                function("g", '{"b":', index=1, id="c2"),
                function(None, "2}", index=1, id="drawn-2"),
            ],
            id="an id drawn for each piece",
        ),
        pytest.param(
            [function("f", '{"a":1}', index=None, id="c1"), function("g", {"b": 2}, index="1", id="c2")],
            id="an index that is none, and arguments that are no text",
        ),
        pytest.param(
            [
                function("f", '{"a":', index=0, id="c1", type="function"),
                function(None, "1}", index=0, id="", type=""),
                function("g", '{"b":2}', index=1, id="c2", type=None),
            ],
            id="empty ids and types",
        ),
    ],
)
def test_whose_piece_it_is(pieces: list[Any]) -> None:
    made = calls(*pieces)
    assert [(c["id"], c["type"], c["function"]["name"]) for c in made] == [
        (c["id"], c["type"], c["function"]["name"]) for c in TWO
    ]
    assert [json.loads(c["function"]["arguments"]) for c in made] == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize("index", [{}, {"index": 0}])
def test_whole_calls_without_ids(index: Json) -> None:
    made = calls(function("f", '{"a":1}', **index), function("f", '{"a":2}', **index))
    assert [(c["id"], c["function"]["arguments"]) for c in made] == [("", '{"a":1}'), ("", '{"a":2}')]


def test_calls_in_one_chunk_are_several_without_ids_too() -> None:
    made = calls([function("f", ""), function("g", "")], [function(None, "1"), function(None, "2")])
    assert made == [called("", "f", "1"), called("", "g", "2")]


def test_a_name_in_pieces_and_fields_that_are_not_known() -> None:
    made = calls(
        function("get_", "", index=0, id="c1", extra_content={"google": {"thought_signature": "s"}}, mood="x"),
        function("weather", "{}", index=0, mood="y"),
        {"index": 0, "function": None},
    )
    assert made == [
        {**called("c1", "get_weather", "{}"), "extra_content": {"google": {"thought_signature": "s"}}, "mood": "y"}
    ]


@pytest.mark.parametrize("odd", [None, "x", [None], [1], {}])
def test_odd_calls_are_no_trouble(odd: Any) -> None:
    assert "tool_calls" not in message({"content": "a", "tool_calls": odd})


def test_a_call_that_says_little_has_all_that_a_reader_expects() -> None:
    assert calls({"index": 0}) == [called("", "", "")]
    assert calls({"index": 0, "type": "function", "id": "c"}) == [called("c", "", "")]


def test_objects_without_end_are_refused() -> None:
    deep = b'{"choices":[],"x":' + b"[" * 400 + b"]" * 400 + b"}"
    with pytest.raises(ValueError, match="too deeply"):
        assemble(b"data: " + deep + b"\n\n" + DONE)


# Any answer, in any pieces.

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
functions = st.builds(
    lambda name, arguments: {"type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}},
    st.text("abc_", min_size=1, max_size=6),
    st.dictionaries(st.text("xy", max_size=3), st.integers() | texts, max_size=3),
)
customs = st.builds(
    lambda name, given: {"type": "custom", "custom": {"name": name, "input": given}},
    st.text("abc_", min_size=1, max_size=6),
    texts,
)
tokens = st.lists(
    st.builds(
        lambda token, logprob: {"token": token, "logprob": logprob, "bytes": None, "top_logprobs": []},
        texts,
        st.floats(-9, 0),
    ),
    min_size=1,
    max_size=4,
)
messages = st.fixed_dictionaries(
    {},
    optional={
        "content": texts,
        "refusal": texts,
        "reasoning_content": texts,
        "own_text": texts,
        "own_list": st.lists(st.integers(), min_size=1, max_size=4),
        "tool_calls": st.lists(functions | customs, min_size=1, max_size=3),
        "function_call": st.fixed_dictionaries({"name": st.just("f"), "arguments": texts}),
        "audio": st.fixed_dictionaries(
            {"id": st.just("a"), "data": st.just("QUJD" * 4), "expires_at": st.integers(1, 9), "transcript": texts}
        ),
    },
)
choice_lists = st.lists(
    st.tuples(messages, st.none() | tokens, st.sampled_from(["stop", "length", "tool_calls", "content_filter"])),
    min_size=1,
    max_size=3,
)


def pieces_of(said: Any, dice: random.Random) -> list[Any]:
    """A text or a list, cut anywhere."""
    cuts = sorted(dice.randint(0, len(said)) for _ in range(dice.randint(0, 3)))
    return [said[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(said)], strict=True)]


def deltas_of(said: Json, dice: random.Random) -> list[Json]:
    """What a provider may send for a message: each field's pieces in order, the fields among each other in any."""
    rows: list[list[Json]] = []
    for key, value in said.items():
        if isinstance(value, str) or key == "own_list":
            rows.append([{key: piece} for piece in pieces_of(value, dice)])
        elif isinstance(value, dict):
            texts_of = [k for k in value if k in ("arguments", "data", "transcript")]
            rows.append([{key: {k: v for k, v in value.items() if k not in texts_of}}])
            rows[-1] += [{key: {k: piece}} for k in texts_of for piece in pieces_of(value[k], dice)]
        else:
            for index, call in enumerate(value):
                kind, text = call["type"], "input" if call["type"] == "custom" else "arguments"
                opening = {**call, "index": index, kind: {"name": call[kind]["name"], text: ""}}
                row = [{"tool_calls": [opening]}]
                row += [{"tool_calls": [{"index": index, kind: {text: p}}]} for p in pieces_of(call[kind][text], dice)]
                rows.append(row)
    return shuffled(rows, dice)


def shuffled(rows: list[list[Any]], dice: random.Random) -> list[Any]:
    """The rows among each other in any order, each one in its own."""
    rows, out = [list(row) for row in rows if row], []
    while rows:
        row = dice.choice(rows)
        out.append(row.pop(0))
        rows = [row for row in rows if row]
    return out


@given(choice_lists, st.integers(0, 2**32), st.booleans())
def test_any_answer_in_any_pieces_is_the_answer(made: list[tuple[Json, Any, str]], seed: int, usage: bool) -> None:
    dice = random.Random(seed)
    choices, rows = [], []
    for index, (said, logprobs, finish) in enumerate(made):
        said = {
            k: [{"id": f"call_{n}", **c} for n, c in enumerate(v)] if k == "tool_calls" else v for k, v in said.items()
        }
        ends = [delta({}, index, finish_reason=finish)]
        fields = [delta(each, index) for each in deltas_of(said, dice)]
        scores = [delta({}, index, logprobs={"content": part}) for part in pieces_of(logprobs or [], dice) if part]
        rows.append([delta({"role": "assistant"}, index), *shuffled([fields, scores], dice), *ends])
        choices.append(
            {
                "index": index,
                "message": {"role": "assistant", "content": None, "refusal": None, **said},
                "logprobs": {"content": logprobs} if logprobs else None,
                "finish_reason": finish,
            }
        )
    events = shuffled([*rows, [b": ping\n\n"] * 2], dice)
    told = chat.usage_body((5, 7))
    body = whole(*events, *([chunk(usage=told)] if usage else []))
    assert body == {
        **HEAD,
        "object": "chat.completion",
        "choices": choices,
        **({"usage": told} if usage else {}),
    }


def test_the_sdk_takes_what_is_asked_of_it() -> None:
    """The check in `whole` can fail."""
    with pytest.raises(ValueError, match="finish_reason"):
        ChatCompletion.model_validate(json.loads(assemble(delta_chunk({"content": "a"}, "nonsense") + DONE)))
