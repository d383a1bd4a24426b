"""A laboratory: a real gateway on loopback in front of scripted providers, with a clock that the test moves."""

from __future__ import annotations

import asyncio
import io
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import aiohttp
import orjson
import yaml

from gateway.serve import Server
from gateway.settings.load import load
from gateway.settings.model import Settings
from gateway.wiring import build
from llm.spec import ProviderSpec
from llm.transport.base import Transport
from stanchion.clock import Clock
from tests.fakes.upstream import Upstream

Json = dict[str, Any]


class NoJitter(Random):
    """Randomness that always says 0: cool-downs and waits are exact."""

    def random(self) -> float:
        return 0.0


class Answer:
    """What the gateway sent: everything that a caller can see of one request."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes, *, whole: bool = True) -> None:
        self.status, self.body, self.whole = status, body, whole
        self.headers = {name.lower(): value for name, value in headers.items()}

    @property
    def json(self) -> Json:
        value = json.loads(self.body)
        assert isinstance(value, dict)
        return value

    @property
    def error(self) -> Json:
        error = self.json["error"]
        assert isinstance(error, dict)
        return error

    @property
    def text(self) -> str:
        return str(self.json["choices"][0]["message"]["content"])

    @property
    def trail(self) -> list[str]:
        """The trail's entries without their milliseconds: `p class=success` or `p skip=hold`."""
        entries = [entry for entry in self.headers.get("x-stanchion-attempts", "").split(", ") if entry]
        return [entry.split(";")[0] + " " + entry.split(";")[1] for entry in entries]

    @property
    def events(self) -> list[Any]:
        """The data of each event of a stream: parsed JSON, or the text `[DONE]`."""
        found = []
        for block in self.body.split(b"\n\n"):
            for line in block.split(b"\n"):
                if line.startswith(b"data:"):
                    data = line[5:].strip()
                    found.append("[DONE]" if data == b"[DONE]" else json.loads(data))
        return found

    @property
    def streamed_text(self) -> str:
        """All text deltas of a stream."""
        parts = [
            choice["delta"].get("content") or ""
            for event in self.events
            if isinstance(event, dict)
            for choice in event.get("choices", [])
        ]
        return "".join(parts)

    @property
    def error_events(self) -> list[Json]:
        return [event["error"] for event in self.events if isinstance(event, dict) and "error" in event]

    @property
    def clean(self) -> bool:
        """Whether a stream ended as a success: a finish reason, `[DONE]`, and a whole body."""
        finished = any(
            choice.get("finish_reason")
            for event in self.events
            if isinstance(event, dict)
            for choice in event.get("choices", [])
        )
        return finished and self.events[-1:] == ["[DONE]"] and self.whole


class Lab:
    """A running gateway. `log` holds what it logged, one JSON object a line; `path` is its settings file."""

    def __init__(self, server: Server, session: aiohttp.ClientSession, out: io.StringIO, path: Path) -> None:
        self.server, self.service, self.session, self.out = server, server.service, session, out
        self.path = path
        self.url = f"http://127.0.0.1:{server.listen[1]}"
        self.admin_url = f"http://127.0.0.1:{server.admin[1]}"

    async def chat(self, model: str = "r", *, headers: Mapping[str, str] | None = None, **fields: Any) -> Answer:
        """One chat completion; `fields` are added to the body."""
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}], **fields}
        return await self.post("/v1/chat/completions", json.dumps(body).encode(), headers=headers)

    async def post(self, path: str, body: bytes, *, headers: Mapping[str, str] | None = None) -> Answer:
        kind = {"Content-Type": "application/json"}
        async with self.session.post(self.url + path, data=body, headers={**kind, **(headers or {})}) as response:
            return await whole(response)

    async def get(self, path: str, *, headers: Mapping[str, str] | None = None, admin: bool = False) -> Answer:
        base = self.admin_url if admin else self.url
        async with self.session.get(base + path, headers=headers) as response:
            return await whole(response)

    async def reload(self, values: Json | None = None) -> Answer:
        """Write other settings, where some are given, and have the gateway read its file again."""
        if values is not None:
            write(self.path, values)
        async with self.session.post(self.admin_url + "/admin/v1/reload") as response:
            return await whole(response)

    async def target(self, name: str) -> Json:
        """The state of one target, as the admin address gives it."""
        targets = (await self.get("/admin/v1/targets", admin=True)).json["targets"]
        return next(target for target in targets if target["name"] == name)

    async def metric(self, name: str, **labels: str) -> float:
        """One sample of the scraped metrics."""
        from prometheus_client.parser import text_string_to_metric_families

        text = (await self.get("/metrics", admin=True)).body.decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return float(sample.value)
        raise AssertionError(f"no sample {name}{labels}")

    @property
    def log(self) -> list[Json]:
        return [orjson.loads(line) for line in self.out.getvalue().splitlines()]

    @property
    def turns(self) -> list[Json]:
        return [line for line in self.log if line["event"] == "turn"]


async def whole(response: aiohttp.ClientResponse) -> Answer:
    """The answer to its end; a body that breaks off is kept, and said to be no whole one."""
    parts: list[bytes] = []
    try:
        while data := await response.content.readany():
            parts.append(data)
    except aiohttp.ClientError:
        return Answer(response.status, response.headers, b"".join(parts), whole=False)
    return Answer(response.status, response.headers, b"".join(parts))


def config(upstreams: Mapping[str, Upstream | str], **parts: Any) -> Json:
    """Settings with one provider and one target for each upstream, and the route `r` over all of them.

    A value may be a base URL. `parts` replace whole top-level keys, except `target_NAME`, `provider_NAME` and `route`,
    which add to that one.
    """
    providers: Json = {}
    targets: Json = {}
    for name, upstream in upstreams.items():
        base_url = upstream if isinstance(upstream, str) else upstream.base_url
        providers[name] = {
            "dialect": "openai",
            "base_url": base_url,
            "api_key": f"sk-{name}",
            **parts.pop(f"provider_{name}", {}),
        }
        targets[name] = {"provider": name, "model": f"{name}-model", **parts.pop(f"target_{name}", {})}
    route = {"targets": list(upstreams), **parts.pop("route", {})}
    made = {
        "version": "1",
        "gateway": {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "drain": "1s"},
        "providers": providers,
        "targets": targets,
        "routes": {"r": route},
    }
    return {**made, **parts}


def settings(values: Json) -> Settings:
    """Settings loaded from a real file, as a person's would be."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stanchion.yaml"
        write(path, values)
        return load(path, {})


def write(path: Path, values: Json) -> None:
    """Write a settings file."""
    path.write_text(yaml.safe_dump(values, sort_keys=False), "utf-8")


@asynccontextmanager
async def lab(
    values: Json,
    clock: Clock | None = None,
    random: Random | None = None,
    environ: Mapping[str, str] = MappingProxyType({}),
    transports: Callable[[ProviderSpec], Transport] | None = None,
) -> AsyncIterator[Lab]:
    """A gateway with these settings on ports of its own; without a clock it runs on the machine's."""
    out = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stanchion.yaml"
        write(path, values)
        service = build(load(path, environ), out, clock=clock, random=random or NoJitter(), transports=transports)
        server = Server(service, environ)
        try:
            await server.start()
            await asyncio.sleep(0)  # so that what runs beside requests has begun to wait
            async with aiohttp.ClientSession() as session:
                yield Lab(server, session, out, path)
        finally:
            await server.close()
