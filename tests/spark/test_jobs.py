"""Job files: every mistake is refused, with the line and the column where it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph, pipeline
from omnigraph.errors import JobError
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
edges:
  Knows: {path: people.csv, columns: {from: name, weight: w}}
""",
    )
    found = pipeline.validate(job, graph)
    assert len(found) == 5
    for problem, words in zip(
        found, ("Persn", "nam", "no such file", "cannot be read as parquet", "weight"), strict=True
    ):
        assert words in problem


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
