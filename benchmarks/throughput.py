"""Writes per second of 1, 4 and 8 real processes on one branch, of 8 processes on a branch each, and of 32 threads on
one branch in one process and in two.
"""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import Row, Table, sized

ROUNDS = sized(5, quick=1)
SLICE = sized(2.0, quick=1.0)
PAUSE = 0.2
Window = tuple[float, float]
SCHEMA = "\n".join(f"node T{i} {{ name: String @key }}" for i in range(8))


@dataclass(frozen=True)
class Outcome:
    """What a group of processes did together. `acknowledged`: rows of all writes, those outside of windows too."""

    writes_per_second: float
    p50: float
    p99: float
    acknowledged: int


def worker(uri: str, process: int, branch: str, table: int, threads: int, windows: list[Window]) -> None:
    """In each thread, write one row after another between the begin and the end of each window; print the milliseconds
    of each write.
    """
    from omnigraph import Graph

    graph = Graph.open(uri)
    numbers = itertools.count()
    took: list[float] = []
    failed: list[BaseException] = []

    def write() -> float:
        begun = time.perf_counter()
        graph.load([{"type": f"T{table}", "data": {"name": f"{process}-{next(numbers)}"}}], branch=branch)
        return (time.perf_counter() - begun) * 1000

    def write_in_windows() -> None:
        try:
            for begin, end in windows:
                time.sleep(max(0.0, begin - time.time()))
                while time.time() < end:
                    took.append(write())
        except BaseException as error:
            failed.append(error)
            raise

    write()
    others = [threading.Thread(target=write_in_windows) for _ in range(threads - 1)]
    for other in others:
        other.start()
    write_in_windows()
    for other in others:
        other.join()
    if failed:
        raise failed[0]
    print(json.dumps(took))


def starts_at(count: int) -> float:
    """When so many processes will have started, by the clock."""
    return time.time() + 4.0 + count


@dataclass(frozen=True)
class Group:
    """Processes that write at the same time, each to a branch and a table, in so many threads."""

    branches: list[str]
    tables: list[int]
    threads: int = 1

    def start(self, uri: str, windows: list[Window]) -> list[subprocess.Popen[str]]:
        return [
            subprocess.Popen(
                [
                    sys.executable, "-m", "benchmarks.throughput", uri, str(i), branch, str(table), str(self.threads),
                    json.dumps(windows),
                ],
                stdout=subprocess.PIPE, text=True,
            )
            for i, (branch, table) in enumerate(zip(self.branches, self.tables, strict=True))
        ]  # fmt: skip


GROUPS = {
    "1 process": Group(["main"], [0]),
    "4 processes, own tables": Group(["main"] * 4, list(range(4))),
    "8 processes, own tables": Group(["main"] * 8, list(range(8))),
    "8 processes, one table": Group(["main"] * 8, [0] * 8),
    "8 processes, 8 branches": Group([f"b{i}" for i in range(8)], list(range(8))),
    "1 process of 32 threads": Group(["main"], [0], threads=32),
    "2 processes of 16 threads": Group(["main"] * 2, [0] * 2, threads=16),
}


def outcome(processes: list[subprocess.Popen[str]], seconds: float) -> Outcome:
    """What a group has done in so many seconds, once all of it have ended."""
    took: list[float] = []
    for process in processes:
        out, _ = process.communicate(timeout=600)
        if process.returncode:
            raise RuntimeError(f"a writer failed with exit code {process.returncode}")
        took.extend(json.loads(out))
    cuts = statistics.quantiles(took, n=100)
    return Outcome(len(took) / seconds, cuts[49], cuts[98], len(took) + len(processes))


def measure(directory: Path) -> Table:
    """All groups, each on a graph of its own. They take turns in changing order: the speed of a machine may change
    within a minute, and then it does for all of them.
    """
    from omnigraph import Graph

    graphs = {}
    for number, (name, group) in enumerate(GROUPS.items()):
        graphs[name] = Graph.init(directory / f"throughput-{number}", SCHEMA)
        for branch in sorted(set(group.branches) - {"main"}):
            graphs[name].branches.create(branch)
    begin = starts_at(sum(len(group.branches) for group in GROUPS.values()))
    running = {}
    for number, (name, group) in enumerate(GROUPS.items()):
        turns = [r * len(GROUPS) + (number + r) % len(GROUPS) for r in range(ROUNDS)]
        begins = [begin + turn * (SLICE + PAUSE) for turn in turns]
        running[name] = group.start(graphs[name].uri, [(at, at + SLICE) for at in begins])
    if time.time() > begin:
        raise RuntimeError("the processes took too long to start")
    found = {name: outcome(processes, ROUNDS * SLICE) for name, processes in running.items()}
    for name, group in GROUPS.items():
        check(graphs[name], name, group, found[name])
        print(f"  {name}: {found[name]}", flush=True)
    one, eight, apart = found["1 process"], found["8 processes, own tables"], found["8 processes, 8 branches"]
    together, halved = found["1 process of 32 threads"], found["2 processes of 16 threads"]
    return Table(
        f"Writes per second ({ROUNDS * SLICE:.0f} s each, flushed)",
        ("writers", "writes/s", "p50 ms", "p99 ms"),
        tuple((n, f"{o.writes_per_second:.0f}", f"{o.p50:.1f}", f"{o.p99:.1f}") for n, o in found.items()),
        (
            Row("8 processes / 1 process", eight.writes_per_second / one.writes_per_second, 0.9, at_least=True),
            Row("p99 of 8 processes on one branch, ms", eight.p99, 300.0),
            Row("8 branches / 1 process", apart.writes_per_second / one.writes_per_second, 2.5, at_least=True),
            Row(
                "2 processes of 16 threads / 1 process of 32 threads",
                halved.writes_per_second / together.writes_per_second, 0.7, at_least=True,
            ),
        ),
    )  # fmt: skip


def check(graph: object, name: str, group: Group, outcome: Outcome) -> None:
    """Speed that loses rows is no speed: every acknowledged row is there once, and history is one chain."""
    from omnigraph import Graph

    assert isinstance(graph, Graph)
    stored = 0
    for branch in set(group.branches):
        commits = graph.commits.list(branch)
        rows = sum(e.row_count for e in graph.snapshot(branch).tables.values())
        stored += rows
        loads = sum(c.kind == "load" for c in commits)
        # Threads of a process share commits.
        assert loads <= rows if group.threads > 1 else loads == rows, f"{name}: {rows} rows, {loads} loads on {branch}"
        parents = [c.parent_commit_id for c in commits[:-1]]
        assert parents == [c.graph_commit_id for c in commits[1:]], f"{name}: the chain of {branch} is broken"
    assert stored == outcome.acknowledged, f"{name}: {stored} rows after {outcome.acknowledged} writes"


if __name__ == "__main__":
    worker(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), json.loads(sys.argv[6]))
