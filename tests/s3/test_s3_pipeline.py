"""The pipeline on an S3 graph: load, SQL, query and analytics on Spark, then upkeep and a merge."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.s3 import s3_server

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
from omnigraph import Graph, pipeline
from omnigraph.errors import OmnigraphError
from omnigraph.pipeline import screening_driver

files = sys.argv[1]
schema = "node Person { name: String @key  rank: F64? }\\nedge Knows: Person -> Person"
graph = Graph.init("s3://pipeline-bucket/graph", schema)
ask = "query q() { match { $p: Person  $p knows $f } return { count(*) as n } }"
spark = pipeline.session("local[2]")
loaded = pipeline.load(spark, graph, {"Person": f"{files}/p.parquet"}, {"Knows": f"{files}/k.parquet"})
found = {
    "loaded": loaded.total_entities,
    "kinds": [c.kind for c in graph.commits.list()],
    "rows": graph.spark.table("Person").count(),
    "sql": graph.spark.sql("select count(*) n from Knows").collect()[0]["n"],
    "ranked": graph.spark.analytics.pagerank("Knows", iterations=2).count(),
    "query": graph.query(ask, engine="spark").to_pylist(),
    "optimized": graph.maintenance.optimize().commit is not None,
    "removed": graph.maintenance.cleanup(keep=3, grace=0, confirm=True, force=True).objects_removed > 0,
    "left": graph.rows("edge:Knows").num_rows,
}
graph.branches.create("x")
graph.mutate('query u() { update Person set { rank: 1.5 } where name = "p1" }', branch="x")
found["merge"] = graph.branches.merge("x").outcome
found["rank"] = graph.entity_at("node:Person", "p1")["rank"]
screening_driver.SCREENED_ROWS = screening_driver.CUT_ROWS = 1  # a large load: tasks judge it
try:
    pipeline.load(spark, graph, {"Person": f"{files}/again.parquet"})
except OmnigraphError as error:
    found["refused"] = [v.message for v in error.violations]
found["after"] = graph.rows("node:Person").num_rows
print(json.dumps(found))
"""


@pytest.mark.s3
@pytest.mark.spark
@pytest.mark.processes
def test_the_pipeline_on_s3(tmp_path: Path) -> None:
    pq.write_table(pa.table({"name": [f"p{i}" for i in range(500)]}), tmp_path / "p.parquet", row_group_size=100)
    ends = {"from": [f"p{i}" for i in range(499)], "to": [f"p{i + 1}" for i in range(499)]}
    pq.write_table(pa.table(ends), tmp_path / "k.parquet", row_group_size=100)
    pq.write_table(pa.table({"name": [*(f"q{i}" for i in range(50)), "p7"]}), tmp_path / "again.parquet")
    with s3_server(tmp_path) as server:
        server.create_bucket("pipeline-bucket")
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path)], cwd=ROOT, env={**os.environ, **server.environment()},
            capture_output=True, text=True, timeout=280, check=False,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert json.loads(ran.stdout.strip().splitlines()[-1]) == {
        "loaded": 999, "kinds": ["load", "init"], "rows": 500, "sql": 499, "ranked": 500, "query": [{"n": 499}],
        "optimized": True, "removed": True, "left": 499, "merge": "fast_forward", "rank": 1.5, "after": 500,
        "refused": ["node:Person already has an entity with id 'p7'"],
    }  # fmt: skip
