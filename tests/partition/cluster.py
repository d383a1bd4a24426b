"""Two regions and a third place, of real processes: two Redis, two gateways run from the example file, one etcd."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

import aiohttp
import orjson

from tests.partition.checker import Position, Stored
from tests.partition.history import Op, read
from tests.partition.links import Links, Place, Server
from tests.partition.processes import ROOT, Process
from tests.partition.writer import APP, CALLER_KEY, USER
from tests.sessions.redis_server import free_port

Region = Literal["west", "east"]
REGIONS: tuple[Region, Region] = ("west", "east")
NAMES: dict[Region, str] = {"west": "eu-west", "east": "us-east"}
_PLACES: dict[str, Region] = {name: region for region, name in NAMES.items()}

Mode = Literal["async", "sync"]

_REDIS = (
    'save ""', "appendonly yes", "appendfsync everysec", "protected-mode no", "repl-diskless-sync-delay 0",
    "repl-ping-replica-period 1", "repl-timeout 4", "tcp-keepalive 5",
)  # fmt: skip
ADMIN_TOKEN = "an-admin-token-of-the-partition-tests"

_UP_S, _WELL_S = 30.0, 90.0


def other(region: Region) -> Region:
    return "east" if region == "west" else "west"


@dataclass(frozen=True, slots=True)
class Ports:
    redis: int
    http: int
    admin: int


class Cluster:
    """Everything that runs. `lease_s`: the shard's. `beside`: what else of a region dies with it."""

    def __init__(
        self, folder: Path, links: Links, *, mode: Mode, lease_s: float = 1.5, ports_free: bool = False
    ) -> None:
        self.folder, self.links, self.mode, self.lease_s = folder, links, mode, lease_s
        self._ports = {
            region: Ports(free_port(), free_port(), free_port()) if ports_free else Ports(6379, 8080, 8081)
            for region in REGIONS
        }
        self._etcd = (free_port(), free_port()) if ports_free else (2379, 2380)
        self.stores: dict[Region, Process] = {}
        self.beside: dict[Region, Process] = {}
        self.gateways: dict[Region, Process] = {}
        self._writers: list[Process] = []
        self._histories: list[Path] = []
        self._address: dict[tuple[Place, Server], tuple[str, int]] = {}
        self._http: aiohttp.ClientSession | None = None
        self.etcd = self._make_etcd()

    # --- starting and ending -----------------------------------------------------------------------------------------

    async def __aenter__(self) -> Cluster:
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5))
        try:
            for region in REGIONS:
                await self._reach(region, "redis-west", self._ports["west"].redis)
                await self._reach(region, "redis-east", self._ports["east"].redis)
                await self._reach(region, "etcd", self._etcd[0])
            self.etcd.start()
            for region in REGIONS:
                self.stores[region] = self._make_store(region)
                self.stores[region].start()
                if (process := self._make_beside(region)) is not None:
                    self.beside[region] = process
                    process.start()
            for region in REGIONS:
                self.gateways[region] = self._make_gateway(region)
                self.gateways[region].start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in (
            *self._writers, *self.gateways.values(), *self.beside.values(), *self.stores.values(), self.etcd
        ):  # fmt: skip
            process.kill()
        await self.links.close()
        assert self._http is not None
        await self._http.close()

    async def _reach(self, viewer: Place, server: Server, port: int) -> None:
        self._address[viewer, server] = await self.links.reach(viewer, server, port)

    def _make_etcd(self) -> Process:
        folder, host = self.folder / "etcd", self.links.bind("third")
        client, peer = (f"http://{host}:{port}" for port in self._etcd)
        arguments = {
            "name": "third", "data-dir": str(folder), "listen-client-urls": client, "advertise-client-urls": client,
            "listen-peer-urls": peer, "initial-advertise-peer-urls": peer, "initial-cluster": f"third={peer}",
        }  # fmt: skip
        command = [*self.links.run_in("third"), "etcd", *(f"--{name}={value}" for name, value in arguments.items())]
        return Process(command, self.folder / "etcd.log")

    def _make_store(self, region: Region) -> Process:
        folder, host = self.folder / f"redis-{region}", self.links.bind(region)
        folder.mkdir()
        config = folder / "redis.conf"
        lines = [f"port {self._ports[region].redis}", f"bind {host}", f"dir {folder}", *_REDIS, *self.role(region)]
        config.write_text("\n".join(lines) + "\n", "utf-8")
        return Process([*self.links.run_in(region), "redis-server", str(config)], self.folder / f"redis-{region}.log")

    def role(self, region: Region) -> list[str]:
        """The store's lines of what it is when it starts: parked."""
        return ["replicaof 127.0.0.1 1"]

    def _make_beside(self, region: Region) -> Process | None:
        return None

    def _make_gateway(self, region: Region) -> Process:
        host, ports = self.links.bind(region), self._ports[region]
        environ = {
            "STANCHION_REGION": NAMES[region], "STANCHION_LISTEN": f"{host}:{ports.http}",
            "STANCHION_ADMIN": f"{host}:{ports.admin}",
            "STANCHION_EXPORTS": str(self.folder / "exports"),
            "ETCD": self._url(region, "etcd", "http"),
            "REDIS_EU": self._url(region, "redis-west", "redis"), "REDIS_US": self._url(region, "redis-east", "redis"),
        }  # fmt: skip
        command = [*self.links.run_in(region), *self.gateway_command(region)]
        return Process(command, self.folder / f"gateway-{region}.log", environ)

    def gateway_command(self, region: Region) -> list[str]:
        return [sys.executable, "-m", "gateway", "serve", "--config", str(self._settings())]

    def _settings(self) -> Path:
        """The example file with a short lease, in this mode, and without an operator's patience."""
        file = self.folder / "stanchion.yaml"
        example = (ROOT / "config" / "two-regions.yaml").read_text("utf-8")
        for old, new in (
            ("replication: async", f"replication: {self.mode}"),
            ("lease: 6s", f"lease: {self.lease_s * 1000:.0f}ms"),
            ("rpo: {turns: 200}", "quiet: 0s" if self.mode == "sync" else "rpo: {turns: 1000000}\n      quiet: 0s"),
            ("  admin: ", f"  admin_token: {ADMIN_TOKEN}\n  admin: "),
            ("regions: {", f"callers: [{{name: writers, key: {CALLER_KEY}}}]\nregions: {{"),
        ):
            assert old in example, old
            example = example.replace(old, new)
        file.write_text(example, "utf-8")
        return file

    def _url(self, viewer: Place, server: Server, scheme: str) -> str:
        host, port = self._address[viewer, server]
        return f"{scheme}://{host}:{port}" + ("/0" if scheme == "redis" else "")

    # --- stores ------------------------------------------------------------------------------------------------------

    def lose_files(self, region: Region) -> None:
        """The files of a store that does not run are gone."""
        for path in (self.folder / f"redis-{region}").iterdir():
            if path.name != "redis.conf":
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    # --- asking gateways ---------------------------------------------------------------------------------------------

    def url(self, region: Region) -> str:
        return f"http://{self.links.bind(region)}:{self._ports[region].http}"

    async def shard(self, region: Region) -> dict[str, Any]:
        """The shard's row of `/admin/v1/regions`; empty where the gateway does not answer."""
        try:
            async with self.http.get(self._admin(region, "/regions"), headers=_TOKEN) as response:
                row: dict[str, Any] = (await response.json())["shards"][0] if response.status == 200 else {}
                return row
        except (aiohttp.ClientError, TimeoutError):
            return {}

    async def order(self, region: Region, verb: str, to: Region, *, force: bool = False) -> dict[str, Any]:
        """`promote` or `switchover`; the last line of the answer, empty where the gateway went away."""
        body: dict[str, Any] = {"to": NAMES[to], "reason": "a drill"}
        if verb == "promote":
            body["force"] = force
        last: dict[str, Any] = {}
        try:
            async with self.http.post(
                self._admin(region, f"/shards/eu/{verb}"),
                json=body,
                headers=_TOKEN,
                timeout=aiohttp.ClientTimeout(total=30),
            ) as response:
                async for line in response.content:
                    last = _json(line)
        except (aiohttp.ClientError, TimeoutError):
            return {}
        return last

    @property
    def http(self) -> aiohttp.ClientSession:
        assert self._http is not None
        return self._http

    def _admin(self, region: Region, path: str) -> str:
        return f"http://{self.links.bind(region)}:{self._ports[region].admin}/admin/v1{path}"

    async def holder(self) -> Region:
        row = await self.well()
        return _PLACES[row["holder"]]

    async def well(self, seconds: float = _WELL_S) -> dict[str, Any]:
        """Until the shard is open to both gateways, its stores follow each other, and what was lost is exported."""
        end = time.monotonic() + seconds
        rows: list[dict[str, Any]] = []
        while time.monotonic() < end:
            rows = [await self.shard(region) for region in REGIONS]
            if all(self._is_well(row) for row in rows) and rows[0]["epoch"] == rows[1]["epoch"]:
                return rows[0]
            await asyncio.sleep(0.1)
        logs = "\n".join(self.gateways[region].tail(1500) for region in REGIONS)
        raise AssertionError(f"the shard did not become well within {seconds:g} s: {rows}\n{logs}")

    def _is_well(self, row: dict[str, Any]) -> bool:
        if not row or not row["open"] or row["possible_loss"]:
            return False
        if row["mode"] != self.mode:
            return False
        nodes = row["nodes"].values()
        roles = sorted(node.get("role", "") for node in nodes)
        return roles == ["primary", "replica"] and all(
            node["link_up"] and node["epoch"] == row["epoch"] for node in nodes
        )

    # --- writers -----------------------------------------------------------------------------------------------------

    def write(self, name: str, random: Random, sessions: int = 2) -> None:
        """Start a client in each region."""
        for region in REGIONS:
            history = self.folder / f"history-{name}-{region}.jsonl"
            self._histories.append(history)
            command = [
                *self.links.run_in(region), sys.executable, "-m", "tests.partition.writer",
                "--url", self.url(region), "--name", f"{name}-{region}", "--sessions", str(sessions),
                "--history", str(history), "--seed", str(random.randrange(1 << 30)),
            ]  # fmt: skip
            process = Process(command, self.folder / f"writer-{region}.log")
            process.start()
            self._writers.append(process)

    async def written(self, least: int, seconds: float = _UP_S) -> None:
        """Until the clients that run have so many lines in their histories."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if len(read(file for file in self._histories if file.exists())) >= least:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"no {least} appends within {seconds:g} s: {self._writers[0].tail()}")

    async def stop_writing(self) -> list[Op]:
        """End the clients; what they were told since they began."""
        for process in self._writers:
            assert await asyncio.to_thread(process.end) == 0, process.tail()
        ops = read(self._histories)
        self._writers, self._histories = [], []
        return ops

    async def stored(self, sessions: set[str]) -> Stored:
        """What the shard holds of these sessions, and what all exports hold."""
        region = await self.holder()
        events = {session: await self._events(region, session) for session in sorted(sessions)}
        return Stored(events, self._exported())

    async def _events(self, region: Region, session: str) -> list[tuple[str, Position]]:
        found: list[tuple[str, Position]] = []
        after = ""
        while True:
            url = f"{self.url(region)}/v1/apps/{APP}/users/{USER}/sessions/{session}?limit=1000{after}"
            async with self.http.get(url, headers=_KEY) as response:
                if response.status == 404:
                    return found
                assert response.status == 200, await response.text()
                page = await response.json()
            found += [(one["event_id"], _position(one["position"])) for one in page["events"]]
            if not page["more"]:
                return found
            after = f"&after={page['events'][-1]['position']}"

    def _exported(self) -> frozenset[tuple[str, Position]]:
        rows = [
            _json(line)
            for file in sorted((self.folder / "exports").glob("*.jsonl"))
            for line in file.read_bytes().splitlines()
        ]
        return frozenset((row["event_id"], _position(row["position"])) for row in rows if row["kind"] == "event")


_TOKEN = {"authorization": f"Bearer {ADMIN_TOKEN}"}
_KEY = {"authorization": f"Bearer {CALLER_KEY}"}


def _position(text: str) -> Position:
    epoch, _, number = text.partition("-")
    return int(epoch), int(number)


def _json(line: bytes) -> dict[str, Any]:
    row: dict[str, Any] = orjson.loads(line)
    return row
