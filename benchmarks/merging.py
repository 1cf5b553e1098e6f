"""Merging 50 changed rows against 8 in tables of 20,000 and 100,000 rows: omnigraph and doltlite, in turn.

Rows are tiny or of a kilobyte, and the changed ones lie next to each other or all over the table: what a merge costs
follows from both. Every sample is a fresh divergence of the same graph, so the history grows alike on both sides. Only
the merge is timed.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pyarrow as pa

from benchmarks.report import Row, Table, sized

SIZES = sized((20_000, 100_000), quick=(1_000, 5_000))
THEIRS, OURS = 50, 8
SAMPLES = sized(15, quick=4)
SCHEMA = "node Person { name: String @key  age: I32?  about: String? }"
WIDTHS = {"tiny": 0, "1 KiB": 128}
"""How often a text of eight bytes is repeated in every row."""
TOGETHER, SPREAD = "together", "spread"
JUDGED = "1 KiB"


@dataclass(frozen=True)
class Case:
    """A table, and which of its rows are changed."""

    rows: int
    width: str
    placement: str

    @property
    def name(self) -> str:
        return f"merge-{self.rows}-{WIDTHS[self.width]}-{self.placement}"

    def about(self, row: int) -> str:
        """The text of a row."""
        return f"{row:08}" * WIDTHS[self.width]

    def theirs(self) -> list[int]:
        """The rows that the branch changes."""
        if self.placement == TOGETHER:
            return [self.rows // 2 + i for i in range(THEIRS)]
        return [i * (self.rows // THEIRS) for i in range(THEIRS)]

    def ours(self) -> list[int]:
        """The rows that main changes: right behind theirs, or in between."""
        if self.placement == TOGETHER:
            return [self.rows // 2 + THEIRS + i for i in range(OURS)]
        return [i * (self.rows // OURS) + 3 for i in range(OURS)]


class Omnigraph:
    """A graph that is forked, changed on both sides and merged, over and over."""

    def __init__(self, directory: Path, case: Case) -> None:
        os.environ["OMNIGRAPH_FSYNC"] = "off"  # as doltlite, which does not flush either
        from omnigraph import Graph
        from omnigraph.write.index_fold import fold

        self._case = case
        self._graph = Graph.init(directory / case.name, SCHEMA)
        names = pa.array([f"p{i:07}" for i in range(case.rows)])
        about = pa.array([case.about(i) for i in range(case.rows)])
        self._graph.load(
            {"Person": pa.table({"name": names, "age": pa.array([1] * case.rows, pa.int32()), "about": about})}
        )
        self._graph.repository.store.wait_for_background_work()
        state = self._graph.repository.head()
        fold(self._graph.repository, state, state.tables["node:Person"])

    def _edit(self, branch: str, places: list[int], age: int) -> None:
        rows = [{"name": f"p{i:07}", "age": age, "about": self._case.about(i)} for i in places]
        self._graph.load({"Person": rows}, "merge", branch)

    def merge(self, number: int) -> float:
        branch = f"dev{number}"
        self._graph.branches.create(branch)
        self._edit(branch, self._case.theirs(), number + 2)
        self._edit("main", self._case.ours(), number + 2)
        begun = time.perf_counter()
        self._graph.branches.merge(branch)
        return (time.perf_counter() - begun) * 1000

    def close(self) -> None:
        """Nothing to end."""


class Doltlite:
    """The same in a process of its own."""

    def __init__(self, directory: Path, case: Case) -> None:
        arguments = [str(directory), str(case.rows), case.width, case.placement]
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


Medians = dict[tuple[type[Omnigraph | Doltlite], Case], float]


def _medians(directory: Path, cases: list[Case]) -> Medians:
    """Both engines in some cases, one sample of each in turn."""
    kinds: tuple[type[Omnigraph | Doltlite], ...] = (Omnigraph, Doltlite)
    engines = {(kind, case): kind(directory, case) for case in cases for kind in kinds}
    times: dict[tuple[type[Omnigraph | Doltlite], Case], list[float]] = {key: [] for key in engines}
    for number in range(SAMPLES):
        for key, engine in engines.items():
            times[key].append(engine.merge(number))
    for engine in engines.values():
        engine.close()
    return {key: statistics.median(found[2:]) for key, found in times.items()}


def measure(directory: Path) -> Table:
    """All widths and placements, each at all sizes."""
    middle: Medians = {}
    grid = list(product(WIDTHS, (TOGETHER, SPREAD)))
    for width, placement in grid:
        middle |= _medians(directory, [Case(size, width, placement) for size in SIZES])
    shown: list[tuple[str, ...]] = []
    targets: list[Row] = []
    for width, placement in grid:
        cells: list[str] = []
        cases = [Case(size, width, placement) for size in SIZES]
        for case in cases:
            ours, theirs = middle[Omnigraph, case], middle[Doltlite, case]
            cells += [f"{ours:.1f}", f"{theirs:.1f}", f"{ours / theirs:.1f}"]
        shown.append((width, placement, *cells))
        if width == JUDGED:
            small, large = cases
            growth = middle[Omnigraph, large] / middle[Omnigraph, small]
            what = f"merge of rows of {width}, {placement}"
            targets.append(Row(f"{what}: {large.rows:,} rows against {small.rows:,}", growth, 1.5))
            for case in cases:
                ratio = middle[Omnigraph, case] / middle[Doltlite, case]
                targets.append(Row(f"{what}: against doltlite at {case.rows:,} rows", ratio, 10))
    heads = (f"{size:,} rows: {what}" for size in SIZES for what in ("omnigraph", "doltlite", "ratio"))
    return Table(
        f"Merging {THEIRS} changed rows against {OURS}, median ms of {SAMPLES - 2}",
        ("row", "changed rows lie", *heads),
        tuple(shown),
        tuple(targets),
    )
