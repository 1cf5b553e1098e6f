"""`make bench`: every scenario, in one run, into RESULTS.md and results.json.

With `OMNIGRAPH_BENCH_QUICK=1` (`make bench-quick`) every scenario at small sizes, judging and writing nothing.
`--twice` runs every scenario named two times and prints how far its ratios are apart: the noise floor.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks import (
    commit_latency,
    merging,
    messy_csv,
    powerlaw,
    queries,
    report,
    search,
    spark,
    throughput,
    upkeep,
    vectors,
    writing,
)

SCENARIOS: dict[str, Callable[[Path], report.Table | list[report.Table]]] = {
    "commit latency": commit_latency.measure,
    "throughput": throughput.measure,
    "upkeep": upkeep.measure,
    "writing": writing.measure,
    "merging": merging.measure,
    "messy csv": messy_csv.measure,
    "queries": queries.measure,
    "power law": powerlaw.measure,
    "search": search.measure,
    "vectors": vectors.measure,
    "spark loads": spark.measure_loads,
    "spark ranks": spark.measure_ranks,
}


def run(name: str, used: list[Path]) -> list[report.Table]:
    """One scenario, in a directory of its own."""
    print(f"{name} ...", flush=True)
    used.append(Path(tempfile.mkdtemp(prefix="omnigraph-bench-")))
    found = SCENARIOS[name](used[-1])
    return [report.signed(table, name) for table in (found if isinstance(found, list) else [found])]


def main(arguments: list[str]) -> int:
    """Run the scenarios named (all by default); each replaces its own tables in the report.

    With `--twice` each is run two times and nothing is written: what differs then is noise.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run")
    parser.add_argument("words", nargs="*", metavar="WORD", help=f"scenarios whose name has it: {', '.join(SCENARIOS)}")
    parser.add_argument("--twice", action="store_true", help="run each two times, print the noise, write nothing")
    asked = parser.parse_args(arguments)
    names = [name for name in SCENARIOS if not asked.words or any(word in name for word in asked.words)]
    if not names:
        parser.error(f"no scenario is called {' or '.join(asked.words)}: there are {', '.join(SCENARIOS)}")
    used: list[Path] = []  # removed at the end: on ext4, creating files is slow for minutes after many were deleted
    tables: list[report.Table] = []
    try:
        for name in names:
            if asked.twice:
                print("\n".join(report.repeated(run(name, used), run(name, used))), flush=True)
                continue
            tables.extend(run(name, used))
            if not report.IS_QUICK:
                report.write(tables)
    finally:
        for directory in used:
            shutil.rmtree(directory, ignore_errors=True)
    for table in tables:
        for row in table.targets:
            judged = "quick " if report.IS_QUICK else "met   " if row.met else "MISSED"
            print(f"{judged} {row.what}: {row.value:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
