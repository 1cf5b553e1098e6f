"""The same questions on a graph whose degrees follow a power law: persons and follows only, far more of them.

`BENCH_NODES` and `BENCH_EDGES` set its size, a million and ten million by default.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import memory
from benchmarks.queries import LOADING, POINTS, ask_all, table
from benchmarks.query_engines import write_parquet
from benchmarks.report import Table, sized
from benchmarks.social import social

NODES = int(os.environ.get("BENCH_NODES", sized("1000000", quick="2000")))
EDGES = int(os.environ.get("BENCH_EDGES", sized("10000000", quick="20000")))
WHOLE = ("q1", "q8", "q9")
ENGINES = ("omnigraph", "kuzu", "ladybug", "duckdb")
TARGETS = {"q8": (("kuzu",), 0.2), "q9": (("duckdb", "kuzu"), 0.2), "within3": (("ladybug",), 2.0)}


def endpoints(rng: np.random.Generator, n: int, exponent: float) -> Callable[[int], Any]:
    """Draws nodes so that degrees follow a power law."""
    weights = np.arange(10, n + 10, dtype=np.float64) ** (-1.0 / (exponent - 1.0))
    below = np.cumsum(weights)
    shuffled = rng.permutation(n)
    return lambda size: shuffled[np.minimum(np.searchsorted(below, rng.random(size) * below[-1]), n - 1)]


def powerlaw(n: int, m: int, seed: int) -> dict[str, pa.Table]:
    """Persons 1 to n and m distinct follows between different ones, in the tables of the social graph."""
    rng = np.random.default_rng(seed)
    sources, targets = endpoints(rng, n, 2.8), endpoints(rng, n, 2.2)
    codes = np.empty(0, np.int64)
    while len(codes) < m:
        size = int((m - len(codes)) * 1.15) + 1000
        source, target = sources(size), targets(size)
        apart = source != target
        codes = np.unique(np.concatenate([codes, source[apart].astype(np.int64) * n + target[apart]]))
    codes = np.sort(rng.permutation(codes)[:m])
    found = social(100, seed)  # the other tables are there, and small
    people = found["nodes/persons"]
    made = {
        "id": pa.array(np.arange(1, n + 1)),
        "name": pa.array([f"node-{i:07d}" for i in range(n)]),
        "age": pa.array(rng.integers(18, 90, size=n)),
    }
    some = pa.array(np.arange(n) % people.num_rows)
    columns = {c: made[c] if c in made else people[c].take(some) for c in people.column_names}
    found["nodes/persons"] = pa.table(columns).cast(people.schema)
    found["edges/follows"] = pa.table({"from": codes // n + 1, "to": codes % n + 1})
    return found


def measure(directory: Path) -> list[Table]:
    """Counting over the whole graph, and from single nodes."""
    write_parquet(directory, powerlaw(NODES, EDGES, 7))
    asked = ask_all(directory, ENGINES, (*WHOLE, *POINTS), NODES)
    head = f"power law, {NODES:,} nodes, {EDGES:,} edges"
    return [
        Table(f"Loading ({head})", LOADING, asked.loading, ()),
        table(
            f"Queries ({head}), warm, milliseconds (median)", asked.of((*WHOLE, *POINTS)), (*WHOLE, *POINTS), TARGETS
        ),
        memory.table(f"Memory of an answer, megabytes ({head})", directory, WHOLE),
    ]
