"""`optimize` and index builds by Spark tasks: as in one process, beside writers, and with tasks that fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from omnigraph import Graph, pipeline
from omnigraph.cli.main import app
from omnigraph.errors import StorageError
from omnigraph.maintenance.optimize import optimize
from omnigraph.pipeline.spark_maintenance import spark_pool
from omnigraph.storage.indexes import index_segments
from omnigraph.storage.maintenance_tasks import TaskPool, perform

SCHEMA = """
node Person { name: String @key  age: I32? @index  place: Vector(4)? @index }
edge Knows: Person -> Person
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A graph of many small fragments, some of whose rows were replaced."""
    graph = Graph.init(tmp_path / "graph", SCHEMA)
    for batch in range(6):
        names = [f"p{batch}-{i}" for i in range(50)]
        graph.load({"Person": pa.table({"name": names, "age": pa.array(range(50), pa.int32())})})
    graph.load({"Person": pa.table({"name": ["p0-0"], "age": pa.array([99], pa.int32())})}, mode="merge")
    graph.load({"Knows": pa.table({"from": ["p0-0"] * 5, "to": [f"p1-{i}" for i in range(5)]})})
    return graph


def content(graph: Graph) -> dict[str, list[dict[str, Any]]]:
    return {key: sorted(graph.rows(key).to_pylist(), key=repr) for key in graph.snapshot().tables}


def fragments(graph: Graph, key: str) -> int:
    entry = graph.snapshot().tables[key]
    return len(graph.repository.store.tables.open(entry.location, entry.staged_version).fragments)


def test_optimize_by_tasks(spark: Any, graph: Graph) -> None:
    before = content(graph)
    report = pipeline.optimize(spark, graph, actor="upkeep")
    assert report.commit is not None
    assert (report.commit.kind, report.commit.actor_id, report.commit.op_class) == ("optimize", "upkeep", "maintenance")
    assert {t.table_key: t.committed for t in report.tables} == {"node:Person": True, "edge:Knows": True}
    assert fragments(graph, "node:Person") == 1
    assert content(graph) == before
    assert all(s.covered_rows == s.rows for s in graph.maintenance.index_status() if s.kind == "btree")
    assert graph.query("query q() { match { $p: Person { age: 99 } } return { $p.name } }").to_pylist() == [
        {"p.name": "p0-0"}
    ]
    assert pipeline.optimize(spark, graph).commit is None


def test_indices_by_tasks(spark: Any, graph: Graph) -> None:
    vectors = pa.array([[float(i), 1.0, 2.0, 3.0] for i in range(300)], pa.list_(pa.float32(), 4))
    graph.load({"Person": pa.table({"name": [f"v{i}" for i in range(300)], "place": vectors})})
    before = content(graph)
    report = pipeline.build_indices(spark, graph)
    assert report.commit is not None
    assert report.commit.kind == "ensure_indices"
    assert {(s.property, s.state) for s in report.indexes if s.table_key == "node:Person"} == {
        ("id", "indexed"), ("age", "indexed"), ("place", "indexed"),
    }  # fmt: skip
    assert content(graph) == before
    assert pipeline.build_indices(spark, graph).commit is None
    graph.maintenance.fsck()


def test_a_writer_that_passes_the_tasks_is_followed(spark: Any, graph: Graph) -> None:
    """Rows that come while tasks are at work stay, and the compaction lands on top of them."""
    rival = Graph.open(graph.uri)
    pool = spark_pool(spark, graph.uri)
    seen: list[int] = []

    def do(store: Any, works: Any) -> list[Any]:
        found = pool.do(store, works)
        if not seen:
            seen.append(1)
            rival.load({"Person": pa.table({"name": ["late"]})})
        return found

    report = optimize(graph.repository, pool=TaskPool(do, pool.pieces))
    assert report.commit is not None
    assert graph.snapshot().tables["node:Person"].row_count == 301
    assert "late" in graph.rows("node:Person")["name"].to_pylist()
    rival.load({"Person": pa.table({"name": ["late"], "age": pa.array([1], pa.int32())})}, mode="merge")
    assert graph.snapshot().tables["node:Person"].row_count == 301


def test_tasks_that_fail_at_first_are_tried_again(spark: Any, graph: Graph) -> None:
    before = content(graph)

    def fails_first(store: Any, work: Any) -> Any:
        from pyspark import TaskContext

        if TaskContext.get().attemptNumber() < 2:
            raise RuntimeError("this attempt fails")
        return perform(store, work)

    report = optimize(graph.repository, pool=spark_pool(spark, graph.uri, fails_first))
    assert report.commit is not None
    assert content(graph) == before
    assert fragments(graph, "node:Person") == 1


def test_a_large_index_is_sorted_in_pieces(spark: Any, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.storage.maintenance_tasks.ROWS_PER_PIECE", 100)
    assert pipeline.build_indices(spark, graph).commit is not None
    entry = graph.snapshot().tables["node:Person"]
    table = graph.repository.store.tables.open(entry.location, entry.staged_version)
    assert [len(segments) for segments in index_segments(table, ["id"])] == [2]
    assert graph.entity_at("node:Person", "p5-49", graph.snapshot().version) is not None
    assert graph.maintenance.fsck().problems == ()


def test_a_large_load_is_indexed_by_tasks(spark: Any, tmp_path: Path) -> None:
    """After the load has returned; the driver sorts nothing."""
    graph = Graph.init(tmp_path / "large", SCHEMA)
    pq.write_table(pa.table({"name": [f"p{i}" for i in range(70_000)]}), tmp_path / "p.parquet")
    pipeline.load(spark, graph, {"Person": str(tmp_path / "p.parquet")})
    graph.repository.store.wait_for_background_work()
    [status] = [s for s in graph.maintenance.index_status() if (s.table_key, s.property) == ("node:Person", "id")]
    assert (status.covered_rows, status.rows) == (70_000, 70_000)
    assert [c.kind for c in graph.commits.list()] == ["optimize", "load", "init"]


def test_tasks_that_always_fail_are_an_error_of_storage(spark: Any, graph: Graph) -> None:
    def fails(store: Any, work: Any) -> Any:
        raise RuntimeError("the machine is gone")

    with pytest.raises(StorageError, match="the tasks that maintain"):
        optimize(graph.repository, pool=spark_pool(spark, graph.uri, fails))


def test_an_error_of_a_task_is_raised_as_itself(spark: Any, graph: Graph) -> None:
    def fails(store: Any, work: Any) -> Any:
        raise StorageError("the disk is full")

    head = graph.commits.head().graph_commit_id
    with pytest.raises(StorageError, match="the disk is full"):
        optimize(graph.repository, pool=spark_pool(spark, graph.uri, fails))
    assert graph.commits.head().graph_commit_id == head


def test_the_commands_take_an_engine(spark: Any, graph: Graph) -> None:
    built = CliRunner().invoke(app, ["index", "build", graph.uri, "--engine", "spark", "--quiet", "--json"])
    assert built.exit_code == 0, built.output
    done = CliRunner().invoke(app, ["optimize", graph.uri, "--engine", "spark", "--quiet", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(built.stdout)["commit"] is not None
    assert json.loads(done.stdout)["commit"] is not None
    assert [c.kind for c in graph.commits.list()[:2]] == ["optimize", "ensure_indices"]
