"""What `check` says about a settings file: its problems, or what the file means."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from gateway.console.terminal import Terminal
from gateway.settings.model import Settings
from llm.spec import RouteSpec, Stop


def show_summary(settings: Settings, terminal: Terminal) -> None:
    """Addresses, callers, and each route with the chain of its targets."""
    gateway = settings.gateway
    terminal.out.print(Text("ok ", style="bold green").append(settings.path, style="default"), soft_wrap=True)
    terminal.line(f"  agents connect to {gateway.listen}, administration to {gateway.admin}, region {gateway.region}")
    callers = ", ".join(caller.name for caller in settings.callers) or "none named: loopback only, no key asked"
    terminal.line(f"  callers: {callers}")
    for route in settings.routes:
        terminal.out.print(_chain(route), soft_wrap=True, highlight=False)
    idle = [target.name for target in settings.targets if target.name not in _used(settings)]
    if idle:
        terminal.line(f"  in no route: {', '.join(idle)}", style="yellow")


def summary_object(settings: Settings) -> dict[str, Any]:
    """The summary as JSON."""
    return {
        "ok": True,
        "problems": [],
        "listen": settings.gateway.listen,
        "admin": settings.gateway.admin,
        "region": settings.gateway.region,
        "callers": [caller.name for caller in settings.callers],
        "routes": [
            {
                "name": route.name,
                "targets": [stop.target.name for stop in route.stops],
                "on_content_policy": [stop.target.name for stop in route.on_content_policy],
                "deadline_s": route.deadline_s,
            }
            for route in settings.routes
        ],
    }


def _chain(route: RouteSpec) -> Text:
    text = Text("  ").append(route.name, style="bold").append(": ")
    text.append(" → ".join(_stop(stop) for stop in route.stops))
    text.append(f", deadline {route.deadline_s:g} s", style="dim")
    if route.on_content_policy:
        text.append(
            f"; refused content → {', '.join(stop.target.name for stop in route.on_content_policy)}", style="dim"
        )
    return text


def _stop(stop: Stop) -> str:
    target = stop.target
    return f"{target.name} ({target.model} at {target.provider.name}, {target.region})"


def _used(settings: Settings) -> set[str]:
    return {stop.target.name for route in settings.routes for stop in (*route.stops, *route.on_content_policy)}
