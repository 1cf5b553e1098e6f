"""Input files on S3: patterns, schemes, folders and rejects, with the credentials of Spark's own settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.s3 import s3_server

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq, pyarrow.fs as fs
from omnigraph import Graph, pipeline
from omnigraph.pipeline.job import parse_job

endpoint, folder = sys.argv[1], Path(sys.argv[2])
s3 = fs.S3FileSystem(
    access_key="who", secret_key="very-hidden-key", region="us-east-1",
    endpoint_override=endpoint.removeprefix("http://"), scheme="http",
)
def put(path, text):
    with s3.open_output_stream(path, compression=None) as out:
        out.write(text.encode())
put("inputs/p/a.csv", "name,age\\na,1\\n")
put("inputs/p/b.csv", "name,age\\nb,2\\ntorn\\n")
put("inputs/p/deep/er/c.csv", "name,age\\nc,3\\n")
put("inputs/p/_SUCCESS", "")
put("inputs/q/land=x%2Fy z/d.jsonl", '{"name": "d"}\\n')
put("inputs/q/land=__HIVE_DEFAULT_PARTITION__/e.jsonl", '{"name": "e"}\\n')
pq.write_table(pa.table({"name": ["f"]}), "inputs/r/land=%C3%A9/f 1.parquet", filesystem=s3)
spark = pipeline.session("local[2]", config={
    "spark.hadoop.fs.s3a.access.key": "who", "spark.hadoop.fs.s3a.secret.key": "very-hidden-key",
    "spark.hadoop.fs.s3a.endpoint": endpoint, "spark.hadoop.fs.s3a.path.style.access": "true",
    "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
})
schema = "node Person { name: String @key  age: I32?  land: String? }"
def loaded(*sources):
    graph = Graph.init(str(folder / f"g{len(list(folder.iterdir()))}"), schema)
    for source in sources:
        pipeline.load(spark, graph, {"Person": source}, max_errors=5)
    rows = graph.rows("node:Person").drop(["id"]).to_pylist()
    return sorted([row["name"], row["age"], row["land"]] for row in rows)
found = {
    "one": loaded("s3a://inputs/p/a.csv"), "star": loaded("s3://inputs/p/*.csv"), "deep": loaded("s3n://inputs/p/**"),
    "braces": loaded("s3://inputs/p/{a,b}.csv"), "folder": loaded("s3://inputs/p"),
    "hive": loaded("s3a://inputs/q", "s3://inputs/r/*/*.parquet"),
}
job = parse_job(
    "on_error: reject\\nrejects: s3a://inputs/out/rejects.jsonl\\n"
    "nodes: {Person: [{path: 's3a://inputs/p/{a,b}.csv', where: \\"name <> 'a'\\", cast: {age: int}}, "
    "{path: 's3a://inputs/r', where: \\"land = 'é'\\"}]}", folder / "job.yaml",
)
graph = Graph.init(str(folder / "job"), schema)
pipeline.run(spark, job, graph)
found["job"] = sorted(graph.rows("node:Person")["name"].to_pylist())
with s3.open_input_stream("inputs/out/rejects.jsonl") as body:
    found["rejects"] = [[r["path"], r["row"], r["value"]] for r in map(json.loads, body.read().decode().splitlines())]
print(json.dumps(found))
"""


@pytest.mark.s3
@pytest.mark.spark
@pytest.mark.processes
@pytest.mark.timeout(600)
def test_inputs_on_s3_with_the_credentials_of_spark(tmp_path: Path) -> None:
    graphs = tmp_path / "graphs"
    graphs.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with s3_server(tmp_path) as server:
        server.create_bucket("inputs")
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM, server.endpoint, str(graphs)], cwd=ROOT,
            env={**env, "OMNIGRAPH_LOG": "debug"}, capture_output=True, text=True, timeout=500, check=False,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert json.loads(ran.stdout.strip().splitlines()[-1]) == {
        "one": [["a", 1, None]],
        "star": [["a", 1, None], ["b", 2, None]],
        "deep": [["a", 1, None], ["b", 2, None], ["c", 3, None]],
        "braces": [["a", 1, None], ["b", 2, None]],
        "folder": [["a", 1, None], ["b", 2, None], ["c", 3, None]],
        "hive": [["d", None, "x/y z"], ["e", None, None], ["f", None, "é"]],
        "job": ["b", "f"],
        "rejects": [["s3a://inputs/p/b.csv", 3, "torn"]],
    }
    assert "very-hidden-key" not in ran.stdout + ran.stderr
    for file in graphs.rglob("*"):
        assert not file.is_file() or b"very-hidden-key" not in file.read_bytes(), file
