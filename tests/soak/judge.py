"""The bounds of a soak: what may be different at its end, and what must not."""

from __future__ import annotations

from statistics import mean

from tests.soak.soak import Report

GROWTH_MB = 20.0
"""Of memory at rest, from the end of the warm-up to the end of the run, however long it was. Seen: 6 MB after 33 000 requests
and 12 MB after 137 500, with the number of live objects constant: what the allocator keeps and the rare full collection has not
seen yet. A leak of one record a request would be far above it.
"""

DRIFT_MB = 8.0
"""Of memory under load, from the second quarter of the run to the last."""

FILES = 3 * 20 + 4
"""The pools of three providers with twenty connections each may be full at one moment and empty at another."""


def judge(report: Report) -> list[str]:
    """Every bound that was passed, in words."""
    faults = list(report.findings.wrong)
    before, after = report.baseline, report.end
    if after.memory_mb - before.memory_mb > GROWTH_MB:
        faults.append(f"memory at rest grew from {before.memory_mb:.1f} to {after.memory_mb:.1f} MB")
    quarter = len(report.under_load) // 4
    if quarter >= 15:
        early = mean(one.memory_mb for one in report.under_load[quarter : 2 * quarter])
        late = mean(one.memory_mb for one in report.under_load[-quarter:])
        if late - early > DRIFT_MB:
            faults.append(f"memory under load drifted from {early:.1f} to {late:.1f} MB")
    if after.files - before.files > FILES:
        faults.append(f"open files at rest grew from {before.files} to {after.files}")
    if after.tasks > before.tasks:
        faults.append(f"tasks at rest grew from {before.tasks} to {after.tasks}")
    if report.in_flight:
        faults.append(f"{report.in_flight:g} turns were still under way")
    if report.exit_code != 0:
        faults.append(f"the gateway ended with {report.exit_code}")
    if not report.findings.endings["stream"] or not report.findings.endings["answer"]:
        faults.append("nothing was answered: the soak proves nothing")
    return faults
