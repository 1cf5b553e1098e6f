"""Loads that are disturbed by tasks that fail: one commit, and no row twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph import Graph, pipeline

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
