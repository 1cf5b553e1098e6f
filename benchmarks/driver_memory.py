"""How much memory the driver of a Spark job takes, from a process that has its session and an open graph.

    python -m benchmarks.driver_memory make DIR NODES EDGES    a graph of random edges, and a file of all nodes
    python -m benchmarks.driver_memory algorithms DIR          whole-graph algorithms on Spark
    python -m benchmarks.driver_memory upsert DIR              an upsert on Spark that replaces every node

Each prints seconds, the rise of the peak of resident memory, and the peak that numpy and Python have allocated.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.memory import MB, status

SCHEMA = "node P { name: String @key  size: I64? }\nedge F: P -> P { w: F64? }"


def make(folder: Path, nodes: int, edges: int) -> None:
    """A graph of random edges, and a file that has every node again."""
    from omnigraph import Graph

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rng = np.random.default_rng(3)
    names = np.char.add("node-", np.arange(nodes).astype(str))
    pq.write_table(pa.table({"name": names, "size": np.arange(nodes)}), folder / "nodes.parquet")
    pq.write_table(pa.table({"name": names, "size": np.arange(nodes) + 1}), folder / "again.parquet")
    ends = {end: names[rng.integers(0, nodes, edges)] for end in ("from", "to")}
    pq.write_table(pa.table({**ends, "w": rng.random(edges)}), folder / "edges.parquet")
    graph = Graph.init(folder / "graph", SCHEMA)
    graph.load({"P": str(folder / "nodes.parquet"), "F": str(folder / "edges.parquet")})
    graph.repository.store.wait_for_background_work()


def measure(work: Callable[[], Any]) -> dict[str, float]:
    """What one piece of work takes."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = status("VmRSS")
    tracemalloc.start(1)
    begun = time.perf_counter()
    work()
    seconds = time.perf_counter() - begun
    _, allocated = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    rise = status("VmHWM") - before
    return {"seconds": round(seconds, 1), "rss MB": round(rise / MB, 1), "allocated MB": round(allocated / MB, 1)}


def session() -> Any:
    """A session whose first job has run, so that what that imports is not counted."""
    from omnigraph import pipeline

    spark = pipeline.session("local[2]")
    spark.range(10).mapInArrow(lambda batches: batches, "id long").count()
    return spark


def algorithms(folder: Path) -> dict[str, dict[str, float]]:
    """Whole-graph algorithms; the first one builds the topology."""
    from omnigraph import Graph, pipeline

    runs = pipeline.analytics(session(), Graph.open(folder / "graph"))
    return {
        "pagerank": measure(lambda: runs.pagerank("F", iterations=5)),
        "again": measure(lambda: runs.pagerank("F", iterations=5)),
        "components": measure(lambda: runs.components("F")),
        "communities": measure(lambda: runs.communities("F", iterations=5)),
    }


def upsert(folder: Path) -> dict[str, dict[str, float]]:
    """Every node is replaced."""
    from omnigraph import Graph, pipeline

    spark, graph = session(), Graph.open(folder / "graph")
    source = {"P": str(folder / "again.parquet")}
    return {"upsert": measure(lambda: pipeline.load(spark, graph, source, mode="merge"))}


if __name__ == "__main__":
    where = Path(sys.argv[2])
    if sys.argv[1] == "make":
        make(where, int(sys.argv[3]), int(sys.argv[4]))
    else:
        print(json.dumps(algorithms(where) if sys.argv[1] == "algorithms" else upsert(where)))
