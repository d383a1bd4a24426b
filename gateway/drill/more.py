"""More faults than the sixteen: what else providers have been seen to do."""

from __future__ import annotations

from gateway.drill import checks
from gateway.drill.judge import Refusal
from gateway.drill.provider import chat
from gateway.drill.provider.behaviours import (
    Behaviour,
    Step,
    answer,
    cut,
    garbage,
    html,
    pause,
    raw,
    redirect,
    rst,
    silent,
    sse,
    status,
)
from gateway.drill.row import SAFE_BREAK, Row
from gateway.drill.script import FIRST, PRIMARY, SECONDARY, breaks_off, either, error_in_200, streamed

_RESCUED = "the whole answer of the secondary"
_KEPT = "the whole answer of the primary"
_ONCE = checks.attempts(PRIMARY, least=1, most=1)
_NOT_ASKED = checks.attempts(SECONDARY, most=0)
_BAD = checks.ended_as(PRIMARY, "bad_upstream_response")
_SERVER_ERROR = {"message": "The server had an error.", "type": "server_error", "code": 500}
_EMPTY = chat.completion("", completion_id="c", model=FIRST.model, finish="stop", usage=(21, 0))
_BROKEN_CHUNK = b'data: {"choices": [{"index": 0, "delta": {"content": "north\n\n'


def _crlf(events: list[bytes]) -> list[bytes]:
    return [event.replace(b"\n", b"\r\n") for event in events]


def _empty_finishes(events: list[bytes]) -> list[bytes]:
    return [event.replace(b'"finish_reason": null', b'"finish_reason": ""') for event in events]


def _pings(seconds: int) -> list[Step]:
    steps: list[Step] = []
    for _ in range(seconds):
        steps += [b": ping\n\n", pause(1.0)]
    return steps


def _mid(*endings: Step) -> Behaviour:
    """Forty of sixty tokens, then these steps; the plain answer is good."""
    return either(sse(*FIRST.begun(40), *endings), FIRST.good)


MORE: tuple[Row, ...] = (
    Row(
        17,
        "connection refused",
        "nothing listens where the primary should be",
        _RESCUED,
        unreachable=True,
        checks=(checks.ended_as(PRIMARY, "connect"),),
    ),
    Row(
        18,
        "not HTTP",
        "bytes that are no HTTP, then the end of the connection",
        _RESCUED,
        then=garbage(),
        checks=(_BAD,),
    ),
    Row(19, "HTML under 200", "a page in place of the API", _RESCUED, then=html(), checks=(_ONCE, _BAD)),
    Row(
        20,
        "redirect",
        "307 to another address",
        _RESCUED + "; the redirect is not followed",
        then=redirect("http://127.0.0.1:9/v1/chat/completions"),
        checks=(_ONCE, _BAD),
    ),
    Row(
        21,
        "error under 200",
        "an error object with status 200; in a stream after the role",
        _RESCUED,
        then=either(streamed(FIRST.begun(0), chat.error_event(_SERVER_ERROR), chat.DONE), raw(error_in_200(500, "no"))),
    ),
    Row(
        22,
        "empty completion",
        "a well-formed answer without a word in it",
        _RESCUED,
        then=either(streamed(FIRST.begun(0), FIRST.ended(), chat.DONE), raw(_EMPTY)),
        checks=(_ONCE, _BAD),
    ),
    Row(
        23,
        "pings and no output",
        "a comment every second for 30 s after the role; a plain answer is silent",
        _RESCUED + "; pings are no output",
        then=either(sse(*FIRST.begun(0), *_pings(30), cut()), silent()),
        checks=(_ONCE,),
    ),
    Row(
        24,
        "529 overloaded",
        "529 with overloaded_error",
        _RESCUED,
        then=status(529, type="overloaded_error"),
        checks=(checks.ended_as(PRIMARY, "overloaded"),),
    ),
    Row(
        25,
        "401 bad key",
        "401 with invalid_api_key",
        _RESCUED + "; the credential is held and not asked again",
        then=status(401, "invalid_api_key"),
        checks=(_ONCE, checks.held(PRIMARY, "credential"), checks.breaker_untouched(PRIMARY)),
    ),
    Row(
        26,
        "402 spent account",
        "402 with words about credits",
        _RESCUED + "; the credential is held as spent",
        then=status(402, message="Insufficient credits."),
        checks=(_ONCE, checks.held(PRIMARY, "quota_exhausted"), checks.breaker_untouched(PRIMARY)),
    ),
    Row(
        27,
        "404 model gone",
        "404 with model_not_found",
        _RESCUED + "; the model is held",
        then=status(404, "model_not_found"),
        checks=(_ONCE, checks.held(PRIMARY, "model_unavailable"), checks.breaker_untouched(PRIMARY)),
    ),
    Row(
        28,
        "400 bad request",
        "400 that the caller's own request has earned",
        "that 400 with the provider's reason; nobody else is asked",
        then=status(400, message="Invalid value for 'user'."),
        ideal=Refusal(400, "bad_request"),
        checks=(_ONCE, _NOT_ASKED, checks.says("Invalid value for 'user'."), checks.breaker_untouched(PRIMARY)),
    ),
    Row(
        29,
        "context length, no larger window",
        "400 context_length_exceeded; the secondary's window is smaller",
        "that 400; the secondary is not asked",
        then=status(400, "context_length_exceeded", "maximum context length is 8192 tokens"),
        settings={"primary": {"context_window": 8192}, "secondary": {"context_window": 4096}},
        ideal=Refusal(400, "context_length"),
        checks=(_ONCE, _NOT_ASKED),
    ),
    Row(
        30,
        "both targets down",
        "503 for ever, from the secondary too",
        "503 with class and trail",
        then=status(503),
        secondary=status(503),
        ideal=Refusal(503, "overloaded"),
        checks=(checks.attempts(PRIMARY, least=1, most=2), checks.attempts(SECONDARY, least=1, most=2)),
    ),
    Row(
        31,
        "reset in mid-stream",
        "a reset after 40 of 60 tokens; in a plain body there too",
        _RESCUED,
        SAFE_BREAK,
        primary=(breaks_off(40, pause(0.5), rst()),),
        checks=(_ONCE,),
    ),
    Row(
        32,
        "proper end after 40 tokens",
        "the body ends properly after 40 of 60 tokens, without finish reason and [DONE]",
        _RESCUED,
        SAFE_BREAK,
        primary=(_mid(pause(0.5)),),
        plain=False,
        checks=(_ONCE, _BAD),
    ),
    Row(
        33,
        "error event in mid-stream",
        "an error event after 40 of 60 tokens",
        "the whole answer, of either target: a server error may be tried again where nothing has been shown",
        SAFE_BREAK,
        primary=(_mid(chat.error_event(_SERVER_ERROR), chat.DONE),),
        plain=False,
        checks=(checks.attempts(PRIMARY, least=1, most=2), checks.ended_as(PRIMARY, "server_error")),
    ),
    Row(
        34,
        "malformed event in mid-stream",
        "an event that is no JSON after 40 of 60 tokens, then the rest",
        _RESCUED,
        SAFE_BREAK,
        primary=(_mid(_BROKEN_CHUNK, *FIRST.begun(60)[41:], *FIRST.ended(), chat.DONE),),
        plain=False,
        checks=(_ONCE, _BAD),
    ),
    Row(
        35,
        "held open after the finish",
        "all tokens and the finish reason, then silence",
        _KEPT + ", ended by the gateway soon after",
        then=streamed(FIRST.begun(60), FIRST.ended(), silent()),
        plain=False,
        checks=(_NOT_ASKED, checks.within(30.0)),
    ),
    Row(
        36,
        "no finish reason",
        "all tokens and [DONE], and no finish reason",
        _KEPT + ", with the finish reason added",
        then=streamed(FIRST.begun(60), FIRST.ended()[1:], chat.DONE),
        plain=False,
        checks=(_NOT_ASKED,),
    ),
    Row(
        37,
        "empty finish reasons",
        "an empty finish reason in every chunk but the last",
        _KEPT,
        then=streamed(_empty_finishes(FIRST.begun(60)), FIRST.ended(), chat.DONE),
        plain=False,
        checks=(_NOT_ASKED,),
    ),
    Row(
        38,
        "byte order mark and CRLF",
        "a stream that begins with a byte order mark and ends its lines with CR LF",
        _KEPT,
        then=streamed(b"\xef\xbb\xbf", _crlf([*FIRST.begun(60), *FIRST.ended(), chat.DONE])),
        plain=False,
        checks=(_NOT_ASKED,),
    ),
    Row(
        39,
        "gzip",
        "the answer under a content coding that nobody asked for",
        _KEPT,
        then=answer(FIRST.text, usage=FIRST.usage, encoding="gzip"),
        checks=(_NOT_ASKED,),
    ),
    Row(
        40,
        "odd chunks",
        "a chunk without choices first, comments between, an unknown event",
        _KEPT,
        then=streamed(
            chat.event({"id": "chatcmpl-primary", "model": FIRST.model, "choices": [], "prompt_filter_results": []}),
            b": keep-alive\n\n",
            FIRST.begun(60),
            chat.event({"load": 0.5}, "metrics"),
            FIRST.ended(),
            chat.DONE,
        ),
        plain=False,
        checks=(_NOT_ASKED,),
    ),
)
