"""Aggregation: counts, sums, groups, and what is left when there is nothing to aggregate."""

from __future__ import annotations

import pyarrow as pa

from omnigraph import Graph
from tests.conformance.asking import FRIENDS, bag, rows, text
from tests.conformance.conftest import Created
from tests.support.rows import knows, person, works_at


def test_friend_counts(friends: Graph) -> None:
    found = friends.query(text("$p: Person $p knows $f", "$p.name, count($f) as friends", "order { friends desc }"))
    assert found.columns == ["p.name", "friends"]
    assert found.to_pylist() == [{"p.name": "Alice", "friends": 2}, {"p.name": "Bob", "friends": 1}]
    assert found.row_count == len(found) == 2


def test_total_people(friends: Graph, created: Created) -> None:
    assert rows(friends, "$p: Person", "count($p)") == [4]
    assert rows(created(rows=[person("Zed")]), "$p: Person", "count($p)") == [1]


def test_age_statistics_per_company(created: Created) -> None:
    graph = created(rows=[*FRIENDS, works_at("Charlie", "Acme")])
    returned = (
        "$c.name, sum($p.age) as total, avg($p.age) as mean, min($p.age) as low, max($p.age) as high, "
        "count($p) as headcount"
    )
    found = graph.query(text("$c: Company $c worksAt $p", returned, "order { $c.name }"))
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        ("Acme", 65.0, 32.5, 30, 35, 2),
        ("Globex", 25.0, 25.0, 25, 25, 1),
    ]
    types = [pa.string(), pa.float64(), pa.float64(), pa.int32(), pa.int32(), pa.int64()]
    assert found.to_arrow().schema.types == types


def test_order_by_an_aggregate(friends: Graph) -> None:
    pattern, by_alias = "$p: Person $p knows $f", "$p.name, count($f) as friends"
    assert rows(friends, pattern, by_alias, "order { friends desc } limit 1") == [("Alice", 2)]
    assert rows(friends, pattern, "$p.name", "order { count($f) desc } limit 1") == ["Alice"]
    assert rows(friends, pattern, "$p.name", "order { count($f) * -1 + 3 }") == ["Alice", "Bob"]


def test_first_and_last_name(friends: Graph) -> None:
    assert rows(friends, "$p: Person", "min($p.name) as first, max($p.name) as last") == [("Alice", "Diana")]


def test_count_skips_nulls(friends: Graph) -> None:
    found = bag(friends, "$p: Person $p $w:knows $f", "$f.name, count($w.since) as dated, count(*) as all")
    assert found == [("Bob", 1, 1), ("Charlie", 0, 1), ("Diana", 1, 1)]


def test_two_hop_count(friends: Graph) -> None:
    assert rows(friends, '$p: Person { name: "Alice" } $p knows $m $m knows $f', "count($f)") == [1]


def test_no_rows_without_keys_are_one_row(created: Created) -> None:
    returned = "count(*) as n, count($p) as c, sum($p.age) as s, avg($p.age) as a, min($p.name) as m"
    assert rows(created(), "$p: Person", returned) == [(0, 0, None, None, None)]
    assert rows(created(), "$p: Person", "collect($p.name) as names") == [[]]
    assert rows(created(), "$p: Person", "count(*) + 1 as next") == [1]


def test_no_rows_with_keys_are_no_rows(created: Created) -> None:
    found = created().query(text("$p: Person", "$p.name, count(*) as n"))
    assert found.to_pylist() == []
    assert found.to_arrow().schema.types == [pa.string(), pa.int64()]


def test_null_is_a_group_of_its_own(created: Created) -> None:
    graph = created(rows=[person("a", 1), person("b"), person("c"), person("d", 1)])
    found = rows(graph, "$p: Person", "$p.age, count(*) as n, sum($p.age) as s", "order { $p.age }")
    assert found == [(None, 2, None), (1, 2, 2.0)]


def test_count_star_counts_rows_of_optionals_too(friends: Graph) -> None:
    pattern = "$p: Person optional { $p knows $f }"
    assert rows(friends, pattern, "count(*) as rows, count($f) as friends, count(distinct $p) as people") == [(5, 3, 4)]
    found = bag(friends, pattern, "$p.name, count($f) as friends")
    assert found == [("Alice", 2), ("Bob", 1), ("Charlie", 0), ("Diana", 0)]


def test_distinct_aggregates(created: Created) -> None:
    graph = created(rows=[person("a", 1), person("b", 1), person("c", 2), person("d")])
    returned = "count(distinct $p.age) as n, sum(distinct $p.age) as s, avg(distinct $p.age) as a, count($p.age) as all"
    assert rows(graph, "$p: Person", returned) == [(2, 3.0, 1.5, 3)]
    assert sorted(rows(graph, "$p: Person", "collect(distinct $p.age)")[0]) == [1, 2]


def test_collect(friends: Graph) -> None:
    found = rows(friends, "$p: Person $p knows $f", "$p.name, collect($f.name) as names", "order { $p.name }")
    assert [(name, sorted(names)) for name, names in found] == [("Alice", ["Bob", "Charlie"]), ("Bob", ["Diana"])]
    dated = rows(friends, "$p: Person $p $w:knows $f", "$p.name, collect($w.since) as days", "order { $p.name }")
    assert [len(days) for _, days in dated] == [1, 1]
    none = rows(
        friends, "$p: Person optional { $p worksAt $c }", "$p.name, collect($c.name) as at", "order { $p.name }"
    )
    assert none == [("Alice", ["Acme"]), ("Bob", ["Globex"]), ("Charlie", []), ("Diana", [])]


def test_having_filters_groups(friends: Graph) -> None:
    pattern, returned = "$p: Person $p knows $f", "$p.name, count($f) as friends"
    assert rows(friends, pattern, returned, "having { friends > 1 }") == [("Alice", 2)]
    assert rows(friends, pattern, returned, 'having { friends > 1 or $p.name = "Bob" } order { $p.name }') == [
        ("Alice", 2),
        ("Bob", 1),
    ]
    assert rows(friends, pattern, "$p.name", "having { max($f.age) > 30 }") == ["Alice"]
    assert rows(friends, "$p: Person", "count(*) as n", "having { n > 99 }") == []


def test_group_by_a_whole_node(friends: Graph) -> None:
    found = rows(friends, "$p: Person $p knows $f", "$p, count(*) as n", "order { n desc }")
    assert found == [({"@id": "Alice", "name": "Alice", "age": 30}, 2), ({"@id": "Bob", "name": "Bob", "age": 25}, 1)]


def test_group_by_an_expression(friends: Graph) -> None:
    found = rows(friends, "$p: Person", "$p.age >= 30 as senior, count(*) as n", "order { senior }")
    assert found == [(False, 2), (True, 2)]
    assert rows(friends, "$p: Person", "$p.age / 10 as decade, count(*) as n", "order { decade }") == [(2, 2), (3, 2)]


def test_arithmetic_over_aggregates(friends: Graph) -> None:
    assert rows(friends, "$p: Person", "max($p.age) - min($p.age) as spread") == [10]
    assert rows(friends, "$p: Person", "sum($p.age) / count(*) as mean") == [29.5]


def test_unnamed_aggregates_take_the_name_of_their_argument(friends: Graph) -> None:
    pattern = "$p: Person $p knows $f"
    assert friends.query(text(pattern, "count($f), avg($p.age), count(*)")).columns == ["f", "p.age", "count"]


def test_aggregates_on_a_branch_and_at_a_snapshot(created: Created) -> None:
    graph = created(rows=FRIENDS)
    before = graph.commits.head().graph_commit_id
    graph.branches.create("side")
    graph.load([person("Eve", 100), knows("Alice", "Eve")], branch="side")
    graph.delete("Person", ["Alice"])
    pattern, returned = "$p: Person", "count(*) as n, max($p.age) as oldest"
    assert rows(graph, pattern, returned, branch="side") == [(5, 100)]
    assert rows(graph, pattern, returned) == [(3, 35)]
    assert rows(graph, pattern, returned, snapshot=before) == [(4, 35)]
    assert rows(graph, "$p: Person $p knows $f", "$p.name, count($f) as n", "order { n desc }", branch="side") == [
        ("Alice", 3),
        ("Bob", 1),
    ]
