"""Positions as text, and that every refusal has a code, a place in the table, and a sentence that says what to do."""

from __future__ import annotations

import pytest

from sessions import errors
from sessions.model import Position
from sessions.refusals import _KINDS, Refusal, refused


@pytest.mark.parametrize("text", ["1-1", "0-0", "12-3456789012345"])
def test_a_position_is_read_as_it_is_written(text: str) -> None:
    assert str(Position.parse(text)) == text


@pytest.mark.parametrize("text", ["", "1", "1-", "-1", "01-1", "1-1 ", "1-1-1", "١-1", "1-" + "9" * 17, "1--1"])
def test_what_is_no_position(text: str) -> None:
    with pytest.raises(ValueError, match="<epoch>-<seq>"):
        Position.parse(text)


def test_positions_are_ordered_by_epoch_first() -> None:
    assert sorted([Position(2, 1), Position(1, 9), Position(1, 10)]) == [
        Position(1, 9),
        Position(1, 10),
        Position(2, 1),
    ]


def _refusals(kind: type[errors.Refused]) -> list[type[errors.Refused]]:
    return [one for sub in kind.__subclasses__() for one in [sub, *_refusals(sub)] if "code" in vars(one)]


def test_every_refusal_comes_out_of_the_table_by_its_code() -> None:
    kinds = {kind.code: kind for kind in _refusals(errors.Refused)}
    assert set(kinds) - {"READONLY"} == set(_KINDS)
    for code, (kind, types) in _KINDS.items():
        error = refused(code, ["1" if one is int else "deleted" for one in types])
        assert type(error) is kind is kinds[code]
        assert error.code == code
        assert ":" in str(error)  # what holds, and behind it what to do


@pytest.mark.parametrize(("code", "details"), [("NONE", []), ("FENCED", [1]), ("FENCED", [1, 2, 3])])
def test_an_answer_that_is_no_refusal_is_not_taken_for_one(code: str, details: list[int]) -> None:
    with pytest.raises(ValueError, match="no refusal known"):
        refused(code, details)


def test_a_refusal_as_a_value_and_as_an_error() -> None:
    error = Refusal("CONFLICT", (8, 7)).error()
    assert isinstance(error, errors.VersionConflict)
    assert (error.version, error.expected) == (8, 7)
