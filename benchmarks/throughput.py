"""Commits per second of 1, 4 and 8 real processes on one branch, and of 8 processes on a branch each."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import Row, Table, sized

SECONDS = sized(10.0, quick=1.5)
SCHEMA = "\n".join(f"node T{i} {{ name: String @key }}" for i in range(8))


@dataclass(frozen=True)
class Outcome:
    """What a group of processes did together."""

    commits_per_second: float
    p50: float
    p99: float


def worker(uri: str, process: int, branch: str, table: int, start_at: float) -> None:
    """Commit one row after another for a while; print the milliseconds of each."""
    from omnigraph import Graph

    graph = Graph.open(uri)
    graph.load([{"type": f"T{table}", "data": {"name": f"warm-{process}"}}], branch=branch)
    time.sleep(max(0.0, start_at - time.time()))
    took = []
    end = time.perf_counter() + SECONDS
    number = 0
    while time.perf_counter() < end:
        begun = time.perf_counter()
        graph.load([{"type": f"T{table}", "data": {"name": f"{process}-{number}"}}], branch=branch)
        took.append((time.perf_counter() - begun) * 1000)
        number += 1
    print(json.dumps(took))


def starts_at(count: int) -> float:
    """When so many processes will have started, by the clock."""
    return time.time() + sized(4.0, quick=2.0) + sized(1.0, quick=0.5) * count


def run_group(uri: str, branches: list[str], tables: list[int]) -> Outcome:
    """Run one process per branch and table given, all at once."""
    start_at = starts_at(len(branches))
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.throughput", uri, str(i), branch, str(table), str(start_at)],
            stdout=subprocess.PIPE, text=True,
        )
        for i, (branch, table) in enumerate(zip(branches, tables, strict=True))
    ]  # fmt: skip
    took: list[float] = []
    for process in processes:
        out, _ = process.communicate(timeout=300)
        if process.returncode:
            raise RuntimeError(f"a writer failed with exit code {process.returncode}")
        took.extend(json.loads(out))
    cuts = statistics.quantiles(took, n=100)
    return Outcome(len(took) / SECONDS, cuts[49], cuts[98])


def measure(directory: Path) -> Table:
    """All groups, each on a fresh graph."""
    from omnigraph import Graph

    groups = {
        "1 process": (["main"], [0]),
        "4 processes, own tables": (["main"] * 4, list(range(4))),
        "8 processes, own tables": (["main"] * 8, list(range(8))),
        "8 processes, one table": (["main"] * 8, [0] * 8),
        "8 processes, 8 branches": ([f"b{i}" for i in range(8)], list(range(8))),
    }
    found: dict[str, Outcome] = {}
    for number, (name, (branches, tables)) in enumerate(groups.items()):
        graph = Graph.init(directory / f"throughput-{number}", SCHEMA)
        for branch in sorted(set(branches) - {"main"}):
            graph.branches.create(branch)
        found[name] = run_group(graph.uri, branches, tables)
        check(graph, name, branches)
        print(f"  {name}: {found[name]}", flush=True)
    one, eight, apart = found["1 process"], found["8 processes, own tables"], found["8 processes, 8 branches"]
    return Table(
        f"Commits per second ({SECONDS:.0f} s each, flushed)", ("writers", "commits/s", "p50 ms", "p99 ms"),
        tuple((n, f"{o.commits_per_second:.0f}", f"{o.p50:.1f}", f"{o.p99:.1f}") for n, o in found.items()),
        (
            Row("8 processes / 1 process", eight.commits_per_second / one.commits_per_second, 0.9, at_least=True),
            Row("p99 of 8 processes on one branch, ms", eight.p99, 300.0),
            Row("8 branches / 1 process", apart.commits_per_second / one.commits_per_second, 2.5, at_least=True),
        ),
    )  # fmt: skip


def check(graph: object, name: str, branches: list[str]) -> None:
    """Speed that loses rows is no speed: every acknowledged row is there, and history is one chain."""
    from omnigraph import Graph

    assert isinstance(graph, Graph)
    for branch in set(branches):
        commits = graph.commits.list(branch)
        rows = sum(e.row_count for e in graph.snapshot(branch).tables.values())
        loads = sum(c.kind == "load" for c in commits)
        assert rows == loads, f"{name}: {rows} rows after {loads} loads on {branch}"
        parents = [c.parent_commit_id for c in commits[:-1]]
        assert parents == [c.graph_commit_id for c in commits[1:]], f"{name}: the chain of {branch} is broken"


if __name__ == "__main__":
    worker(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
