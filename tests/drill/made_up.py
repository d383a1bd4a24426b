"""Replies and observations that nobody saw: made by hand, honest and lying, for the judge to tell apart."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gateway.drill.provider import chat
from gateway.drill.script import FIRST, PRIMARY, ROUTE, SECOND, SECONDARY, Scripted, question
from gateway.drill.seen import Arrival, Observation, Reply, Series, TargetState

SSE = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}
BREAK = chat.error_event({"message": "the answer broke off", "code": "stream_interrupted", "class": "timeout_idle"})


def trail(*entries: str) -> dict[str, str]:
    """The header of a trail; entries such as `primary overloaded`."""
    words = [f"{name};class={how};ms=1" for name, _, how in (entry.partition(" ") for entry in entries)]
    return {"x-stanchion-attempts": ", ".join(words)}


def stream(*events: bytes | Sequence[bytes], by: Scripted = FIRST, **fields: Any) -> Reply:
    """A streamed reply of these events under the headers of an answer `by` a target."""
    flat = b"".join(event if isinstance(event, bytes) else b"".join(event) for event in events)
    headers = {**SSE, "x-stanchion-target": by.target, **trail(f"{by.target} success")}
    return Reply(stream=True, status=200, headers=headers, body=flat, **fields)


def whole(by: Scripted = FIRST, **fields: Any) -> Reply:
    """A whole streamed answer."""
    return stream(by.begun(60), by.ended(), chat.DONE, by=by, **fields)


def plain(body: bytes, status: int = 200, by: Scripted = FIRST, **fields: Any) -> Reply:
    """A plain reply."""
    headers = {**JSON, "x-stanchion-target": by.target, **trail(f"{by.target} success")}
    return Reply(stream=False, status=status, headers=headers, body=body, **fields)


def refusal(status: int, error_class: str, message: str = "no") -> Reply:
    """A status with an error object."""
    return plain(json.dumps({"error": {"message": message, "class": error_class, "attempts": []}}).encode(), status)


def broken(tokens: int = 40, **fields: Any) -> Reply:
    """An honest break after some words of the primary."""
    return stream(FIRST.begun(tokens), BREAK, whole=False, **fields)


def arrival(target: str, at_s: float = 0.0, headers: Mapping[str, str] | None = None, **body: Any) -> Arrival:
    """A request as a provider should see it, with changes."""
    sent = {**question(stream=True), "model": f"{target}-model", **body}
    return Arrival(at_s, {"host": "x", "authorization": "Bearer y", **(headers or {})}, sent)


def attempts(**counts: int) -> dict[Series, float]:
    """Samples of attempts: `primary_overloaded=2`."""
    found: dict[Series, float] = {}
    for name, count in counts.items():
        target, _, outcome = name.partition("_")
        found["stanchion_attempts_total", frozenset({("target", target), ("outcome", outcome)})] = count
    return found


def turns(**counts: int) -> dict[Series, float]:
    """Samples of turns: `rescued=1`."""
    return {
        ("stanchion_turns_total", frozenset({("route", ROUTE), ("outcome", name)})): count
        for name, count in counts.items()
    }


def observed(
    *replies: Reply,
    primary: Sequence[Arrival] = (),
    secondary: Sequence[Arrival] = (),
    metrics: Mapping[Series, float] | None = None,
    targets: Mapping[str, TargetState] | None = None,
    **fields: Any,
) -> Observation:
    """An observation of these replies; without `metrics` the gateway has counted what there was to count."""
    counted = {
        **attempts(primary_success=len(primary), secondary_success=len(secondary)),
        **turns(success=sum(reply.status == 200 and reply.whole for reply in replies)),
        **turns(stream_interrupted=sum(not reply.whole for reply in replies)),
        **turns(rejected=sum(reply.status != 200 for reply in replies)),
    }
    return Observation(
        commit="first_output",
        stream=True,
        sent=question(stream=True),
        replies=replies,
        arrivals={PRIMARY: tuple(primary), SECONDARY: tuple(secondary)},
        targets={PRIMARY: TargetState(), SECONDARY: TargetState()} | dict(targets or {}),
        metrics={**counted, **(metrics or {})},
        **fields,
    )


def good() -> Observation:
    """One request, answered whole by the secondary after one try at the primary."""
    reply = whole(SECOND, at_s=0.0, ended_s=1.0)
    reply = replace(reply, headers={**reply.headers, **trail("primary server_error", "secondary success")})
    return observed(
        reply,
        primary=[arrival(PRIMARY)],
        secondary=[arrival(SECONDARY, 0.5)],
        metrics={**attempts(primary_success=0, primary_server_error=1), **turns(success=0, rescued=1)},
    )
