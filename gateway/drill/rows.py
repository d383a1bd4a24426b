"""The sixteen faults: those of the public failoverbench catalogue, by their facts, under the product's default settings."""

from __future__ import annotations

from gateway.drill import checks
from gateway.drill.judge import Refusal
from gateway.drill.provider import chat
from gateway.drill.provider.behaviours import cut, delay, pause, raw, reset, status
from gateway.drill.row import SAFE_BREAK, Row, Stage, twice
from gateway.drill.script import FIRST, PRIMARY, SECOND, SECONDARY, breaks_off, either, no_prefill, streamed

_OUTAGE_S, _REQUESTS, _INTERVAL_S, _COOLDOWN_S = 60.0, 20, 4.0, 30.0
_ARRIVES = pause(0.5)
"""Time for what was sent to be read before the connection goes: which of two wins is not what a row is about."""

_QUOTA = {"tokens_per_minute": 60, "burst": "100m"}
"""A bucket of 6000 tokens that refills by one a second: slowly enough to see what was taken."""

_CONTENT_REASON = "The request was rejected by the safety system of the provider."
_TOO_LONG = "This model's maximum context length is 8192 tokens, the request has 9001."
_MALFORMED = b'data: {"id": "chatcmpl-primary", "choices": [{"index": 0, "del\n\n'


async def _three(stage: Stage) -> None:
    """Three requests, five seconds apart."""
    for number in range(3):
        await stage.until(number * 5.0)
        await stage.ask()


async def _outage(stage: Stage) -> None:
    """Twenty requests, one every four seconds; the primary heals after sixty. Then more, until it is used or too late."""
    stage.primary_does(status(503))
    healed = False
    latest_s = _OUTAGE_S + _COOLDOWN_S * 1.25 + _INTERVAL_S
    number, back = 0, False
    while number < _REQUESTS or (not back and number * _INTERVAL_S <= latest_s):
        await stage.until(number * _INTERVAL_S)
        if not healed and number * _INTERVAL_S >= _OUTAGE_S:
            stage.primary_does(FIRST.good)
            stage.mark("healed")
            healed = True
        reply = await stage.ask()
        back = healed and reply.headers.get("x-stanchion-target") == PRIMARY
        number += 1


ROWS: tuple[Row, ...] = (
    Row(
        1,
        "429 with Retry-After",
        "the first request gets 429 with Retry-After: 2, later ones are answered",
        "the whole answer; the primary is not asked again before its 2 s are over",
        primary=(status(429, "rate_limit_exceeded", headers={"Retry-After": "2"}),),
        checks=(checks.waited(PRIMARY, 2.0), checks.attempts(PRIMARY, least=1, most=2)),
    ),
    Row(
        2,
        "429 for ever",
        "every request gets 429 without a hint; three requests in ten seconds",
        "three whole answers of the secondary; the primary is asked once and then held",
        then=status(429, "rate_limit_exceeded"),
        scene=_three,
        checks=(checks.attempts(PRIMARY, least=1, most=1), checks.held(PRIMARY, "rate_limited")),
    ),
    Row(
        3,
        "500 once",
        "the first request gets 500, later ones are answered",
        "the whole answer, after one further try at the primary",
        primary=(status(500),),
        checks=(checks.attempts(PRIMARY, least=2, most=2), checks.ended_as(PRIMARY, "server_error")),
    ),
    Row(
        4,
        "503 for ever",
        "every request gets 503",
        "the whole answer of the secondary, after two tries at the primary at most",
        then=status(503),
        checks=(checks.attempts(PRIMARY, least=1, most=2), checks.ended_as(PRIMARY, "overloaded")),
    ),
    Row(
        5,
        "connection reset",
        "the first request is answered with a reset, before any byte; later ones are answered",
        "the whole answer, of either target",
        primary=(reset(),),
        checks=(checks.attempts(PRIMARY, least=1, most=2), checks.ended_as(PRIMARY, "connect")),
    ),
    Row(
        6,
        "silent for 120 s",
        "the request is taken and nothing is sent for 120 s",
        "the whole answer of the secondary before the deadline; a silent target is not asked twice",
        then=delay(120.0, FIRST.good),
        checks=(checks.attempts(PRIMARY, least=1, most=1), checks.within(120.0)),
    ),
    Row(
        7,
        "first token after 20 s",
        "the head of a stream at once, its first token after 20 s; a plain answer after 20 s",
        "the whole answer; a stream does not wait for the 20 s",
        then=either(
            streamed(FIRST.begun(0), pause(20.0), FIRST.begun(60)[1:], FIRST.ended(), chat.DONE),
            delay(20.0, FIRST.good),
        ),
        checks=(checks.attempts(PRIMARY, least=1, most=1), checks.within(60.0)),
    ),
    Row(
        8,
        "cut after 40 of 60 tokens",
        "the connection is closed after 40 of 60 tokens; a plain body there too",
        "the whole answer of the secondary",
        SAFE_BREAK,
        primary=(breaks_off(40, _ARRIVES, cut()),),
        checks=(checks.attempts(PRIMARY, least=1, most=1), checks.ended_as(PRIMARY, "bad_upstream_response")),
    ),
    Row(
        9,
        "stall of 30 s in mid-stream",
        "after 20 tokens nothing for 30 s, then the connection is closed; a second request is answered",
        "the whole answer of the secondary; the request after it is answered too",
        SAFE_BREAK,
        primary=(breaks_off(20, pause(30.0), cut()),),
        scene=twice,
        checks=(checks.within(70.0), checks.last_is_whole),
    ),
    Row(
        10,
        "malformed event",
        "the first event after the role is no JSON; a plain body is half a JSON object; a second request is answered",
        "the whole answer of the secondary; nothing of the malformed event reaches the caller",
        primary=(
            either(
                streamed(FIRST.begun(0), _MALFORMED, FIRST.begun(60)[1:], FIRST.ended(), chat.DONE),
                raw(FIRST.body()[:300]),
            ),
        ),
        scene=twice,
        checks=(checks.ended_as(PRIMARY, "bad_upstream_response"), checks.last_is_whole),
    ),
    Row(
        11,
        "no [DONE]",
        "a whole stream with finish reason and usage, whose terminator is missing",
        "the whole answer of the primary with the terminator, at once",
        then=streamed(FIRST.begun(60), FIRST.ended()),
        plain=False,
        checks=(checks.attempts(SECONDARY, most=0), checks.within(8.0)),
    ),
    Row(
        12,
        "context length",
        "every request gets 400 context_length_exceeded; the secondary's window is larger",
        "the whole answer of the secondary, after one request to the primary; its breaker counts nothing",
        then=status(400, "context_length_exceeded", _TOO_LONG),
        settings={"primary": {"context_window": 8192}, "secondary": {"context_window": 128000}},
        checks=(checks.attempts(PRIMARY, least=1, most=1), checks.breaker_untouched(PRIMARY)),
    ),
    Row(
        13,
        "content policy",
        "every request gets 400 content_policy_violation",
        "that 400 with the provider's reason; one request to the primary, none to the secondary",
        then=status(400, "content_policy_violation", _CONTENT_REASON),
        ideal=Refusal(400, "content_policy"),
        checks=(
            checks.attempts(PRIMARY, least=1, most=1),
            checks.attempts(SECONDARY, most=0),
            checks.says(_CONTENT_REASON),
            checks.breaker_untouched(PRIMARY),
        ),
    ),
    Row(
        14,
        "fallback refuses a prefill",
        "cut after 40 of 60 tokens; the secondary refuses with 400 what ends with a message of the assistant",
        "the whole answer of the secondary to the caller's own messages; its 400 is never seen",
        SAFE_BREAK + "; the 400 of the secondary is never seen",
        primary=(breaks_off(40, _ARRIVES, cut()),),
        secondary=no_prefill(SECOND.good),
        checks=(checks.attempts(PRIMARY, least=1, most=1), checks.no_word_of("prefill")),
    ),
    Row(
        15,
        "60 s outage, 20 requests",
        "503 for 60 s, then healthy; twenty requests, one every 4 s",
        "20 of 20 answered, 6 attempts at the dead primary at most, and it is used within one cool-down after it heals",
        scene=_outage,
        settings={"defaults": {"breaker": {"cooldown": f"{_COOLDOWN_S:g}s"}}},
        checks=(checks.outage(most=6, cooldown_s=_COOLDOWN_S, interval_s=_INTERVAL_S),),
    ),
    Row(
        16,
        "accounting of the fallback",
        "every request gets 503; both targets have a bucket of tokens",
        "model and usage of the secondary alone, one rescued turn, every reservation settled to what was used",
        then=status(503),
        settings={"primary": {"quota": _QUOTA}, "secondary": {"quota": _QUOTA}},
        checks=(checks.attempts(PRIMARY, least=1, most=2), checks.accounted(refill_per_s=1.0)),
    ),
)
