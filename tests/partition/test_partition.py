"""A few rounds of each kind. `python -m tests.partition` runs all faults, and as many rounds as one likes."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from typing import Any

import pytest

from tests.cli.running import ROOT, environment
from tests.partition.namespaces import missing

pytestmark = [pytest.mark.timeout(300)]


async def rounds(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, totals, and what was told of each round."""
    for name in ("redis-server", "etcd"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed: make servers")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.partition", "--json", *arguments,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=environment(), cwd=ROOT,
    )  # fmt: skip
    try:
        out, err = await process.communicate()
    except BaseException:
        process.terminate()
        await process.wait()
        raise
    assert process.returncode is not None
    assert out, err.decode()
    return process.returncode, json.loads(out), err.decode()


def faults(*names: str) -> list[str]:
    return ["--rounds", str(len(names)), *(word for name in names for word in ("--fault", name))]


async def test_rounds_in_namespaces_lose_nothing_that_is_not_exported() -> None:
    if why := missing():
        pytest.skip(why)
    code, totals, told = await rounds(
        "--tier", "namespaces", *faults("holder alone", "store frozen", "promoter dies at open:grant")
    )
    assert (code, totals["broken"]) == (0, []), told
    assert (totals["rounds"], totals["overlap"], totals["twice"]) == (3, 0, 0), told
    assert totals["lost"] == totals["exported"]
    assert totals["promotions"] >= 3, told


async def test_rounds_with_confirmed_writes_lose_nothing() -> None:
    code, totals, told = await rounds("--tier", "proxies", "--mode", "sync", *faults("holder alone", "region killed"))
    assert (code, totals["broken"]) == (0, []), told
    assert (totals["rounds"], totals["lost"], totals["overlap"], totals["twice"]) == (2, 0, 0, 0), told
    assert totals["promotions"] >= 2, told
    assert totals["acknowledged"] > 200


async def test_promotion_without_a_fence_is_found_fault_with() -> None:
    code, totals, told = await rounds("--tier", "proxies", "--promotion", "naive", *faults("holder alone"))
    assert code == 1, told
    assert totals["lost"] > 0
    assert totals["exported"] == 0
    assert totals["overlap"] > 0
    assert any("is nowhere" in sentence for sentence in totals["broken"])
