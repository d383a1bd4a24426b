"""Two gateways, two Redis servers and an etcd: every one a real process, the gateways run from the example file."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from tests.regions.authority.etcd_server import EtcdCluster
from tests.sessions.redis_server import RedisServer, free_port

ROOT = Path(__file__).parents[2]
REGIONS = ("eu-west", "us-east")


class TwoGateways:
    """`lease`: the shard's lease as the file says it. Gateways can be killed, frozen, and started again."""

    def __init__(self, folder: Path, lease: str = "1s") -> None:
        self.folder, self._lease = folder, lease
        self.redis: dict[str, RedisServer] = {}
        self.gateways: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = {region: (free_port(), free_port()) for region in REGIONS}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for name in (*REGIONS, "etcd"):
            (self.folder / name).mkdir()
        self.etcd = self._stack.enter_context(EtcdCluster(self.folder / "etcd"))
        for region in REGIONS:
            server = RedisServer(self.folder / region, "appendonly yes")
            self.redis[region] = self._stack.enter_context(server)
        example = (ROOT / "config" / "two-regions.yaml").read_text("utf-8")
        assert "lease: 6s" in example
        text = example.replace("lease: 6s", f"lease: {self._lease}").replace("turns: 200", "turns: 100000")
        self.settings = self.folder / "two-regions.yaml"
        self.settings.write_text(text, "utf-8")
        for region in REGIONS:
            self.start(region)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for region in list(self.gateways):
            self.kill(region)
        self._stack.close()

    def start(self, region: str, **environ: str) -> None:
        listen, admin = self._ports[region]
        variables = {
            **os.environ, "STANCHION_REGION": region, "STANCHION_LISTEN": f"127.0.0.1:{listen}",
            "STANCHION_ADMIN": f"127.0.0.1:{admin}", "ETCD": self.etcd.endpoints[0],
            "REDIS_EU": self.redis["eu-west"].url, "REDIS_US": self.redis["us-east"].url,
            "STANCHION_EXPORTS": str(self.folder / "exports"), **environ,
        }  # fmt: skip
        with (self.folder / f"{region}.log").open("ab") as log:
            command = [sys.executable, "-m", "gateway", "serve", "--config", str(self.settings)]
            self.gateways[region] = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=log, stderr=log)

    def kill(self, region: str) -> None:
        process = self.gateways.pop(region)
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()

    def url(self, region: str) -> str:
        return f"http://127.0.0.1:{self._ports[region][0]}"

    def admin(self, region: str) -> str:
        return f"http://127.0.0.1:{self._ports[region][1]}"

    async def replicate(self) -> None:
        """The store of the second region follows the first."""
        await self.redis["us-east"].command("REPLICAOF", "127.0.0.1", self.redis["eu-west"].port)

    async def shard(self, session: aiohttp.ClientSession, region: str) -> dict[str, Any]:
        async with session.get(self.admin(region) + "/admin/v1/regions") as response:
            row: dict[str, Any] = (await response.json())["shards"][0]
            return row

    async def until_open(
        self, session: aiohttp.ClientSession, region: str, epoch: int = 1, seconds: float = 30.0
    ) -> dict[str, Any]:
        """Until the gateway of `region` sees the shard open in `epoch`, and both stores follow each other."""
        end = time.monotonic() + seconds
        row: dict[str, Any] = {}
        while time.monotonic() < end:
            try:
                row = await self.shard(session, region)
            except aiohttp.ClientError:
                await asyncio.sleep(0.05)
                continue
            follows = sorted(node.get("role", "") for node in row["nodes"].values()) == ["primary", "replica"]
            linked = all(node.get("link_up") and node.get("epoch") == epoch for node in row["nodes"].values())
            if row["open"] and row.get("epoch") == epoch and follows and linked:
                return row
            await asyncio.sleep(0.05)
        raise AssertionError((row, (self.folder / f"{region}.log").read_text()[-3000:]))


class Writer:
    """Appends over HTTP, one event after the other, as a good client: what is not acknowledged is sent again with its id."""

    def __init__(self, session: aiohttp.ClientSession, url: str, name: str) -> None:
        self._session, self._url, self.name = session, url, name
        self.path = f"/v1/apps/shop/users/ann/sessions/{name}"
        self.acknowledged: list[tuple[str, int, float, float]] = []  # id, epoch, invoked, completed
        self.not_at_once = 0
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        async with self._session.post(self._url + self.path.rpartition("/")[0], json={"id": self.name}) as response:
            assert response.status == 201, await response.text()
        self._task = asyncio.ensure_future(self._run())

    async def end(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        number = 0
        while True:
            event_id = f"{self.name}-{number}"
            while True:
                invoked = time.monotonic()
                try:
                    async with self._session.post(
                        f"{self._url}{self.path}/events",
                        json={"events": [{"event_id": event_id, "body": number}]},
                        timeout=aiohttp.ClientTimeout(total=10),
                    ) as response:
                        answer = await response.json()
                        if response.status == 201:
                            break
                except (aiohttp.ClientError, TimeoutError):
                    pass
                self.not_at_once += 1
                await asyncio.sleep(0.02)
            self.acknowledged.append((event_id, answer["epoch"], invoked, time.monotonic()))
            number += 1
            await asyncio.sleep(0.002)


async def stored(session: aiohttp.ClientSession, url: str, path: str) -> list[tuple[str, str]]:
    """All events of a session: id and position."""
    found: list[tuple[str, str]] = []
    after = ""
    while True:
        async with session.get(f"{url}{path}?limit=1000{after}") as response:
            assert response.status == 200, await response.text()
            page = await response.json()
        found += [(one["event_id"], one["position"]) for one in page["events"]]
        if not page["more"]:
            return found
        after = f"&after={found[-1][1]}"
