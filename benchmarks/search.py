"""Search against LanceDB on the same rows: nearest neighbours by index with their recall, full text, and both at once.

Vectors lie around random centres, like embeddings of topics; texts are drawn from words of uneven frequency. Recall is
the part of the ten exact neighbours that an index finds. `BENCH_VECTORS` sets how many rows there are.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.report import Row, Table, sized

COUNT = int(os.environ.get("BENCH_VECTORS", sized("100000", quick="4000")))
WIDTH = 128
WANTED = 10
ASKED = 100
PROBES = 20
SCHEMA = f"""
node Doc {{ num: I64 @key  body: String @index  embedding: Vector({WIDTH}) @index(metric="cosine") }}
"""
QUERIES = f"""
query near($v: Vector({WIDTH})) {{
    match {{ $d: Doc }}
    return {{ $d.num }}
    order {{ nearest($d.embedding, $v) }}
    limit {WANTED}
}}

query text($t: String) {{
    match {{ $d: Doc }}
    return {{ $d.num }}
    order {{ bm25($d.body, $t) }}
    limit {WANTED}
}}

query hybrid($v: Vector({WIDTH}), $t: String) {{
    match {{ $d: Doc }}
    return {{ $d.num }}
    order {{ rrf(nearest($d.embedding, $v), bm25($d.body, $t)) }}
    limit {WANTED}
}}
"""
Vectors = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class Rows:
    """What is searched, and what for."""

    vectors: Vectors
    texts: list[str]
    wanted: Vectors
    words: list[str]

    def nearest(self, vector: Vectors) -> set[int]:
        """The exact neighbours of a vector (all of length one)."""
        return set(np.argpartition(-(self.vectors @ vector), WANTED)[:WANTED].tolist())


def make_rows(count: int, seed: int = 7) -> Rows:
    """A function of its size and a seed."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(max(10, count // 500), WIDTH))

    def around(n: int) -> Vectors:
        # So wide that LanceDB's index with 20 probes finds about 0.975 of the neighbours: not all, and not too few.
        found = centres[rng.integers(0, len(centres), n)] + rng.normal(scale=1.65, size=(n, WIDTH))
        unit: Vectors = (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)
        return unit

    names = np.array([f"word{i}" for i in range(20_000)])
    drawn = np.minimum(rng.zipf(1.3, size=(count, 12)) - 1, len(names) - 1)
    texts = [" ".join(row) for row in names[drawn]]
    words = [f"word{i}" for i in rng.integers(20, 2000, ASKED)]
    return Rows(around(count), texts, around(ASKED), words)


class OwnSearch:
    """OmniGraph: one query language for all three."""

    def __init__(self, directory: Path, rows: Rows) -> None:
        from omnigraph import Graph

        self._graph = Graph.init(directory / "search.omni", SCHEMA)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.vectors.ravel()), WIDTH)
        self._graph.load(
            {"Doc": pa.table({"num": np.arange(len(rows.texts)), "body": rows.texts, "embedding": vectors})}
        )

    def index(self) -> None:
        from omnigraph.errors import ExpectedVersionMismatch

        for _ in range(5):  # building loses a race against the upkeep that follows a load, and is then run again
            try:
                self._graph.maintenance.ensure_indices()
                return
            except ExpectedVersionMismatch:
                continue
        raise RuntimeError("the indexes could not be built")

    def _numbers(self, name: str, **params: Any) -> list[int]:
        return self._graph.query(QUERIES, name, params).table.column(0).to_pylist()

    def near(self, vector: Vectors, _word: str) -> list[int]:
        return self._numbers("near", v=vector.tolist())

    def text(self, _vector: Vectors, word: str) -> list[int]:
        return self._numbers("text", t=word)

    def hybrid(self, vector: Vectors, word: str) -> list[int]:
        return self._numbers("hybrid", v=vector.tolist(), t=word)


class LanceDbSearch:
    """LanceDB with an IVF_FLAT index of as many partitions, and its full-text index."""

    def __init__(self, directory: Path, rows: Rows) -> None:
        import lancedb

        vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.vectors.ravel()), WIDTH)
        data = pa.table({"num": np.arange(len(rows.texts)), "body": rows.texts, "vector": vectors})
        self._table = lancedb.connect(str(directory / "lancedb")).create_table("doc", data)

    def index(self) -> None:
        from lancedb.index import FTS, IvfFlat

        partitions = max(1, int(len(self._table) ** 0.5))
        self._table.create_index("vector", config=IvfFlat(distance_type="cosine", num_partitions=partitions))
        self._table.create_index("body", config=FTS(with_position=False))

    def near(self, vector: Vectors, _word: str) -> list[int]:
        found = self._table.search(vector).distance_type("cosine").nprobes(PROBES).limit(WANTED)
        return found.select(["num", "_distance"]).to_arrow()["num"].to_pylist()

    def text(self, _vector: Vectors, word: str) -> list[int]:
        found = self._table.search(word, query_type="fts").limit(WANTED).select(["num", "_score"])
        return found.to_arrow()["num"].to_pylist()

    def hybrid(self, vector: Vectors, word: str) -> list[int]:
        found = self._table.search(query_type="hybrid").vector(vector).text(word).nprobes(PROBES).limit(WANTED)
        return found.to_arrow()["num"].to_pylist()


def timed(ask: Callable[[Vectors, str], list[int]], rows: Rows) -> tuple[list[float], list[list[int]]]:
    """Milliseconds and answers of every question, after a few that are not counted."""
    for vector, word in zip(rows.wanted[:5], rows.words[:5], strict=True):
        ask(vector, word)
    took, found = [], []
    for vector, word in zip(rows.wanted, rows.words, strict=True):
        begun = time.perf_counter()
        found.append(ask(vector, word))
        took.append((time.perf_counter() - begun) * 1000)
    return took, found


def measure(directory: Path) -> list[Table]:
    """Build both, ask both, compare."""
    rows = make_rows(COUNT)
    exact = [rows.nearest(vector) for vector in rows.wanted]
    cells: list[tuple[str, ...]] = []
    medians: dict[tuple[str, str], float] = {}
    recalls: dict[str, float] = {}
    for name, kind in (("omnigraph", OwnSearch), ("lancedb", LanceDbSearch)):
        engine: Any = kind(directory, rows)
        begun = time.perf_counter()
        engine.index()
        built = time.perf_counter() - begun
        row = [name, f"{built:.1f}"]
        for what in ("near", "text", "hybrid"):
            took, found = timed(getattr(engine, what), rows)
            medians[name, what] = statistics.median(took)
            row += [f"{medians[name, what]:.2f} / {sorted(took)[int(len(took) * 0.99) - 1]:.2f}"]
            if what == "near":
                hits = [len(set(ids) & wanted) for ids, wanted in zip(found, exact, strict=True)]
                recalls[name] = sum(hits) / (WANTED * len(hits))
                row.append(f"{recalls[name]:.3f}")
        cells.append(tuple(row))
        print(f"  {row}", flush=True)
    titles = {"near": "nearest", "text": "full text", "hybrid": "hybrid"}
    targets = [
        Row(f"{title} / lancedb", medians["omnigraph", what] / medians["lancedb", what], 1.3)
        for what, title in titles.items()
    ]
    targets.append(Row("recall@10", recalls["omnigraph"], 0.97, at_least=True))
    head = ("engine", "index s", "nearest ms (p50 / p99)", "recall@10", "full text ms", "hybrid ms")
    return [Table(f"Search, {COUNT:,} rows, {WIDTH} dimensions", head, tuple(cells), tuple(targets))]
