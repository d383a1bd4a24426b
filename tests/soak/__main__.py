"""`python -m tests.soak --seconds 600`: runs, prints the report, exits with 1 when something was wrong."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from tests.soak.judge import judge
from tests.soak.soak import soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    report = asyncio.run(soak(options.seconds, options.seed))
    sys.stdout.write(report.text() + "\n")
    faults = judge(report)
    sys.stdout.writelines(f"  FAULT: {fault}\n" for fault in faults)
    sys.stdout.write("  nothing grew, nothing was left unanswered\n" if not faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
