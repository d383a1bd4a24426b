"""How a turn ended, and what that means for the error budget."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal


class Outcome(StrEnum):
    """The gateway's final word on one turn.

    `rescued`: answered by another target than the first one tried. `degraded`: answered with a loss that was declared.
    `no_target`: nothing could be tried, a shed request included. `client_closed`: the caller left. `rejected`: the
    caller's own 4xx.
    """

    SUCCESS = "success"
    RESCUED = "rescued"
    DEGRADED = "degraded"
    FAILED = "failed"
    STREAM_INTERRUPTED = "stream_interrupted"
    NO_TARGET = "no_target"
    DEADLINE = "deadline"
    CLIENT_CLOSED = "client_closed"
    REJECTED = "rejected"


Standing = Literal["good", "bad", "excluded"]

_GOOD = frozenset({Outcome.SUCCESS, Outcome.RESCUED, Outcome.DEGRADED})
_EXCLUDED = frozenset({Outcome.CLIENT_CLOSED, Outcome.REJECTED})


def standing(outcome: Outcome) -> Standing:
    """Whether a turn counts for the objective, against it, or not at all."""
    if outcome in _GOOD:
        return "good"
    return "excluded" if outcome in _EXCLUDED else "bad"
