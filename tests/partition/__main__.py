"""Rounds of faults: `python -m tests.partition --rounds 30 --mode async`. With root, each region has a network namespace."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from random import Random

from tests.partition.cluster import Cluster
from tests.partition.faults import FAULTS
from tests.partition.links import Links
from tests.partition.naive import NaiveCluster
from tests.partition.namespaces import NamespaceLinks, Namespaces, missing
from tests.partition.proxies import ProxyLinks
from tests.partition.rounds import HEAD, Totals, play
from tests.partition.sentinel import GuardedSentinelCluster, SentinelCluster

OTHERS_FAULTS = ("holder alone", "regions apart", "store frozen", "store killed", "region killed", "flapping links")
"""Those that naive promotion and sentinels have an answer to."""

CLUSTERS: dict[str, type[Cluster]] = {
    "fenced": Cluster, "naive": NaiveCluster, "sentinel": SentinelCluster, "sentinel-guarded": GuardedSentinelCluster,
}  # fmt: skip
"""By the name of how stores are promoted."""


def main() -> int:
    options = _parser().parse_args()
    if options.tier == "proxies" and issubclass(CLUSTERS[options.promotion], SentinelCluster):
        why = missing() or "use --tier namespaces"
        print(f"--promotion {options.promotion} runs in network namespaces only: {why}", file=sys.stderr)
        return 2
    if options.tier == "namespaces" and options.inside is None:
        if why := missing():
            print(why, file=sys.stderr)
            return 2
        with Namespaces(f"stn{os.getpid()}") as spaces:
            again = [sys.executable, "-m", "tests.partition", *sys.argv[1:], "--inside", f"stn{os.getpid()}"]
            return _wait(subprocess.Popen([*spaces.control, *again]))
    with tempfile.TemporaryDirectory(prefix="stanchion-partition-") as folder:
        totals = asyncio.run(_play(options, Path(folder)))
    how = "" if options.promotion == "fenced" else f" {options.promotion}"
    name = f"{options.mode}{how}, lease {options.lease:g} s, {options.tier}"
    if options.json:
        print(json.dumps(asdict(totals)))
    else:
        print(f"{HEAD}\n{totals.row(name)}")
        if totals.parts_s:
            print(f"\nmedians of the parts: {totals.split()}")
    for sentence in totals.broken[:20]:
        print(sentence, file=sys.stderr)
    return 1 if totals.broken else 0


def _wait(inside: subprocess.Popen[bytes]) -> int:
    """Hand the signal to end on; the namespaces go when nobody is in them any more."""
    signal.signal(signal.SIGTERM, lambda *_: inside.terminate())
    while True:
        with suppress(KeyboardInterrupt):  # it has got that one too
            return inside.wait()


async def _play(options: argparse.Namespace, folder: Path) -> Totals:
    playing = asyncio.current_task()
    assert playing is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, playing.cancel)
    links: Links = NamespaceLinks(Namespaces(options.inside)) if options.inside else ProxyLinks()
    cluster = CLUSTERS[options.promotion](
        folder, links, mode=options.mode, lease_s=options.lease, ports_free=not options.inside
    )
    random, totals = Random(options.seed), Totals()
    names = options.fault or list(FAULTS if options.promotion == "fenced" else OTHERS_FAULTS)
    async with cluster:
        for number in range(options.rounds):
            fault, began = names[number % len(names)], time.monotonic()
            one = await play(cluster, fault, number, random)
            totals.add(one)
            found = one.findings
            rto = "" if one.rto_s is None else f", first of a new epoch after {one.rto_s:.2f} s"
            print(
                f"{number + 1:3} {fault}: {found.acknowledged} acknowledged, {found.lost} lost, {found.exported} exported, "
                f"{one.epochs} epochs{rto} ({time.monotonic() - began:.0f} s){' BROKEN' if found.broken else ''}",
                file=sys.stderr,
                flush=True,
            )
    return totals


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.partition")
    parser.add_argument("--rounds", type=int, default=len(FAULTS))
    parser.add_argument("--mode", choices=("async", "sync"), default="async")
    parser.add_argument("--tier", choices=("namespaces", "proxies"), default="proxies" if missing() else "namespaces")
    parser.add_argument("--promotion", choices=list(CLUSTERS), default="fenced", help="by whom stores are promoted")
    parser.add_argument("--lease", type=float, default=1.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", action="append", choices=list(FAULTS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
