"""A caller's request: what is refused and why, and what is changed on its way (the model and stream options only)."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.dialects.openai_request import IMAGE_TOKENS, read
from llm.errors import InvalidRequest

MESSAGES = [{"role": "user", "content": "hi"}]


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "r", "messages": MESSAGES, **fields}).encode()


def content(text: bytes) -> bytes:
    """A request whose text is written as given, escapes and all."""
    return b'{"model":"r","messages":[{"role":"user","content":"' + text + b'"}]}'


@pytest.mark.parametrize(
    ("sent", "words", "param"),
    [
        (b"", "empty", None),
        (b"  \n", "empty", None),
        (b"{", "not valid JSON", None),
        (b'{"model":"r","messages":[1],}', "line 1, column", None),
        (b'{"model": NaN}', "not valid JSON", None),
        (b'{"model":"\xff"}', "not valid JSON", None),
        (b"[1]", "JSON object", None),
        (b'"text"', "JSON object", None),
        (b"null", "JSON object", None),
        (b'{"messages":[1]}', "model has to be", "model"),
        (body(model=""), "model has to be", "model"),
        (body(model=7), "model has to be", "model"),
        (body(model=None), "model has to be", "model"),
        (body(stream="yes"), "stream has to be", "stream"),
        (body(stream=1), "stream has to be", "stream"),
        (body(messages=[]), "messages has to be", "messages"),
        (body(messages="hi"), "messages has to be", "messages"),
        (b'{"model":"r"}', "messages has to be", "messages"),
        (body(stream_options=[1]), "stream_options has to be", "stream_options"),
        (body(stream_options="x"), "stream_options has to be", "stream_options"),
        (body(n=0), "n has to be", "n"),
        (body(n=True), "n has to be", "n"),
        (body(n=1.5), "n has to be", "n"),
        (body(n="2"), "n has to be", "n"),
        (body(max_tokens=0), "max_tokens has to be", "max_tokens"),
        (body(max_tokens=-1), "max_tokens has to be", "max_tokens"),
        (body(max_completion_tokens="many"), "max_completion_tokens has to be", "max_completion_tokens"),
        (content(b"a\\u0000b"), "NUL", None),
        (content(b"a\\\\\\u0000b"), "NUL", None),
        (content(b"\\\\\\\\\\u0000"), "NUL", None),
        (b'{"model":"r","messages":[1],"k\\u0000":1}', "NUL", None),
        (content(b"a\x00b"), "not valid JSON", None),
        (content(b"\\ud800"), "not valid JSON", None),
        (content(b"\\udc00"), "not valid JSON", None),
        (content(b"\\ud800\\u0041"), "not valid JSON", None),
        (content(b"\\ud83d \\ude00"), "not valid JSON", None),
        (content(b"\xed\xa0\x80"), "not valid JSON", None),
    ],
)
def test_refused(sent: bytes, words: str, param: str | None) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        read(sent)
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (b"\\\\u0000", "\\u0000"),
        (b"\\\\\\\\u0000", "\\\\u0000"),
        (b"\\\\ud800", "\\ud800"),
        (b"\\ud83d\\ude00", "😀"),
        (b"u0000", "u0000"),
        (b"\\u00000", None),
    ],
)
def test_an_escaped_backslash_makes_plain_text_of_what_follows(written: bytes, text: str | None) -> None:
    if text is None:  # a NUL and a digit
        with pytest.raises(InvalidRequest, match="NUL"):
            read(content(written))
        return
    sent = read(content(written)).body_for("p-model")
    assert json.loads(sent)["messages"][0]["content"] == text


@given(st.text(st.sampled_from("\\u0d8\x00ab"), max_size=12))
def test_exactly_the_texts_with_a_nul_are_refused(text: str) -> None:
    sent = content(json.dumps(text)[1:-1].encode())
    if "\x00" in text:
        with pytest.raises(InvalidRequest, match="NUL"):
            read(sent)
    else:
        assert json.loads(read(sent).body)["messages"][0]["content"] == text


def test_a_plain_request_differs_in_the_model_only() -> None:
    sent = b'{ "model" : "r",\n"messages":[{"role":"user","content":"h\\u00e9 \xc3\xa9","model":"r"}],"x":1.0,"y":1e2 }'
    assert read(sent).body_for("p") == sent.replace(b'"model" : "r"', b'"model" : "p"')


def test_the_original_serves_any_number_of_attempts() -> None:
    call = read(body(stream=True))
    first, second = call.body_for("a"), call.body_for("b")
    assert first == call.body_for("a")
    assert second == first.replace(b'"a"', b'"b"')


def test_every_spelling_of_the_model_is_replaced() -> None:
    sent = b'{"model":"x","messages":[1],"m\\u006fdel":"r"}'
    assert read(sent).body_for("p") == b'{"model":"p","messages":[1],"m\\u006fdel":"p"}'


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({"stream": True}, {"include_usage": True}),
        ({"stream": True, "stream_options": None}, {"include_usage": True}),
        ({"stream": True, "stream_options": {}}, {"include_usage": True}),
        ({"stream": True, "stream_options": {"include_usage": False}}, {"include_usage": True}),
        ({"stream": True, "stream_options": {"include_usage": 1}}, {"include_usage": True}),
        (
            {"stream": True, "stream_options": {"include_obfuscation": False}},
            {"include_obfuscation": False, "include_usage": True},
        ),
    ],
)
def test_usage_is_asked_for_in_every_stream(fields: dict[str, Any], options: dict[str, Any]) -> None:
    call = read(body(**fields))
    sent = json.loads(call.body_for("p"))
    assert not call.usage_asked
    assert sent == {"model": "p", "messages": MESSAGES, **fields, "stream_options": options}


def test_a_caller_that_asks_for_usage_is_left_alone() -> None:
    sent = body(stream=True, stream_options={"include_usage": True, "z": 1})
    call = read(sent)
    assert call.usage_asked
    assert call.body_for("r") == sent


def test_a_plain_request_gets_no_stream_options() -> None:
    assert b"stream_options" not in read(body(stream=False)).body_for("p")
    assert b"stream_options" not in read(body()).body_for("p")


def test_repeated_stream_options_are_no_trouble() -> None:
    sent = b'{"model":"r","stream":true,"messages":[1],"stream_options":5,"stream_options":{"a":1}}'
    changed = read(sent).body_for("p")
    assert changed.count(b'"include_usage":true') == 2
    assert json.loads(changed)["stream_options"] == {"a": 1, "include_usage": True}


@pytest.mark.parametrize(
    ("sent", "streamed"),
    [
        (
            b'{ "model" : "r", "messages":[1], "x":1.0 }',
            b'{ "model" : "p","stream":true,"stream_options":{"include_usage":true}, "messages":[1], "x":1.0 }',
        ),
        (
            b'{"model":"r","messages":[1],"stream" : false }',
            b'{"model":"p","stream_options":{"include_usage":true},"messages":[1],"stream" : true }',
        ),
        (
            b'{"stream":null,"messages":[{"stream":false}],"stream_options":null,"model":"r"}',
            b'{"stream":true,"messages":[{"stream":false}],"stream_options":{"include_usage":true},"model":"p"}',
        ),
        (
            b'{"model":"r","messages":[1],"stream":true,"str\\u0065am":false,"model":"q"}',
            b'{"model":"p","stream_options":{"include_usage":true},"messages":[1],"stream":true,'
            b'"str\\u0065am":true,"model":"p"}',
        ),
    ],
)
def test_a_plain_call_as_a_stream(sent: bytes, streamed: bytes) -> None:
    call = read(sent)
    asked = call.streamed()
    assert (call.stream, asked.stream, asked.usage_asked) == (False, True, True)
    assert asked.body_for("p") == streamed
    assert (asked.model, asked.input_tokens, asked.output_cap) == (call.model, call.input_tokens, call.output_cap)
    assert call.body_for("r") == sent.replace(b'"q"', b'"r"')
    assert asked.streamed() is asked


@pytest.mark.parametrize(
    ("fields", "streams"),
    [
        ({"stream_options": {"include_usage": True}}, False),
        ({"stream_options": {}}, False),
        ({"stream_options": None}, True),
        ({"modalities": ["text", "audio"], "audio": {"format": "wav"}}, False),
        ({"modalities": ["audio"]}, False),
        ({"modalities": ["text", "audio"], "audio": {"format": "pcm16"}}, True),
        ({"modalities": ["text"]}, True),
        ({"modalities": "odd"}, True),
    ],
)
def test_a_stream_stands_for_a_plain_call_where_it_can(fields: dict[str, Any], streams: bool) -> None:
    call = read(body(**fields))
    assert call.streamed().stream is streams
    assert streams or call.streamed() is call


def test_a_plain_call_with_stream_repeated_without_end_stays_plain() -> None:
    call = read(body()[:-1] + b',"stream":false' * 1000 + b"}")
    assert call.streamed() is call


extras = st.dictionaries(
    st.sampled_from(["temperature", "user", "tools", "metadata", "model_hint", "stream_option", "seed"]),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-1000, 1000)
        | st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["model", "n"]), inner),
        max_leaves=6,
    ),
)


@given(extras, st.booleans(), st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1))
def test_unknown_fields_survive(fields: dict[str, Any], stream: bool, model: str) -> None:
    sent = orjson.dumps({**fields, "model": "r", "messages": MESSAGES, "stream": stream})
    call = read(sent)
    options = {"stream_options": {"include_usage": True}} if stream else {}
    changed = {**fields, "model": model, "messages": MESSAGES, "stream": stream, **options}
    assert json.loads(call.body_for(model)) == changed


@given(extras, st.sampled_from([{}, {"stream": False}, {"stream": None}]))
def test_unknown_fields_survive_a_plain_call_as_a_stream(fields: dict[str, Any], stream: dict[str, Any]) -> None:
    sent = orjson.dumps({**stream, **fields, "model": "r", "messages": MESSAGES})
    changed = {**fields, "model": "p", "messages": MESSAGES, "stream": True, "stream_options": {"include_usage": True}}
    assert json.loads(read(sent).streamed().body_for("p")) == changed


@pytest.mark.parametrize(
    ("fields", "cap", "choices"),
    [
        ({}, None, 1),
        ({"max_tokens": 10}, 10, 1),
        ({"max_tokens": 10, "max_completion_tokens": 30}, 30, 1),
        ({"max_tokens": None, "n": None}, None, 1),
        ({"n": 3, "max_tokens": 5}, 5, 3),
    ],
)
def test_caps_and_choices(fields: dict[str, Any], cap: int | None, choices: int) -> None:
    call = read(body(**fields))
    assert (call.output_cap, call.choices) == (cap, choices)


@pytest.mark.parametrize(
    ("fields", "needs"),
    [
        ({}, set()),
        ({"tools": []}, set()),
        ({"tools": [{"type": "function"}]}, {"tools"}),
        ({"functions": [{}]}, {"tools"}),
        ({"logprobs": True}, {"logprobs"}),
        ({"response_format": {"type": "json_schema"}}, {"json_schema"}),
        ({"response_format": {"type": "text"}}, set()),
        ({"messages": [{"content": [{"type": "image_url"}, {"type": "text"}]}]}, {"vision"}),
        ({"messages": [{"content": [{"type": "input_audio"}]}, "odd", {"content": ["odd"]}]}, {"audio"}),
    ],
)
def test_needs(fields: dict[str, Any], needs: set[str]) -> None:
    assert read(body(**fields)).needs == needs


def test_an_image_counts_as_an_image_and_not_as_its_bytes() -> None:
    def with_image(size: int) -> int:
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * size}}
        return read(body(messages=[{"role": "user", "content": [image]}])).input_tokens

    assert with_image(3_000_000) == with_image(4000)
    assert IMAGE_TOKENS <= with_image(4000) < IMAGE_TOKENS + 100


@pytest.mark.parametrize(("form", "tokens"), [("mp3", 3000), ("wav", 469)])
def test_audio_counts_by_its_length_and_not_as_text(form: str, tokens: int) -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "A" * 3_000_000, "format": form}}
    assert read(body(messages=[{"role": "user", "content": [audio]}])).input_tokens == pytest.approx(tokens, abs=50)


def test_audio_as_a_data_url_is_taken_out_once() -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "data:audio/mp3;base64," + "A" * 40_000}}
    text = {"type": "text", "text": "x" * 8000}
    assert 2000 < read(body(messages=[{"role": "user", "content": [audio, text]}])).input_tokens < 3100


@pytest.mark.parametrize("odd", [None, 1, {}, {"data": 1}, {"data": None, "format": []}])
def test_odd_audio_is_no_trouble(odd: Any) -> None:
    assert read(body(messages=[{"content": [{"type": "input_audio", "input_audio": odd}, "input_audio"]}])).input_tokens


def test_an_escaped_text_counts_as_the_text() -> None:
    messages = [{"role": "user", "content": "日本語" * 1000}]
    escaped, plain = (
        json.dumps({"model": "r", "messages": messages}, ensure_ascii=way).encode() for way in (True, False)
    )
    assert read(escaped).input_tokens == read(plain).input_tokens
    assert read(content(b"C:\\\\users" * 1000)).input_tokens == pytest.approx(9000 / 4, rel=0.05)


@pytest.mark.parametrize(("stop", "stops"), [(None, False), ([], False), ("", False), ("\n", True), (["a"], True)])
def test_stop_sequences_are_known(stop: Any, stops: bool) -> None:
    assert read(body(stop=stop)).stops is stops
    assert not read(body()).stops


def test_input_is_about_a_quarter_of_the_bytes() -> None:
    assert read(content(b"x" * 4000)).input_tokens == pytest.approx(1000, rel=0.05)


def test_the_body_is_in_no_representation() -> None:
    assert "hi" not in repr(read(body())).replace("hidden", "")


def test_a_model_that_is_repeated_without_end_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="too often") as caught:
        read(b'{"messages":[1]' + b',"model":"r"' * 1000 + b"}")
    assert caught.value.param == "model"
