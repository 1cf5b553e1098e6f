"""Loads that leave rows out read every input once: what is in the graph is what was read, without the refused rows."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph, Progress, pipeline
from omnigraph.pipeline import screening_driver

SCHEMA = """
node Person { name: String @key  age: I32?  mark: String?  photo: Blob?  place: Vector(2)? }
node Tag { name: String @key }
edge Knows: Person -> Person { since: I32? }
"""
FRAMES = int(os.environ.get("OMNIGRAPH_RANDOM_FRAMES", "500"))


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "g", SCHEMA)


def names(graph: Graph) -> list[str]:
    return sorted(graph.rows("node:Person")["id"].to_pylist())


def recomputed(spark: Any, folder: Path, count: int, twice: set[int], parts: int = 4) -> Any:
    """A frame that gives its rows in another order, and another mark, each time a partition is computed."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        run = len(list(folder.glob(f"{context.partitionId()}-*")))
        (folder / f"{context.partitionId()}-{run}").touch()
        for batch in batches:
            found = [n for n in batch.column(0).to_pylist() for _ in range(1 + (n in twice))]
            found = found[::-1] if run % 2 else found
            table = {"name": [f"p{n}" for n in found], "mark": [f"run {run}"] * len(found)}
            yield pa.RecordBatch.from_pydict(table)

    return spark.range(0, count, 1, parts).mapInArrow(rows, "name string, mark string")


def test_a_frame_that_changes_when_it_is_computed_again_is_computed_once(
    spark: Any, tmp_path: Path, graph: Graph
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    result = pipeline.load(spark, graph, {"Person": recomputed(spark, marks, 40, {7, 31})}, max_errors=5)
    assert names(graph) == sorted(f"p{n}" for n in range(40))
    assert set(graph.rows("node:Person")["mark"].to_pylist()) == {"run 0"}
    assert sorted(p.name for p in marks.iterdir()) == ["0-0", "1-0", "2-0", "3-0"]
    assert sorted(each.data["name"] for each in result.rejected) == ["p31", "p7"]


@pytest.mark.parametrize("order", ["rand()", "uuid()", "monotonically_increasing_id() % 7, rand()"])
def test_every_good_row_of_a_random_frame_is_loaded(spark: Any, graph: Graph, order: str) -> None:
    frame = spark.range(41).selectExpr("concat('p', id % 40) AS name", "CAST(id AS int) AS age")
    result = pipeline.load(spark, graph, {"Person": frame.selectExpr("*", f"hash({order.split(',')[0]}) AS h")
                                          .repartition(4, "h").drop("h")}, max_errors=3)  # fmt: skip
    assert names(graph) == sorted(f"p{n}" for n in range(40))
    [rejected] = result.rejected
    ages = dict(zip(*(graph.rows("node:Person")[c].to_pylist() for c in ("id", "age")), strict=True))
    assert {rejected.data["age"], ages["p0"]} == {0, 40}, "one of the two is in the graph, the other is reported"


def test_rejected_rows_of_a_frame_come_with_the_row(spark: Any, graph: Graph) -> None:
    rows = [("a", 1, b"\x00", [1.0, 2.0]), ("b", 2, None, None), ("a", 3, b"xy", [3.0, 4.0])]
    frame = spark.createDataFrame(rows, "name string, age int, photo binary, place array<float>").coalesce(1)
    ends = spark.createDataFrame(
        [("a", "b", 1), ("a", "nobody", 2), (None, "b", 3)], "`from` string, to string, since int"
    )
    result = pipeline.load(spark, graph, {"Person": frame}, {"Knows": ends.coalesce(1)}, max_errors=5)
    found = {each.rule: json.loads(json.dumps(each.as_dict()))["data"] for each in result.rejected}
    assert (
        found["key"].items() >= {"id": "a", "name": "a", "age": 3, "photo": "base64:eHk=", "place": [3.0, 4.0]}.items()
    )
    assert found["endpoint"].items() >= {"from": "a", "to": "nobody", "since": 2}.items()
    assert found["required"] == {"from": None, "to": "b", "since": 3}
    assert graph.rows("node:Person").num_rows == 2
    assert graph.rows("edge:Knows").num_rows == 1


def test_a_row_that_one_type_refuses_stays_in_the_other(spark: Any, tmp_path: Path, graph: Graph) -> None:
    path = str(tmp_path / "both.parquet")
    pq.write_table(pa.table({"name": ["a", "b", "c", "a"]}), path)
    graph.load({"Tag": [{"name": "b"}]})
    result = pipeline.load(spark, graph, {"Person": path, "Tag": path}, max_errors=5)
    assert names(graph) == ["a", "b", "c"]
    assert sorted(graph.rows("node:Tag")["id"].to_pylist()) == ["a", "b", "c"]
    assert sorted((each.type_key, each.row) for each in result.rejected) == [
        ("node:Person", 4), ("node:Tag", 2), ("node:Tag", 4),
    ]  # fmt: skip


def test_a_file_that_is_gone_after_it_was_read_is_not_needed_again(spark: Any, tmp_path: Path, graph: Graph) -> None:
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"name": ["a", "b", "a"]}), path)

    def gone(progress: Progress) -> None:
        if progress.phase == "read" and progress.is_over:
            path.unlink(missing_ok=True)

    result = pipeline.load(spark, graph, {"Person": str(path)}, max_errors=5, progress=gone)
    assert not path.exists()
    assert names(graph) == ["a", "b"]
    assert [each.row for each in result.rejected] == [3]


def test_cut_parts_are_staged_again(spark: Any, tmp_path: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screening_driver, "SCREENED_ROWS", 1)
    monkeypatch.setattr(screening_driver, "CUT_ROWS", 1)
    marks = tmp_path / "marks"
    marks.mkdir()
    result = pipeline.load(spark, graph, {"Person": recomputed(spark, marks, 40, {7, 31})}, max_errors=5)
    assert names(graph) == sorted(f"p{n}" for n in range(40))
    assert len(result.rejected) == 2


def test_later_edges_of_one_id_replace_earlier_ones_through_the_source(spark: Any, graph: Graph) -> None:
    graph.load({"Person": [{"name": "a"}, {"name": "b"}]})
    rows = [("e1", "a", "b", 1), ("e1", "a", "b", 2), ("e2", "b", "a", 3)]
    frame = spark.createDataFrame(rows, "id string, src string, dst string, since int").coalesce(1)
    frame.write.format("omnigraph").option("edge", "Knows").option("mode", "merge").mode("append").save(graph.uri)
    found = graph.rows("edge:Knows")
    assert dict(zip(found["id"].to_pylist(), found["since"].to_pylist(), strict=True)) == {"e1": 2, "e2": 3}


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_random_frames_load_exactly_their_good_rows(spark: Any, tmp_path: Path) -> None:
    for seed in range(FRAMES):
        rng = random.Random(seed)
        graph = Graph.init(tmp_path / f"g{seed}", SCHEMA)
        count, parts = rng.randrange(1, 80), rng.randrange(1, 6)
        twice = set(rng.sample(range(count), min(count, rng.randrange(4))))
        marks = tmp_path / f"m{seed}"
        marks.mkdir()
        frame = recomputed(spark, marks, count, twice, parts)
        if rng.random() < 0.5:
            frame = frame.repartition(rng.randrange(1, 5)) if rng.random() < 0.5 else frame.selectExpr(
                "*", "rand() AS r").sort("r").drop("r")  # fmt: skip
        result = pipeline.load(spark, graph, {"Person": frame}, mode=rng.choice(["append", "overwrite"]), max_errors=10)
        assert names(graph) == sorted(f"p{n}" for n in range(count)), f"seed {seed}"
        assert sorted(each.data["name"] for each in result.rejected) == sorted(f"p{n}" for n in twice), f"seed {seed}"
