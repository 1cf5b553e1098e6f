"""Job files: every mistake is refused, with the line and the column where it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph, pipeline
from omnigraph.errors import InvalidValue, JobError, OmnigraphError
from omnigraph.pipeline.job import parse_job

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""
MISTAKES = {
    "not yaml": ("graph: [", 1, 9, "this is not YAML"),
    "empty": ("", 1, 1, "the job file is empty"),
    "a list": ("- graph", 1, 1, "the job must be a mapping"),
    "unknown key": ("graph: g\nmod: append\nnodes: {P: a.csv}", 2, 1, "'mod' is unknown in the job"),
    "key twice": ("mode: append\nmode: merge\nnodes: {P: a.csv}", 2, 1, "'mode' appears twice"),
    "unknown mode": ("nodes: {P: a.csv}\nmode: upsert", 2, 7, "mode 'upsert' is unknown"),
    "unknown policy": ("on_error: ignore\nnodes: {P: a.csv}", 1, 11, "on_error 'ignore' is unknown"),
    "a mapping for text": ("graph: {a: b}\nnodes: {P: a.csv}", 1, 8, "text is expected here"),
    "not a number": ("max_errors: many\nnodes: {P: a.csv}", 1, 13, "a whole number is expected here"),
    "loads nothing": ("graph: g", 1, 1, "the job loads nothing"),
    "nodes is a list": ("nodes:\n  - P", 2, 3, "nodes must be a mapping"),
    "no source": ("nodes:\n  P: []", 2, 6, "P names no source"),
    "no path": ("nodes:\n  P:\n    - {format: csv}", 3, 7, "a source of P needs a path"),
    "unknown in a source": ("nodes:\n  P: {path: a.csv, colums: {}}", 2, 20, "'colums' is unknown in a source of P"),
    "unknown format": ("nodes:\n  P: {path: a, format: xls}", 2, 24, "format 'xls' is unknown"),
    "long delimiter": ("nodes:\n  P: {path: a.csv, delimiter: '::'}", 2, 31, "a delimiter is one character"),
    "not printable": ("graph: \x00", 1, 1, "this is not YAML"),
    "nested too deeply": ("[" * 5000, 1, 17, "nested too deeply"),
    "two documents": ("graph: g\n---\ngraph: h", 2, 1, "this is not YAML"),
    "nothing under nodes": ("graph: g\nnodes:", 2, 7, "nodes must be a mapping"),
    "a key that is a list": ("[a]: b", 1, 1, "text is expected here"),
    "an empty value": ("graph:\nnodes: {P: a.csv}", 1, 7, "text is expected here"),
    "a negative number": ("max_errors: -1\nnodes: {P: a.csv}", 1, 13, "a whole number is expected here"),
    "a number that is none": ("max_errors: ²\nnodes: {P: a.csv}", 1, 13, "a whole number is expected here"),
    "no paths": ("nodes:\n  P: {path: []}", 2, 13, "a source of P needs a path"),
    "a path that is a mapping": ("nodes:\n  P: {path: {a: b}}", 2, 13, "text is expected here"),
    "no delimiter": ("nodes:\n  P: {path: a.csv, delimiter: ''}", 2, 31, "a delimiter is one character"),
    "cast of nothing": ("nodes:\n  P: {path: a, columns: {a: b}, cast: {c: int}}", 2, 39, "cast names 'c'"),
    "where is a list": ("nodes:\n  P: {path: a.csv, where: [a]}", 2, 27, "text is expected here"),
    "edges is text": ("edges: knows.csv", 1, 8, "edges must be a mapping"),
    "a type twice": ("nodes:\n  P: a.csv\n  P: b.csv", 3, 3, "'P' appears twice in nodes"),
    "columns is a list": ("nodes:\n  P: {path: a.csv, columns: [a]}", 2, 29, "columns must be a mapping"),
    "a list for a column": ("nodes:\n  P: {path: a.csv, columns: {a: [b]}}", 2, 33, "text is expected here"),
    "cast is text": ("nodes:\n  P: {path: a.csv, cast: int}", 2, 26, "cast must be a mapping"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_its_place(name: str) -> None:
    text, line, column, words = MISTAKES[name]
    with pytest.raises(JobError, match=words.replace("(", "\\(")) as refused:
        parse_job(text, Path("job.yaml"))
    assert refused.value.span is not None
    assert (refused.value.span.line, refused.value.span.column) == (line, column)
    assert "job.yaml" in str(refused.value)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "g", SCHEMA)


def written(folder: Path, text: str) -> Any:
    path = folder / "job.yaml"
    path.write_text(text)
    return pipeline.read_job(path)


def test_what_a_job_gets_wrong_about_the_graph_is_found_without_spark(tmp_path: Path, graph: Graph) -> None:
    (tmp_path / "people.csv").write_text("name\nAda\n")
    (tmp_path / "broken.parquet").write_text("not parquet")
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1/people.csv").write_text("name\nAda\n")
    job = written(
        tmp_path,
        """
graph: g
nodes:
  Persn: people.csv
  Person:
    - {path: people.csv, columns: {nam: name}}
    - missing/*.csv
    - broken.parquet
    - day=*/people.csv
edges:
  Knows: {path: people.csv, columns: {from: name, weight: w}}
""",
    )
    found = pipeline.validate(job, graph)
    assert len(found) == 6
    for problem, words in zip(
        found, ("Persn", "nam", "no such file", "cannot be read as parquet", "'day', a folder", "weight"), strict=True
    ):
        assert words in problem


def test_files_on_s3_may_be_reached_by_the_session_only(tmp_path: Path, graph: Graph) -> None:
    text = "nodes: {Person: {path: 's3a://bucket/*.csv', columns: {nam: name}}, City: 's3://bucket/c.csv'}"
    found = pipeline.validate(parse_job(text, tmp_path / "job.yaml"), graph, with_s3=False)
    assert ["nam" in found[0], "City" in found[1], len(found)] == [True, True, 2]


def test_a_missing_file_and_a_missing_graph(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="there is no job file"):
        pipeline.read_job(tmp_path / "no.yaml")
    job = parse_job("nodes: {Person: a.csv}", tmp_path / "job.yaml")
    from omnigraph.pipeline.api import open_target

    with pytest.raises(JobError, match="the job names no graph"):
        open_target(job)


def test_filters_casts_and_names(spark: Any, tmp_path: Path, graph: Graph) -> None:
    table = pa.table({"who": ["a", "b", "c"], "years": ["1", "2", "3"], "kind": ["x", "y", "x"]})
    pq.write_table(table, tmp_path / "people.parquet")
    (tmp_path / "knows.csv").write_text("left;right\na;c\n")
    job = written(
        tmp_path,
        """
graph: g
branch: loaded
from: main
actor: etl
nodes:
  Person:
    path: people.parquet
    where: kind = 'x'
    columns: {name: who, age: years}
    cast: {age: int}
edges:
  Knows: {path: knows.csv, delimiter: ";", columns: {from: left, to: right}}
""",
    )
    assert pipeline.validate(job, graph) == []
    result = pipeline.run(spark, job)
    assert (dict(result.nodes), dict(result.edges), result.branch_created) == ({"Person": 2}, {"Knows": 1}, True)
    people = graph.rows("node:Person", at="loaded").select(["name", "age"]).sort_by("name").to_pylist()
    assert people == [{"name": "a", "age": 1}, {"name": "c", "age": 3}]
    assert graph.snapshot().table("node:Person").row_count == 0


def test_rejected_rows_of_a_job(spark: Any, tmp_path: Path, graph: Graph) -> None:
    (tmp_path / "people.csv").write_text("name,age\na,1\nb,old\nc,3\na,9\n")
    job = written(tmp_path, "graph: g\non_error: reject\nmax_errors: 5\nnodes: {Person: people.csv}\n")
    result = pipeline.run(spark, job)
    assert dict(result.nodes) == {"Person": 2}
    assert sorted(each.row for each in result.rejected) == [3, 5]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{path: people.csv, where: 'age >'}", "Person from .*people.csv: .*PARSE_SYNTAX_ERROR"),
        ("{path: people.csv, where: 'height > 3'}", "Person from .*people.csv: .*height"),
        ("{path: people.csv, where: 'age > 0', columns: {name: who}}", "Person from .*people.csv: .*who"),
        ("{path: people.csv, cast: {age: number}}", "Person from .*people.csv: .*NUMBER"),
        ("{path: people.csv, cast: {height: int}}", "cast names 'height', which is no column"),
    ],
)  # fmt: skip
def test_mistakes_in_the_words_of_spark(spark: Any, tmp_path: Path, graph: Graph, source: str, words: str) -> None:
    (tmp_path / "people.csv").write_text("name,age\na,1\n")
    with pytest.raises(JobError, match=words):
        pipeline.run(spark, written(tmp_path, f"graph: g\nnodes:\n  Person: {source}\n"))
    assert len(graph.commits.list()) == 1


def test_a_value_that_spark_cannot_cast(spark: Any, tmp_path: Path, graph: Graph) -> None:
    (tmp_path / "people.csv").write_text("name,age\na,1\nb,old\n")
    job = written(tmp_path, "graph: g\nnodes:\n  Person: {path: people.csv, cast: {age: int}}\n")
    with pytest.raises(InvalidValue, match=r"people\.csv:3: Person\.age 'old' cannot be cast to int"):
        pipeline.run(spark, job)
    assert len(graph.commits.list()) == 1
    assert graph.recovery.list() == []


SHAPES = {
    "a mapped column is missing": ("people.csv", "name\na\n", "{name: name, age: years}", "'years' is missing"),
    "an unknown column": ("people.csv", "name,height\na,3\n", None, "height"),
    "the key is missing": ("people.csv", "age\n3\n", None, r"Person\.name is required"),
    "a word for a number": ("people.csv", "name,age\na,old\n", None, r"people\.csv:2: Person\.age .*'old'"),
    "a torn row": ("people.csv", "name,age\na,1,7\n", None, r"people\.csv:2: the row has 3 values, not 2"),
    "not JSON": ("people.jsonl", "{\n", None, r"people\.jsonl:1"),
    "not UTF-8": ("people.jsonl", b'{"name": "\xff"}', None, "not valid UTF-8"),
    "a list": ("people.jsonl", "[1]\n", None, "not an object"),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_files_of_the_wrong_shape(spark: Any, tmp_path: Path, graph: Graph, name: str) -> None:
    file, body, columns, words = SHAPES[name]
    (tmp_path / file).write_bytes(body if isinstance(body, bytes) else body.encode())
    mapped = f", columns: {columns}" if columns else ""
    job = written(tmp_path, f"graph: g\nnodes:\n  Person: {{path: {file}{mapped}}}\n")
    with pytest.raises(OmnigraphError, match=words):
        pipeline.run(spark, job)
    assert len(graph.commits.list()) == 1
    assert graph.recovery.list() == []


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_inputs_without_rows(spark: Any, tmp_path: Path, graph: Graph, mode: str) -> None:
    """An overwrite with nothing empties a type, in every format; an append of nothing is no commit."""
    people, none = pa.table({"name": ["a"]}), pa.table({"name": pa.array([], pa.string())})
    graph.load({"Person": people})
    pq.write_table(none, tmp_path / "e.parquet")
    orc.write_table(none, str(tmp_path / "e.orc"))
    (tmp_path / "e.csv").write_text("name\n")
    (tmp_path / "e.jsonl").write_text("")
    frame = spark.createDataFrame([], "name string")
    for source in (*(str(tmp_path / f"e.{kind}") for kind in ("parquet", "orc", "csv", "jsonl")), frame):
        result = pipeline.load(spark, graph, {"Person": source}, mode=mode)
        assert dict(result.nodes) == {"Person": 0}, source
        left = graph.snapshot().table("node:Person").row_count
        assert (left, result.commit is None) == ((1, True) if mode == "append" else (0, False)), source
        if mode == "overwrite":
            graph.load({"Person": people})


def test_all_edges_at_one_node(spark: Any, tmp_path: Path, graph: Graph) -> None:
    graph.load({"Person": pa.table({"name": [f"p{i}" for i in range(50)]})})
    hub = pa.table({"from": ["p0"] * 20_000, "to": [f"p{i % 50}" for i in range(20_000)]})
    pq.write_table(hub, tmp_path / "k.parquet", row_group_size=5_000)
    frame = spark.read.parquet(str(tmp_path / "k.parquet")).repartition(4, "from")
    pipeline.load(
        spark, graph, edges={"Knows": [pipeline.Files("Knows", (str(tmp_path / "k.parquet"),), "parquet"), frame]}
    )
    assert graph.snapshot().table("edge:Knows").row_count == 40_000
    query = 'query q() { match { $p: Person { name: "p0" } $p knows $q } return { count($q) as n } }'
    assert graph.query(query, engine="spark").to_pylist() == graph.query(query).to_pylist()
