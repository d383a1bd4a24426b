"""The drill as a user runs it, and scenes that have to fail: a verdict that cannot be lost is none."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.drill import report
from gateway.drill.command import ALL_ROWS
from gateway.drill.judge import Refusal, Verdict
from gateway.drill.provider.behaviours import answer, cut, status
from gateway.drill.row import Row
from gateway.drill.rows import ROWS
from gateway.drill.runner import CannotRun, play, run
from gateway.drill.script import FIRST, SECOND, breaks_off
from gateway.drill.seen import Commit
from tests.cli.running import stanchion

PAGE = Path(__file__).parents[2] / "docs" / "drills.md"
SAFE_AT_FIRST_OUTPUT = {8, 9, 14, 31, 32, 33, 34}


async def test_the_whole_drill() -> None:
    done = await stanchion("drill", "providers", "--json", timeout_s=100)
    told = json.loads(done.out)
    assert done.code == 0, json.dumps([row for row in told["rows"] if "fail" in row["verdicts"].values()], indent=1)
    assert done.err == ""
    assert told["ok"] is True
    assert told["figures"]["complete"] == {"pass": 16, "safe": 0, "fail": 0}
    assert told["figures"]["first_output"] == {"pass": 13, "safe": 3, "fail": 0}
    assert told["figures"]["more"]["complete"] == {"pass": len(ALL_ROWS) - 16, "safe": 0, "fail": 0}
    verdicts = {row["row"]: row["verdicts"] for row in told["rows"]}
    assert list(verdicts) == list(range(1, len(ALL_ROWS) + 1))
    assert {row for row, found in verdicts.items() if found["first_output"] == "safe"} == SAFE_AT_FIRST_OUTPUT
    for row in told["rows"]:
        for scene in row["scenes"]:
            expected = "safe" if row["row"] in SAFE_AT_FIRST_OUTPUT else "pass"
            if scene["mode"] == "plain" or scene["commit"] == "complete":
                expected = "pass"
            assert scene["verdict"] == expected, (row["name"], scene)
            if scene["verdict"] == "safe":
                assert "then one error event" in scene["evidence"]


async def test_some_rows_as_a_table() -> None:
    done = await stanchion("drill", "providers", "--row", "13,3", "--commit", "complete", env={"COLUMNS": "160"})
    assert done.code == 0, done.text
    lines = done.out.splitlines()
    assert [line.split("│")[1].strip() for line in lines if "│" in line] == ["500 once", "content policy"]
    assert "complete: 2 pass, 0 safe, 0 fail of 2" in lines
    assert "\x1b" not in done.out
    assert "first_output" not in done.out


async def test_the_list() -> None:
    drawn, told = await asyncio.gather(stanchion("drill", "list"), stanchion("drill", "list", "--json"))
    assert (drawn.code, told.code) == (0, 0)
    [drill] = json.loads(told.out)["drills"]
    assert drill["name"] == "providers"
    assert [row["row"] for row in drill["rows"]] == [row.number for row in ALL_ROWS]
    assert all(row.name in drawn.out for row in ROWS)


async def test_wrong_usage() -> None:
    wrong: list[tuple[tuple[str, ...], str]] = [
        (("providers", "--row", "99"), "there is no row 99"),
        (("providers", "--row", "1,x"), "names no rows"),
        (("providers", "--commit", "sometimes"), "invalid choice"),
        (("earthquakes",), "invalid choice"),
        ((), "NAME"),
    ]
    for arguments, words in wrong:
        done = await stanchion("drill", *arguments)
        assert (done.code, done.out) == (2, ""), arguments
        assert words in done.err
        assert "Traceback" not in done.err


async def test_what_could_not_run_is_an_object_too() -> None:
    done = await stanchion("drill", "providers", "--row", "99", "--json")
    assert done.code == 2
    assert json.loads(done.out) == {"name": "providers", "ok": False, "error": done.err.partition(": ")[2].strip()}


async def test_help() -> None:
    done = await stanchion("drill", "--help")
    assert done.code == 0
    assert all(words in done.out for words in ("stanchion drill providers", "exit codes:", "--real-time", "--json"))


# Scenes that fail


BY_NAME = {row.name: row for row in ALL_ROWS}
FAST = 20.0


async def verdict(row: Row, *, commit: Commit = "complete", stream: bool = True, **changes: Any) -> tuple[Verdict, str]:
    cell = await play(replace(row, **changes), commit, stream=stream, speed=FAST)
    return cell.judgement.verdict, cell.judgement.evidence


async def test_a_fallback_that_is_dead_too_fails_the_row() -> None:
    found, evidence = await verdict(BY_NAME["503 for ever"], secondary=status(503))
    assert found is Verdict.FAIL
    assert evidence.startswith("status 503, overloaded")


async def test_a_fallback_that_says_other_words_fails_the_row() -> None:
    found, evidence = await verdict(BY_NAME["500 once"], then=answer("north-1 north-2", usage=FIRST.usage))
    assert (found, evidence) == (Verdict.FAIL, "a clean end after 2 words of the primary")


async def test_a_fallback_that_breaks_off_fails_a_row_that_has_to_be_rescued() -> None:
    half = breaks_off(40, cut())
    found, evidence = await verdict(BY_NAME["503 for ever"], commit="first_output", then=half, checks=())
    assert found is Verdict.FAIL
    assert "words of the primary, then one error event" in evidence


async def test_another_model_than_the_targets_fails_the_row() -> None:
    found, evidence = await verdict(BY_NAME["500 once"], settings={"primary": {"model": "another"}})
    assert (found, evidence) == (Verdict.FAIL, "an answer of the primary under 1 ids, as model another")


async def test_too_many_tries_fail_the_row() -> None:
    more = {"defaults": {"retry": {"attempts": 3}}}
    found, evidence = await verdict(BY_NAME["503 for ever"], settings=more)
    assert (found, evidence) == (Verdict.FAIL, "4 attempts at the primary, where 1 to 2 are right")


async def test_a_breaker_that_is_slow_to_open_fails_the_outage() -> None:
    slow = {"defaults": {"breaker": {"minimum": 100}}}
    found, evidence = await verdict(BY_NAME["60 s outage, 20 requests"], stream=False, settings=slow)
    assert found is Verdict.FAIL
    assert re.fullmatch(r"\d\d attempts reached the dead primary, where 6 are the most", evidence)


async def test_content_that_is_routed_around_fails_the_row() -> None:
    around = {"route": {"on_content_policy": ["secondary"]}}
    found, _ = await verdict(BY_NAME["content policy"], settings=around)
    assert found is Verdict.FAIL


async def test_usage_that_is_not_the_answers_own_fails_the_row() -> None:
    other = answer(SECOND.text, usage=(1, 2))
    found, evidence = await verdict(BY_NAME["accounting of the fallback"], secondary=other)
    assert (found, evidence) == (Verdict.FAIL, "usage [(1, 2)] where the secondary counted (34, 60)")


async def test_another_status_than_the_right_one_fails_the_row() -> None:
    found, _ = await verdict(BY_NAME["both targets down"], ideal=Refusal(500, "overloaded"))
    assert found is Verdict.FAIL


async def test_settings_that_are_refused_stop_the_drill() -> None:
    broken = replace(BY_NAME["500 once"], settings={"defaults": {"retry": {"attempts": "many"}}})
    with pytest.raises(CannotRun, match=r"defaults\.retry\.attempts"):
        await run([broken], ["complete"], speed=FAST)


# The rows as data


def test_rows_are_numbered_and_say_what_they_are() -> None:
    assert [row.number for row in ALL_ROWS] == list(range(1, len(ALL_ROWS) + 1))
    assert len(ROWS) == 16
    assert len({row.name for row in ALL_ROWS}) == len(ALL_ROWS)
    assert all(row.script and row.passes for row in ALL_ROWS)
    assert {row.number for row in ALL_ROWS if row.safe} == SAFE_AT_FIRST_OUTPUT


def test_the_page_has_every_row_as_it_is() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert [(int(number), name, script, passes) for number, name, script, passes, _ in rows] == [
        (row.number, row.name, row.script, row.passes) for row in ALL_ROWS
    ]
    assert [safe != "–" for *_, safe in rows] == [bool(row.safe) for row in ALL_ROWS]
    assert report.NAME in PAGE.read_text("utf-8")
