"""A finish reason `stop` that the usage contradicts, in a stream: the finish chunk waits for the usage and for nothing else."""

from __future__ import annotations

import json

import pytest

from llm.dialects.openai_answer import ChatStreamReader
from llm.errors import AttemptFailed
from tests.fakes.chat import DONE, error_event, event, finish_chunk, role_chunk, text_chunk, usage_chunk

OPENING = [role_chunk(), text_chunk("a")]


def reader(cap: int | None, *, usage_asked: bool = True, choices: int = 1) -> ChatStreamReader:
    return ChatStreamReader(usage_asked=usage_asked, choices=choices, output_cap=cap)


def finishes(out: bytes) -> list[str]:
    events = [json.loads(block[6:]) for block in out.split(b"\n\n") if block.startswith(b"data: {")]
    return [c["finish_reason"] for each in events for c in each["choices"] if c.get("finish_reason")]


def passed(one: ChatStreamReader, *events: bytes) -> bytes:
    return b"".join(one.feed(each).data for each in events)


@pytest.mark.parametrize("usage_asked", [True, False])
@pytest.mark.parametrize(("cap", "finish"), [(3, "length"), (2, "length"), (4, "stop"), (None, "stop")])
def test_stop_at_the_cap_is_sent_as_length(cap: int | None, finish: str, usage_asked: bool) -> None:
    one = reader(cap, usage_asked=usage_asked)
    out = passed(one, *OPENING, finish_chunk("stop"), usage_chunk(12, 3), DONE)
    assert finishes(out) == [finish]
    assert one.progress.finish_reason == finish
    assert (b'"usage"' in out) is usage_asked
    assert out.endswith(DONE)


def test_nothing_but_the_reason_is_changed() -> None:
    events = [*OPENING, finish_chunk("stop"), usage_chunk(12, 3), DONE]
    out = passed(reader(3), *events)
    assert out == b"".join(events).replace(b'"finish_reason": "stop"', b'"finish_reason":"length"').replace(
        b'"finish_reason":"stop"', b'"finish_reason":"length"'
    )


def test_the_finish_chunk_waits_for_the_usage_only() -> None:
    one = reader(3)
    assert passed(one, *OPENING) == b"".join(OPENING)
    assert passed(one, finish_chunk("stop"), b": ping\n\n") == b""
    assert one.progress.finishing
    out = passed(one, usage_chunk(12, 3))
    assert finishes(out) == ["length"]
    assert out.index(b'"length"') < out.index(b": ping") < out.index(b'"usage"')
    assert passed(one, DONE) == DONE


@pytest.mark.parametrize("finish", ["length", "tool_calls", "content_filter"])
def test_other_reasons_do_not_wait(finish: str) -> None:
    one = reader(3)
    passed(one, *OPENING)
    assert finishes(passed(one, finish_chunk(finish))) == [finish]


def test_with_several_choices_nothing_waits() -> None:
    one = reader(3, choices=2)
    passed(one, *OPENING)
    assert finishes(passed(one, finish_chunk("stop"))) == ["stop"]


def test_usage_that_came_before_the_finish_is_enough() -> None:
    one = reader(3)
    passed(one, *OPENING, usage_chunk(12, 3))
    assert finishes(passed(one, finish_chunk("stop"))) == ["length"]


def test_usage_inside_the_finish_chunk_is_enough() -> None:
    one = reader(3)
    passed(one, *OPENING)
    usage = {"prompt_tokens": 1, "completion_tokens": 3, "total_tokens": 4}
    both = event({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage})
    assert finishes(passed(one, both)) == ["length"]


def test_without_usage_the_terminator_releases_it_as_it_was() -> None:
    one = reader(3)
    out = passed(one, *OPENING, finish_chunk("stop"), DONE)
    assert finishes(out) == ["stop"]
    assert out.endswith(DONE)


def test_the_end_of_the_body_releases_it_with_a_terminator() -> None:
    one = reader(3)
    passed(one, *OPENING, finish_chunk("stop"))
    out = one.end().data
    assert finishes(out) == ["stop"]
    assert out.endswith(DONE)


def test_an_error_after_the_finish_reason_lets_no_clean_end_out() -> None:
    one = reader(3)
    passed(one, *OPENING, finish_chunk("stop"))
    with pytest.raises(AttemptFailed):
        one.feed(error_event({"message": "late", "type": "server_error"}))
    assert one.take_good().data == b""


def test_a_reason_that_is_added_before_done_knows_the_cap_too() -> None:
    assert finishes(passed(reader(3), *OPENING, usage_chunk(12, 3), DONE)) == ["length"]
    assert finishes(passed(reader(4), *OPENING, usage_chunk(12, 3), DONE)) == ["stop"]


def test_words_of_the_text_that_look_like_a_reason_stay() -> None:
    last = event(
        {
            "id": "c",
            "choices": [{"index": 0, "delta": {"content": 'say "finish_reason":"stop"'}, "finish_reason": "stop"}],
        }
    )
    out = passed(reader(3), role_chunk(), last, usage_chunk(12, 3), DONE)
    assert json.loads(out.split(b"\n\n")[1][6:])["choices"][0]["delta"]["content"] == 'say "finish_reason":"stop"'
    assert finishes(out) == ["length"]


def test_an_output_chunk_counts_as_output_once_it_is_released() -> None:
    one = reader(3)
    one.feed(role_chunk())
    chunk = event({"id": "c", "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]})
    assert not one.feed(chunk).data
    assert one.feed(usage_chunk(1, 1)).output
