"""Jobs written as decorated functions: the same model as a job file, run in the same way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph, pipeline
from omnigraph.cli.main import run as run_cli
from omnigraph.errors import InvalidArgument, JobError
from omnigraph.pipeline.job import parse_job

SCHEMA = """
node Person { name: String @key  total: F64? }
node Order { number: I64 @key  total: F64? }
edge Placed: Person -> Order
"""
SHOP = """
from omnigraph import pipeline

p = pipeline.Pipeline("shop.omni", mode="merge", on_error="reject", rejects="left-out.jsonl", name="shop")
p.files("orders", "orders.csv", cast={"no": "bigint", "total": "double"})
p.sql("large", "select no as number, customer, total from orders where total > 1")


@p.source
@pipeline.expect("ranked", "rank > 0")
@pipeline.expect_or_drop("named", "who <> ''")
def vip(spark):
    return spark.createDataFrame([("Ada", 1), ("", 2), ("Cy", 0)], "who string, rank int")


@p.step
def totals(orders):
    return orders.groupBy("customer").sum("total").toDF("customer", "total")


@p.node("Person", columns={"name": "who", "total": "total"})
@pipeline.expect_or_fail("sane", "coalesce(total, 0) < 1000")
def people(vip, totals):
    return vip.join(totals, vip.who == totals.customer, "left")


@p.node("Person", columns={"name": "who"})
def guests(spark):
    return spark.createDataFrame([("Bob",)], "who string")


p.node("Order", input="large", unknown="ignore")


@p.edge("Placed", cast={"to": "string"})
def placed(large, people):
    return large.join(people, large.customer == people.who).selectExpr("who as `from`", "number as `to`")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "orders.csv").write_text("no,customer,total\n1,Ada,10\n2,Cy,20\n3,Ada,many\n")
    (tmp_path / "shop.py").write_text(SHOP)
    Graph.init(tmp_path / "shop.omni", SCHEMA)
    return tmp_path


def test_functions_make_the_job_of_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = pipeline.read_job(folder / "shop.py")
    assert (job.mode, job.name, job.directory) == ("merge", "shop", str(folder))
    assert [(s.name, [r.name for r in s.inputs]) for s in job.steps] == [
        ("large", ["orders"]), ("totals", ["orders"]), ("people", ["vip", "totals"]), ("placed", ["large", "people"]),
    ]  # fmt: skip
    assert [(s.type_name, s.input) for s in (*job.nodes, *job.edges)] == [
        ("Person", "people"), ("Person", "guests"), ("Order", "large"), ("Placed", "placed"),
    ]  # fmt: skip
    assert [each.on_fail for each in job.sources[1].options["expect"]] == ["warn", "drop"]
    assert pipeline.validate(job, Graph.open(folder / "shop.omni")) == []
    assert run_cli(["pipeline", "graph", str(folder / "shop.py")]) == 0
    drawn = capsys.readouterr().out
    assert '  i_people[["people<br/>function people<br/>fail: sane"]]' in drawn
    text = "steps: {large: select 1 as number}\nnodes: {Order: {input: large}}"
    p = pipeline.Pipeline()
    p.sql("large", "select 1 as number")
    p.node("Order", input="large")
    written = parse_job(text, Path("job.yaml"))
    assert p.graph() == pipeline_graph(written)
    assert p.job.steps[0].sql is not None
    assert written.steps[0].sql is not None
    assert p.job.steps[0].sql.text == written.steps[0].sql.text


def pipeline_graph(job: Any) -> str:
    from omnigraph.pipeline.job_graph import job_mermaid

    return job_mermaid(job)


def test_a_pipeline_runs(spark: Any, folder: Path) -> None:
    graph = Graph.open(folder / "shop.omni")
    result = pipeline.run(spark, pipeline.read_job(folder / "shop.py"))
    people = {row["name"]: row["total"] for row in graph.rows("node:Person").to_pylist()}
    assert people == {"Ada": 10.0, "Cy": 20.0, "Bob": None}
    assert (dict(result.nodes), dict(result.edges)) == ({"Order": 2, "Person": 3}, {"Placed": 2})
    assert len(graph.commits.list()) == 2
    found = {s.name: (s.read, s.loaded, s.rejected, s.dropped, s.warned) for s in result.sources}
    assert found["vip"] == (3, 2, 0, {"named": 1}, {"ranked": 1})
    assert found["orders"] == (3, 2, 1, {}, {})
    left = [json.loads(line) for line in (folder / "left-out.jsonl").read_text().splitlines()]
    assert sorted(each["rule"] for each in left) == ["expect", "type"]
    p = pipeline.Pipeline(graph, mode="merge", directory=folder)
    p.node("Person", path=folder / "more.csv", columns={"name": "who"})
    (folder / "more.csv").write_text("who\nDee\n")
    assert p.run(spark).total_entities == 1

    @p.step
    def fails(orders: Any) -> Any:
        raise KeyError("column")

    p.files("orders", "orders.csv")
    p.edge("Placed", input="fails")
    with pytest.raises(JobError, match="the step 'fails' failed: KeyError: 'column'") as refused:
        p.run(spark)
    assert refused.value.path == __file__
    assert refused.value.excerpt is not None
    assert "@p.step" in refused.value.excerpt


def test_mistakes_are_refused_where_they_are_made(tmp_path: Path) -> None:
    p = pipeline.Pipeline()
    with pytest.raises(InvalidArgument, match="loads nothing"):
        _ = p.job
    for wrong, words in (
        (lambda: pipeline.Pipeline(mode="upsert"), "mode 'upsert' is unknown"),
        (lambda: pipeline.Pipeline(mod="merge"), "the option 'mod' is unknown"),
        (lambda: p.files("a", "a.csv", colums={}), "the option 'colums' is unknown"),
        (lambda: p.node("A", input="a", delimiter=";"), "the option 'delimiter' is unknown"),
        (lambda: p.node("A", input="a", path="b"), "an input and a path"),
        (lambda: p.step(len), "no function"),
        (lambda: p.step(lambda: None), "reads nothing"),
        (lambda: p.source(lambda a, b: None), "takes one parameter"),
        (lambda: p.sql("a", "drop table a"), "a step is one query"),
    ):
        with pytest.raises((InvalidArgument, JobError), match=words):
            wrong()

    @p.step
    def unused(nobody: Any) -> Any:
        return nobody

    with pytest.raises(InvalidArgument, match="unused is a part of the pipeline already"):
        pipeline.expect("late", "a > 0")(unused)
    p.node("A", input="unused")
    with pytest.raises(JobError, match="'nobody' is no source and no step") as refused:
        _ = p.job
    assert refused.value.span is not None
    assert refused.value.path == __file__
    (tmp_path / "two.py").write_text("from omnigraph.pipeline import Pipeline\na = Pipeline()\nb = Pipeline()\n")
    with pytest.raises(JobError, match="makes 2 pipelines"):
        pipeline.read_job(tmp_path / "two.py")
    (tmp_path / "bad.py").write_text("1 / 0\n")
    with pytest.raises(JobError, match=r"bad\.py cannot be run: ZeroDivisionError"):
        pipeline.read_job(tmp_path / "bad.py")
