"""Filters of the data source: the option that storage decides, and filters of DataFrames that never mix."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.pipeline.rowfilter import RowFilter
from tests.spark.test_datasource import read

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  big: U64?
  tiny: U32?
  rank: F64?
  seen: DateTime?
  born: Date?
  old: Bool?
  tags: [String]?
  scan: Blob?
}
edge Knows: Person -> Person { since: I32? }
node Both { name: String @key }
edge Both: Person -> Person { weight: I32? }
"""
DAY, MOMENT = dt.date(2024, 5, 1), dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    made = Graph.init(tmp_path_factory.mktemp("filters") / "g", SCHEMA)
    for first in range(0, 30, 10):  # three fragments
        people = [
            {
                "name": f"p{i:02}", "age": i if i % 5 else None, "big": 2**64 - 1 - i, "tiny": i, "rank": i / 4,
                "seen": MOMENT + dt.timedelta(hours=i), "born": DAY + dt.timedelta(days=i), "old": i > 20,
                "tags": ["a", f"t{i}"],
            }
            for i in range(first, first + 10)
        ]  # fmt: skip
        made.load({"Person": people})
    made.load({"Knows": [{"from": f"p{i:02}", "to": "p00", "since": i} for i in range(1, 30)]})
    return made


COUNTS = {
    "age > 26": 3,
    "age is null": 6,
    "age is not null and age <= 3": 3,
    "age in [1, 2, 500]": 2,
    "not (age > 3)": 3,
    "age > 3000000000": 0,
    "age < 3000000000": 24,
    "age != 5000000000": 24,
    "age = -1": 0,
    "tiny >= 0 - 5": 30,
    "tiny = 4000000000": 0,
    "age > 26.5": 3,
    "age = 1.5": 0,
    "big = 18446744073709551615": 1,
    "big > 18446744073709551610": 5,
    'name = "p03" or age = 4': 2,
    'name in ["p01", "it\'s", "no"]': 1,
    "rank >= 7": 2,
    "rank > 1e300": 0,
    'seen >= datetime("2024-05-02T12:00:00Z")': 6,
    'born < date("2024-05-03")': 2,
    "old": 9,
    "old = false and age > 18": 1,
    "age + 1 > 28": 2,
    "age > 10 and rank < 3": 1,
    "age > 26 and age < 3": 0,
}


@pytest.mark.parametrize("text", COUNTS)
def test_conditions_are_typed_and_decided_where_rows_are_read(graph: Graph, text: str) -> None:
    """Without Spark: the rows that a reader would hand over, of what storage lets pass."""
    entity = graph.catalog().node("Person")
    rows = RowFilter.of(text, entity, graph.catalog())
    stored = graph.rows("node:Person").combine_chunks().to_batches()
    assert sum(rows.passing(batch).num_rows for batch in stored) == COUNTS[text]


@pytest.mark.parametrize("text", ["age > 26", "not (age > 3)", "age > 3000000000", "big > 18446744073709551610", "old"])
def test_the_filter_option(spark: Any, graph: Graph, text: str) -> None:
    frame = read(spark, graph, type="Person", columns="name", filter=text)
    assert frame.columns == ["name"]
    assert frame.count() == COUNTS[text]


def test_what_storage_is_told(graph: Graph) -> None:
    catalog = graph.catalog()
    person = catalog.node("Person")
    age, rank = (person.property(name).column for name in ("age", "rank"))
    assert RowFilter.of("age > 3 and rank < 2", person, catalog).pushed == f"`{age}` > 3 AND `{rank}` < 2.0"
    assert RowFilter.of("age > 3 and not (rank < 2)", person, catalog).pushed == f"`{age}` > 3"
    assert RowFilter.of("age > 3000000000", person, catalog).pushed == "FALSE"
    assert RowFilter.of("not (age > 3)", person, catalog).pushed is None
    assert RowFilter.of('from = "p01"', catalog.edge("Knows"), catalog).pushed == "`src` = 'p01'"


def test_edges_are_filtered_by_their_ends(spark: Any, graph: Graph) -> None:
    frame = graph.spark.table("Knows", filter='from in ["p01", "p02"] and to = "p00"')
    assert sorted(row["src"] for row in frame.collect()) == ["p01", "p02"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"type": "Person", "filter": "agee > 3"}, "Person has no property `agee`"),
        ({"type": "Person", "filter": 'age > "x"'}, "filter 'age > \"x\"'"),
        ({"type": "Person", "filter": "age"}, "filter 'age'"),
        ({"type": "Person", "filter": ""}, "filter ''"),
        ({"type": "Person", "filter": "age >"}, "filter 'age >'"),
        ({"type": "Person", "filter": "age > $x"}, r"filter 'age > \$x'"),
        ({"type": "Person", "filter": "age > 1 delete Knows where since > 0"}, "more than one condition"),
        ({"type": "Person", "filter": "age > 1 } query q() { delete Person where age > 2"}, "filter '"),
        ({"type": "Person", "filter": "scan is null"}, "the blob `scan` cannot be tested"),
        ({"edge": "Both", "filter": 'name = "x"'}, "is a node type and an edge type"),
        ({"type": "Person", "version": "last"}, "version 'last' is not a number"),
        ({"type": "Person", "actor": "me"}, "option 'actor' is unknown for reading"),
    ],
)
def test_wrong_filters_are_refused(spark: Any, graph: Graph, options: dict[str, str], words: str) -> None:
    with pytest.raises(Exception, match=words):
        _ = read(spark, graph, **options).schema  # Spark Connect asks for it no earlier


def test_a_filter_is_no_option_of_writing(spark: Any, tmp_path: Path) -> None:
    target = Graph.init(tmp_path / "t", SCHEMA)
    frame = spark.createDataFrame([("a",)], ["name"])
    with pytest.raises(Exception, match="option 'filter' is unknown for writing"):
        frame.write.format("omnigraph").option("type", "Person").option("filter", "age > 1").mode("append").save(
            target.uri
        )


@pytest.mark.parametrize("asked", ["true", "false"])
def test_filters_of_one_frame_never_mix(spark: Any, graph: Graph, asked: str) -> None:
    """One relation, several filters: interleaved, cached, joined with itself, united, in SQL. Also where a session
    asks for pushed filters, which Spark would keep with the relation."""
    before = spark.conf.get("spark.sql.python.filterPushdown.enabled", None)
    if before is None:
        pytest.skip("this version of Spark pushes no filters to Python sources")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", asked)
    try:
        people = read(spark, graph, type="Person", columns="name,age")
        old, young = people.where("age > 26"), people.where("age < 3")
        old.explain("simple")  # planned first, run last
        assert [young.count(), people.count(), old.count(), young.count()] == [2, 30, 3, 2]
        assert old.union(young).count() == 5
        assert people.where("age > 26").unionByName(people).count() == 33
        assert old.toDF("n", "a").join(young.toDF("m", "b"), on=None, how="cross").count() == 6
        assert old.alias("x").join(people.alias("y"), on="name").count() == 3
        kept = old.cache()
        assert (kept.count(), people.count(), people.where("age is null").count()) == (3, 30, 6)
        kept.unpersist()
        people.createOrReplaceTempView("filtered_people")
        both = (
            "select (select count(*) from filtered_people where age > 26), count(*) from filtered_people where age < 3"
        )
        assert tuple(spark.sql(both).first()) == (3, 2)
        assert spark.sql("select count(*) from filtered_people").first()[0] == 30
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", before)


def test_two_filter_options_are_two_relations(spark: Any, graph: Graph) -> None:
    old = graph.spark.table("Person", columns=["name", "age"], filter="age > 26")
    young = graph.spark.table("Person", columns=["name", "age"], filter="age < 3")
    assert old.union(young).count() == 5
    assert old.join(young, on="name").count() == 0
    assert old.where("age < 28").count() == 1
    assert (old.count(), young.count()) == (3, 2)
