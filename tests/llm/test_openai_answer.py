"""What a provider answers: passed on byte for byte, corrected in few named places, or a failure of a class."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.answer import Progress, Usage
from llm.classes import ErrorClass
from llm.dialects.openai_answer import ChatStreamReader, read_plain, read_usage
from llm.errors import AttemptFailed
from tests.fakes import chat
from tests.fakes.chat import DONE, delta_chunk, error_event, event, finish_chunk, role_chunk, text_chunk, tool_chunk

FILTER_RESULTS = event({"id": "c", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]})


def run(
    pieces: Iterable[bytes], *, usage_asked: bool = True, choices: int = 1, stops: bool = False
) -> tuple[bytes, Progress, AttemptFailed | None]:
    """What a caller gets of a stream, to the end of its body or to its failure."""
    reader = ChatStreamReader(usage_asked=usage_asked, choices=choices, stops=stops)
    out = b""
    try:
        for piece in pieces:
            out += reader.feed(piece).data
        out += reader.end().data
    except AttemptFailed as error:
        return out + reader.take_good().data, reader.progress, error
    return out, reader.progress, None


def failure_of(*pieces: bytes) -> tuple[ErrorClass, str]:
    _, progress, error = run(pieces)
    assert error is not None, "the stream was taken for good"
    assert not progress.ended
    return error.failure.error_class, error.failure.message


def choice_chunk(index: int, delta: dict[str, Any], finish: str | None = None) -> bytes:
    return event({"id": "c", "choices": [{"index": index, "delta": delta, "finish_reason": finish}]})


def finish_reasons(out: bytes) -> list[str | None]:
    events = [json.loads(block[6:]) for block in out.split(b"\n\n") if block and not block.endswith(b"[DONE]")]
    return [choice["finish_reason"] for each in events for choice in each.get("choices", [])]


# Whole streams, byte for byte.

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
deltas = st.one_of(
    texts.map(lambda text: {"content": text}),
    texts.map(lambda text: {"reasoning_content": text}),
    texts.map(lambda text: {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}),
    st.just({"content": ""}),
)
good_streams = st.tuples(
    st.lists(deltas, max_size=5), texts, st.sampled_from(["stop", "length", "tool_calls"]), st.booleans()
).map(
    lambda made: [
        role_chunk(),
        *(delta_chunk(delta) for delta in made[0]),
        b": ping\n\n",
        text_chunk(made[1]),
        finish_chunk(made[2]),
        *([chat.usage_chunk(5, 7)] if made[3] else []),
        DONE,
    ]
)


@given(good_streams, st.data())
def test_a_well_formed_stream_is_passed_on_unchanged_however_it_is_cut(
    events: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    pieces = [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    out, progress, error = run(pieces)
    assert error is None
    assert out == stream
    assert progress.ended
    assert progress.output_seen


@given(good_streams)
def test_a_cut_before_the_finish_reason_is_never_a_whole_answer(events: list[bytes]) -> None:
    finish = next(at for at, each in enumerate(events) if any(finish_reasons(each) if b"choices" in each else []))
    for end in range(finish):
        out, progress, error = run(events[:end])
        assert error is not None
        assert error.failure.error_class is ErrorClass.BAD_UPSTREAM_RESPONSE
        assert not progress.ended
        assert out == b"".join(events[:end])


def test_byte_by_byte_is_the_same() -> None:
    stream = b"".join([role_chunk(), text_chunk("日本 🎉 é"), finish_chunk(), DONE])
    assert run(stream[at : at + 1] for at in range(len(stream)))[0] == stream


@pytest.mark.parametrize("end", [b"\r", b"\r\n", b"\n"])
def test_other_line_ends_and_shapes_are_read(end: bytes) -> None:
    payload = text_chunk("日本")[6:-2]
    middle = payload.index(b", ")
    lines = [b"\xef\xbb\xbf: hello", b"", b"data:" + payload[:middle], b"data:" + payload[middle:], b""]
    stream = end.join([*lines, finish_chunk()[:-2], b"", b"data:[DONE]", b"", b""])
    out, progress, error = run([stream])
    assert error is None
    assert b"\ndata: " + payload[:middle] + b" " + payload[middle:] + b"\n\n" in out  # see llm/sse.py
    assert out.startswith(b": hello")
    assert progress.output_seen


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "x"},
        {"reasoning": "x"},
        {"reasoning_content": "x"},
        {"refusal": "x"},
        {"content": None, "refusal": "no"},
        {"tool_calls": [{"index": 0, "function": {"name": "f"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]},
        {"tool_calls": [{"index": 0, "custom": {"input": "x"}}]},
        {"function_call": {"name": "f"}},
        {"audio": {"data": "AAAA"}},
    ],
)
def test_output(delta: dict[str, Any]) -> None:
    batch = ChatStreamReader(usage_asked=False).feed(delta_chunk(delta))
    assert batch.output


@pytest.mark.parametrize(
    "frame",
    [
        role_chunk(),
        delta_chunk({}),
        delta_chunk({"content": None}),
        delta_chunk({"tool_calls": [{"index": 0, "id": "c1", "function": {"arguments": ""}}]}),
        delta_chunk({"tool_calls": []}),
        finish_chunk("length"),
        FILTER_RESULTS,
        b": ping\n\n",
        chat.usage_chunk(),
        event({"choices": [{"index": 0, "delta": None, "finish_reason": None}]}),
    ],
)
def test_no_output(frame: bytes) -> None:
    reader = ChatStreamReader(usage_asked=True)
    batch = reader.feed(frame)
    assert (batch.data, batch.output) == (frame, False)
    assert not reader.progress.output_seen


# Missing and odd terminators (B03).


def test_B03_a_finish_without_done_ends_clean() -> None:
    events = [role_chunk(), text_chunk("a"), finish_chunk("stop")]
    out, progress, error = run(events)
    assert (out, error) == (b"".join(events) + DONE, None)
    assert (progress.ended, progress.finish_reason) == (True, "stop")


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [([text_chunk("a")], "stop"), ([tool_chunk(call_id="c", name="f"), tool_chunk("{}")], "tool_calls")],
)
def test_B03_b_done_without_finish_gets_one(pieces: list[bytes], reason: str) -> None:
    out, progress, error = run([role_chunk(), *pieces, DONE])
    assert error is None
    assert out.startswith(role_chunk() + b"".join(pieces))
    assert out.endswith(DONE)
    assert [each for each in finish_reasons(out) if each] == [reason]
    assert (progress.ended, progress.finish_reason) == (True, reason)
    added = json.loads(out.removesuffix(DONE).split(b"\n\n")[-2][6:])
    assert (added["id"], added["model"], added["choices"][0]["delta"]) == (chat.CHUNK_ID, chat.MODEL, {})


def test_B03_b_with_several_choices_each_gets_its_own() -> None:
    out, _, error = run(
        [choice_chunk(0, {"content": "a"}), choice_chunk(1, {"content": "b"}), choice_chunk(1, {}, "length"), DONE],
        choices=2,
    )
    assert error is None
    assert [each for each in finish_reasons(out) if each] == ["length", "stop"]


def test_B03_c_a_role_and_nothing_else_is_a_bad_answer() -> None:
    assert failure_of(role_chunk())[0] is ErrorClass.BAD_UPSTREAM_RESPONSE
    assert failure_of(role_chunk(), DONE)[0] is ErrorClass.BAD_UPSTREAM_RESPONSE
    assert failure_of()[0] is ErrorClass.BAD_UPSTREAM_RESPONSE
    assert failure_of(DONE)[0] is ErrorClass.BAD_UPSTREAM_RESPONSE


def test_B03_d_an_empty_finish_reason_is_sent_as_null_and_ends_nothing() -> None:
    odd = (
        b'data: {"choices":[{"index":0,"delta":{"content":"say \\"finish_reason\\":\\"\\""},"finish_reason" : ""}]}\n\n'
    )
    out, progress, error = run([odd, text_chunk("b"), finish_chunk(), DONE])
    assert error is None
    assert (
        out == odd.replace(b'"finish_reason" : ""', b'"finish_reason":null') + text_chunk("b") + finish_chunk() + DONE
    )
    assert progress.ended


def test_B03_d_only_empty_finish_reasons_are_none() -> None:
    assert failure_of(delta_chunk({"content": "a"}, "")) == (
        ErrorClass.BAD_UPSTREAM_RESPONSE,
        "the provider's stream ended without a finish reason",
    )


def test_a_finish_reason_is_only_known_as_finishing_when_every_choice_has_one() -> None:
    reader = ChatStreamReader(usage_asked=True, choices=2)
    reader.feed(choice_chunk(0, {"content": "a"}) + choice_chunk(0, {}, "stop"))
    assert not reader.progress.finishing
    reader.feed(choice_chunk(1, {"content": "b"}, "stop"))
    assert reader.progress.finishing


def test_a_choice_that_began_has_to_finish() -> None:
    pieces = [choice_chunk(0, {"content": "a"}), choice_chunk(1, {"content": "b"}), choice_chunk(0, {}, "stop")]
    _, progress, error = run(pieces, choices=2)
    assert error is not None
    assert not progress.ended


def test_nothing_is_passed_on_after_done() -> None:
    stream = [text_chunk("a"), finish_chunk(), DONE, text_chunk("late"), b"data: not json\n\n"]
    assert run(stream)[0] == b"".join(stream[:3])
    assert run([b"".join(stream)])[0] == b"".join(stream[:3])


# Usage (B04).


def test_B04_a_the_usage_chunk_is_passed_on_once_and_last() -> None:
    events = [FILTER_RESULTS, role_chunk(), text_chunk("a"), finish_chunk(), chat.usage_chunk(9, 4), DONE]
    out, progress, error = run(events, usage_asked=True)
    assert (out, error) == (b"".join(events), None)
    assert progress.usage == Usage(9, 4)


def test_B04_b_the_usage_chunk_is_dropped_and_still_recorded() -> None:
    events = [FILTER_RESULTS, role_chunk(), text_chunk("a"), finish_chunk(), chat.usage_chunk(9, 4), DONE]
    out, progress, _ = run(events, usage_asked=False)
    assert out == b"".join([*events[:4], DONE])
    assert progress.usage == Usage(9, 4)
    assert progress.usage.total == 13


def test_usage_beside_choices_is_left_in_place() -> None:
    chunk = event({"choices": [{"index": 0, "delta": {"content": "a"}}], "usage": chat.usage_body((1, 2))})
    out, progress, _ = run([chunk, finish_chunk(), DONE], usage_asked=False)
    assert chunk in out
    assert progress.usage == Usage(1, 2)


@pytest.mark.parametrize(
    ("written", "usage"),
    [
        ({"prompt_tokens": 1, "completion_tokens": 2}, Usage(1, 2)),
        ({"prompt_tokens": -1, "completion_tokens": 2}, Usage(0, 2)),
        ({"prompt_tokens": "1", "completion_tokens": 2}, None),
        ({"prompt_tokens": 1}, None),
        ([], None),
        ("x", None),
        (None, None),
    ],
)
def test_usage_is_numbers_or_nothing(written: Any, usage: Usage | None) -> None:
    assert read_usage(written) == usage


def test_output_is_estimated_while_no_usage_has_come() -> None:
    _, progress, _ = run([text_chunk("x" * 40), text_chunk("y"), finish_chunk(), DONE])
    assert (progress.usage, progress.output_tokens_seen) == (None, 11)


# What is none of the dialect's, and ends nothing.


@pytest.mark.parametrize(
    "frame",
    [
        b"event: ping\ndata: {}\n\n",
        b'event: usage\ndata: ["x"]\n\n',
    ],
)
def test_an_event_that_says_nothing_of_the_answer_is_passed_on(frame: bytes) -> None:
    events = [frame, role_chunk(), frame, text_chunk("a"), frame, finish_chunk(), frame, DONE]
    out, progress, error = run(events)
    assert (out, error) == (b"".join(events), None)
    assert progress.ended


def test_an_event_that_sdks_cannot_parse_becomes_a_comment() -> None:
    frame = b"event: keep-alive\ndata: not JSON\n\n"
    out, progress, error = run([frame, role_chunk(), text_chunk("a"), frame, finish_chunk(), DONE])
    assert (out, error) == (b":\n\n" + role_chunk() + text_chunk("a") + b":\n\n" + finish_chunk() + DONE, None)
    assert progress.ended


def test_an_oddly_framed_terminator_is_sent_as_sdks_know_it() -> None:
    out, _, error = run([role_chunk(), text_chunk("a"), finish_chunk(), b"data:  [DONE]\n\n"])
    assert (out[-len(DONE) :], error) == (DONE, None)


def test_chunks_and_errors_are_read_under_any_name() -> None:
    named = [b"event: chunk\n" + each for each in (text_chunk("a"), finish_chunk())]
    _, progress, error = run([*named, DONE])
    assert (error, progress.output_seen, progress.finish_reason) == (None, True, "stop")
    assert failure_of(b"event: odd\n" + event({"error": {"code": 503}}))[0] is ErrorClass.OVERLOADED
    assert failure_of(b"event: message\ndata: {}\n\n")[0] is ErrorClass.BAD_UPSTREAM_RESPONSE


@pytest.mark.parametrize("extra", [{}, {"choices": None}])
@pytest.mark.parametrize("usage_asked", [True, False])
def test_a_usage_chunk_may_have_no_choices(extra: dict[str, Any], usage_asked: bool) -> None:
    chunk = event({"id": "c", "usage": chat.usage_body((9, 4)), **extra})
    out, progress, error = run([text_chunk("a"), finish_chunk(), chunk, DONE], usage_asked=usage_asked)
    assert (error, progress.usage) == (None, Usage(9, 4))
    assert (chunk in out) is usage_asked


@pytest.mark.parametrize("index", [-1, 1, 10**6, True, False, 0.0, "0"])
def test_a_choice_that_was_not_asked_for_is_a_bad_answer(index: Any) -> None:
    chunk = event({"choices": [{"index": index, "delta": {"content": "a"}}]})
    error_class, words = failure_of(chunk, finish_chunk(), DONE)
    assert (error_class, "not asked for" in words) == (ErrorClass.BAD_UPSTREAM_RESPONSE, True)


# Failures inside a stream.


@pytest.mark.parametrize(
    ("frame", "error_class"),
    [
        (error_event({"message": "m", "code": 503}), ErrorClass.OVERLOADED),
        (error_event({"message": "m", "code": "500"}), ErrorClass.SERVER_ERROR),
        (error_event({"message": "m", "code": "insufficient_quota"}), ErrorClass.QUOTA_EXHAUSTED),
        (error_event({"message": "m", "type": "overloaded_error"}, "error"), ErrorClass.OVERLOADED),
        (error_event({"message": "m", "code": "rate_limit_exceeded"}), ErrorClass.RATE_LIMITED),
        (error_event({"message": "m"}), ErrorClass.BAD_UPSTREAM_RESPONSE),
        (event({"error": "a plain text"}), ErrorClass.BAD_UPSTREAM_RESPONSE),
        (event({"message": "bare", "code": 529}, "error"), ErrorClass.OVERLOADED),
        (event({"choices": [], "error": {"code": 502}}), ErrorClass.SERVER_ERROR),
        (b"data: {not json}\n\n", ErrorClass.BAD_UPSTREAM_RESPONSE),
        (b"data: [1]\n\n", ErrorClass.BAD_UPSTREAM_RESPONSE),
        (b"data: \xff\n\n", ErrorClass.BAD_UPSTREAM_RESPONSE),
        (event({"choices": None}), ErrorClass.BAD_UPSTREAM_RESPONSE),
        (event({"object": "x"}), ErrorClass.BAD_UPSTREAM_RESPONSE),
        (event({"choices": ["x"]}), ErrorClass.BAD_UPSTREAM_RESPONSE),
    ],
)
def test_a_failure_inside_a_stream(frame: bytes, error_class: ErrorClass) -> None:
    assert failure_of(frame)[0] is error_class
    out, progress, error = run([role_chunk() + text_chunk("good") + frame + text_chunk("bad")])
    assert error is not None
    assert error.failure.error_class is error_class
    assert out == role_chunk() + text_chunk("good"), "what came before the fault is kept, nothing after it"
    assert progress.output_seen
    assert not progress.ended


def test_a_null_error_is_no_error() -> None:
    chunk = event({"error": None, "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]})
    assert run([chunk, DONE])[2] is None


def test_the_end_inside_an_event_is_a_bad_answer() -> None:
    error_class, words = failure_of(text_chunk("a"), text_chunk("b")[:-5])
    assert (error_class, "inside an event" in words) == (ErrorClass.BAD_UPSTREAM_RESPONSE, True)


def test_half_an_event_after_the_finish_reason_is_dropped() -> None:
    events = [text_chunk("a"), finish_chunk()]
    out, progress, error = run([*events, chat.usage_chunk()[:20]])
    assert (out, error) == (b"".join(events) + DONE, None)
    assert progress.ended


@pytest.mark.parametrize("ending", [[DONE], []])
def test_a_whole_and_empty_completion_is_a_bad_answer(ending: list[bytes]) -> None:
    assert failure_of(role_chunk(), finish_chunk("stop"), *ending) == (
        ErrorClass.BAD_UPSTREAM_RESPONSE,
        "the provider's answer is complete and empty",
    )


@pytest.mark.parametrize("ending", [[DONE], []])
def test_an_empty_answer_to_a_caller_with_stop_sequences_is_what_it_asked_for(ending: list[bytes]) -> None:
    events = [role_chunk(), finish_chunk("stop")]
    out, progress, error = run([*events, *ending], stops=True)
    assert (out, error) == (b"".join(events) + DONE, None)
    assert (progress.ended, progress.output_seen) == (True, False)


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_an_empty_completion_with_a_reason_is_an_answer(reason: str) -> None:
    out, progress, error = run([role_chunk(), finish_chunk(reason), DONE])
    assert error is None
    assert out.endswith(DONE)
    assert progress.finish_reason == reason


def test_an_endless_event_is_a_bad_answer() -> None:
    reader = ChatStreamReader(usage_asked=False)
    with pytest.raises(AttemptFailed, match="malformed"):
        reader.feed(b"data: " + b"x" * 8_000_001)


@given(st.lists(st.binary(max_size=40) | st.sampled_from([role_chunk(), text_chunk("x"), finish_chunk(), DONE])))
def test_arbitrary_bytes_raise_nothing_but_a_failed_attempt(pieces: list[bytes]) -> None:
    _, progress, error = run(pieces)
    assert (error is None) == progress.ended


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 999) | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["choices", "delta", "message", "content", "tool_calls", "function", "name", "index"])
                | st.sampled_from(["usage", "error", "code", "finish_reason", "prompt_tokens", "completion_tokens"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=15,
    )
)
def test_arbitrary_json_raises_nothing_but_a_failed_attempt(value: Any) -> None:
    run([event(value), event({"choices": [value]}), event({"choices": [{"delta": value}]}), DONE])
    body = json.dumps({"choices": [{"message": value}], "usage": value}).encode()
    for sent in (body, json.dumps(value).encode()):
        progress = Progress()
        try:
            batch = read_plain(sent, progress)
        except AttemptFailed:
            assert not progress.ended
        else:
            assert (batch.output, progress.ended) == (True, True)


# Plain answers.


def completion(**fields: Any) -> bytes:
    message = {"role": "assistant", "content": "hello"}
    return json.dumps({"model": "m", "choices": [{"message": message, "finish_reason": "stop"}], **fields}).encode()


def test_a_plain_answer_is_passed_on_byte_for_byte() -> None:
    body = b' { "unknown": 1.0, ' + completion(usage=chat.usage_body((3, 4)))[1:]
    progress = Progress()
    assert read_plain(body, progress) == (body, True)
    assert (progress.usage, progress.model, progress.finish_reason) == (Usage(3, 4), "m", "stop")
    assert progress.ended


def test_an_empty_finish_reason_of_a_plain_answer_is_sent_as_null() -> None:
    body = completion().replace(b'"finish_reason": "stop"', b'"finish_reason": ""')
    assert json.loads(read_plain(body, Progress()).data)["choices"][0]["finish_reason"] is None


@pytest.mark.parametrize(
    ("body", "error_class"),
    [
        (b'{"error":{"code":502,"message":"x"}}', ErrorClass.BAD_UPSTREAM_RESPONSE),
        (b'{"error":{"message":"x"}}', ErrorClass.BAD_UPSTREAM_RESPONSE),
        (b'{"error":"x"}', ErrorClass.BAD_UPSTREAM_RESPONSE),
        (b'{"error":{"code":400,"message":"x"}}', ErrorClass.BAD_UPSTREAM_RESPONSE),
        (b'{"error":{"code":"insufficient_quota"}}', ErrorClass.QUOTA_EXHAUSTED),
        (b'{"error":{"code":429}}', ErrorClass.RATE_LIMITED),
        (b'{"html-message":"x"}', ErrorClass.BAD_UPSTREAM_RESPONSE),
        (b"<!doctype html>", ErrorClass.BAD_UPSTREAM_RESPONSE),
        (b'{"choices":null}', ErrorClass.BAD_UPSTREAM_RESPONSE),
        (b'{"choices":[]}', ErrorClass.BAD_UPSTREAM_RESPONSE),
        (b'{"choices":[1]}', ErrorClass.BAD_UPSTREAM_RESPONSE),
        (b'{"choices":[{}]}', ErrorClass.BAD_UPSTREAM_RESPONSE),
        (b'{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}', ErrorClass.BAD_UPSTREAM_RESPONSE),
        (b'{"choices":[{"message":{"content":null}}]}', ErrorClass.BAD_UPSTREAM_RESPONSE),
        (completion()[:-20], ErrorClass.BAD_UPSTREAM_RESPONSE),
        (b"", ErrorClass.BAD_UPSTREAM_RESPONSE),
        (b"[]", ErrorClass.BAD_UPSTREAM_RESPONSE),
        (b"null", ErrorClass.BAD_UPSTREAM_RESPONSE),
    ],
)
def test_a_plain_200_that_is_no_answer(body: bytes, error_class: ErrorClass) -> None:
    with pytest.raises(AttemptFailed) as caught:
        read_plain(body, Progress())
    assert caught.value.failure.error_class is error_class


@pytest.mark.parametrize(
    "choice",
    [
        {"message": {"content": None, "tool_calls": [{"function": {"name": "f", "arguments": ""}}]}},
        {"message": {"content": None, "refusal": "no"}},
        {"message": {"content": ""}, "finish_reason": "length"},
        {"message": {"content": ""}, "finish_reason": "content_filter"},
    ],
)
def test_answers_without_text(choice: dict[str, Any]) -> None:
    body = json.dumps({"choices": [choice]}).encode()
    assert read_plain(body, Progress()).data == body


def test_an_empty_plain_answer_to_a_caller_with_stop_sequences_is_what_it_asked_for() -> None:
    body = b'{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}'
    assert read_plain(body, Progress(), stops=True).data == body
    for said in (b'"stop"', b'""'):
        with pytest.raises(AttemptFailed, match="empty"):
            read_plain(body.replace(b'"stop"', said), Progress(), stops=said == b'""')


@pytest.mark.parametrize(
    ("cap", "finish", "given", "reason"),
    [
        (7, "stop", 7, "length"),
        (7, "stop", 8, "length"),
        (7, "stop", 6, "stop"),
        (None, "stop", 7, "stop"),
        (7, "tool_calls", 7, "tool_calls"),
        (7, "length", 7, "length"),
    ],
)
def test_a_finish_reason_that_the_usage_contradicts_is_corrected(
    cap: int | None, finish: str, given: int, reason: str
) -> None:
    message = {"role": "assistant", "content": 'say "finish_reason": "stop"'}
    body = completion(choices=[{"message": message, "finish_reason": finish}], usage=chat.usage_body((3, given)))
    progress = Progress()
    read = json.loads(read_plain(body, progress, output_cap=cap).data)
    assert read == {**json.loads(body), "choices": [{"message": message, "finish_reason": reason}]}
    assert progress.finish_reason == reason


def test_with_several_choices_no_usage_says_which_reached_the_cap() -> None:
    choice = {"message": {"content": "a"}, "finish_reason": "stop"}
    body = completion(choices=[choice, choice], usage=chat.usage_body((3, 9)))
    assert read_plain(body, Progress(), output_cap=9).data == body


def test_an_error_inside_a_200_is_still_the_providers_own_wording() -> None:
    with pytest.raises(AttemptFailed) as caught:
        read_plain(b'{"error":{"code":502,"message":"x","type":"t"}}', Progress())
    failure = caught.value.failure
    assert (failure.quoted, failure.status, failure.type, failure.code) == (True, 200, "t", "502")
