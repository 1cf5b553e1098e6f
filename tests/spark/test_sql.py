"""SQL over a snapshot reads the columns and rows that Spark's plan uses, and answers as if it read all of them."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph, pipeline
from omnigraph.execution.spark.versions import clone_session
from omnigraph.pipeline.sql_reads import TypeRead, planned_reads

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  big: U64?
  tiny: U32?
  rank: F64?
  single: F32?
  seen: DateTime?
  born: Date?
  old: Bool?
  mood: enum(calm, glad)?
  tags: [String]?
}
node City {
  name: String @key
  size: I64?
}
edge Knows: Person -> Person {
  since: I32?
  note: String?
}
edge LivesIn: Person -> City
"""
DAY, MOMENT = dt.date(2024, 5, 1), dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
RANKS = [-0.0, 0.0, None, 1e300]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    made = Graph.init(tmp_path_factory.mktemp("sql") / "g", SCHEMA)
    people = [
        {
            "name": f"p{i:02}", "age": i if i % 5 else None, "big": 2**64 - 1 - i, "tiny": i,
            "rank": RANKS[i] if i < len(RANKS) else i / 4, "single": i / 3, "seen": MOMENT + dt.timedelta(hours=i),
            "born": DAY + dt.timedelta(days=i), "old": None if i == 7 else i > 20, "mood": "glad" if i % 2 else None,
            "tags": ["a", f"t{i}"],
        }
        for i in range(30)
    ]  # fmt: skip
    people[3]["name"] = "o\"d\\d\n's"
    made.load({"Person": people, "City": [{"name": "Rome", "size": 3}, {"name": "Oslo", "size": None}]})
    names = [each["name"] for each in people]
    made.load(
        {
            "Knows": [{"from": names[i], "to": names[(i * 7) % 30], "since": i} for i in range(30)],
            "LivesIn": [{"from": names[i], "to": "Rome" if i % 3 else "Oslo"} for i in range(30)],
        }
    )
    return made


@pytest.fixture(scope="module")
def whole(spark: Any, graph: Graph) -> Any:
    """A session whose views read everything."""
    copy = clone_session(spark)
    pipeline.register_views(copy, graph)
    return copy


QUERIES = {
    "select count(*) from Person": {"Person": ("id", None)},
    "select name from Person where age > 26": {"Person": ("name age", "age is not null and age > 26")},
    "select name from Person where 26 < age": {"Person": ("name age", "age is not null and age > 26")},
    "select * from City where size is null": {"City": (None, "size is null")},
    "select name from Person where old": {"Person": ("name old", "old is not null and old = true")},
    "select name from Person where not old": {"Person": ("name old", "old is not null and old = false")},
    "select name from Person where rank > 6.5D": {
        "Person": ("name rank", "rank is not null and not (rank <= 6.5)")
    },
    "select name from Person where rank <= 6.5D": {"Person": ("name rank", "rank is not null and rank <= 6.5")},
    "select name from Person where rank = 0D": {"Person": ("name rank", "rank is not null")},
    "select name from Person where rank = double('NaN')": {"Person": ("name rank", "rank is not null")},
    "select name from Person where single > 2": {"Person": ("name single", None)},
    "select name from Person where big = 18446744073709551614": {
        "Person": ("name big", "big is not null and big = 18446744073709551614")
    },
    "select name from Person where tiny in (1, 2, 4000000000)": {
        "Person": ("name tiny", "tiny in [1, 2, 4000000000]")
    },
    "select name from Person where age in (1,2,3,4,6,7,8,9,11,12,13,14)": {
        "Person": ("name age", "age in [1, 11, 12, 13, 14, 2, 3, 4, 6, 7, 8, 9]")
    },
    "select age from Person where name = 'o\"d\\\\d\\n\\'s'": {
        "Person": ("name age", 'name is not null and name = "o\\"d\\\\d\\n\'s"')
    },
    "select age from Person where name like 'p1%'": {
        "Person": ("name age", "name is not null")
    },
    "select name from Person where seen >= timestamp'2024-05-02 12:00:00Z' and born < date'2024-05-28'": None,
    "select name from Person where seen = timestamp'2024-05-02 12:00:00.000001Z'": None,
    "select name from Person where age = 3 or age <=> 7 or tiny = 9": None,
    "select name from Person where (age > 3 and single > 1) or age < 2": {
        "Person": ("name age single", "(age > 3 or age < 2)")
    },
    "select name from Person where age <> 3 and upper(name) > 'P1'": None,
    "select name from Person where mood = 'glad'": {"Person": ("name mood", 'mood is not null and mood = "glad"')},
    "select name from Person where mood = 'sad'": {"Person": ("name mood", 'mood is not null and mood = "sad"')},
    "select name from Person where array_contains(tags, 't3')": None,
    "select name from (select * from Person where age > 20 union all select * from Person where old) order by 1": {
        "Person": ("name age old", "(age is not null and age > 20) or (old is not null and old = true)")
    },
    "select count(*) from (select distinct * from City)": {"City": ("id name size", None)},
    "select p.name from Person p natural join Knows k": None,
    "select a.name, b.name from Person a join Person b on a.age = b.age + 1 where a.tiny > 20": None,
    "select p.name, k.since from Person p join Knows k on k.src = p.id where k.dst = 'p01'": {
        "Knows": ("src dst since", 'to is not null and to = "p01" and from is not null'),
        "Person": ("id name", None),
    },
    "select name from Person p left join (select src from Knows where since > 9) k on p.id = src where src is null":
        None,
    "select name from Person where age > (select avg(age) from Person where old)": None,
    "with few as (select * from Person where age > 20) select a.name from few a join few b on a.tags = b.tags": None,
    "select name from Person where exists (select 1 from LivesIn where src = Person.id and dst = 'Rome')": None,
    "select c.name, count(*) from LivesIn l join City c on l.dst = c.id group by 1": None,
    "select name, rank() over (order by tiny desc) r from Person order by tiny limit 4": None,
    "select t from Person lateral view explode(tags) x as t where age = 4": None,
    "select name from Person where false": {"Person": ("id", None)},
    "select name from Person where rand(7) >= 0 and age > 26": None,
    "values (1), (2)": {},
    "select name from Person intersect select name from City": None,
}  # fmt: skip


@pytest.mark.parametrize("text", QUERIES)
def test_rows_are_those_of_a_query_that_reads_everything(spark: Any, whole: Any, graph: Graph, text: str) -> None:
    found, wanted = graph.spark.sql(text), whole.sql(text)
    assert found.schema == wanted.schema
    assert sorted(map(repr, found.collect())) == sorted(map(repr, wanted.collect()))


@pytest.mark.parametrize("text", [text for text, reads in QUERIES.items() if reads is not None])
def test_what_is_read(spark: Any, graph: Graph, text: str) -> None:
    reads = {
        name: TypeRead(name, None if columns is None else tuple(columns.split()), filter)
        for name, (columns, filter) in QUERIES[text].items()
    }
    found = planned_reads(clone_session(spark), graph.catalog(), text)
    assert found is not None
    assert {read.name: read for read in found} == reads


def test_the_scan_has_only_the_columns_in_use(spark: Any, graph: Graph) -> None:
    plan = graph.spark.sql("select name from Person where age > 26")._jdf.queryExecution().optimizedPlan().toString()
    scanned = re.findall(r"RelationV2\[([^\]]*)\]", plan)
    assert [re.sub(r"#\d+L?", "", each) for each in scanned] == ["name, age"]


@pytest.mark.parametrize(
    "text",
    [
        "select name from Person where seen < current_timestamp()",
        "select name from Person where current_date() > date'2000-01-01' or age > 3",
        "create temporary view few as select name from Person",
    ],
)
def test_what_only_the_run_can_tell_reads_everything(spark: Any, graph: Graph, text: str) -> None:
    assert planned_reads(clone_session(spark), graph.catalog(), text) is None
    graph.spark.sql(text).collect()


def test_a_wrong_query_is_spark_s_to_refuse(spark: Any, graph: Graph) -> None:
    for text, words in (
        ("select nme from Person", "UNRESOLVED_COLUMN"),
        ("select name frm Person x y", "PARSE_SYNTAX_ERROR"),
        ("select 1 from Nobody", "TABLE_OR_VIEW_NOT_FOUND"),
    ):
        with pytest.raises(Exception, match=words):
            graph.spark.sql(text)


def test_views_of_the_session_are_joined(spark: Any, graph: Graph) -> None:
    spark.createDataFrame([("p01", 1), ("p02", 2)], ["who", "number"]).createOrReplaceTempView("own")
    found = graph.spark.sql("select p.age, o.number from Person p join own o on o.who = p.name order by 1")
    assert [tuple(row) for row in found.collect()] == [(1, 1), (2, 2)]
    spark.catalog.dropTempView("own")


def test_a_session_that_ignores_case(spark: Any, tmp_path: Path) -> None:
    odd = Graph.init(tmp_path / "g", "node Thing {\n fullname: String @key\n fullName: String?\n size: I32?\n}\n")
    odd.load({"Thing": [{"fullname": "a", "fullName": "A", "size": 1}, {"fullname": "b", "fullName": "B", "size": 2}]})
    before = spark.conf.get("spark.sql.caseSensitive")
    spark.conf.set("spark.sql.caseSensitive", "false")
    try:
        assert [row[0] for row in odd.spark.sql("select SIZE from thing where Size > 1").collect()] == [2]
    finally:
        spark.conf.set("spark.sql.caseSensitive", before)


def test_a_query_of_the_graph_as_a_frame(spark: Any, graph: Graph) -> None:
    text = "query old($age: I32) { match { $p: Person\n $p.age > $age } return { $p.name as name } order { name } }"
    found = graph.spark.query(text, params={"age": 26})
    assert found.columns == ["name"]
    assert [row.name for row in found.collect()] == ["p27", "p28", "p29"]
    assert graph.spark.query(text, "old", {"age": 0}, at=1).count() == 0
