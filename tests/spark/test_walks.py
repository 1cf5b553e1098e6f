"""The walk of a Spark load in docs/dev/walks.md is what happens in the driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph import Graph, pipeline
from tests.docs.walks import calls_of, require_walk


def test_one_spark_load(spark: Any, tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", "node Person { name: String @key  age: I32? }")
    path = str(tmp_path / "people.parquet")
    pq.write_table(pa.table({"name": ["x", "y"], "age": pa.array([1, 2], pa.int32())}), path)
    require_walk("One Spark load", calls_of(lambda: pipeline.load(spark, graph, {"Person": path})))
