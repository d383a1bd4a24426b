"""`promote` and `switchover`: the plan shown, a person asked, and each step told as it is done."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from gateway.console.admin import AdminError, post_lines
from gateway.console.terminal import Terminal, printable

DONE, REFUSED, CANNOT, STOPPED = 0, 1, 2, 4

_LONGEST_S = 300.0
"""A promotion waits for a lease of at most a minute, and for the operator's own command."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the operator asks for. `yes`: without being asked again."""

    verb: Literal["promote", "switchover"]
    shard: str
    to: str
    force: bool
    reason: str
    yes: bool
    json: bool

    @property
    def path(self) -> str:
        return f"/admin/v1/shards/{quote(self.shard, safe='')}/{self.verb}"

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"to": self.to, "reason": self.reason}
        return {**body, "force": self.force} if self.verb == "promote" else body


def carry_out(
    wish: Wish, url: str, token: str | None, terminal: Terminal, ask: Callable[[str], str] | None = None
) -> int:
    """The exit code. `ask` puts a question to a person; without it, nobody is there to ask."""
    try:
        (plan,) = list(post_lines(url, wish.path + "/plan", token, wish.body, timeout_s=30.0))
        if "error" in plan:
            return _refused(plan["error"], wish, terminal)
        if not wish.json:
            _show_plan(plan, terminal)
        if not wish.yes:
            if ask is None:
                terminal.error("nobody is there to ask whether to go on: repeat it with --yes")
                return CANNOT
            if ask("Go on? [y/N] ").strip().lower() not in ("y", "yes"):
                terminal.error("nothing was changed")
                return REFUSED
        return _act(wish, url, token, terminal)
    except AdminError as error:
        if wish.json:
            terminal.json({"ok": False, "error": str(error)})
        terminal.error(str(error))
        return CANNOT


def person() -> Callable[[str], str] | None:
    """Somebody to ask, where standard input is a terminal."""
    return input if sys.stdin is not None and sys.stdin.isatty() else None


def _act(wish: Wish, url: str, token: str | None, terminal: Terminal) -> int:
    began = time.monotonic()
    for line in post_lines(url, wish.path, token, wish.body, timeout_s=_LONGEST_S):
        if "error" in line:
            return _refused(line["error"], wish, terminal)
        if "result" in line:
            return _result(line["result"], wish, terminal)
        if not wish.json:
            terminal.line(f"{time.monotonic() - began:7.3f} s  {printable(str(line.get('text', '')))}")
    terminal.error("the gateway ended its answer without a result: see `stanchion status`")
    return STOPPED


def _result(entry: Mapping[str, Any], wish: Wish, terminal: Terminal) -> int:
    if wish.json:
        terminal.json({"ok": True, **entry})
        return DONE
    terminal.line(f"done: epoch {entry['epoch']} of {wish.shard} is open in {entry['to']}")
    steps = ", ".join(f"{name} {seconds:.3f} s" for name, seconds in entry["steps_s"].items())
    terminal.line(f"time: {steps}")
    if entry["kind"] == "failover":
        bound = "not known" if entry["loss_bound"] is None else f"at most {entry['loss_bound']} writes"
        terminal.line(f"loss: {bound}; counted when the store in {entry['from']} is back (`stanchion status`)")
    return DONE


def _refused(error: Mapping[str, Any], wish: Wish, terminal: Terminal) -> int:
    code, message = str(error.get("code") or ""), printable(str(error.get("message", "")))
    if wish.json:
        terminal.json({"ok": False, "code": code, "error": message})
    terminal.error(message)
    return STOPPED if code == "stopped" else CANNOT if code in ("authority", "store") else REFUSED


def _show_plan(plan: Mapping[str, Any], terminal: Terminal) -> None:
    terminal.line(f"{plan['kind']} of {plan['shard']} from {plan['from']} to {plan['to']}, epoch {plan['epoch']}:")
    for number, step in enumerate(plan["steps"], 1):
        terminal.line(f"  {number}. {printable(step)}")
    bound = plan["loss_bound"]
    words = "how much may be lost is not known" if bound is None else f"at most {bound} acknowledged writes may be lost"
    terminal.line("  nothing is lost" if bound == 0 else f"  {words}")
    for warning in plan["warnings"]:
        terminal.line(f"  warning: {printable(warning)}")
