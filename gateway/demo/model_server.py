"""One llama.cpp server with the OpenAI dialect: `python -m gateway.demo.model_server --model FILE --port N --name X`.

Prints one line on stdout, `ready URL`, once the model answers; everything else, llama.cpp's own log included, goes to
stderr or to the file of `--log`. SIGTERM ends it at once, in the middle of an answer too.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MODEL_ALIAS = "smollm2"
"""The model name under which the server answers."""

READY = "ready "
"""What the line on stdout starts with; the base URL (without `/v1`) follows."""


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until a signal ends the process. 1: the model cannot be loaded or the port not be had."""
    options = _parser().parse_args(argv)
    stdout = os.fdopen(os.dup(1), "w")
    if options.log is not None:
        # The library writes to the descriptors themselves, below Python's streams.
        log = os.open(options.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
    else:
        os.dup2(2, 1)
    try:
        server = _server(options)
    except (RuntimeError, ValueError, OSError) as error:
        sys.stderr.write(f"{options.name}: the model server could not start: {error}\n")
        return 1
    stdout.write(f"{READY}{server.listening_address}\n")
    stdout.flush()
    try:
        while True:
            signal.pause()
    except KeyboardInterrupt:
        return 0


def _server(options: argparse.Namespace) -> Any:
    """The running server; it serves for as long as the object is kept."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(options.model)
    params.model_alias = {MODEL_ALIAS}
    params.hostnames = ["127.0.0.1"]
    params.port = options.port
    params.n_ctx, params.n_parallel = options.context, options.parallel
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    params.n_threads_http = options.parallel + 2  # health checks and metadata beside the answers
    params.n_gpu_layers = 0
    params.use_jinja = True  # requests with tools are refused without it
    params.ui = False
    params.sampling.temp = 0.2  # so small a model rambles at the usual one
    return xllamacpp.Server(params)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gateway.demo.model_server", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--model", type=Path, required=True, metavar="FILE", help="the weights, a .gguf file")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (0: any free one)")
    parser.add_argument("--name", default="model", help="what it is called in its messages")
    parser.add_argument("--log", type=Path, metavar="FILE", help="where its log goes (default: stderr)")
    parser.add_argument("--context", type=int, default=2048, metavar="TOKENS", help="tokens of all requests together")
    parser.add_argument("--parallel", type=int, default=2, metavar="N", help="answers at once")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads that compute")
    return parser


if __name__ == "__main__":
    sys.exit(main())
