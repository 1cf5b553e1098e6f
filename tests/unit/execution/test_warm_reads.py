"""What a process keeps between queries changes how fast they are, never what they say."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidValue
from omnigraph.execution.arrow.array_cache import ArrayCache
from omnigraph.execution.arrow.topology import Arcs, build_adjacency, is_to_one
from omnigraph.query import compile_query
from omnigraph.query.plan import plan_query
from omnigraph.query.plan.model import Expand, Sizes
from omnigraph.schema import compile_schema

SCHEMA = """
node Person { num: I64 @key  name: String  age: I64?  share: I64 }
node City { name: String @key  land: String }
edge Follows: Person -> Person
edge LivesIn: Person -> City
"""
COUNT = 400
OFTEN = 14
"""More often than any patience lasts."""


def age_of(n: int) -> int | None:
    return n % 50 if n % 7 else None


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    rows: list[dict[str, Any]] = [
        {"type": "Person", "data": {"num": n, "name": f"p{n % 90}", "age": age_of(n), "share": n % 5}}
        for n in range(COUNT)
    ]
    rows += [{"type": "City", "data": {"name": f"c{n}", "land": f"l{n % 3}"}} for n in range(20)]
    rows += [{"edge": "LivesIn", "from": str(n), "to": f"c{n % 20}"} for n in range(COUNT)]
    rows += [{"edge": "Follows", "from": str(n), "to": str(n * k % COUNT)} for n in range(COUNT) for k in (3, 7, 11)]
    graph.load(rows)
    return graph


def asked(graph: Graph, clauses: str, returned: str, declared: str = "", **params: Any) -> list[dict[str, Any]]:
    text = f"query q({declared}) {{ match {{ {clauses} }} return {{ {returned} }} }}"
    return graph.query(text, params=params).to_pylist()


@pytest.mark.parametrize("key", ["num", "id"])
def test_a_key_is_found_however_often_it_is_asked(graph: Graph, key: str) -> None:
    condition = "$p.num = $k" if key == "num" else "$p.@id = $k"
    kind = "I64" if key == "num" else "String"
    for n in [*range(OFTEN), COUNT - 1, 250]:
        wanted: Any = n if key == "num" else str(n)
        assert asked(graph, f"$p: Person  {condition}", "$p.name as name", f"$k: {kind}", k=wanted) == [
            {"name": f"p{n % 90}"}
        ]
    absent: Any = COUNT + 5 if key == "num" else "nobody"
    assert asked(graph, f"$p: Person  {condition}", "$p.name as name", f"$k: {kind}", k=absent) == []


def test_keys_of_a_list_are_found_once_each(graph: Graph) -> None:
    for _ in range(OFTEN):
        found = asked(graph, "$p: Person  $p.num in $ks", "$p.num as n", "$ks: [I64]", ks=[7, 3, 7, 10**6])
        assert sorted(row["n"] for row in found) == [3, 7]


def test_a_condition_is_kept_by_its_parameters(graph: Graph) -> None:
    for bound in [10, 40, 10, 40, 10]:
        found = asked(graph, "$p: Person  $p.age < $a", "count(*) as n", "$a: I64", a=bound)
        ages = [age for age in map(age_of, range(COUNT)) if age is not None]
        assert found == [{"n": sum(age < bound for age in ages)}]


def test_a_condition_is_kept_by_state(graph: Graph) -> None:
    def over() -> int:
        count: int = asked(graph, "$p: Person  $p.age > 48", "count(*) as n")[0]["n"]
        return count

    before = [over() for _ in range(5)][-1]
    graph.load([{"type": "Person", "data": {"num": 10**6, "name": "new", "age": 90, "share": 1}}])
    assert over() == before + 1


def test_nodes_that_are_not_reached_cannot_make_a_query_fail(graph: Graph) -> None:
    # 1 follows 3, 7 and 11, none of which has share 0; others do.
    clauses = "$p: Person { num: 1 }  $p follows $q  12 / $q.share > 4"
    for _ in range(OFTEN):
        assert sorted(row["n"] for row in asked(graph, clauses, "$q.num as n")) == [7, 11]
    with pytest.raises(InvalidValue):
        asked(graph, "$q: Person  12 / $q.share > 2", "count(*) as n")


def test_an_edge_to_exactly_one_is_a_column(graph: Graph) -> None:
    expected = {f"l{k}": [n for n in range(COUNT) if n % 20 % 3 == k and (age_of(n) or 0) > 20] for k in range(3)}
    clauses = "$p: Person  $p livesIn $c  $p.age > 20"
    for _ in range(4):
        found = asked(graph, clauses, "$c.land as land, count($p) as n, sum($p.age) as s, avg($p.share) as a")
        assert {row["land"]: (row["n"], row["s"]) for row in found} == {
            land: (len(ns), sum(age_of(n) or 0 for n in ns)) for land, ns in expected.items()
        }
        assert {row["land"]: round(row["a"], 9) for row in found} == {
            land: round(sum(n % 5 for n in ns) / len(ns), 9) for land, ns in expected.items()
        }
    graph.delete("Person", ["0"])  # nobody has two homes, and the column is another one now
    assert asked(graph, "$p: Person  $p livesIn $c", "count(*) as n") == [{"n": COUNT - 1}]


def test_means_of_nothing_are_null_and_of_their_type(graph: Graph) -> None:
    text = "query q() { match { $p: Person  $p.age > 1000 } return { sum($p.age) as s, avg($p.age) as a } }"
    found = graph.query(text)
    assert found.to_pylist() == [{"s": None, "a": None}]
    assert {str(kind) for kind in found.table.schema.types} == {"double"}


def test_exactly_one_neighbour_each() -> None:
    def adjacency(froms: list[int], tos: list[int]) -> Any:
        edges = np.arange(len(froms))
        return build_adjacency(Arcs(np.array(froms), np.array(tos), edges), 3, 5, distinct=True)

    one = adjacency([2, 0, 1], [4, 4, 0])
    assert is_to_one(one.starts, one.targets)
    uneven = adjacency([0, 0, 2], [1, 2, 3])
    assert not is_to_one(uneven.starts, uneven.targets)
    fewer = adjacency([0, 2], [1, 3])
    assert not is_to_one(fewer.starts, fewer.targets)


def test_the_oldest_goes_first_when_space_runs_out() -> None:
    kept = ArrayCache(max_bytes=4000)
    for name in "abcd":
        kept.get(name, lambda: np.zeros(1000, np.int8))
    kept.find("a")
    kept.get("e", lambda: np.zeros(1000, np.int8))
    assert [name for name in "abcde" if kept.find(name) is not None] == list("acde")
    assert kept.get("huge", lambda: np.zeros(2000, np.int8)).nbytes == 2000
    assert kept.find("huge") is None


def test_what_is_asked_once_or_twice_is_not_made_for_good() -> None:
    kept = ArrayCache()
    assert [kept.is_wanted("k") for _ in range(4)] == [False, False, True, True]


def test_a_grouped_query_carries_what_is_still_read() -> None:
    ids = count(1)
    catalog = compile_schema(SCHEMA, lambda: f"{next(ids):026}")
    clauses = "$p: Person { num: 1 } $p follows $q  $q livesIn $c"
    text = f"query q() {{ match {{ {clauses} }} return {{ $c.land, avg($q.age) as a }} }}"
    sizes = Sizes({"Person": 100, "City": 10}, {"Follows": 500, "LivesIn": 100}, {"Person": "num"})
    plan = plan_query(compile_query(text, catalog), sizes)  # type: ignore[arg-type]
    assert [type(step) for step in plan.match[1:]] == [Expand, Expand]
    assert plan.carried == (frozenset("pqc"), frozenset("qc"), frozenset("qc"))
    plain = compile_query(text.replace("avg($q.age) as a", "$q.age"), catalog)
    assert plan_query(plain, sizes).carried is None  # type: ignore[arg-type]
