"""When a streamed answer is the caller's: until then it is held back, and a failure is seen by nobody but the next target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from stanchion.units import parse_count, parse_duration

FORMS = "first_output, complete, {tokens: 50} or {time: 2s}"
HEADER_FORMS = "first_output, complete, tokens=50 or time=2s"


@dataclass(frozen=True, slots=True)
class Commit:
    """`tokens`: output tokens that have to be there. `time_s`: seconds for which the answer is held from its first output."""

    kind: Literal["first_output", "complete", "tokens", "time"]
    tokens: int = 0
    time_s: float = 0.0

    @property
    def whole(self) -> bool:
        """Whether nothing is the caller's before everything is there."""
        return self.kind == "complete"


FIRST_OUTPUT = Commit("first_output")
COMPLETE = Commit("complete")


def parse(value: Any) -> Commit:
    """From the settings. Raises ValueError with a sentence that says what to write."""
    if isinstance(value, Commit):
        return value
    if value == "first_output":
        return FIRST_OUTPUT
    if value == "complete":
        return COMPLETE
    if isinstance(value, Mapping) and len(value) == 1:
        [(form, amount)] = value.items()
        if form in ("tokens", "time"):
            return _amount(form, amount)
    raise ValueError(f"the value is not a way to commit: write {FORMS}")


def parse_header(text: str) -> Commit:
    """From a request's header: as in the settings, with `tokens=50` and `time=2s`. Raises ValueError."""
    form, equals, amount = text.strip().partition("=")
    if not equals and form in ("first_output", "complete"):
        return parse(form)
    if equals and form.strip() in ("tokens", "time"):
        return _amount(form.strip(), amount.strip())
    raise ValueError(HEADER_FORMS)


def _amount(form: str, amount: Any) -> Commit:
    if form == "tokens":
        tokens = parse_count(amount)
        if tokens < 1:
            raise ValueError("at least one token is needed: write first_output for none")
        return Commit("tokens", tokens=tokens)
    time_s = parse_duration(amount)
    if time_s <= 0:
        raise ValueError("a time above 0 is needed: write first_output for none")
    return Commit("time", time_s=time_s)
