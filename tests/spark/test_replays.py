"""Loads that are sent again, on Spark and in one process alike: what was applied is not applied twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph, pipeline
from omnigraph.errors import JobError, PreconditionFailed, UnknownField
from omnigraph.pipeline.job import parse_job

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { since: I32?  weight: F64?  tags: [String]?  note: String? }
edge Likes: Person -> Person { since: I32?  @key(src, dst) }
"""
PEOPLE = pa.table({"name": ["a", "b", "c"], "age": pa.array([1, 2, 3], pa.int32())})
KNOWS = pa.table(
    {
        "from": ["a", "a", "a", "b", "a"], "to": ["b", "b", "b", "a", "b"],
        "since": pa.array([1, 1, None, 1, 1], pa.int32()), "weight": [0.0, -0.0, None, 1.5, 0.5],
        "tags": pa.array([["x", "y"], ["x", "y"], None, [], ["x"]]), "note": ["", "", None, "1:x", "x"],
    }
)  # fmt: skip


@pytest.fixture(params=["arrow", "spark"])
def engine(request: pytest.FixtureRequest) -> str:
    if request.param == "spark":
        request.getfixturevalue("spark")
    return str(request.param)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load({"Person": PEOPLE})
    return graph


def parquet(folder: Path, name: str, table: pa.Table) -> str:
    path = str(folder / f"{name}.parquet")
    pq.write_table(table, path)
    return path


def test_a_key_that_the_branch_has_seen_is_not_applied_again(graph: Graph, tmp_path: Path, engine: str) -> None:
    path = parquet(tmp_path, "knows", KNOWS)
    first = graph.load({"Knows": path}, idempotency_key="night-1", engine=engine)
    Path(path).unlink()  # what is not applied is not read
    again = graph.load({"Knows": path}, idempotency_key="night-1", engine=engine)
    assert first.commit is not None
    assert again.commit is not None
    assert again.commit.graph_commit_id == first.commit.graph_commit_id
    assert again.total_entities == 0
    assert graph.rows("edge:Knows").num_rows == 5


def test_a_load_expects_a_head(graph: Graph, tmp_path: Path, engine: str) -> None:
    path = parquet(tmp_path, "knows", KNOWS)
    head = graph.snapshot().commit_id
    graph.load({"Knows": path}, expect_head=head, engine=engine)
    with pytest.raises(PreconditionFailed):
        graph.load({"Knows": path}, expect_head=head, engine=engine)
    assert graph.rows("edge:Knows").num_rows == 5
    assert graph.recovery.list() == []


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_unknown_columns_are_skipped_when_asked(graph: Graph, tmp_path: Path, engine: str, kind: str) -> None:
    table = pa.table({"name": ["d"], "age": pa.array([4], pa.int32()), "extra": ["?"]})
    path = str(tmp_path / f"people.{kind}")
    pq.write_table(table, path) if kind == "parquet" else pacsv.write_csv(table, path)
    with pytest.raises(UnknownField):
        graph.load({"Person": path}, engine=engine)
    graph.load({"Person": path}, engine=engine, ignore_unknown=True)
    assert graph.rows("node:Person").num_rows == 4


def test_unknown_columns_of_a_frame_are_skipped_when_asked(spark: Any, graph: Graph) -> None:
    frame = spark.createDataFrame([("d", 4, "?")], "name string, age int, extra string")
    graph.load({"Person": frame}, ignore_unknown=True)
    assert graph.rows("node:Person").num_rows == 4


def test_edges_that_are_there_are_skipped_when_asked(graph: Graph, tmp_path: Path, engine: str) -> None:
    path = parquet(tmp_path, "knows", KNOWS)
    first = graph.load({"Knows": path}, engine=engine, dedupe_edges=True)
    assert (first.edges, first.duplicates) == ({"Knows": 4}, {"Knows": 1})
    again = graph.load({"Knows": path}, engine=engine, dedupe_edges=True)
    assert (again.commit, again.duplicates) == (None, {"Knows": 5})
    found = graph.rows("edge:Knows")
    assert found.num_rows == 4
    graph.load({"Knows": path}, engine=engine)
    assert graph.rows("edge:Knows").num_rows == 9, "without the option, equal edges are meant"
    over = graph.load({"Knows": path}, mode="overwrite", engine=engine, dedupe_edges=True)
    assert (graph.rows("edge:Knows").num_rows, over.duplicates) == (4, {"Knows": 1})


def test_equal_edges_of_several_parts_and_sources_are_one(spark: Any, graph: Graph, tmp_path: Path) -> None:
    rows = pa.table(
        {"from": ["a"] * 300, "to": ["b"] * 300, "since": pa.array([n % 7 for n in range(300)], pa.int32())}
    )
    for each in range(3):
        pq.write_table(rows.slice(each * 100, 100), tmp_path / f"k{each}.parquet")
    frame = spark.range(50).selectExpr("'a' AS `from`", "'b' AS to", "CAST(id % 9 AS int) AS since").repartition(3)
    result = pipeline.load(
        spark, graph, edges={"Knows": [str(tmp_path / "k*.parquet"), frame]}, dedupe_edges=True, max_errors=3
    )
    assert sorted(graph.rows("edge:Knows")["since"].to_pylist()) == list(range(9))
    assert result.duplicates == {"Knows": 341}


def test_a_type_with_a_key_and_nodes_are_left_alone(graph: Graph, tmp_path: Path, engine: str) -> None:
    likes = parquet(tmp_path, "likes", pa.table({"from": ["a"], "to": ["b"], "since": pa.array([1], pa.int32())}))
    for _ in range(2):
        result = graph.load({"Likes": likes}, mode="merge", engine=engine, dedupe_edges=True)
        assert (result.edges, result.duplicates) == ({"Likes": 1}, {})


def test_a_job_says_how_it_is_replayed(spark: Any, graph: Graph, tmp_path: Path) -> None:
    parquet(tmp_path, "knows", KNOWS.append_column("extra", pa.array(["?"] * 5)))
    options = "ignore_unknown: true\ndedupe_edges: true\nidempotency_key: n1"
    text = f"graph: {graph.uri}\n{options}\nedges: {{Knows: knows.parquet}}\n"
    first, again = (pipeline.run(spark, parse_job(text, tmp_path / "job.yaml")) for _ in range(2))
    assert first.duplicates == {"Knows": 1}
    assert again.commit is not None
    assert first.commit is not None
    assert again.commit.graph_commit_id == first.commit.graph_commit_id
    with pytest.raises(PreconditionFailed):
        pipeline.run(
            spark, parse_job(text.replace("n1", "n2") + "expect_head: 01ARZ3NDEKTSV4RRFFQ69G5FAV\n", tmp_path / "j")
        )
    with pytest.raises(JobError, match="dedupe_edges 'yes' is unknown"):
        parse_job(text.replace("dedupe_edges: true", "dedupe_edges: yes"), tmp_path / "job.yaml")


def test_the_command_line_takes_the_options(spark: Any, graph: Graph, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from omnigraph.cli.main import app

    path = parquet(tmp_path, "knows", KNOWS)
    job = tmp_path / "job.yaml"
    job.write_text(f"graph: {graph.uri}\nedges: {{Knows: knows.parquet}}\n")
    head = graph.snapshot().commit_id

    def ran(*arguments: str) -> dict[str, Any]:
        done = CliRunner().invoke(app, [*arguments, "--json"])
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    load = ("load", graph.uri, "--mode", "append", "--edge", f"Knows={path}", "--dedupe-edges", "--engine", "spark")
    assert ran(*load)["duplicates"] == {"Knows": 1}
    run = ("pipeline", "run", str(job), "--dedupe-edges", "--idempotency-key", "k")
    assert ran(*run)["duplicates"] == {"Knows": 5}
    with pytest.raises(PreconditionFailed):
        CliRunner().invoke(app, ["pipeline", "run", str(job), "--if-commit", head], catch_exceptions=False)
    assert graph.rows("edge:Knows").num_rows == 4
