"""What a reply is taken for: whole, an honest break, a refusal, and every lie that can be told with the same bytes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gateway.drill.judge import Kind, Refusal, account
from gateway.drill.provider import chat
from gateway.drill.script import FIRST, SECOND, Scripted
from gateway.drill.seen import Reply
from tests.drill.made_up import BREAK, SSE, broken, plain, refusal, stream, trail, whole

WORD = chat.text_chunk(" north-1", chunk_id="chatcmpl-primary", model=FIRST.model)
OTHER_FINISH = chat.finish_chunk("stop", chunk_id="chatcmpl-primary", model=FIRST.model)


@pytest.mark.parametrize("by", [FIRST, SECOND])
def test_a_whole_answer(by: Scripted) -> None:
    for reply in (whole(by), plain(by.body(), by=by)):
        found = account(reply)
        assert (found.kind, found.by) == (Kind.WHOLE, by.target), found


def test_the_evidence_names_what_was_tried_before() -> None:
    tried = trail("primary overloaded", "primary overloaded", "secondary success")
    reply = whole(SECOND, ended_s=12.3)
    found = account(replace(reply, headers={**reply.headers, **tried}))
    assert found.sentence == "whole answer of the secondary in 12 s, after primary overloaded twice"


def test_a_trail_that_came_as_a_comment() -> None:
    comment = b": waiting\n\n: stanchion-attempts primary;class=timeout_idle;ms=15000, secondary;class=success;ms=3\n\n"
    found = account(Reply(stream=True, status=200, headers=SSE, body=comment + whole(SECOND).body))
    assert found.sentence == "whole answer of the secondary, after primary timeout_idle"


def test_an_honest_break() -> None:
    found = account(broken(40))
    assert (found.kind, found.by) == (Kind.BROKEN, "primary")
    assert found.sentence == "40 of 60 words of the primary, then one error event (timeout_idle)"


def test_an_error_event_before_any_word_is_a_refusal() -> None:
    found = account(stream(b": waiting\n\n", BREAK, whole=False))
    assert (found.kind, found.refusal) == (Kind.REFUSED, Refusal(200, "timeout_idle"))


def test_a_refusal() -> None:
    found = account(refusal(400, "content_policy", "unsafe"))
    assert (found.kind, found.refusal) == (Kind.REFUSED, Refusal(400, "content_policy"))
    assert found.sentence == "status 400, content_policy: unsafe"


LIES = {
    "a clean end after a cut": stream(FIRST.begun(40), FIRST.ended(), chat.DONE),
    "a splice": stream(FIRST.begun(40), SECOND.begun(60)[41:], SECOND.ended(), chat.DONE, by=SECOND),
    "a restart in the same answer": stream(FIRST.begun(40), SECOND.begun(60), SECOND.ended(), chat.DONE, by=SECOND),
    "a doubled text": stream(FIRST.begun(60), FIRST.begun(60)[1:], FIRST.ended(), chat.DONE),
    "one word twice": stream(FIRST.begun(60), WORD, FIRST.ended(), chat.DONE),
    "a word missing": stream(FIRST.begun(30), FIRST.begun(60)[32:], FIRST.ended(), chat.DONE),
    "no words at all": stream(FIRST.begun(0), FIRST.ended(), chat.DONE),
    "an end without a word about it": stream(FIRST.begun(40), whole=False),
    "all words and no terminator": stream(FIRST.begun(60), FIRST.ended()),
    "a body that is cut after the terminator": stream(FIRST.begun(60), FIRST.ended(), chat.DONE, whole=False),
    "two terminators": stream(FIRST.begun(60), FIRST.ended(), chat.DONE, chat.DONE),
    "words after the terminator": stream(FIRST.begun(60), FIRST.ended(), chat.DONE, WORD),
    "no finish reason": stream(FIRST.begun(60), FIRST.ended()[1:], chat.DONE),
    "two finish reasons": stream(FIRST.begun(60), FIRST.ended(), OTHER_FINISH, chat.DONE),
    "an error and a terminator": stream(FIRST.begun(40), BREAK, chat.DONE),
    "an error and a finish reason": stream(FIRST.begun(40), OTHER_FINISH, BREAK),
    "two error events": stream(FIRST.begun(40), BREAK, BREAK),
    "words after an error": stream(FIRST.begun(40), BREAK, FIRST.begun(60)[41:]),
    "a splice that breaks": stream(FIRST.begun(20), SECOND.begun(40)[21:], BREAK),
    "a doubled text that breaks": stream(FIRST.begun(20), FIRST.begun(40)[1:], BREAK),
    "an error that says nothing": stream(FIRST.begun(40), chat.error_event({"message": ""})),
    "the malformed event itself": stream(FIRST.begun(20), b'data: {"choices": [\n\n', FIRST.begun(60)[21:], chat.DONE),
    "the usage of the other": stream(FIRST.begun(60), SECOND.ended(), chat.DONE),
    "usage of both": stream(FIRST.begun(60), FIRST.ended(), SECOND.ended()[1], chat.DONE),
    "no usage": stream(FIRST.begun(60), FIRST.ended()[0], chat.DONE),
    "the wrong target in the header": replace(whole(FIRST), headers={**whole(SECOND).headers}),
    "two successes in the trail": replace(
        whole(FIRST), headers={**whole(FIRST).headers, **trail("primary success", "secondary success")}
    ),
    "a plain answer cut in the middle": plain(FIRST.body()[:200], whole=False),
    "a plain splice": plain(FIRST.body().replace(b"north-60", b"south-60")),
    "a plain answer under another model": plain(FIRST.body().replace(b"primary-model", b"secondary-model")),
    "an error under 200": plain(json.dumps({"error": {"message": "no"}}).encode()),
    "a page": plain(b"<html>", 502),
    "an error without a class": plain(json.dumps({"error": {"message": "no"}}).encode(), 503),
    "nothing at all": Reply(stream=True, status=0, headers={}, body=b"", whole=False),
    "no end": stream(FIRST.begun(40), hung=True, ended_s=150.0),
    "a plain body for a stream": replace(plain(FIRST.body()), stream=True),
    "a stream for a plain call": replace(whole(), stream=False),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie(name: str) -> None:
    found = account(LIES[name])
    assert found.kind is Kind.LIE, found
    assert found.sentence


def test_the_evidence_of_a_splice_says_whose_words_they_are() -> None:
    assert account(LIES["a splice"]).sentence == (
        "a clean end after 40 words of the primary and 20 words of the secondary"
    )
    assert account(LIES["one word twice"]).sentence == "a clean end after 61 words of the primary, 1 of them twice"
