"""The demo's parts, running: two models and a gateway, and how to talk to them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from gateway.console.admin import fetch_targets
from gateway.console.report import Report, read_report
from gateway.demo.processes import Child, ModelProcess, StartError
from gateway.demo.settings_file import CloudProvider, demo_settings

MODEL_NAMES = ("local-a", "local-b")
QUESTION = "Name one animal."
_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one request. `status` 0: no response at all; then `text` says why."""

    status: int
    target: str
    attempts: str
    text: str
    ms: int

    @property
    def ok(self) -> bool:
        return self.status == 200 and bool(self.target)


@dataclass(frozen=True, slots=True)
class Stack:
    """The running demo."""

    models: tuple[ModelProcess, ...]
    gateway: Child
    listen: str
    admin: str
    settings: Path

    async def ask(self, route: str, question: str = QUESTION, *, timeout_s: float = 70.0) -> Answer:
        """One plain chat request through the gateway. Never raises for what the gateway does."""
        start = time.monotonic()
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(
                    f"http://{self.listen}/v1/chat/completions", json=request_body(route, question)
                ) as response,
            ):
                body = await response.read()
                status, headers = response.status, response.headers
        except (aiohttp.ClientError, TimeoutError) as error:
            return Answer(0, "", "", str(error) or type(error).__name__, _ms(start))
        target, attempts = headers.get("x-stanchion-target", ""), headers.get("x-stanchion-attempts", "")
        return Answer(status, target, attempts, answer_text(body), _ms(start))

    async def report(self) -> Report:
        """What the admin address says. Raises AdminError."""
        return read_report(await asyncio.to_thread(fetch_targets, f"http://{self.admin}"))


def request_body(route: str, question: str = QUESTION) -> dict[str, Any]:
    """The chat request that the demo sends, and shows as a curl line."""
    return {"model": route, "max_tokens": 40, "messages": [{"role": "user", "content": question}]}


def answer_text(body: bytes) -> str:
    """The answer's text, or the error's message, or the body itself."""
    try:
        answer = orjson.loads(body)
        if isinstance(answer.get("error"), dict):
            return str(answer["error"].get("message"))
        return str(answer["choices"][0]["message"]["content"]).strip()
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return body[:300].decode(errors="replace")


def check_port(port: int, option: str) -> int:
    """`port`, or a free one for 0. Raises StartError when another program listens there."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no port number"
            raise StartError(
                f"port {port} on {_HOST} cannot be used ({reason}): choose another one with {option} N"
            ) from None
        return int(probe.getsockname()[1])


@contextlib.asynccontextmanager
async def two_models(
    model: Path, folder: Path, names: Sequence[str] = MODEL_NAMES
) -> AsyncIterator[tuple[ModelProcess, ...]]:
    """The local models, started side by side, ended on the way out. Raises StartError."""
    models = tuple(ModelProcess(name, model, folder / f"{name}.log") for name in names)
    try:
        # All settle before the first error goes on: a start that is still under way could not be undone.
        outcomes = await asyncio.gather(*(entry.start() for entry in models), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        yield models
    finally:
        await asyncio.gather(*(entry.stop() for entry in models))


@contextlib.asynccontextmanager
async def running_gateway(
    models: tuple[ModelProcess, ...],
    folder: Path,
    *,
    port: int,
    admin_port: int,
    cloud: Sequence[CloudProvider],
    environ: dict[str, str],
) -> AsyncIterator[Stack]:
    """The gateway in front of `models`, ready to answer; ended on the way out. Raises StartError."""
    listen, admin = f"{_HOST}:{port}", f"{_HOST}:{admin_port}"
    settings = folder / "settings.yaml"
    named = [(model.name, model.base_url) for model in models]
    settings.write_text(
        demo_settings(listen=listen, admin=admin, models=named, cloud=cloud, environ=environ), encoding="utf-8"
    )
    command = (sys.executable, "-m", "gateway", "serve", "--config", str(settings))
    gateway = Child("the gateway", command, folder / "gateway.log", environ)
    try:
        await gateway.launch()
        await _ready(gateway, listen)
        yield Stack(models, gateway, listen, admin, settings)
    finally:
        await gateway.stop()


async def _ready(gateway: Child, listen: str, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as session:
        while time.monotonic() < deadline:
            if not gateway.running:
                raise gateway.failed(f"ended before it was ready ({gateway.ending})")
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with session.get(f"http://{listen}/readyz") as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(0.1)
    raise gateway.failed(f"was not ready after {timeout_s:g} s")


def _ms(start: float) -> int:
    return round((time.monotonic() - start) * 1000)
