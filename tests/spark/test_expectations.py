"""Rules that sources expect of their rows: counted, dropped with the whole row, or the end of the load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph, pipeline
from omnigraph.errors import InvalidArgument, InvalidValue, JobError, OmnigraphError
from omnigraph.pipeline.job import parse_job
from omnigraph.pipeline.job_graph import job_mermaid

SCHEMA = "node Person { name: String @key  age: I32? }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(tmp_path / "g", SCHEMA)


def run(spark: Any, graph: Graph, folder: Path, source: str, more: str = "") -> Any:
    return pipeline.run(spark, parse_job(f"{more}\nnodes:\n  Person: {source}\n", folder / "job.yaml"), graph)


def ages(graph: Graph) -> dict[str, Any]:
    return {row["name"]: row["age"] for row in graph.rows("node:Person").to_pylist()}


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_rows_are_counted_or_dropped_with_everything_they_hold(
    spark: Any, tmp_path: Path, graph: Graph, kind: str
) -> None:
    if kind == "csv":
        (tmp_path / "p.csv").write_text("name,age,land\na,1,NO\nb,-1,NO\nc,,SE\nd,-5,\n")
    else:
        rows = [("a", 1, "NO"), ("b", -1, "NO"), ("c", None, "SE"), ("d", -5, None)]
        lines = [json.dumps({"name": n, "age": a, "land": land}) + "\n" for n, a, land in rows]
        (tmp_path / "p.jsonl").write_text("".join(lines))
    source = f"""
    path: p.{kind}
    columns: {{name: name, age: age}}
    expect:
      - {{rule: "age >= 0 -- or unknown", on_fail: warn, name: age}}
      - {{rule: "land is not null", on_fail: drop}}
"""
    result = run(spark, graph, tmp_path, source, "rejects: left-out.jsonl")
    assert ages(graph) == {"a": 1, "b": -1, "c": None}
    [summary] = result.sources
    assert (summary.read, summary.loaded, summary.rejected) == (4, 3, 0)
    assert (summary.warned, summary.dropped) == ({"age": 3}, {"land is not null": 1})
    [row] = [json.loads(line) for line in (tmp_path / "left-out.jsonl").read_text().splitlines()]
    assert {name: str(value) for name, value in row["data"].items()} == {"name": "d", "age": "-5", "land": "None"}
    assert (row["row"], row["rule"]) == (5 if kind == "csv" else 4, "expect")
    assert "does not meet the expectation 'land is not null'" in row["message"]


def test_a_row_that_may_not_be_refuses_the_load(spark: Any, tmp_path: Path, graph: Graph) -> None:
    """Whatever is to be done with bad rows: the rule says that there may be none."""
    (tmp_path / "p.csv").write_text("name,age\na,1\nb,-1\n")
    source = "{path: p.csv, expect: [{rule: age >= 0}]}"
    with pytest.raises(InvalidValue, match=r"p\.csv:3: the row does not meet the expectation 'age >= 0' of Person"):
        run(spark, graph, tmp_path, source, "on_error: reject")
    assert len(graph.commits.list()) == 1


def test_rules_and_bad_rows_side_by_side(spark: Any, tmp_path: Path, graph: Graph) -> None:
    """A row that cannot be read or cast is a bad row; rules are for the others. A dropped row is no bad row."""
    (tmp_path / "p.csv").write_text("name,age\na,1\nb,old\nc,2,3\nd,-1\na,7\n")
    (tmp_path / "q.csv").write_text("name,age\nz,1\n")
    source = "[{path: p.csv, cast: {age: int}, expect: [{rule: \"age <> '-1'\", on_fail: drop}]}, q.csv]"
    result = run(spark, graph, tmp_path, source, "on_error: reject\nmax_errors: 3")
    assert ages(graph) == {"a": 1, "z": 1}
    assert sorted((each.row or 0) for each in result.rejected) == [3, 4, 6]
    assert [each.row for each in result.quarantined] == [5]
    found = [(s.name.rpartition("/")[2], s.read, s.loaded, s.rejected, s.dropped) for s in result.sources]
    assert found == [("p.csv", 5, 1, 3, {"age <> '-1'": 1}), ("q.csv", 1, 1, 0, {})]


def test_rules_of_change_events_are_for_upserts(spark: Any, tmp_path: Path, graph: Graph) -> None:
    graph.load({"Person": [{"name": n, "age": 1} for n in ("a", "b", "c")]})
    (tmp_path / "p.csv").write_text("op,seq,name,age\nU,1,a,-1\nD,1,b,\nU,1,c,5\n")
    rules = "expect: [{rule: age > 0, on_fail: drop}]"
    source = f"{{path: p.csv, cdc: {{op: op, sequence: seq}}, {rules}}}"
    result = run(spark, graph, tmp_path, source, "mode: merge")
    assert ages(graph) == {"a": 1, "c": 5}
    assert [each.data for each in result.quarantined] == [{"op": "U", "seq": "1", "name": "a", "age": "-1"}]


def test_a_rule_that_spark_does_not_understand(spark: Any, tmp_path: Path, graph: Graph) -> None:
    (tmp_path / "p.csv").write_text("name,age\na,1\n")
    for rule in ("age >", "nobody = 1", "length(name)"):
        with pytest.raises(JobError, match="Person from"):
            run(spark, graph, tmp_path, f"{{path: p.csv, expect: [{{rule: '{rule}'}}]}}")


@pytest.mark.parametrize("more", ["", "where: 'true', "])
def test_unknown_columns_of_one_source(spark: Any, tmp_path: Path, graph: Graph, more: str) -> None:
    (tmp_path / "p.csv").write_text("name,age,land\na,1,NO\n")
    source = f"{{path: p.csv, {more}unknown: %s}}"
    for choice, job in (("refuse", "ignore_unknown: true"), ("refuse", "")):
        with pytest.raises(OmnigraphError, match="land"):
            run(spark, graph, tmp_path, source % choice, job)
    run(spark, graph, tmp_path, source % "ignore")
    assert ages(graph) == {"a": 1}


def test_rules_need_spark(tmp_path: Path, graph: Graph) -> None:
    rule = pipeline.Expectation("age > 0")
    with pytest.raises(InvalidArgument, match="for Spark"):
        graph.load({"Person": pipeline.Files("Person", ("p.csv",), "csv", expect=(rule,))})
    with pytest.raises(InvalidArgument, match="one name"):
        pipeline.Files("Person", ("p.csv",), "csv", expect=(rule, rule))


MISTAKES = {
    "no list": ("expect: age > 0", 28, "expect must be a list"),
    "no rule": ("expect: [{name: a}]", 29, "an expectation needs a rule"),
    "an empty rule": ("expect: [{rule: ' '}]", 36, "an expectation needs a rule"),
    "unknown key": ("expect: [{rule: a, onfail: warn}]", 39, "'onfail' is unknown in an expectation"),
    "unknown way": ("expect: [{rule: a, on_fail: ask}]", 48, "on_fail 'ask' is unknown"),
    "twice": ("expect: [{rule: a}, {rule: a}]", 40, "'a' appears twice"),
    "unknown": ("unknown: ask", 29, "unknown 'ask' is unknown"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_its_place(name: str) -> None:
    text, column, words = MISTAKES[name]
    with pytest.raises(JobError, match=words) as refused:
        parse_job(f"nodes:\n  P: {{path: a.csv, {text}}}\n", Path("job.yaml"))
    assert refused.value.span is not None
    assert (refused.value.span.line, refused.value.span.column) == (2, column)


def test_a_job_as_a_flowchart() -> None:
    text = """
graph: g.omni
nodes:
  Person:
    - {path: [a.csv, b.csv, c.csv, d.csv], where: "land = 'NO'", expect: [{rule: age > 0, on_fail: warn}]}
edges: {Knows: k.csv}
"""
    assert job_mermaid(parse_job(text, Path("job.yaml"))).splitlines() == [
        "flowchart LR",
        '  graph_[("g.omni, main, append")]',
        '  n_Person("Person") --> graph_',
        '  s1["a.csv<br/>b.csv<br/>c.csv<br/>and 1 more"] -- "where land = #39;NO#39;, warn: age #62; 0" --> n_Person',
        '  e_Knows{{"Knows"}} --> graph_',
        '  s2["k.csv"] --> e_Knows',
    ]
