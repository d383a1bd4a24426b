"""A few kills of a whole gateway; `python -m tests.sessions.gateway_kill` does 200."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sessions.gateway_kill import play


@pytest.mark.timeout(120)
async def test_every_acknowledged_append_survives_the_kill_of_the_gateway_and_none_is_there_twice(
    tmp_path: Path,
) -> None:
    result = await play(tmp_path, 6, seed=2)
    assert result.wrong == []
    assert result.kills == 6
    assert result.acknowledged > 0
    assert result.again > 0, "a kill that interrupts nobody shows nothing"
