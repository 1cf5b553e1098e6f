"""Loads that are disturbed, by tasks that fail or a driver that dies: one commit or none, and no row twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph, pipeline
from omnigraph.storage.failpoints import VARIABLE, Point
from tests.support.graphs import EXPIRED

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"


def people(batches: Iterator[pa.RecordBatch], failing: int) -> Iterator[Any]:
    """Rows from numbers; the first attempts of every task fail after some rows."""
    from pyspark import TaskContext

    context = TaskContext.get()
    for batch in batches:
        names = [f"p{number}" for number in batch.column(0).to_pylist()]
        yield pa.RecordBatch.from_pydict({"name": names})
        if context.attemptNumber() < failing:
            raise RuntimeError("this attempt fails")


def frame(spark: Any, failing: int) -> Any:
    return spark.range(0, 400, 1, 2).mapInArrow(lambda batches: people(batches, failing), "name string")


def test_tasks_that_fail_at_first_leave_no_duplicates(spark: Any, tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    result = pipeline.load(spark, graph, {"Person": frame(spark, 1)})
    assert dict(result.nodes) == {"Person": 400}
    ids = graph.rows("node:Person")["id"].to_pylist()
    assert sorted(ids) == sorted(f"p{number}" for number in range(400))
    assert [c.kind for c in graph.commits.list()] == ["load", "init"]


DRIVER = """
import sys, warnings
warnings.simplefilter("ignore")
from omnigraph import Graph, pipeline

files, uri = sys.argv[1:]
spark = pipeline.session("local[2]")
pipeline.load(spark, Graph.open(uri), {"Person": f"{files}/p.parquet"}, {"Knows": f"{files}/k.parquet"})
"""


@pytest.mark.processes
@pytest.mark.parametrize(
    ("place", "loaded"),
    [
        pytest.param(Point.INTENT_BEGUN, False, marks=pytest.mark.slow),
        (Point.INTENT_COMPLETED, True),
        pytest.param(Point.SWAPPED, True, marks=pytest.mark.slow),
    ],
)
def test_a_driver_that_dies_leaves_one_commit_or_none(tmp_path: Path, place: Point, loaded: bool) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    pq.write_table(pa.table({"name": [f"p{i}" for i in range(300)]}), tmp_path / "p.parquet", row_group_size=100)
    ends = {"from": [f"p{i}" for i in range(299)], "to": [f"p{i + 1}" for i in range(299)]}
    pq.write_table(pa.table(ends), tmp_path / "k.parquet", row_group_size=100)
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER, str(tmp_path), graph.uri], env={**os.environ, VARIABLE: f"{place}:kill"},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert ran.returncode == -signal.SIGKILL, ran.stderr[-1000:]
    recovered = Graph.open(graph.uri, settings=EXPIRED)
    rows = {key: entry.row_count for key, entry in recovered.snapshot().tables.items()}
    assert rows == ({"node:Person": 300, "edge:Knows": 299} if loaded else {"node:Person": 0, "edge:Knows": 0})
    assert recovered.recovery.list() == []
    recovered.load({"Person": str(tmp_path / "p.parquet"), "Knows": str(tmp_path / "k.parquet")}, mode="merge")
    assert recovered.snapshot().table("node:Person").row_count == 300
