"""Four writers alone, and beside an `optimize` that never rests: what upkeep takes from them."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import throughput
from benchmarks.report import Row, Table, noise, sized

WRITERS = 4
ROUNDS = sized(3, quick=1)
SECONDS = sized(10.0, quick=1.5)
ALONE, AGAIN, BESIDE = "4 writers", "4 writers, once more", "4 writers beside continuous optimize"


def optimize_until(uri: str, end: float) -> None:
    """Optimize again and again; print how often, and how often there was something to do."""
    from omnigraph import Graph

    graph = Graph.open(uri)
    runs = commits = 0
    while time.time() < end:
        runs += 1
        commits += graph.maintenance.optimize().commit is not None
    print(json.dumps([runs, commits]))


def one_round(directory: Path, *, beside: bool) -> tuple[throughput.Outcome, list[int]]:
    """One group of writers on a fresh graph."""
    from omnigraph import Graph

    graph = Graph.init(directory, throughput.SCHEMA)
    begin = throughput.starts_at(WRITERS)
    end = begin + SECONDS
    optimizer = None
    if beside:
        optimizer = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.upkeep", graph.uri, str(end)], stdout=subprocess.PIPE, text=True
        )
    writers = throughput.Group(["main"] * WRITERS, list(range(WRITERS)))
    outcome = throughput.outcome(writers.start(graph.uri, [(begin, end)]), SECONDS)
    did = [0, 0]
    if optimizer is not None:
        out, _ = optimizer.communicate(timeout=120)
        did = json.loads(out)
    throughput.check(graph, "upkeep", writers, outcome)
    return outcome, did


def measure(directory: Path) -> Table:
    """Rounds in turn, so that a busy moment of the machine hits both."""
    found: dict[str, list[throughput.Outcome]] = {ALONE: [], BESIDE: [], AGAIN: []}
    did = [0, 0]
    for number in range(ROUNDS):
        for name, outcomes in found.items():
            outcome, done = one_round(directory / f"{name}-{number}", beside=name == BESIDE)
            outcomes.append(outcome)
            did = [a + b for a, b in zip(did, done, strict=True)]
            print(f"  {name}: {outcome}", flush=True)
    rates = {name: statistics.median(o.writes_per_second for o in outcomes) for name, outcomes in found.items()}
    calm = statistics.mean((rates[ALONE], rates[AGAIN]))
    p99 = {name: statistics.median(o.p99 for o in outcomes) for name, outcomes in found.items()}
    return Table(
        f"Writers beside optimize, median of {ROUNDS}",
        ("writers", "commits/s", "p99 ms", "runs of optimize", "commits"),
        tuple(
            (name, f"{rate:.0f}", f"{p99[name]:.1f}", *(map(str, did) if name == BESIDE else ("", "")))
            for name, rate in rates.items()
        ),
        (
            Row("beside optimize / alone, commits per second", rates[BESIDE] / calm, 0.7, at_least=True),
            noise(rates[ALONE], rates[AGAIN]),
        ),
    )  # fmt: skip


if __name__ == "__main__":
    optimize_until(sys.argv[1], float(sys.argv[2]))
