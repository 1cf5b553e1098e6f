"""`unknown: add`: columns that the schema does not know become nullable properties, and nothing else changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph, pipeline
from omnigraph.datatypes import PropertyType, Scalar
from omnigraph.errors import InvalidArgument, InvalidValue, JobError, OmnigraphError
from omnigraph.pipeline.job import parse_job
from omnigraph.schema.add_properties import with_properties
from omnigraph.schema.parser import parse_schema

SCHEMA = """// people, and who knows whom
node Person { name: String @key /* } */ }
edge Knows: Person -> Person // "}"
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "g", SCHEMA)


def run(spark: Any, graph: Graph, folder: Path, text: str) -> Any:
    return pipeline.run(spark, parse_job(text, folder / "job.yaml"), graph)


def test_columns_become_properties_of_their_types(spark: Any, tmp_path: Path, graph: Graph) -> None:
    pq.write_table(
        pa.table({"name": ["a"], "age": pa.array([1], pa.int16()), "tags": [["x"]], "nothing": pa.nulls(1)}),
        tmp_path / "p.parquet",
    )
    (tmp_path / "p.jsonl").write_text('{"name": "b", "score": 1.5, "nothing": null}\n{"name": "c", "age": 3}\n')
    (tmp_path / "k.csv").write_text("from,to,since,note\na,b,2024-05-01,old\n")
    text = """
on_error: reject
nodes:
  Person: [{path: p.parquet, unknown: add}, {path: p.jsonl, unknown: add, cast: {age: smallint}}]
edges:
  Knows: {path: k.csv, unknown: add, cast: {since: date}, columns: {from: from, to: to, since: since, remark: note}}
"""
    job = parse_job(text, tmp_path / "job.yaml")
    assert pipeline.validate(job, graph) == []
    result = run(spark, graph, tmp_path, text)
    assert result.rejected == ()
    assert result.added == {
        "Person.age": "I32?", "Person.tags": "[String]?", "Person.score": "F64?", "Knows.since": "Date?",
        "Knows.remark": "String?",
    }  # fmt: skip
    people = {r["name"]: (r["age"], r["tags"], r["score"]) for r in graph.rows("node:Person").to_pylist()}
    assert people == {"a": (1, ["x"], None), "b": (None, None, 1.5), "c": (3, None, None)}
    [edge] = graph.rows("edge:Knows").to_pylist()
    assert (str(edge["since"]), edge["remark"]) == ("2024-05-01", "old")
    assert graph.schema.show().startswith("// people, and who knows whom\nnode Person { name: String @key /* } */\n")
    assert [each.kind for each in graph.commits.list()][:2] == ["load", "schema_apply"]
    again = run(spark, graph, tmp_path, "mode: merge\n" + text)
    assert again.added == {}
    assert len(graph.commits.list()) == 4

    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"name": "d", "score": "high", "fresh": 1}\n')
    with pytest.raises(InvalidValue, match="high"):  # the type of a property stays; what was added before stays too
        run(spark, graph, tmp_path, "nodes: {Person: {path: wrong.jsonl, unknown: add}}")
    assert graph.catalog().node("Person").property("score").type.scalar is Scalar.F64
    assert graph.catalog().node("Person").property("fresh").type == PropertyType(Scalar.I64, nullable=True)
    assert graph.snapshot().table("node:Person").row_count == 3


def test_steps_and_dry_runs(spark: Any, tmp_path: Path, graph: Graph) -> None:
    text = """
steps: {people: "select 'a' as name, cast(1 as decimal(9, 0)) as rank, true as ok"}
nodes: {Person: {input: people, unknown: add}}
"""
    from dataclasses import replace

    job = parse_job(text, tmp_path / "job.yaml")
    result = pipeline.run(spark, replace(job, dry_run=True), graph)
    assert (result.added, dict(result.nodes)) == ({"Person.rank": "I64?", "Person.ok": "Bool?"}, {"Person": 1})
    assert len(graph.commits.list()) == 1
    pipeline.run(spark, replace(job, branch="new", from_branch="main"), graph)
    [row] = graph.rows("node:Person", at="new").to_pylist()
    assert (row["rank"], row["ok"]) == (1, True)
    assert "rank" not in graph.schema.show()


def test_what_cannot_be_added(spark: Any, tmp_path: Path, graph: Graph) -> None:
    for columns, words in (
        ("1 as Rank", "'Rank' cannot be a property of Person"),
        ("map('a', 1) as m", "no property holds the values of 'm'"),
        ("cast(1 as decimal(9, 2)) as m", "no property holds the values of 'm'"),
    ):
        step = f"steps: {{p: \"select 'a' as name, {columns}\"}}\nnodes: {{Person: {{input: p, unknown: add}}}}"
        with pytest.raises(JobError, match=words):
            run(spark, graph, tmp_path, step)
    frame = spark.createDataFrame([("a", 1)], "name string, n int")
    text = spark.createDataFrame([("b", "x")], "name string, n string")
    add = [pipeline.Rows(each, unknown="add") for each in (frame, text)]
    with pytest.raises(JobError, match=r"'n' is String\?, and I32\? in Person"):
        pipeline.load(spark, graph, {"Person": add})
    odd = spark.createDataFrame([("a", "x")], "name string, unknown string")
    with pytest.raises(OmnigraphError, match="no property `unknown`"):
        pipeline.load(spark, graph, {"Person": odd})
    with pytest.raises(InvalidArgument, match="expects another head"):
        pipeline.load(spark, graph, {"Person": add[0]}, expect_head=graph.commits.list()[0].graph_commit_id)
    (tmp_path / "e.csv").write_text("op,seq,name,n\nU,1,a,1\n")
    with pytest.raises(InvalidArgument, match="not for change events"):
        run(spark, graph, tmp_path,
            "mode: merge\nnodes: {Person: {path: e.csv, unknown: add, cdc: {op: op, sequence: seq}}}")  # fmt: skip
    (tmp_path / "g.jsonl").write_text('{"type": "Person", "data": {"name": "a", "n": 1}}\n')
    with pytest.raises(OmnigraphError, match="add no properties"):
        pipeline.Files(None, (str(tmp_path / "g.jsonl"),), "jsonl", unknown="add")
    assert len(graph.commits.list()) == 1


def test_text_with_more_properties() -> None:
    added = {
        ("node", "A"): {"x": PropertyType(Scalar.I64, nullable=True)},
        ("edge", "K"): {"y": PropertyType(Scalar.BOOL, True)},
    }
    for text in (
        "node A {}\nedge K: A -> A",
        'node A { a: String @default("}") // }\n}\nedge K: A -> A /* { */\n@card(0..1)\n',
        "\ufeffedge K: A -> A {\n    @unique(@src, @dst)\n}\n\nnode A\n{ a: String @key } // end",
    ):
        made = with_properties(text, added)
        found = {each.name.text: [p.name.text for p in each.properties] for each in parse_schema(made).declarations}
        before = {each.name.text: [p.name.text for p in each.properties] for each in parse_schema(text).declarations}
        assert found == {"A": [*before["A"], "x"], "K": [*before["K"], "y"]}, made
