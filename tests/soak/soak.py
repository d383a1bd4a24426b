"""The run: the gateway's process, its providers and callers, and the figures that must not grow."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.fakes.upstream import Upstream
from tests.soak.callers import Caller, Findings
from tests.soak.faults import Moody

ROOT = Path(__file__).parents[2]
CALLERS = 24


@dataclass(slots=True)
class Sample:
    """The process at one moment: resident memory in MB, open files, asyncio tasks."""

    memory_mb: float
    files: int
    tasks: int


@dataclass(slots=True)
class Report:
    """What came out. `baseline`: after the first tenth, at rest; `end`: after the last request, at rest."""

    seconds: float
    seed: int
    findings: Findings
    baseline: Sample
    end: Sample
    under_load: list[Sample] = field(default_factory=list)
    in_flight: float = 0.0
    exit_code: int | None = None

    def text(self) -> str:
        lines = [f"soak: {self.seconds:g} s, seed {self.seed}, {sum(self.findings.endings.values())} requests"]
        lines += [f"  {count:7}  {name}" for name, count in self.findings.endings.most_common()]
        for name, one in (("at rest before", self.baseline), ("at rest after", self.end)):
            lines.append(f"  {name}: {one.memory_mb:.1f} MB, {one.files} files, {one.tasks} tasks")
        peak = max((one.memory_mb for one in self.under_load), default=0.0)
        lines.append(f"  under load: at most {peak:.1f} MB")
        lines += [f"  WRONG: {what}" for what in self.findings.wrong]
        return "\n".join(lines)


def settings(upstreams: list[Upstream]) -> dict[str, Any]:
    names = [upstream.name for upstream in upstreams]
    return {
        "version": 1,
        "gateway": {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "drain": "10s", "log": {"level": "info"}},
        "providers": {
            one.name: {
                "dialect": "openai",
                "base_url": one.base_url,
                "api_key": f"sk-{one.name}-123456",
                "max_connections": 20,
            }
            for one in upstreams
        },
        "targets": {name: {"provider": name, "model": f"{name}-model", "quota": {"concurrency": 16}} for name in names},
        "defaults": {
            "breaker": {"window": "3s", "minimum": 20, "cooldown": "200ms"},
            "holds": {"rate_limit": "100ms"},
            "timeouts": {"connect": "1s", "first_output": "400ms", "idle": "400ms", "total": "3s"},
            "retry": {"attempts": 1, "max_wait": "200ms"},
            "stream": {"linger": "200ms", "heartbeat": "300ms"},
            "deadline": "5s",
        },
        "routes": {"r": {"targets": names, "canary": {"share": "5%"}, "hedge": {"after": "150ms", "budget": "10%"}}},
    }


class Gateway:
    """The process under test, looked at from outside."""

    def __init__(self, process: asyncio.subprocess.Process, base: str, admin: str) -> None:
        self.process, self.base, self._admin = process, base, admin

    async def metric(self, session: aiohttp.ClientSession, name: str) -> float:
        async with session.get(f"{self._admin}/metrics") as response:
            text = await response.text()
        found = [s.value for family in text_string_to_metric_families(text) for s in family.samples if s.name == name]
        return float(sum(found))

    async def sample(self, session: aiohttp.ClientSession) -> Sample:
        folder = Path(f"/proc/{self.process.pid}")
        pages = int((folder / "statm").read_text().split()[1])
        memory = pages * os.sysconf("SC_PAGESIZE") / 1e6
        files = len(list((folder / "fd").iterdir()))
        return Sample(memory, files, int(await self.metric(session, "stanchion_event_loop_tasks")))

    async def rest(self, session: aiohttp.ClientSession) -> float:
        """Wait until nothing is under way; what still was after 20 s, else 0."""
        for _ in range(200):
            if not (left := await self.metric(session, "stanchion_in_flight")):
                break
            await asyncio.sleep(0.1)
        return left


@asynccontextmanager
async def gateway(upstreams: list[Upstream]) -> AsyncIterator[Gateway]:
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder) / "stanchion.yaml", Path(folder) / "log"
        path.write_text(yaml.safe_dump(settings(upstreams), sort_keys=False), "utf-8")
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-W", "error", "-m", "gateway", "serve", "--config", str(path)),
                cwd=ROOT, stderr=out, env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
        try:
            started: dict[str, Any] = {}
            async with asyncio.timeout(30):
                while not started:
                    await asyncio.sleep(0.05)
                    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
                    started = next((line for line in lines if line["event"] == "start"), {})
            yield Gateway(process, started["listen"], started["admin"])
            crashes = [line for line in log.read_text("utf-8").splitlines() if '"crash"' in line]
            assert not crashes, crashes[:3]
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def soak(seconds: float, seed: int) -> Report:
    """Run for `seconds`; the first tenth warms up."""
    random = Random(seed)
    findings = Findings()
    moods = {name: Moody(name, Random(random.random()), 25) for name in ("p", "s", "t")}
    providers = [Upstream(name, default=mood) for name, mood in moods.items()]
    for provider in providers:
        await provider.start()
    try:
        async with gateway(providers) as one, aiohttp.ClientSession() as session:
            await _load(one, session, random, findings, seconds / 10, [], moods)
            await one.rest(session)
            await _idle_connections_go(one, session)
            report = Report(seconds, seed, findings, await one.sample(session), await one.sample(session))
            await _load(one, session, random, findings, seconds * 0.9, report.under_load, moods)
            report.in_flight = await one.rest(session)
            await _idle_connections_go(one, session)
            report.end = await one.sample(session)
            one.process.terminate()
            async with asyncio.timeout(30):
                report.exit_code = await one.process.wait()
            return report
    finally:
        for provider in providers:
            await provider.stop()


async def _load(
    one: Gateway,
    session: aiohttp.ClientSession,
    random: Random,
    findings: Findings,
    seconds: float,
    samples: list[Sample],
    moods: dict[str, Moody],
) -> None:
    connector = aiohttp.TCPConnector(limit=CALLERS * 2)
    async with aiohttp.ClientSession(connector=connector) as own:
        callers = [Caller(one.base, own, Random(random.random()), findings) for _ in range(CALLERS)]
        tasks = [asyncio.ensure_future(caller.run()) for caller in callers]
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            await asyncio.sleep(min(1.0, seconds / 10))
            samples.append(await one.sample(session))
            for mood in moods.values():  # weather: a provider is mostly well, at times very ill
                mood.share = random.choice([2, 10, 25, 90])
        for caller in callers:
            caller.stopping = True
        await asyncio.gather(*tasks)


async def _idle_connections_go(one: Gateway, session: aiohttp.ClientSession) -> None:
    """Callers' connections have been closed by them; what is left are the pools of the providers, bounded by their size."""
    for _ in range(20):
        await asyncio.sleep(0.05)
        await one.metric(session, "stanchion_in_flight")
