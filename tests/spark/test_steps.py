"""Jobs with named sources and steps: what SQL and functions make of them becomes the types of one commit."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph, pipeline
from omnigraph.errors import InvalidValue, JobError, OmnigraphError
from omnigraph.execution.spark.versions import is_connect
from omnigraph.pipeline.job import parse_job
from omnigraph.pipeline.job_graph import job_mermaid

SCHEMA = """
node Person { name: String @key  total: F64?  token: String? }
node Order { number: I64 @key  total: F64?  day: Date? }
edge Placed: Person -> Order
"""
STEPS = """
def totals(orders, people):
    from pyspark.sql import functions as F

    found = orders.groupBy("customer").agg(F.sum("total").alias("total"))
    return people.join(found, people.name == found.customer, "left").select(people.name.alias("name"), "total")


def vip(spark):
    return spark.sql("select 'Ada' as who, 1 as rank")


def pandas_frame(totals):
    return totals.toPandas()


def broken(orders):
    return 1 / 0


def number(orders):
    return 7
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    (tmp_path / "orders.csv").write_text("no,customer,total,day\n1,Ada,10,2024-05-01\n2,Bob,20,2024-05-02\n3,Ada,5,\n")
    (tmp_path / "people.jsonl").write_text('{"name": "Ada", "land": "NO"}\n{"name": "Bob", "land": "SE"}\n')
    (tmp_path / "shop.py").write_text(STEPS)
    return Graph.init(tmp_path / "g", SCHEMA)


def job_of(folder: Path, text: str) -> Any:
    return parse_job(text, folder / "job.yaml")


def run(spark: Any, graph: Graph, folder: Path, text: str) -> Any:
    return pipeline.run(spark, job_of(folder, text), graph)


def rows(graph: Graph, key: str, *names: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in names) for row in graph.rows(key).to_pylist())


SHOP = """
sources:
  orders:
    path: orders.csv
    columns: {no: no, customer: customer, total: total, day: day}
    cast: {no: bigint, total: double}
  people: people.jsonl
steps:
  large: |
    -- orders that count
    select no as number, customer, total, day
    from orders
    where total >= 10
  totals: {python: 'shop:totals', inputs: [orders, people]}
  placed: {sql: "select customer as `from`, number as `to` from large"}
nodes:
  Order: {input: large, columns: {number: number, total: total, day: day}, cast: {day: date}}
  Person: {input: totals}
edges:
  Placed: {input: placed, cast: {to: string}}
"""


def test_sql_and_functions_become_types_of_one_commit(spark: Any, tmp_path: Path, graph: Graph) -> None:
    assert pipeline.validate(job_of(tmp_path, SHOP), graph) == []
    result = run(spark, graph, tmp_path, SHOP)
    assert (dict(result.nodes), dict(result.edges)) == ({"Order": 2, "Person": 2}, {"Placed": 2})
    assert len(graph.commits.list()) == 2
    assert rows(graph, "node:Person", "name", "total") == [("Ada", 15.0), ("Bob", 20.0)]
    days = [(number, str(day)) for number, day in rows(graph, "node:Order", "number", "day")]
    assert days == [(1, "2024-05-01"), (2, "2024-05-02")]
    assert {each.name: (each.read, each.loaded) for each in result.sources} == {
        "orders": (3, 3), "people": (2, 2), "Order from large": (2, 2), "Person from totals": (2, 2),
        "Placed from placed": (2, 2),
    }  # fmt: skip
    assert job_mermaid(job_of(tmp_path, SHOP)).splitlines() == [
        "flowchart LR",
        '  graph_[("the graph, main, append")]',
        '  i_orders["orders<br/>orders.csv<br/>cast no as bigint<br/>cast total as double"]',
        '  i_people["people<br/>people.jsonl"]',
        '  i_large[["large<br/>SQL"]]',
        "  i_orders --> i_large",
        '  i_totals[["totals<br/>function shop:totals"]]',
        "  i_orders --> i_totals",
        "  i_people --> i_totals",
        '  i_placed[["placed<br/>SQL"]]',
        "  i_large --> i_placed",
        '  n_Order("Order") --> graph_',
        '  n_Person("Person") --> graph_',
        '  i_large -- "cast day as date" --> n_Order',
        "  i_totals --> n_Person",
        '  e_Placed{{"Placed"}} --> graph_',
        '  i_placed -- "cast to as string" --> e_Placed',
    ]
    views = {view.name for view in spark.catalog.listTables()}
    assert not views & {"orders", "large", "totals"}, "the user's session has no views of ours"


def test_rows_left_out_on_the_way_are_counted_and_described(spark: Any, tmp_path: Path, graph: Graph) -> None:
    (tmp_path / "orders.csv").write_text("no,total\n1,10\n2,ten\n3,1,2\n4,-4\n5,60\n6,90\n")
    text = """
on_error: reject
rejects: left-out.jsonl
sources:
  orders:
    path: orders.csv
    cast: {no: bigint, total: double}
    expect: [{rule: "total > 0", on_fail: drop, name: positive}]
steps:
  large:
    sql: select no as number, total from orders where total > 20
    expect: [{rule: total < 80, on_fail: drop}, {rule: number > 100, on_fail: warn, name: high}]
nodes:
  Order: {input: large, expect: [{rule: total = 60, on_fail: warn, name: sixty}]}
"""
    result = run(spark, graph, tmp_path, text)
    assert rows(graph, "node:Order", "number", "total") == [(5, 60.0)]
    found = {s.name: (s.read, s.loaded, s.rejected, s.dropped, s.warned) for s in result.sources}
    assert found == {
        "orders": (6, 3, 2, {"positive": 1}, {}), "large": (2, 1, 0, {"total < 80": 1}, {"high": 1}),
        "Order from large": (1, 1, 0, {}, {}),
    }  # fmt: skip
    left = [json.loads(line) for line in (tmp_path / "left-out.jsonl").read_text().splitlines()]
    assert [(each["rule"], each.get("row")) for each in left] == [
        ("type", 3), ("syntax", 4), ("expect", 5), ("expect", left[3]["row"]),
    ]  # fmt: skip
    assert left[2]["data"] == {"no": "4", "total": "-4"}
    assert left[3]["data"] == {"number": 6, "total": 90.0}
    assert "orders.csv" in left[0]["path"]
    assert graph.repository.store.objects.list("__staging/") == []
    with pytest.raises(InvalidValue, match=r"orders\.csv:3.*ten.* cannot be cast"):
        run(spark, graph, tmp_path, text.replace("on_error: reject", "on_error: fail"))
    with pytest.raises(OmnigraphError):
        run(spark, graph, tmp_path, "max_errors: 1\n" + text)
    with pytest.raises(
        InvalidValue, match=r"orders\.csv:5: the row does not meet the expectation 'positive' of orders"
    ):
        run(spark, graph, tmp_path, text.replace("on_fail: drop, name: positive", "name: positive"))
    assert len(graph.commits.list()) == 2


def test_what_is_used_twice_is_computed_once(spark: Any, tmp_path: Path, graph: Graph) -> None:
    """Nodes and the edges between them fit together, though `uuid()` gives other values each time."""
    text = """
sources:
  orders: {path: orders.csv, cast: {no: bigint}}
steps:
  people: select distinct uuid() as name, no from orders
  placed: select name as `from`, cast(no as string) as `to` from people
nodes:
  Order: {input: orders, columns: {number: no, day: day}}
  Person: {input: people, columns: {name: name}}
edges:
  Placed: {input: placed}
"""
    result = run(spark, graph, tmp_path, text)
    assert (dict(result.nodes), dict(result.edges)) == ({"Order": 3, "Person": 3}, {"Placed": 3})
    assert [str(day) for _, day in rows(graph, "node:Order", "number", "day")] == ["2024-05-01", "2024-05-02", "None"]


def test_sources_of_every_kind(spark: Any, tmp_path: Path, graph: Graph) -> None:
    pq.write_table(pa.table({"number": [7, 8], "total": [1.0, None]}), tmp_path / "orders.parquet")
    spark.sql("select * from values ('Ada'), ('Bob') as t(name)").createOrReplaceTempView("crm_people")
    text = f"""
sources:
  direct: orders.parquet
  crm: {{table: crm_people, columns: {{who: name}}, where: "name <> 'Bob'"}}
  more: {{reader: parquet, options: {{path: '{tmp_path}/orders.parquet'}}}}
  vip: {{python: 'shop:vip', cast: {{rank: string}}}}
steps:
  people: select who as name from crm union select who || rank from vip
  framed: {{python: 'shop:pandas_frame', inputs: [people]}}
  placed: select name as `from`, string(number) as `to` from people cross join more where total is null
nodes:
  Order: {{input: direct, unknown: refuse}}
  Person: {{input: framed}}
edges:
  Placed: {{input: placed}}
"""
    run(spark, graph, tmp_path, text)
    assert rows(graph, "node:Order", "number", "total") == [(7, 1.0), (8, None)]
    assert rows(graph, "node:Person", "name") == [("Ada",), ("Ada1",)]
    assert sorted(graph.rows("edge:Placed")["src"].to_pylist()) == sorted(graph.rows("node:Person")["id"].to_pylist())
    spark.catalog.dropTempView("crm_people")


def test_a_source_that_changes_rows_through_events(spark: Any, tmp_path: Path, graph: Graph) -> None:
    graph.load({"Order": [{"number": 1, "total": 1.0}, {"number": 2, "total": 2.0}]})
    (tmp_path / "events.csv").write_text("op,seq,no,total\nU,1,1,5\nD,2,2,\nU,3,3,7\n")
    text = """
mode: merge
sources: {events: events.csv}
steps: {clean: "select op, bigint(seq) as seq, bigint(no) as number, double(total) as total from events"}
nodes: {Order: {input: clean, cdc: {op: op, sequence: seq}}}
"""
    result = run(spark, graph, tmp_path, text)
    assert rows(graph, "node:Order", "number", "total") == [(1, 5.0), (3, 7.0)]
    assert result.deleted == {"Order": 1}


HEAD = "sources:\n  orders: orders.csv\n"
LOADED = "\nnodes: {Order: {input: a}}"
MISTAKES = {
    "unknown name": (HEAD + "steps:\n  a: select * from ordrs" + LOADED, 4, 20, "'ordrs' is no source"),
    "unknown name in a block": (
        HEAD + "steps:\n  a:\n    sql: |\n      select *\n        from orders join x" + LOADED,
        7,
        26,
        "'x' is no source",
    ),
    "unknown input": (HEAD + "nodes: {Order: {input: orders}, Person: {input: b}}", 3, 49, "'b' is no source"),
    "circle": (
        HEAD + "steps:\n  a: select * from b, orders\n  b: select * from a" + LOADED,
        5,
        20,
        "steps read each other: a -> b -> a",
    ),
    "itself": ("steps:\n  a: select * from a" + LOADED, 2, 20, "steps read each other: a -> a"),
    "unused step": (
        HEAD + "steps:\n  a: select * from orders\nnodes: {Order: {input: orders}}",
        4,
        3,
        "the step 'a' is used by no",
    ),
    "unused source": (HEAD + "  people: p.csv\nnodes: {Order: {input: orders}}", 3, 3, "'people' is used by no"),
    "name taken": (
        HEAD + "steps:\n  orders: select 1\nnodes: {Order: {input: orders}}",
        4,
        3,
        "'orders' names two sources or steps",
    ),
    "no query": (HEAD + "steps:\n  a: drop table orders" + LOADED, 4, 6, "a step is one query"),
    "odd name": ("sources:\n  my-orders: a.csv" + LOADED, 2, 3, "'my-orders' cannot be the name"),
    "two kinds": ("sources:\n  a: {path: b, table: c}" + LOADED, 2, 6, "needs one of path, table"),
    "csv of a table": ("sources:\n  a: {table: b, header: true}" + LOADED, 2, 25, "header is not for"),
    "sql and python": (HEAD + "steps:\n  a: {sql: select 1, python: 'a:b'}\nnodes: {}", 4, 6, "needs sql or python"),
    "inputs of sql": (
        HEAD + "steps:\n  a: {sql: select 1, inputs: [orders]}\nnodes: {}",
        4,
        30,
        "inputs are for python",
    ),
    "no inputs": (HEAD + "steps:\n  a: {python: 'a:b'}\nnodes: {}", 4, 6, "needs inputs"),
    "empty inputs": (HEAD + "steps:\n  a: {python: 'a:b', inputs: []}\nnodes: {}", 4, 30, "reads nothing"),
    "no function": (HEAD + "steps:\n  a: {python: a.b, inputs: [orders]}\nnodes: {}", 4, 15, "names no function"),
    "files of an input": (HEAD + "nodes: {Order: {input: orders, delimiter: ';'}}", 3, 43, "delimiter is for files"),
    "incremental": ("incremental: files\n" + HEAD + "nodes: {Order: {input: orders}}", 3, 3, "has no sources"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_its_place(name: str) -> None:
    text, line, column, words = MISTAKES[name]
    with pytest.raises(JobError, match=words) as refused:
        parse_job(text, Path("job.yaml"))
    assert refused.value.span is not None
    assert (refused.value.span.line, refused.value.span.column) == (line, column)


def test_mistakes_that_spark_and_python_find(spark: Any, tmp_path: Path, graph: Graph) -> None:
    """They are refused before anything is computed, at their place in the file."""
    for step, line, column, words in (
        ("  a:\n    sql: |\n      select no,\n        nobody from one", 6, 9, "nobody"),
        ("  a: 'select no no2 no3 from one'", 3, 21, "PARSE_SYNTAX_ERROR"),
        ("  a: select no, no from one", 3, 3, "two columns 'no'"),
        ("  a: {sql: select no from one, expect: [{rule: nobody > 1}]}", 3, 3, "nobody"),
        ("  a: {python: 'shop:broken', inputs: one}", 3, 3, "the step 'a' failed: ZeroDivisionError"),
        ("  a: {python: 'shop:number', inputs: one}", 3, 3, "the step 'a' gives int"),
    ):
        with pytest.raises(JobError, match=words) as refused:
            run(spark, graph, tmp_path, "steps:\n  one: select 1 as no\n" + step + LOADED)
        span = refused.value.span
        assert span is not None, step
        assert (span.line, span.column) == (line, column), (step, str(refused.value))
    with pytest.raises(OmnigraphError, match="DIVIDE_BY_ZERO"):
        run(spark, graph, tmp_path, "steps:\n  a: select no / 0 as total from range(1) as t(no)" + LOADED)
    assert len(graph.commits.list()) == 1


def test_what_is_found_without_spark(tmp_path: Path, graph: Graph) -> None:
    step = HEAD + "steps:\n  a: {python: 'FUNCTION', inputs: orders}" + LOADED
    for text, words in (
        (step.replace("FUNCTION", "shop:nothing"), "shop has no function 'nothing'"),
        (step.replace("FUNCTION", "no_shop:a"), "no_shop cannot be imported: ModuleNotFoundError"),
        ("sources: {a: none.csv}" + LOADED, "none.csv"),
        ("sources: {a: {python: 'shop:nothing'}}" + LOADED, "shop has no function 'nothing'"),
        (HEAD + "nodes: {Order: {input: orders, columns: {nobody: no}}}", "nobody"),
        (HEAD + "nodes: {Ordr: {input: orders}}", "Ordr"),
    ):
        [found] = pipeline.validate(job_of(tmp_path, text), graph)
        assert words in found


def test_rows_of_dataframes_have_options_too(spark: Any, tmp_path: Path, graph: Graph) -> None:
    frame = spark.sql("select * from values ('Ada', '1', 1), ('Bob', 'x', 2), ('Cy', '3', -1) as t(who, sum, n)")
    given = pipeline.Rows(
        frame, columns={"name": "who", "total": "sum"}, cast={"total": "double"}, where="n > -5",
        expect=(pipeline.Expectation("n > 0", "drop"),),
    )  # fmt: skip
    result = pipeline.load(spark, graph, {"Person": given}, max_errors=5)
    assert rows(graph, "node:Person", "name", "total") == [("Ada", 1.0)]
    [wrong] = result.rejected
    assert (wrong.value, wrong.data and wrong.data["name"]) == ("x", "Bob")
    with pytest.raises(OmnigraphError, match="nobody"):
        pipeline.load(spark, graph, {"Person": pipeline.Rows(frame, columns={"name": "nobody"})})
    ignored = pipeline.Rows(frame.selectExpr("who || '2' as name", "n"), unknown="ignore")
    pipeline.load(spark, graph, {"Person": ignored})
    assert graph.snapshot().table("node:Person").row_count == 4
    with pytest.raises(OmnigraphError, match="`n`"):
        pipeline.load(spark, graph, {"Person": pipeline.Rows(frame.selectExpr("who as name", "n"), unknown="refuse")})


def test_frames_of_the_users_session_are_welcome(spark: Any, tmp_path: Path, graph: Graph) -> None:
    if is_connect(spark):
        pytest.skip("Spark Connect keeps sessions apart")
    (tmp_path / "own.py").write_text(
        "from pyspark.sql import SparkSession\n\ndef people(spark):\n"
        "    return SparkSession.active().createDataFrame([('Ada',)], 'name string')\n"
    )
    text = "sources: {people: {python: 'own:people'}}\nsteps: {a: select * from people}\nnodes: {Person: {input: a}}"
    run(spark, graph, tmp_path, text)
    assert rows(graph, "node:Person", "name") == [("Ada",)]


def test_two_jobs_with_the_same_names_at_once(spark: Any, tmp_path: Path, graph: Graph) -> None:
    """Each run has views of its own, and both are on the branch: nobody waits for ever, and nobody is lost."""

    def job(person: str) -> str:
        made = "select name from people" if person == "x" else "select concat(name, '') as name from people"
        return f"""
sources: {{one: people.jsonl}}
steps:
  people: select '{person}' as name, land from one limit 1
  made: {made}
  knows: select name, uuid() as token from made
nodes: {{Person: {{input: knows}}}}
"""

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda person: run(spark, graph, tmp_path, job(person)), ("x", "y")))
    assert [dict(result.nodes) for result in results] == [{"Person": 1}, {"Person": 1}]
    assert rows(graph, "node:Person", "name") == [("x",), ("y",)]
    assert len(graph.commits.list()) == 3


PAGE = Path(__file__).parents[2] / "docs/user/steps.md"


def written_blocks(folder: Path) -> dict[str, str]:
    """The blocks of the page that begin with the name of a file, as files."""
    found = {}
    for block in PAGE.read_text().split("\n```")[1::2]:
        first, _, body = block.partition("\n")[2].partition("\n")
        if first.startswith("# ") and "." in first:
            found[first[2:]] = body + "\n"
            (folder / first[2:]).write_text(body + "\n")
    return found


def test_the_page_is_true(spark: Any, tmp_path: Path) -> None:
    schema = SCHEMA.replace("Person", "Customer").replace("token", "region")
    assert set(written_blocks(tmp_path)) == {"orders.csv", "shop.py", "shop.yaml", "shop_job.py"}
    graph = Graph.init(tmp_path / "shop.omni", schema)
    job = pipeline.read_job(tmp_path / "shop.yaml")
    assert pipeline.validate(job, graph) == []
    pipeline.run(spark, job)
    assert rows(graph, "node:Customer", "name", "total") == [("Ada", 15.5), ("Bob", 20.0)]
    assert graph.rows("edge:Placed").num_rows == 2
    result = pipeline.run(spark, pipeline.read_job(tmp_path / "shop_job.py"))
    assert rows(graph, "node:Customer", "name", "region") == [("Ada", "north"), ("Bob", "south")]
    assert (dict(result.nodes), dict(result.edges)) == ({"Customer": 2, "Order": 2}, {"Placed": 2})
    text = (tmp_path / "shop.yaml").read_text().replace("customer, total, day from", "nobody, total, day from")
    with pytest.raises(JobError) as refused:
        pipeline.run(spark, parse_job("# shop.yaml\n" + text, tmp_path / "shop.yaml"), graph)
    [message] = [line for line in PAGE.read_text().splitlines() if line.startswith("shop.yaml:")]
    assert str(refused.value).removeprefix(f"{tmp_path}/").startswith(message.removesuffix(" ..."))
