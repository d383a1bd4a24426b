"""What the caller is at fault for is the caller's to hear, in whatever form a provider says it, and touches nobody else:
no breaker, no hold, no balance, no other target."""

from __future__ import annotations

import json

import pytest

from tests.cases.drive import MODES, breaker, said, turns
from tests.fakes.behaviours import Behaviour, raw, sse
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.lab import Answer, Json, Lab, config, lab
from tests.llm.error_corpus import CALLERS, ROWS, Row

ROWS_OF_CALLERS = [row for row in ROWS if row.error_class in CALLERS]
IN_A_200 = [row for row in ROWS_OF_CALLERS if isinstance(row.body, dict) and row.code in ("context_length_exceeded",
            "content_policy_violation", "content_filter", "data_inspection_failed")]  # fmt: skip
FULL = {"requests_per_minute": 60, "tokens_per_minute": 60_000, "burst": "10s"}


def metered(p: Upstream, s: Upstream) -> Json:
    return config({"p": p, "s": s}, target_p={"quota": FULL})


async def untouched(g: Lab, answer: Answer, row: Row, p: Upstream, s: Upstream) -> None:
    """The caller hears the provider's words with a 4xx; the target is as it was, and serves the next request."""
    assert 400 <= answer.status <= 499, answer.body
    assert (answer.error["class"], answer.error["code"]) == (row.error_class.value, row.code)
    assert answer.trail[0] == f"p class={row.error_class.value}"
    assert all(entry.startswith("s skip=") for entry in answer.trail[1:])
    assert answer.headers["x-should-retry"] == "false"
    assert (p.attempts, s.attempts) == (1, 0)
    target = await g.target("p")
    assert await breaker(g, "p") == ("closed", 0, 0)
    assert target["hold"] is None
    assert target["quota"]["tokens"]["level"] == target["quota"]["tokens"]["capacity"], "nothing was used"
    assert await turns(g, "rejected") == 1
    served = await g.chat()
    assert (said(served, stream=False), served.trail) == ("hello from p", ["p class=success"])


@pytest.mark.parametrize("stream", MODES)
@pytest.mark.parametrize("row", ROWS_OF_CALLERS, ids=str)
async def test_A00_an_error_answer(row: Row, stream: bool) -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(metered(p, s), ManualClock()) as g:
        p.script(raw(row.bytes, row.status, headers=row.headers))
        answer = await g.chat(stream=stream)
        if 400 <= row.status <= 499:
            assert answer.status == row.status
        await untouched(g, answer, row, p, s)


@pytest.mark.parametrize("stream", MODES)
@pytest.mark.parametrize("row", IN_A_200, ids=str)
async def test_A00_an_error_inside_a_200(row: Row, stream: bool) -> None:
    event = b"data: " + json.dumps(row.body).encode() + b"\n\n"
    refused: Behaviour = sse(event) if stream else raw(row.bytes)
    async with Upstream("p") as p, Upstream("s") as s, lab(metered(p, s), ManualClock()) as g:
        p.script(refused)
        await untouched(g, await g.chat(stream=stream), row, p, s)


async def test_A00_many_callers_at_fault_do_not_stop_the_next_one() -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s}), ManualClock()) as g:
        p.script(*(raw(row.bytes, row.status) for row in ROWS_OF_CALLERS))
        for _ in ROWS_OF_CALLERS:
            assert 400 <= (await g.chat()).status <= 499
        assert (p.attempts, s.attempts) == (len(ROWS_OF_CALLERS), 0)
        assert await breaker(g, "p") == ("closed", 0, 0)
        assert said(await g.chat(), stream=False) == "hello from p"
