"""The data source `omnigraph`, SQL views, export and analytics, on one small graph."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import Graph, pipeline
from omnigraph.errors import InvalidArgument

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  big: U64?
  seen: DateTime?
  tags: [String]?
  place: Vector(2)?
  rank: F64?
}
node City { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge LivesIn: Person -> City
"""
DAY = dt.date(2024, 5, 1)
MOMENT = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)


def person(number: int) -> dict[str, Any]:
    return {
        "name": f"p{number:02}", "age": number if number % 5 else None, "big": 2**64 - 1 - number,
        "seen": MOMENT + dt.timedelta(hours=number), "tags": ["a", f"t{number}"], "place": [float(number), 0.5],
    }  # fmt: skip


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    made = Graph.init(tmp_path_factory.mktemp("source") / "g", SCHEMA)
    made.load([{"type": "Person", "data": person(i)} for i in range(30)])
    rows: list[dict[str, Any]] = [{"type": "City", "data": {"name": "Rome"}}]
    rows += [
        {"edge": "Knows", "from": f"p{i:02}", "to": f"p{(i * 7 + 1) % 30:02}", "data": {"since": DAY}}
        for i in range(30)
    ]
    rows += [{"edge": "LivesIn", "from": "p01", "to": "Rome"}]
    made.load(rows)
    made.branches.create("exp")
    made.load([{"type": "Person", "data": person(99)}], branch="exp")
    return made


def read(spark: Any, graph: Graph, **options: str) -> Any:
    reader = spark.read.format("omnigraph")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(graph.uri)


def test_rows_are_those_of_the_graph(spark: Any, graph: Graph) -> None:
    pipeline.session()
    found = read(spark, graph, type="Person").toArrow().sort_by("name").to_pylist()
    stored = graph.rows("node:Person").sort_by("name").to_pylist()
    assert len(found) == 30
    for mine, theirs in zip(found, stored, strict=True):
        assert {**mine, "big": int(mine["big"])} == theirs
    edges = read(spark, graph, edge="Knows")
    assert edges.columns == ["id", "src", "dst", "since"]
    assert edges.count() == 30


def test_one_snapshot_by_branch_version_or_commit(spark: Any, graph: Graph) -> None:
    assert read(spark, graph, type="Person", branch="exp").count() == 31
    assert read(spark, graph, type="Person", version="1").count() == 0
    assert read(spark, graph, edge="Knows", version="2").count() == 0
    head = graph.snapshot("exp").commit_id
    assert read(spark, graph, type="Person", snapshot=head).count() == 31


def test_columns_and_filters(spark: Any, graph: Graph) -> None:
    few = read(spark, graph, type="Person", columns="name, age")
    assert few.columns == ["name", "age"]
    assert sorted(r["name"] for r in few.where("age > 26").collect()) == ["p27", "p28", "p29"]
    assert few.where("age is null").count() == 6
    assert few.where("age in (1, 2, 500000000)").count() == 2
    assert few.where("name = 'p03' or age = 4").count() == 2
    everything = read(spark, graph, type="Person")
    assert everything.where("seen >= timestamp'2024-05-02 12:00:00'").count() == 6
    assert everything.where("array_contains(tags, 't3')").count() == 1
    assert everything.where(f"big = {2**64 - 1}").count() == 1


def test_what_one_query_filters_the_next_one_still_sees(spark: Any, graph: Graph) -> None:
    people = read(spark, graph, type="Person", columns="name,age")
    assert people.where("age > 26").count() == 3
    assert people.count() == 30
    graph.spark.views()
    assert spark.sql("select count(*) from Person where age > 26").first()[0] == 3
    assert spark.sql("select count(*) from Person").first()[0] == 30
    few = people.where("age > 26").toDF("n", "a")
    assert few.crossJoin(people).count() == 90


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"type": "Person", "collumns": "name"}, "option 'collumns' is unknown"),
        ({"type": "Nobody"}, "there is no node type `Nobody`"),
        ({}, "name a node type with 'type' or an edge type with 'edge'"),
        ({"type": "Person", "branch": "exp", "version": "2"}, "give one of branch, version"),
        ({"type": "Person", "columns": "name,agee"}, "agee"),
    ],
)
def test_wrong_options_are_refused(spark: Any, graph: Graph, options: dict[str, str], words: str) -> None:
    with pytest.raises(Exception, match=words):
        read(spark, graph, **options).count()


def test_writing_is_one_commit(spark: Any, graph: Graph, tmp_path: Path) -> None:
    target = Graph.init(tmp_path / "t", SCHEMA)
    rows = spark.range(100).selectExpr("concat('n', id) as name", "cast(id as int) as age").repartition(4)
    rows.write.format("omnigraph").option("type", "Person").option("actor", "etl").mode("append").save(target.uri)
    assert [c.kind for c in target.commits.list()] == ["load", "init"]
    assert target.commits.list()[0].actor_id == "etl"
    assert target.snapshot().table("node:Person").row_count == 100
    knows = spark.range(99).selectExpr("concat('n', id) as src", "concat('n', id + 1) as dst")
    knows.write.format("omnigraph").option("edge", "Knows").mode("append").save(target.uri)
    assert target.snapshot().table("edge:Knows").row_count == 99
    changed = rows.selectExpr("name", "age + 1000 as age").where("age >= 1090")
    changed.write.format("omnigraph").option("type", "Person").option("mode", "merge").mode("append").save(target.uri)
    assert target.entity_at("node:Person", "n99")["age"] == 1099
    assert target.entity_at("node:Person", "n0")["age"] == 0
    head = target.commits.head().graph_commit_id
    with pytest.raises(Exception, match="already has an entity"):
        rows.write.format("omnigraph").option("type", "Person").mode("append").save(target.uri)
    assert target.commits.head().graph_commit_id == head
    assert target.recovery.list() == []


def test_views_are_one_snapshot(spark: Any, graph: Graph) -> None:
    assert graph.spark.views(prefix="then_", at=2) == ["then_City", "then_Person", "then_Knows", "then_LivesIn"]
    assert spark.sql("select count(*) from then_City").first()[0] == 0
    query = "select p.name from Person p join Knows k on k.src = p.id where k.dst = 'p01' order by 1"
    assert [row[0] for row in graph.spark.sql(query).collect()] == ["p00"]
    assert graph.spark.sql("select count(*) from Person", at="exp").first()[0] == 31


@pytest.mark.parametrize("format", ["parquet", "jsonl", "orc"])
def test_what_is_exported_can_be_loaded(spark: Any, graph: Graph, tmp_path: Path, format: str) -> None:
    written = pipeline.export(spark, graph, str(tmp_path / "out"), format, files=2)
    assert written.graph_commit_id == graph.snapshot().commit_id
    copy = Graph.init(tmp_path / "copy", SCHEMA)
    nodes = {name: written.directories[name] for name in ("Person", "City")}
    edges = {name: written.directories[name] for name in ("Knows", "LivesIn")}
    pipeline.load(spark, copy, nodes, edges)
    for key in graph.snapshot().tables:
        assert copy.rows(key).sort_by("id").to_pylist() == graph.rows(key).sort_by("id").to_pylist(), key


def test_csv_is_refused_where_it_has_no_place_for_a_value(spark: Any, graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="'tags' of Person has no place in a CSV file"):
        pipeline.export(spark, graph, str(tmp_path / "out"), "csv", types=["Person"])
    written = pipeline.export(spark, graph, str(tmp_path / "out"), "csv", types=["Knows"], partition_by=["since"])
    assert (Path(written.directories["Knows"]) / "since=2024-05-01").is_dir()
    with pytest.raises(InvalidArgument, match="format 'xml' is unknown"):
        pipeline.export(spark, graph, str(tmp_path / "other"), "xml")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("degrees", {}), ("pagerank", {"iterations": 5}), ("components", {}), ("communities", {"iterations": 3}),
        ("triangles", {}), ("shortest_paths", {"sources": ["p00", "p03"]}),
    ],
)  # fmt: skip
def test_analytics_are_those_of_one_process(spark: Any, graph: Graph, name: str, options: dict[str, Any]) -> None:
    here: pa.Table = getattr(graph.analytics, name)("Knows", **options)
    there: pa.Table = getattr(graph.spark.analytics, name)("Knows", **options).toArrow()
    assert there.to_pylist() == here.to_pylist()
    assert here.num_rows >= 24


def test_a_result_becomes_a_property(spark: Any, graph: Graph) -> None:
    graph.branches.create("ranked")
    ranks = graph.spark.analytics.pagerank("Knows", at="ranked")
    graph.spark.analytics.write(ranks, "pagerank", "rank", branch="ranked")
    stored = {row["id"]: row["rank"] for row in graph.rows("node:Person", at="ranked").to_pylist()}
    assert stored == {row["id"]: row["pagerank"] for row in ranks.toArrow().to_pylist()}
