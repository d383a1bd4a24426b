"""Logs: one line a request and one an event, as JSON or for a reader. Prompts, answers and keys are never in them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO

import orjson

from availability.outcome import standing
from gateway.log_writer import LogWriter
from gateway.policy import LogPolicy
from gateway.turn import OutcomeRecord

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Log:
    """Writes lines to `out`. `wall` is Unix time. `lost` counts the lines that could not be written."""

    def __init__(self, policy: LogPolicy, wall: Callable[[], float], out: TextIO | LogWriter) -> None:
        self._wall, self._out = wall, out
        self._lost = 0
        self.follow(policy)

    @property
    def lost(self) -> int:
        return self._lost + (self._out.lost if isinstance(self._out, LogWriter) else 0)

    def follow(self, policy: LogPolicy) -> None:
        """Write as `policy` says from the next line on."""
        self._least, self._json = _LEVELS[policy.level], policy.format == "json"

    def event(self, level: str, event: str, **fields: Any) -> None:
        """One line; fields that are None are left out."""
        if _LEVELS[level] < self._least:
            return
        moment = datetime.fromtimestamp(self._wall(), UTC).isoformat(timespec="milliseconds")
        kept = {key: value for key, value in fields.items() if value is not None}
        if self._json:
            line = orjson.dumps({"time": moment, "level": level, "event": event, **kept}, default=str).decode()
        else:
            words = " ".join(f"{key}={_readable(value)}" for key, value in kept.items())
            line = f"{moment[11:23]} {level:<7} {event:<8} {words}"
        try:
            self._out.write(line + "\n")
            self._out.flush()
        except OSError:  # a full disk or a closed pipe costs the line, never the turn
            self._lost += 1

    def turn(self, record: OutcomeRecord) -> None:
        """The one line of a request."""
        level = "warning" if standing(record.outcome) == "bad" else "info"
        if _LEVELS[level] < self._least:
            return
        self.event(
            level,
            "turn",
            request_id=record.request_id,
            route=record.route,
            caller=record.caller,
            outcome=record.outcome.value,
            status=record.status,
            target=record.target,
            model=record.model,
            stream=record.stream,
            ms=round(record.duration_s * 1000),
            overhead_ms=None if record.overhead_s is None else round(record.overhead_s * 1000, 2),
            input_tokens=record.usage.input_tokens if record.usage else None,
            output_tokens=record.usage.output_tokens if record.usage else None,
            error_class=record.error_class,
            attempts=[attempt.as_header() for attempt in record.records] or None,
        )


def quiet_libraries() -> None:
    """Keep libraries from writing lines of their own, which may hold what a caller sent."""
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").setLevel(logging.ERROR)


def _readable(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(str(item) for item in value) + "]"
    text = str(value)
    return f'"{text}"' if " " in text else text
