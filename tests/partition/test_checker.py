"""The checker, given histories in which a rule is broken, and the one next to it in which it holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.partition.checker import Findings, Position, Stored, check
from tests.partition.history import Op, read, write

EVENTS: list[tuple[str, Position]] = [("a", (1, 1)), ("b", (1, 2)), ("c", (2, 3))]


def op(event_id: str, epoch: int, number: int, began: float, **more: object) -> Op:
    made = Op(
        "s", "s", event_id, "ok", began, began, began + 0.5, epoch=epoch, position=f"{epoch}-{number}", store="eu-west"
    )
    return replace(made, **more)  # type: ignore[arg-type]


OPS = [op("a", 1, 1, 1.0), op("b", 1, 2, 2.0), op("c", 2, 3, 3.0)]


def checked(
    ops: list[Op], events: list[tuple[str, Position]], *tail: tuple[str, Position], may_lose: bool = True
) -> Findings:
    return check(ops, Stored({"s": events}, frozenset(tail)), may_lose=may_lose)


def test_what_holds_is_not_found_fault_with() -> None:
    found = checked(OPS, EVENTS)
    assert (found.acknowledged, found.lost, found.overlap, found.broken) == (3, 0, 0, [])


def test_an_acknowledged_append_that_is_nowhere() -> None:
    found = checked(OPS, EVENTS[:2])
    assert found.lost == 1
    assert found.broken == ["c was acknowledged in epoch 2, and is nowhere"]


def test_an_acknowledged_append_in_the_tail_is_a_loss_that_is_allowed_only_without_confirmation() -> None:
    found = checked(OPS, EVENTS[:2], ("c", (2, 3)))
    assert (found.lost, found.exported, found.broken) == (1, 1, [])
    assert checked(OPS, EVENTS[:2], ("c", (2, 3)), may_lose=False).broken == [
        "c was acknowledged, and is only in an exported tail"
    ]


def test_one_in_the_tail_at_another_position_was_not_what_was_acknowledged() -> None:
    assert checked(OPS, EVENTS[:2], ("c", (1, 3))).broken == ["c was acknowledged in epoch 2, and is nowhere"]


def test_one_that_is_stored_elsewhere_than_was_told() -> None:
    moved = [*EVENTS[:2], ("d", (2, 3)), ("c", (2, 4))]
    assert checked(OPS, moved).broken == ["c was acknowledged at (2, 3), and is at (2, 4)"]


def test_one_that_is_stored_twice() -> None:
    found = checked(OPS, [*EVENTS, ("c", (2, 4))])
    assert found.twice == 1
    assert "c is stored 2 times" in found.broken


@pytest.mark.parametrize("where", ["store", "tail"])
def test_a_refused_one_that_is_stored(where: str) -> None:
    refused = op("d", 0, 0, 4.0, outcome="fail", position="", reply="503 store_unavailable")
    events, tail = ([*EVENTS, ("d", (2, 4))], []) if where == "store" else (EVENTS, [("d", (1, 3))])
    found = checked([*OPS, refused], events, *tail)
    assert found.broken == ["d was refused (503 store_unavailable), and is stored"]
    assert checked([*OPS, refused], EVENTS).broken == []


def test_positions_with_a_gap_and_epochs_that_go_back() -> None:
    assert checked([], [("a", (1, 1)), ("c", (1, 3))]).broken == ["s has number 3 where 2 was to be"]
    assert checked([], [("a", (2, 1)), ("c", (1, 2))]).broken == ["the epochs of s go back"]


def test_an_old_epoch_that_acknowledges_after_a_new_one_has() -> None:
    late = op("b", 1, 2, 3.6)
    found = checked([OPS[0], late, OPS[2]], EVENTS)
    assert found.overlap == 1
    (sentence,) = found.broken
    assert sentence.startswith("b began when epoch 2 had acknowledged, and epoch 1 acknowledged it (")
    concurrent = op("b", 1, 2, 3.4)
    assert checked([OPS[0], concurrent, OPS[2]], EVENTS).overlap == 0


def test_a_repeated_attempt_counts_from_when_it_was_sent() -> None:
    repeated = op("b", 1, 2, 2.0, sent=3.6, completed=3.8, attempts=2)
    assert checked([OPS[0], repeated, OPS[2]], EVENTS).overlap == 1


def test_an_acknowledgement_by_an_epoch_older_than_its_position() -> None:
    assert checked([op("a", 1, 1, 1.0, position="2-1")], [("a", (2, 1))]).broken == [
        "a was acknowledged in epoch 1 with a position of 2"
    ]


def test_how_doubts_ended() -> None:
    found = checked(
        [
            op("a", 1, 1, 1.0, doubtful=1, duplicate=True),
            op("b", 1, 2, 2.0, doubtful=2),
            op("c", 0, 0, 3.0, doubtful=1, outcome="info"),
            op("d", 0, 0, 4.0, doubtful=1, outcome="info"),
            op("e", 0, 0, 5.0, doubtful=1, outcome="info"),
        ],
        EVENTS,
        ("d", (1, 9)),
    )
    assert found.broken == []
    assert dict(found.doubtful) == {
        "was stored": 1, "stored by repeating": 1, "stored, never told": 1, "in the tail": 1, "not stored": 1,
    }  # fmt: skip


def test_a_history_is_read_as_it_was_written_without_its_unfinished_line(tmp_path: Path) -> None:
    file = tmp_path / "history"
    with file.open("w") as to:
        for one in reversed(OPS):
            write(one, to)
        to.write('{"proc": "s", "sess')
    assert read([file]) == OPS
