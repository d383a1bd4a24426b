"""What was seen of one scene: by the caller, by the providers, and on the gateway's admin address. Values only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Commit = Literal["first_output", "complete"]
Series = tuple[str, frozenset[tuple[str, str]]]
"""A metric's name and its labels."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Readers of events drop it at the beginning, and there only."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request as a provider saw it. `at_s`: seconds since the scene began."""

    at_s: float
    headers: Mapping[str, str]
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the caller got. `whole`: the body came to its proper end. `hung`: the caller gave up waiting for an end.

    `at_s`, `ended_s`: seconds since the scene began. Names of headers are in lower case.
    """

    stream: bool
    status: int
    headers: Mapping[str, str]
    body: bytes
    whole: bool = True
    hung: bool = False
    at_s: float = 0.0
    ended_s: float = 0.0

    @property
    def took_s(self) -> float:
        return self.ended_s - self.at_s


@dataclass(frozen=True, slots=True)
class Reading:
    """A reply's content, whether it came as a stream or as one body.

    `clean`: the success terminator, once and last. `late`: something followed the terminator or an error.
    `garbled`: an event or a body that is no JSON object. `trail`: entries of the attempts, as the gateway wrote them.
    """

    text: str = ""
    finishes: tuple[str, ...] = ()
    clean: bool = False
    late: bool = False
    garbled: bool = False
    errors: tuple[Mapping[str, Any], ...] = ()
    ids: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()
    usages: tuple[tuple[int, int], ...] = ()
    trail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetState:
    """A target on the admin address. `tokens`: level and capacity of its bucket, None without one."""

    breaker: str = "closed"
    samples: int = 0
    failures: int = 0
    hold: str | None = None
    in_flight: int = 0
    tokens: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """All that was seen of one scene.

    `arrivals`: by target. `unseen`: attempts at the primary that no provider could see, since nothing listened there.
    `refused`: why a provider turned requests away that no real one would take. `crashes`: errors of its own that the gateway
    logged. `private`: keys that nobody else may see. `marks`: moments that the scene itself noted, in seconds since it began.
    """

    commit: Commit
    stream: bool
    sent: Mapping[str, Any]
    replies: tuple[Reply, ...]
    arrivals: Mapping[str, tuple[Arrival, ...]]
    targets: Mapping[str, TargetState]
    metrics: Mapping[Series, float]
    unseen: int = 0
    refused: tuple[str, ...] = ()
    crashes: int = 0
    private: tuple[str, ...] = ()
    marks: Mapping[str, float] = field(default_factory=dict)

    def metric(self, name: str, **labels: str) -> float:
        """A sample, 0 where there is none."""
        return self.metrics.get((name, frozenset(labels.items())), 0.0)

    def total(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have at least these labels."""
        wanted = set(labels.items())
        return sum(value for (found, had), value in self.metrics.items() if found == name and wanted <= had)


def read(reply: Reply) -> Reading:
    """What a reply says."""
    return _read_stream(reply) if is_stream(reply) else _read_plain(reply)


def is_stream(reply: Reply) -> bool:
    """Whether it came as a stream, whatever was asked for."""
    return reply.headers.get("content-type", "").partition(";")[0].strip() == "text/event-stream"


def _read_stream(reply: Reply) -> Reading:
    reading = _Gathered(trail=_entries(reply.headers.get("x-stanchion-attempts", "")))
    dones, over = 0, False
    for block in reply.body.removeprefix(_BYTE_ORDER_MARK).replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = block.split(b"\n")
        for line in lines:
            if line.startswith(b": stanchion-attempts "):
                reading.trail = _entries(line.partition(b"stanchion-attempts ")[2].decode())
        data = b"\n".join(line[5:].strip() for line in lines if line.startswith(b"data:"))
        if not data:
            continue
        reading.late = reading.late or over
        if data == b"[DONE]":
            dones, over = dones + 1, True
            continue
        value = _object(data)
        if value is None:
            reading.garbled = True
        elif "error" in value:
            reading.error(value["error"])
            over = True
        else:
            reading.chunk(value, "delta")
    clean = dones == 1 and not reading.late and not reading.errors and reply.whole
    return reading.done(clean=clean)


def _read_plain(reply: Reply) -> Reading:
    reading = _Gathered(trail=_entries(reply.headers.get("x-stanchion-attempts", "")))
    value = _object(reply.body)
    if value is None:
        reading.garbled = True
    elif "error" in value:
        reading.error(value["error"])
    else:
        reading.chunk(value, "message")
    return reading.done(clean=reply.whole and not reading.errors and not reading.garbled)


@dataclass(slots=True)
class _Gathered:
    """A reading while it grows."""

    trail: tuple[str, ...]
    text: list[str] = field(default_factory=list)
    finishes: list[str] = field(default_factory=list)
    errors: list[Mapping[str, Any]] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)
    usages: list[tuple[int, int]] = field(default_factory=list)
    garbled: bool = False
    late: bool = False

    def error(self, value: Any) -> None:
        error = value if isinstance(value, Mapping) else {"message": str(value)}
        self.errors.append(error)
        tried = error.get("attempts")
        if isinstance(tried, list):
            self.trail = tuple(_entry(one) for one in tried if isinstance(one, Mapping))

    def chunk(self, value: Mapping[str, Any], part: str) -> None:
        for name, found in (("id", self.ids), ("model", self.models)):
            if isinstance(value.get(name), str):
                found.add(value[name])
        usage = value.get("usage")
        if isinstance(usage, Mapping):
            self.usages.append((usage.get("prompt_tokens", -1), usage.get("completion_tokens", -1)))
        for choice in value.get("choices") or ():
            self.text.append((choice.get(part) or {}).get("content") or "")
            if choice.get("finish_reason"):
                self.finishes.append(choice["finish_reason"])

    def done(self, *, clean: bool) -> Reading:
        return Reading(
            text="".join(self.text),
            finishes=tuple(self.finishes),
            clean=clean,
            late=self.late,
            garbled=self.garbled,
            errors=tuple(self.errors),
            ids=frozenset(self.ids),
            models=frozenset(self.models),
            usages=tuple(self.usages),
            trail=self.trail,
        )


def _object(data: bytes) -> Mapping[str, Any] | None:
    try:
        value = json.loads(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _entries(text: str) -> tuple[str, ...]:
    """`primary overloaded` or `primary skip=hold` for each entry of a trail."""
    found = []
    for entry in filter(None, text.split(", ")):
        name, _, rest = entry.partition(";")
        found.append(f"{name} {rest.partition(';')[0].removeprefix('class=')}")
    return tuple(found)


def _entry(one: Mapping[str, Any]) -> str:
    return f"{one.get('target')} " + (f"skip={one['skip']}" if "skip" in one else str(one.get("class")))
