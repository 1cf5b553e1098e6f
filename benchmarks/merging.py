"""Merging 50 changed rows against 8 in tables of 20,000 and 100,000 rows: omnigraph and doltlite, in turn.

Every sample is a fresh divergence of the same graph, so the history grows alike on both sides. Only the merge is timed.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa

from benchmarks.report import Row, Table, sized

SIZES = sized((20_000, 100_000), quick=(1_000, 5_000))
THEIRS, OURS = 50, 8
SAMPLES = sized(15, quick=4)
SCHEMA = "node Person { name: String @key  age: I32?  about: String? }"


class Omnigraph:
    """A graph that is forked, changed on both sides and merged, over and over."""

    def __init__(self, directory: Path, rows: int) -> None:
        os.environ["OMNIGRAPH_FSYNC"] = "off"  # as doltlite, which does not flush either
        from omnigraph import Graph
        from omnigraph.write.coverage import fold

        self._graph = Graph.init(directory / f"merge-{rows}", SCHEMA)
        names = pa.array([f"p{i:07}" for i in range(rows)])
        about = pa.array([f"{i:08}" * 128 for i in range(rows)])  # rows of a kilobyte
        people = pa.table({"name": names, "age": pa.array([1] * rows, pa.int32()), "about": about})
        self._graph.load({"Person": people})
        self._rows = rows
        self._graph._store.wait_for_upkeep()
        state = self._graph._repository.head()
        fold(self._graph._repository, state, state.tables["node:Person"])

    def _edit(self, branch: str, count: int, age: int, offset: int) -> None:
        places = [i * (self._rows // count) + offset for i in range(count)]  # all over the table
        rows = [{"name": f"p{i:07}", "age": age, "about": f"{i:08}" * 128} for i in places]
        self._graph.load({"Person": rows}, "merge", branch)

    def merge(self, number: int) -> float:
        branch = f"dev{number}"
        self._graph.branches.create(branch)
        self._edit(branch, THEIRS, number + 2, 0)
        self._edit("main", OURS, number + 2, 3)
        begun = time.perf_counter()
        self._graph.branches.merge(branch)
        return (time.perf_counter() - begun) * 1000

    def close(self) -> None:
        """Nothing to end."""


class Doltlite:
    """The same in a process of its own."""

    def __init__(self, directory: Path, rows: int) -> None:
        arguments = [str(directory), str(rows), str(THEIRS), str(OURS)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.doltlite_merge_worker", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._answer() == "ready"

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def merge(self, number: int) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def measure(directory: Path) -> Table:
    """All engines at all sizes, one sample of each in turn."""
    engines = {(kind.__name__, rows): kind(directory, rows) for rows in SIZES for kind in (Omnigraph, Doltlite)}
    times: dict[tuple[str, int], list[float]] = {key: [] for key in engines}
    for number in range(SAMPLES):
        for key, engine in engines.items():
            times[key].append(engine.merge(number))
    for engine in engines.values():
        engine.close()
    middle = {key: statistics.median(found[2:]) for key, found in times.items()}
    rows = tuple((name.lower(), *(f"{middle[name, size]:.1f}" for size in SIZES)) for name in ("Omnigraph", "Doltlite"))
    small, large = SIZES
    return Table(
        f"Merging {THEIRS} changed rows of a kilobyte against {OURS}, median ms of {SAMPLES - 2}",
        ("engine", *(f"{size:,} rows" for size in SIZES)),
        rows,
        (
            Row("merge, 100,000 rows against 20,000", middle["Omnigraph", large] / middle["Omnigraph", small], 1.5),
            Row("merge at 20,000 rows against doltlite", middle["Omnigraph", small] / middle["Doltlite", small], 10),
            Row("merge at 100,000 rows against doltlite", middle["Omnigraph", large] / middle["Doltlite", large], 10),
        ),
    )
