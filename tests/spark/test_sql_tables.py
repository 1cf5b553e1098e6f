"""The data source in Spark SQL: temporary views are read and written, tables of a catalog are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph

SCHEMA = """
node Person {
  name: String @key
  age: I32?
}
node Thing {
  size: I32
}
edge Knows: Person -> Person {
  since: I32?
}
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = Graph.init(tmp_path / "g", SCHEMA)
    made.load({"Person": [{"name": f"p{i}", "age": i} for i in range(3)]})
    return made


def view(spark: Any, graph: Graph, name: str, options: str) -> None:
    spark.sql(f"create or replace temporary view {name} using omnigraph options (path '{graph.uri}', {options})")


def insert(spark: Any, view: str, **values: str) -> None:
    """Insert one row of some columns. Before 4.1 Spark wants all columns of a view."""
    if spark.version < "4.1":
        spark.sql(f"insert into {view} select {', '.join(values.get(c, 'null') for c in spark.table(view).columns)}")
    else:
        spark.sql(f"insert into {view} ({', '.join(values)}) values ({', '.join(values.values())})")


def test_a_temporary_view_is_read_and_written(spark: Any, graph: Graph) -> None:
    view(spark, graph, "people", "type 'Person'")
    view(spark, graph, "knows", "edge 'Knows'")
    assert spark.sql("select sum(age) from people").first()[0] == 3
    insert(spark, "people", name="'q'", age="40")
    spark.sql("insert into people select concat(name, 'x') as id, concat(name, 'x'), age from people where age = 1")
    insert(spark, "knows", src="'q'", dst="'p1x'")
    assert sorted(row["name"] for row in graph.rows("node:Person").to_pylist()) == ["p0", "p1", "p1x", "p2", "q"]
    assert [(row["src"], row["dst"]) for row in graph.rows("edge:Knows").to_pylist()] == [("q", "p1x")]
    assert len(graph.commits.list()) == 5
    mixed = "select 'r' as id, 'r', 1 union all select null, 's', 2 union all select 't', 't', null"
    spark.sql(f"insert into people select /*+ repartition(1) */ * from ({mixed})")
    assert {row["name"]: row["age"] for row in graph.rows("node:Person").to_pylist()}.items() >= {
        ("r", 1), ("s", 2), ("t", None),
    }  # fmt: skip


def test_a_view_of_an_older_state(spark: Any, graph: Graph) -> None:
    moment = graph.commits.head().created_at
    graph.load({"Person": [{"name": "late", "age": 9}]})
    for option, count in (
        ("versionAsOf '2'", 3), ("versionAsOf '3'", 4), ("timestampAsOf '2999-01-01'", 4),
        (f"timestampAsOf '{stamp(moment)}'", 3),
    ):  # fmt: skip
        view(spark, graph, "then_people", f"type 'Person', {option}")
        assert spark.sql("select count(*) from then_people").first()[0] == count, option


def stamp(micros: int) -> str:
    import datetime as dt

    return (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)).isoformat(" ")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("timestampAsOf 'noon'", "'noon' is no moment"),
        ("versionAsOf 'x'", "version 'x' is not a number"),
        ("versionAsOf '1', branch 'main'", "give one of branch, versionasof"),
    ],
)
def test_wrong_states_are_refused(spark: Any, graph: Graph, options: str, words: str) -> None:
    with pytest.raises(Exception, match=words):
        view(spark, graph, "wrong", f"type 'Person', {options}")


def test_a_table_of_the_catalog_is_refused(spark: Any, graph: Graph) -> None:
    """Spark gives a Python source no options when it reads such a table, so the table would name no graph."""
    options = f"options (path '{graph.uri}', type 'Person')"
    with pytest.raises(Exception, match="catalog keeps no options for a table of a Python source"):
        spark.sql(f"create table refused using omnigraph {options}")
    with pytest.raises(Exception, match="the graph is missing"):
        spark.sql(f"create table refused using omnigraph {options} as select 'b' as name")
    spark.sql(f"create table unread (name string) using omnigraph {options}")
    try:
        for statement in ("select * from unread", "insert into unread values ('c')"):
            with pytest.raises(Exception, match="a table of a Spark catalog has none, a view has"):
                spark.sql(statement).collect()
    finally:
        spark.sql("drop table unread")
    assert len(graph.commits.list()) == 2


@pytest.mark.parametrize(
    "statement",
    [
        "select * from changed version as of 1",
        "delete from changed where age = 1",
        "update changed set age = 3",
        "merge into changed using changed s on changed.name = s.name when matched then update set age = 1",
    ],
)
def test_what_needs_a_catalog_is_refused_by_spark(spark: Any, graph: Graph, statement: str) -> None:
    view(spark, graph, "changed", "type 'Person'")
    with pytest.raises(Exception, match=r"\[[A-Z_.]+\]|not support"):
        spark.sql(statement).collect()
    assert len(graph.commits.list()) == 2
