"""A request that is its caller's own fault costs nobody else anything: through the whole gateway, for every such error."""

from __future__ import annotations

import pytest

from llm.classes import ErrorClass as C
from tests.cases.drive import MODES, attempts, breaker, said, turns
from tests.fakes.behaviours import Behaviour, raw
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.lab import config, lab
from tests.llm.error_corpus import ROWS, Row

CALLERS = (C.BAD_REQUEST, C.CONTEXT_LENGTH, C.TOO_LARGE, C.CONTENT_POLICY)
FAULTS = [row for row in ROWS if row.error_class in CALLERS]
TOKENS = {"tokens_per_minute": 60_000, "burst": "1s"}


def refusal(row: Row) -> Behaviour:
    return raw(row.bytes, row.status, headers=row.headers)


def told(row: Row) -> int:
    """A caller's own fault is a 4xx, whatever the provider calls it (llama.cpp: 500 for a prompt that is too long)."""
    return row.status if row.status < 500 else 400


@pytest.mark.parametrize("stream", MODES)
@pytest.mark.parametrize("row", FAULTS, ids=str)
async def test_the_caller_hears_it_and_nothing_is_left_behind(row: Row, stream: bool) -> None:
    async with Upstream("p") as p, Upstream("s") as s:
        async with lab(config({"p": p, "s": s}, target_p={"quota": TOKENS}), ManualClock()) as g:
            before = (await g.target("p"))["quota"]["tokens"]["level"]
            p.script(refusal(row))
            refused = await g.chat(stream=stream, max_tokens=600)

            assert refused.status == told(row)
            assert (refused.error["class"], refused.error["code"]) == (row.error_class, row.code)
            assert {"message", "type", "param", "code"} <= refused.error.keys()
            assert refused.error["message"]
            assert refused.error["type"]
            assert refused.headers["content-type"].startswith("application/json")
            assert refused.headers["x-should-retry"] == "false"

            target = await g.target("p")
            assert await breaker(g, "p") == ("closed", 0, 0)
            assert target["hold"] is None
            assert target["quota"]["tokens"]["level"] == before
            assert target["quota"]["in_flight"] == 0
            assert (p.attempts, s.attempts) == (1, 0)
            assert await attempts(g, "p", row.error_class) == 1
            assert await turns(g, "rejected") == 1
            assert said(await g.chat(stream=stream), stream=stream) == "hello from p", "the next caller is served there"


async def test_a_crowd_of_such_callers_changes_nothing_for_the_others() -> None:
    async with Upstream("p") as p, Upstream("s") as s:
        async with lab(config({"p": p, "s": s}), ManualClock()) as g:
            p.script(*(refusal(row) for row in FAULTS))
            for row in FAULTS:
                assert (await g.chat()).status == told(row)
            assert await breaker(g, "p") == ("closed", 0, 0)
            assert (await g.target("p"))["hold"] is None
            assert (p.attempts, s.attempts) == (len(FAULTS), 0)
            assert said(await g.chat(), stream=False) == "hello from p"


def test_there_are_such_errors_of_every_kind() -> None:
    assert {row.error_class for row in FAULTS} == set(CALLERS)
    assert len({row.provider for row in FAULTS}) >= 15


@pytest.mark.parametrize("others", [[], ["s"]])
async def test_contrast_an_error_of_the_account_does_hold_it(others: list[str]) -> None:
    row = next(row for row in ROWS if row.provider == "anthropic" and row.error_class is C.QUOTA_EXHAUSTED)
    async with Upstream("p", default=refusal(row)) as p, Upstream("s") as s:
        async with lab(config({"p": p, "s": s}, route={"targets": ["p", *others]}), ManualClock()) as g:
            assert (await g.chat()).status == (200 if others else 503)
            assert (await g.target("p"))["hold"]["reason"] == "quota_exhausted"
