"""Loads on Spark against a load in one process and against rows through the JVM; memory; PageRank.

`BENCH_SPARK_NODES` and `BENCH_SPARK_EDGES` set the size of the loads (a million and five million), `BENCH_SPARK_SCALE`
how much larger the second size is (4), `BENCH_RANK_NODES` and `BENCH_RANK_EDGES` the graph of PageRank.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.report import Row, Table, sized
from benchmarks.spark_jobs import MASTER, Done, make_files

NODES = int(os.environ.get("BENCH_SPARK_NODES", sized("1000000", quick="10000")))
EDGES = int(os.environ.get("BENCH_SPARK_EDGES", sized("5000000", quick="50000")))
SCALE = int(os.environ.get("BENCH_SPARK_SCALE", sized("4", quick="2")))
RANK_NODES = int(os.environ.get("BENCH_RANK_NODES", sized("1000000", quick="10000")))
RANK_EDGES = int(os.environ.get("BENCH_RANK_EDGES", sized("10000000", quick="100000")))
DAMPING, ITERATIONS = 0.85, 20


def run_job(name: str, files: Path, directory: Path) -> Done:
    """One job in a process of its own; its graph is gone afterwards."""
    work = directory / "work"
    work.mkdir()
    try:
        ran = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.spark_jobs", name, str(files), str(work)],
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        if ran.returncode:
            raise RuntimeError(f"{name}: {ran.stderr[-2000:]}")
        done = Done(**json.loads(ran.stdout.strip().splitlines()[-1]))
        print(f"  {name} {files.name}: {done}", flush=True)
        return done
    finally:
        shutil.rmtree(work, ignore_errors=True)


def measure_loads(directory: Path) -> Table:
    """Loads of two sizes."""
    one, many = directory / "1x", directory / f"{SCALE}x"
    make_files(one, NODES, EDGES, updated=NODES // 10)
    small, large = f"{NODES:,} + {EDGES:,}", f"{NODES * SCALE:,} + {EDGES * SCALE:,}"
    found = {(name, small): run_job(name, one, directory) for name in ("embedded", "spark", "jvm")}
    half = {name: run_job(name, one, directory) for name in ("append", "merge")}
    shutil.rmtree(one)
    make_files(many, NODES * SCALE, EDGES * SCALE)
    found[("spark", large)] = run_job("spark", many, directory)
    shutil.rmtree(many)
    rows = [(_NAMES[name], size, *_figures(done)) for (name, size), done in found.items()]
    rows += [(_NAMES[name], f"{NODES:,} + 0", *_figures(done)) for name, done in half.items()]
    spark, grown = found[("spark", small)], found[("spark", large)]
    return Table(
        f"Loads on Spark ({MASTER}; Parquet, keys, unique values, ranges, endpoints and cardinality checked)",
        ("load", "nodes + edges", "seconds", "driver MB", "workers MB", "commit"), tuple(rows),
        (
            Row("Spark / one process", spark.seconds / found[("embedded", small)].seconds, 3.0),
            Row("rows through the JVM / Spark", found[("jvm", small)].seconds / spark.seconds, 5.0, at_least=True),
            Row(f"{SCALE}x the data / 1x, seconds", grown.seconds / spark.seconds, 1.125 * SCALE),
            Row(f"{SCALE}x the data / 1x, peak of the driver", grown.driver_mb / spark.driver_mb, 1.25),
            Row("merge with 10% updates / append", half["merge"].seconds / half["append"].seconds, 2.0),
        ),
    )  # fmt: skip


_NAMES = {
    "embedded": "one process, no Spark",
    "spark": "Spark",
    "jvm": "Spark, rows through the JVM, one version a table",
    "append": "Spark, append to as many nodes",
    "merge": "Spark, merge: 10% change nodes that are there",
}


def _figures(done: Done) -> tuple[str, ...]:
    workers = f"{done.workers_mb:,.0f}" if done.workers_mb else "-"
    return f"{done.seconds:.1f}", f"{done.driver_mb:,.0f}", workers, done.commit or "-"


def measure_ranks(directory: Path) -> Table:
    """PageRank of a power-law graph, everything in memory before the clock starts."""
    from benchmarks.powerlaw import powerlaw

    files = directory / "rank"
    files.mkdir()
    edges = powerlaw(RANK_NODES, RANK_EDGES, 7)["edges/follows"]
    text = {name: edges[name].cast(pa.string()) for name in ("from", "to")}
    pq.write_table(
        pa.table({"name": pa.array(np.arange(1, RANK_NODES + 1)).cast(pa.string())}), files / "nodes.parquet"
    )
    pq.write_table(pa.table(text), files / "edges.parquet")
    source, target = edges["from"].to_numpy() - 1, edges["to"].to_numpy() - 1
    seconds, expected = _scipy(source, target)
    found = {"scipy, sparse matrix times vector": seconds}
    notes = []
    for name in ("rank", "rank-spark"):
        done = run_job(name, files, directory)
        found[_RANKS[name]] = done.seconds
        assert abs(float(done.commit) - float(expected.max())) < 1e-9, "the highest ranks differ"
    kuzu = _kuzu(files, directory)
    if isinstance(kuzu, float):
        found["kuzu, page_rank"] = kuzu
    else:
        notes.append(f"kuzu's page_rank is not in the table: {kuzu}")
    shutil.rmtree(files)
    base = found["scipy, sparse matrix times vector"]
    rows = [(name, f"{value:.2f}", f"{value / base:.2f}") for name, value in found.items()]
    rows += [(note, "-", "-") for note in notes]
    targets = [Row("PageRank in one process / scipy", found[_RANKS["rank"]] / base, 3.0)]
    targets.append(Row("PageRank on Spark / scipy", found[_RANKS["rank-spark"]] / base, 3.0))
    if isinstance(kuzu, float):
        targets.append(Row("PageRank in one process / kuzu", found[_RANKS["rank"]] / kuzu, 0.3))
    title = f"PageRank, {ITERATIONS} iterations (power law, {RANK_NODES:,} nodes, {RANK_EDGES:,} edges), warm"
    return Table(title, ("engine", "seconds", "to scipy"), tuple(rows), tuple(targets))


_RANKS = {"rank": "omnigraph, one process", "rank-spark": f"omnigraph, Spark {MASTER}"}


def _scipy(source: Any, target: Any) -> tuple[float, Any]:
    """The same iteration on a sparse matrix."""
    from scipy.sparse import csr_array

    ones = np.ones(len(source))
    matrix = csr_array((ones, (target, source)), shape=(RANK_NODES, RANK_NODES))
    outgoing = np.bincount(source, minlength=RANK_NODES).astype(np.float64)
    dangling = outgoing == 0
    outgoing[dangling] = 1.0
    begun = time.perf_counter()
    rank = np.full(RANK_NODES, 1.0 / RANK_NODES)
    for _ in range(ITERATIONS):
        spread = rank[dangling].sum() / RANK_NODES
        rank = (1 - DAMPING) / RANK_NODES + DAMPING * (matrix @ (rank / outgoing) + spread)
    return time.perf_counter() - begun, rank


def _kuzu(files: Path, directory: Path) -> float | str:
    """Seconds of kuzu's own, or why there is no such figure."""
    import kuzu

    connection = kuzu.Connection(kuzu.Database(str(directory / "kuzu")))
    try:
        connection.execute("INSTALL algo")
        connection.execute("LOAD algo")
    except RuntimeError as error:
        return f"its algo extension cannot be installed here ({str(error).splitlines()[0][:80]})"
    connection.execute("CREATE NODE TABLE P(name STRING, PRIMARY KEY (name))")
    connection.execute("CREATE REL TABLE F(FROM P TO P)")
    connection.execute(f"COPY P FROM '{files / 'nodes.parquet'}'")
    connection.execute(f"COPY F FROM '{files / 'edges.parquet'}'")
    connection.execute("CALL project_graph('G', ['P'], ['F'])")
    begun = time.perf_counter()
    connection.execute(f"CALL page_rank('G', maxIterations := {ITERATIONS}, tolerance := 0.0) RETURN max(rank)")
    return time.perf_counter() - begun
