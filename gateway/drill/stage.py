"""The stage of one scene: two scripted providers, a whole gateway with real sockets in front of them, and a caller."""

from __future__ import annotations

import asyncio
import io
import json
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from gateway.drill.clock import FastClock
from gateway.drill.provider.behaviours import Behaviour
from gateway.drill.provider.server import Upstream
from gateway.drill.row import Row
from gateway.drill.script import PRIMARY, ROUTE, SECONDARY, question
from gateway.drill.seen import Arrival, Commit, Observation, Reply, Series, TargetState
from gateway.serve import Server
from gateway.settings.load import load
from gateway.settings.model import Settings
from gateway.wiring import build
from stanchion.clock import Clock, SystemClock

HANG_S = 150.0
"""A caller who has no end after this long has none: the deadline of the product's defaults is well before it."""

_NO_LIMIT = aiohttp.ClientTimeout(total=None)
_ADMIN_LIMIT = aiohttp.ClientTimeout(total=10.0)
_NOISE = {"Cookie": "session=1", "X-Caller-Note": "private", "OpenAI-Organization": "org-caller"}
"""Headers that a caller may well send and that are no provider's business."""


class NoAnswer(Exception):
    """The gateway does not answer on its admin address; the message is for the table."""


class LiveStage:
    """A stage that runs. Times are seconds on its own clock, since it began."""

    def __init__(
        self,
        row: Row,
        commit: Commit,
        upstreams: Mapping[str, Upstream],
        server: Server,
        session: aiohttp.ClientSession,
        clock: Clock,
        *,
        stream: bool,
        speed: float,
        log: io.StringIO,
        keys: Mapping[str, str],
    ) -> None:
        self._row, self._commit, self._stream = row, commit, stream
        self._upstreams, self._server, self._session, self._clock = upstreams, server, session, clock
        self._speed, self._log, self._keys = speed, log, keys
        self._began = clock.now()
        self._replies: list[Reply] = []
        self._marks: dict[str, float] = {}

    def now(self) -> float:
        return self._clock.now() - self._began

    async def until(self, at_s: float) -> None:
        while (left := at_s - self.now()) > 0:
            await self._clock.sleep(left)

    def primary_does(self, behaviour: Behaviour) -> None:
        self._upstreams[PRIMARY].default = behaviour

    def mark(self, name: str) -> None:
        self._marks[name] = self.now()

    async def ask(self) -> Reply:
        url = f"http://127.0.0.1:{self._server.listen[1]}/v1/chat/completions"
        headers = {**_NOISE, "Authorization": f"Bearer {self._keys['caller']}"}
        began = self.now()
        status, received, parts, whole, hung = 0, {}, [], True, False
        try:
            async with asyncio.timeout(HANG_S / self._speed):
                async with self._session.post(url, json=question(stream=self._stream), headers=headers) as response:
                    status, received = response.status, {k.lower(): v for k, v in response.headers.items()}
                    while data := await response.content.readany():
                        parts.append(data)
        except TimeoutError:
            hung = True
        except aiohttp.ClientError:
            whole = False
        reply = Reply(
            self._stream, status, received, b"".join(parts), whole=whole, hung=hung, at_s=began, ended_s=self.now()
        )
        self._replies.append(reply)
        return reply

    async def observe(self) -> Observation:
        """Everything that was seen, once the gateway has nothing under way any more (or after a second).

        Raises NoAnswer.
        """
        for _ in range(50):
            if not self._server.service.in_flight:
                break
            await asyncio.sleep(0.02)
        self.mark("observed")
        targets = json.loads(await self._admin("/admin/v1/targets"))["targets"]
        metrics = _samples((await self._admin("/metrics")).decode())
        refused: Series = "stanchion_attempts_total", frozenset({("target", PRIMARY), ("outcome", "connect")})
        log = [json.loads(line) for line in self._log.getvalue().splitlines()]
        return Observation(
            commit=self._commit,
            stream=self._stream,
            sent=question(stream=self._stream),
            replies=tuple(self._replies),
            arrivals={name: self._arrivals(upstream) for name, upstream in self._upstreams.items()},
            targets={target["name"]: _state(target) for target in targets},
            metrics=metrics,
            unseen=int(metrics.get(refused, 0.0)) if self._row.unreachable else 0,
            refused=tuple(said for one in self._upstreams.values() for said in (*one.refused, *one.malformed)),
            crashes=sum(line["event"] == "crash" for line in log),
            private=tuple(self._keys.values()),
            marks=dict(self._marks),
        )

    async def _admin(self, path: str) -> bytes:
        url = f"http://127.0.0.1:{self._server.admin[1]}{path}"
        try:
            async with self._session.get(url, timeout=_ADMIN_LIMIT) as response:
                return await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise NoAnswer(f"the admin address gave no answer to {path}: {type(error).__name__}") from None

    def _arrivals(self, upstream: Upstream) -> tuple[Arrival, ...]:
        return tuple(
            Arrival(seen.at - self._began, {name.lower(): value for name, value in seen.headers}, _body(seen.body))
            for seen in upstream.requests
        )


@asynccontextmanager
async def stage(row: Row, commit: Commit, *, stream: bool, speed: float) -> AsyncIterator[LiveStage]:
    """Everything that a scene needs, on ports of its own, and gone at the end.

    Raises OSError, CannotBind or SettingsError where it cannot be set up.
    """
    real = SystemClock()
    clock: Clock = real if speed == 1 else FastClock(real, speed)
    keys = {name: f"sk-{secrets.token_hex(16)}" for name in ("caller", PRIMARY, SECONDARY)}
    log = io.StringIO()
    async with AsyncExitStack() as leave:
        upstreams: dict[str, Upstream] = {}
        for name, does in ((PRIMARY, row.then), (SECONDARY, row.secondary)):
            upstream = Upstream(name, default=does, strict=True, key=keys[name], sleep=clock.sleep, now=clock.now)
            upstreams[name] = await leave.enter_async_context(upstream)
        upstreams[PRIMARY].script(*row.primary)
        urls = {name: upstream.base_url for name, upstream in upstreams.items()}
        if row.unreachable:
            # Bound and not listening: connections are refused, and nobody else is given the port meanwhile.
            nowhere = leave.enter_context(socket.socket())
            nowhere.bind(("127.0.0.1", 0))
            urls[PRIMARY] = f"http://127.0.0.1:{nowhere.getsockname()[1]}/v1"
        server = Server(build(_load(settings_of(row, commit, urls, keys)), log, clock=clock))
        leave.push_async_callback(server.close)
        await server.start()
        session = await leave.enter_async_context(aiohttp.ClientSession(timeout=_NO_LIMIT))
        yield LiveStage(row, commit, upstreams, server, session, clock, stream=stream, speed=speed, log=log, keys=keys)


def settings_of(row: Row, commit: Commit, urls: Mapping[str, str], keys: Mapping[str, str]) -> dict[str, Any]:
    """The settings of the row's gateway: the product's defaults, and what the row names as different."""
    extra = row.settings
    return {
        "version": "1",
        "gateway": {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "drain": "1s"},
        "callers": [{"name": "drill", "key": keys["caller"]}],
        "providers": {
            name: {"dialect": "openai", "base_url": url, "api_key": keys[name]} for name, url in urls.items()
        },
        "targets": {name: {"provider": name, "model": f"{name}-model", **extra.get(name, {})} for name in urls},
        "defaults": {"stream": {"commit": commit}, **extra.get("defaults", {})},
        "routes": {ROUTE: {"targets": list(urls), **extra.get("route", {})}},
    }


def _load(values: Mapping[str, Any]) -> Settings:
    """Loaded from a file, as a person's would be."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "drill.yaml"
        path.write_text(json.dumps(values), "utf-8")  # JSON is YAML, without the anchors that the gateway refuses
        return load(path, {})


def _state(target: Mapping[str, Any]) -> TargetState:
    breaker, hold, quota = target["breaker"], target["hold"], target["quota"]
    tokens = quota["tokens"]
    return TargetState(
        breaker=breaker["state"],
        samples=breaker["samples"],
        failures=breaker["failures"],
        hold=hold and hold["reason"],
        in_flight=quota["in_flight"],
        tokens=tokens and (tokens["level"], tokens["capacity"]),
    )


def _samples(text: str) -> dict[Series, float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _body(data: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
