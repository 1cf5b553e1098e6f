"""`make bench`: every scenario, in one run, into RESULTS.md and results.json.

With `OMNIGRAPH_BENCH_QUICK=1` (`make bench-quick`) every scenario at small sizes, judging and writing nothing.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks import commit_latency, merging, powerlaw, queries, report, search, throughput, upkeep, writing

SCENARIOS = {
    "commit latency": commit_latency.measure,
    "throughput": throughput.measure,
    "upkeep": upkeep.measure,
    "writing": writing.measure,
    "merging": merging.measure,
    "queries": queries.measure,
    "power law": powerlaw.measure,
    "search": search.measure,
}


def main(wanted: list[str]) -> int:
    """Run the scenarios named (all by default); each replaces its own tables in the report."""
    tables = []
    for name, measure in SCENARIOS.items():
        if wanted and not any(word in name for word in wanted):
            continue
        print(f"{name} ...", flush=True)
        directory = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
        try:
            found = measure(directory)
            tables.extend(report.signed(t, name) for t in (found if isinstance(found, list) else [found]))
            if not report.IS_QUICK:
                report.write(tables)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    for table in tables:
        for row in table.targets:
            judged = "quick " if report.IS_QUICK else "met   " if row.met else "MISSED"
            print(f"{judged} {row.what}: {row.value:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
