"""The scripted provider, which the drills ship with (`gateway/drill/provider/`), and what tests script it with.

As a process of its own, to be killed by a test: `python -m tests.fakes.upstream --port 0 --name primary`.
"""

from __future__ import annotations

import argparse
import asyncio
import signal

from gateway.drill.provider.behaviours import (
    Behaviour,
    Step,
    answer,
    close,
    cut,
    cut_after,
    delay,
    end,
    garbage,
    gate,
    html,
    pause,
    raw,
    redirect,
    reset,
    rst,
    silent,
    sse,
    status,
    truncated,
    wait,
)
from gateway.drill.provider.chat import (
    DONE,
    delta_chunk,
    error_event,
    event,
    finish_chunk,
    role_chunk,
    text_chunk,
    tool_chunk,
    usage_chunk,
)
from gateway.drill.provider.exchange import (
    Exchange,
    Seen,
)
from gateway.drill.provider.server import (
    Upstream,
)

__all__ = [
    "DONE",
    "Behaviour",
    "Exchange",
    "Seen",
    "Step",
    "Upstream",
    "answer",
    "close",
    "cut",
    "cut_after",
    "delay",
    "delta_chunk",
    "end",
    "error_event",
    "event",
    "finish_chunk",
    "garbage",
    "gate",
    "html",
    "pause",
    "raw",
    "redirect",
    "reset",
    "role_chunk",
    "rst",
    "silent",
    "sse",
    "status",
    "text_chunk",
    "tool_chunk",
    "truncated",
    "usage_chunk",
    "wait",
]


async def _serve(upstream: Upstream) -> None:
    told_to_stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, told_to_stop.set)
    async with upstream:
        print(f"listening on {upstream.port}", flush=True)
        await told_to_stop.wait()


def main() -> None:
    cli = argparse.ArgumentParser(prog="python -m tests.fakes.upstream", description="A fake provider.")
    cli.add_argument("--port", type=int, default=0)
    cli.add_argument("--name", default="primary")
    cli.add_argument("--piece-delay-ms", type=float, default=0.0, help="between the pieces of a stream")
    cli.add_argument("--pieces", type=int, default=40, help="words of the answer, NAME:0 NAME:1 and so on")
    cli.add_argument("--strict", action="store_true", help="refuse what a real API refuses")
    options = cli.parse_args()
    text = " ".join(f"{options.name}:{number}" for number in range(options.pieces))
    behaviour = answer(text, usage=(12, options.pieces), piece_delay_s=options.piece_delay_ms / 1000)
    asyncio.run(_serve(Upstream(options.name, default=behaviour, strict=options.strict, port=options.port)))


if __name__ == "__main__":
    main()
