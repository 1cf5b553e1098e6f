"""One-row writes at history depth 10, 100 and 1,000: omnigraph, a bare pylance append, delta-rs and doltlite.

Every engine is taken to the same depth; then one write of each is timed in turn, so that a busy moment of the machine
hits all of them. Peers do not flush to disk; omnigraph does by default and is measured both ways.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from benchmarks.report import Row, Table, sized

DEPTHS = sized((10, 100, 1000), quick=(10, 20, 30))
SAMPLES = sized(40, quick=4)
LATE = DEPTHS[-1]
SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
Write = Callable[[int], float]


class Engine(Protocol):
    """Something that can be written to, one commit per number; returns the milliseconds of each write."""

    writes: dict[str, Write]


def timed(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return (time.perf_counter() - begun) * 1000


class Omnigraph:
    """Two graphs, so that inserts and two-table commits each have their own history. Flushing is set per process."""

    def __init__(self, directory: Path, fsync: str) -> None:
        os.environ["OMNIGRAPH_FSYNC"] = fsync
        from omnigraph import Graph

        self._insert = Graph.init(directory / f"insert-{fsync}", SCHEMA)
        self._both = Graph.init(directory / f"both-{fsync}", SCHEMA)
        self._both.load([{"type": "Person", "data": {"name": "p-0"}}])
        suffix = "" if fsync == "on" else ", unflushed"
        self.writes = {f"omnigraph insert{suffix}": self.insert, f"omnigraph two tables{suffix}": self.both}

    def insert(self, number: int) -> float:
        rows = [{"type": "Person", "data": {"name": f"p{number}", "age": number}}]
        return timed(lambda: self._insert.load(rows))

    def both(self, number: int) -> float:
        name = f"p{number}"
        rows = [{"type": "Person", "data": {"name": name}}, {"edge": "Knows", "from": name, "to": "p-0"}]
        return timed(lambda: self._both.load(rows))


class Pylance:
    """A plain Lance dataset, appended to through a kept handle. No key, no endpoint, one table."""

    def __init__(self, directory: Path) -> None:
        import lance
        from lance import LanceDataset, LanceOperation
        from lance.fragment import write_fragments

        schema = pa.schema([("name", pa.string()), ("age", pa.int32())])
        self._dataset = lance.write_dataset(schema.empty_table(), directory / "plain", enable_stable_row_ids=True)

        def append(number: int) -> None:
            row = pa.table({"name": [f"p{number}"], "age": pa.array([number], pa.int32())})
            operation = LanceOperation.Append(write_fragments(row, self._dataset))
            self._dataset = LanceDataset.commit(self._dataset, operation, read_version=self._dataset.version)

        self.writes: dict[str, Write] = {"pylance append": lambda number: timed(lambda: append(number))}


class DeltaRs:
    """Two Delta tables, one append each: not atomic together, which is the most it can do."""

    def __init__(self, directory: Path) -> None:
        self._paths = [str(directory / name) for name in ("delta-person", "delta-knows")]
        for path in self._paths:
            write_deltalake(path, self._row(0))
        self.writes: dict[str, Write] = {"delta-rs two tables": lambda number: timed(lambda: self._append(number))}

    @staticmethod
    def _row(number: int) -> pa.Table:
        return pa.table({"name": [f"p{number}"], "age": pa.array([number], pa.int32())})

    def _append(self, number: int) -> None:
        for path in self._paths:
            write_deltalake(DeltaTable(path), self._row(number), mode="append")


class Doltlite:
    """A worker process that commits one row to each of two tables per request."""

    def __init__(self, directory: Path, mode: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.doltlite_worker", str(directory), mode],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.writes: dict[str, Write] = {f"doltlite two tables, connection {mode}": self._commit}

    def _commit(self, _number: int) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


def measure(directory: Path) -> Table:
    """Medians per engine and depth, and the ratios that count."""
    engines: list[Engine] = [
        Omnigraph(directory, "on"),
        Omnigraph(directory, "off"),
        Pylance(directory),
        DeltaRs(directory),
        Doltlite(directory, "opened"),
        Doltlite(directory, "kept"),
    ]
    writes = {name: write for engine in engines for name, write in engine.writes.items()}
    medians: dict[str, dict[int, float]] = {name: {} for name in writes}
    number = 1
    for depth in DEPTHS:
        while number < depth - SAMPLES // 2:
            for write in writes.values():
                write(number)
            number += 1
        samples: dict[str, list[float]] = {name: [] for name in writes}
        for _ in range(SAMPLES):
            for name, write in writes.items():
                samples[name].append(write(number))
            number += 1
        for name, values in samples.items():
            medians[name][depth] = statistics.median(values)
        print(f"  depth {depth}: " + ", ".join(f"{n} {m[depth]:.1f} ms" for n, m in medians.items()), flush=True)
    return Table(
        "One-row commits, milliseconds (median of 40)", ("engine", *(f"depth {d}" for d in DEPTHS)),
        tuple((name, *(f"{m[d]:.1f}" for d in DEPTHS)) for name, m in medians.items()), _ratios(medians),
    )  # fmt: skip


def _ratios(m: dict[str, dict[int, float]]) -> tuple[Row, ...]:
    rows = []
    for suffix, label in ((", unflushed", "unflushed, like its peers"), ("", "flushed")):
        insert, both = m[f"omnigraph insert{suffix}"], m[f"omnigraph two tables{suffix}"]
        bare, delta = m["pylance append"], m["delta-rs two tables"]
        opened, kept = (m[f"doltlite two tables, connection {mode}"] for mode in ("opened", "kept"))
        rows += [
            *(Row(f"insert / bare append at depth {d} ({label})", insert[d] / bare[d], 3.0) for d in DEPTHS),
            Row(
                f"two tables at depth 1,000 / doltlite, opened for each commit ({label})",
                both[LATE] / opened[LATE],
                3.0,
            ),
            Row(f"two tables at depth 1,000 / doltlite, connection kept ({label})", both[LATE] / kept[LATE], 3.0),
            Row(f"two tables at depth 1,000 / delta-rs ({label})", both[LATE] / delta[LATE], 0.5),
            Row(f"two tables: depth 1,000 / depth 10 ({label})", both[LATE] / both[DEPTHS[0]], 1.5),
        ]
    return tuple(rows)
