"""The commands for regions: their arguments, and what they call."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gateway.console.terminal import Terminal

Where = Callable[..., tuple[str, str | None] | None]
"""Finds the running gateway's admin URL and token; None after it was said why there is none."""

Add = Callable[[str, Callable[..., int], str, str], argparse.ArgumentParser]

_PROMOTE_EPILOG = """\
examples:
  stanchion promote eu --to us-east                       the primary is lost, another region takes over
  stanchion promote eu --to us-east --force --reason "eu-west burns"
  stanchion promote eu --to us-east --yes --json

What is going to be done, and how much may be lost, is shown first. A loss over the shard's rpo needs --force and a reason,
which are recorded. Ask a gateway in the region that takes over.

exit codes:
  0  the shard is open in the other region
  1  refused, or called off: nothing was changed, and the sentence says why
  2  no gateway or no authority could be asked
  4  begun and not ended: the gateways go on with it, see `stanchion status`
"""
_SWITCHOVER_EPILOG = """\
examples:
  stanchion switchover eu --to us-east
  stanchion switchover eu --to eu-west --yes

Both stores have to be well and the target has to follow. Nothing is lost; for some milliseconds writes wait.
Exit codes as for `promote`.
"""
_LOST_EPILOG = """\
examples:
  stanchion replay-lost exports/eu-epoch-3-1f2e3d4c.jsonl
  stanchion replay-lost FILE --session s1 --json | jq '.lost[].body'

Shows what a promotion lost, by session. Nothing is put back: what came after stands.

exit codes:
  0  shown
  1  the file holds nothing of the session
  2  the file cannot be read, or is not whole
"""


def add(add_command: Add, running: Callable[[argparse.ArgumentParser], None], where: Where) -> None:
    """`where` is handed on by `set_defaults`, since it is the command line's own."""
    promote = add_command("promote", _promote, "make another region's store a shard's primary", _PROMOTE_EPILOG)
    promote.add_argument("--force", action="store_true", help="in spite of what may be lost; needs --reason")
    _common(promote, running, where)
    switchover = add_command("switchover", _switchover, "move a healthy shard to another region", _SWITCHOVER_EPILOG)
    _common(switchover, running, where)
    switchover.set_defaults(force=False)
    lost = add_command("replay-lost", _replay_lost, "show what a promotion lost", _LOST_EPILOG)
    lost.add_argument("file", type=Path, metavar="FILE", help="the exported tail")
    lost.add_argument("--session", metavar="ID", help="its events only, in full")
    lost.add_argument("--json", action="store_true", help='an object: {"ok", "tail", "lost": […]}')


def _common(parser: argparse.ArgumentParser, running: Callable[[argparse.ArgumentParser], None], where: Where) -> None:
    parser.add_argument("shard", metavar="SHARD")
    parser.add_argument("--to", required=True, metavar="REGION", help="the region that takes over")
    parser.add_argument("--reason", default="", metavar="TEXT", help="is recorded")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    running(parser)
    parser.add_argument("--json", action="store_true", help='an object: the promotion and "ok"')
    parser.set_defaults(where=where)


def _promote(options: argparse.Namespace, terminal: Terminal, environ: Mapping[str, str]) -> int:
    return _wish("promote", options, terminal, environ)


def _switchover(options: argparse.Namespace, terminal: Terminal, environ: Mapping[str, str]) -> int:
    return _wish("switchover", options, terminal, environ)


def _wish(verb: Any, options: argparse.Namespace, terminal: Terminal, environ: Mapping[str, str]) -> int:
    from gateway.console.promotions import CANNOT, Wish, carry_out, person

    if options.force and not options.reason.strip():
        terminal.error("--force needs --reason TEXT, which is recorded with the promotion")
        return CANNOT
    found = options.where(options, terminal, environ)
    if found is None:
        return CANNOT
    wish = Wish(verb, options.shard, options.to, options.force, options.reason, options.yes, options.json)
    return carry_out(wish, found[0], found[1], terminal, person())


def _replay_lost(options: argparse.Namespace, terminal: Terminal, environ: Mapping[str, str]) -> int:
    from gateway.console.lost import show_lost

    return show_lost(options.file, options.session, terminal, as_json=options.json)
