"""How the engine gets at rows: keys by index, filters by storage, a few edges by index, shortest paths from both ends.

Every way gives the same answer; `explain(analyze=True)` says which one was taken, and storage itself confirms it.
"""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.execution.arrow import expansion
from omnigraph.execution.arrow.governor import Governor, Limits
from omnigraph.execution.arrow.paths import SearchTree, meet
from omnigraph.execution.arrow.topology import Adjacency, Arcs, build_adjacency
from omnigraph.storage.lookup import in_list
from omnigraph.versioning.staging import open_table
from omnigraph.versioning.store import Settings

SCHEMA = """
node Person { num: I32 @key  name: String?  age: I32?  day: Date?  ok: Bool? }
edge Follows: Person -> Person { id: String? }
"""
COUNT = 300


def person(n: int) -> dict[str, Any]:
    ages = {"age": n % 50} if n % 7 else {}
    day = {"day": f"2024-01-{1 + n % 28:02}"}
    return {"type": "Person", "data": {"num": n, "name": f"it's {n % 40}", "ok": n % 2 == 0, **ages, **day}}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    schema = SCHEMA.replace(" { id: String? }", "")
    graph = Graph.init(tmp_path / "g", schema)
    rng = random.Random(3)
    rows = [{"edge": "Follows", "from": str(rng.randrange(COUNT)), "to": str(rng.randrange(COUNT))} for _ in range(900)]
    graph.load([*map(person, range(COUNT)), *rows])
    graph.load([{"edge": "Follows", "from": "5", "to": "5"}, {"edge": "Follows", "from": "5", "to": "6"}])
    graph.delete("Person", ["17", "18", "200"])
    return graph.uri


def opened(uri: str, expansion: str) -> Graph:
    return Graph.open(uri, settings=Settings(query_expansion=expansion, derived=False))


def bag(graph: Graph, clauses: str, returned: str, **params: Any) -> list[Any]:
    declared = ", ".join(f"${name}: I64" for name in params)
    text = f"query q({declared}) {{ match {{ {clauses} }} return {{ {returned} }} }}"
    return sorted(map(repr, graph.query(text, params=params).to_pylist()))


def notes(graph: Graph, clauses: str, returned: str = "count(*) as n") -> dict[str, tuple[str, ...]]:
    found = graph.explain(f"query q() {{ match {{ {clauses} }} return {{ {returned} }} }}", analyze=True)
    return {each.name: each.notes for each in found.operators}


@pytest.mark.parametrize(
    "condition",
    [
        "$p.age = 7", "7 < $p.age", "$p.age >= 49", "$p.age != 3", "$p.age < 2.5", "$p.age = 2.5", "$p.age != 2.5",
        "$p.age > 3000000000", "$p.age < 3000000000", "$p.age >= -3000000000", "$p.age = 3000000000",
        "$p.age != 3000000000", "$p.age in [1, 2, 3000000000]", "$p.age in []", '$p.name = "it\'s 3"',
        '$p.name > "it\'s 39"', "$p.ok = true", '$p.day <= date("2024-01-03")', "$p.age is null",
        "$p.age is not null and $p.ok = false", '$p.age = 4 or $p.name = "it\'s 1"', "not ($p.age = 7)",
        "not ($p.age > 3000000000)",
    ],
)  # fmt: skip
def test_a_filter_means_the_same_in_storage(uri: str, condition: str) -> None:
    clauses = f"$p: Person  {condition}"
    assert bag(opened(uri, "btree"), clauses, "$p.num") == bag(opened(uri, "csr"), clauses, "$p.num")


def test_storage_decides_filters_and_explain_says_so(uri: str) -> None:
    found = notes(opened(uri, "btree"), "$p: Person  $p.age = 7  $p.ok = true")
    (note,) = found["scan"]
    assert note.startswith("storage filter ")
    assert " = 7 AND " in note
    assert notes(opened(uri, "auto"), "$p: Person  $p.age = 7")["scan"] == ()


@pytest.mark.parametrize("condition", ["$p.num = 42", "42 = $p.num", "$p.num in [42, 43, 9999]", '$p.@id = "42"'])
def test_a_key_is_looked_up(uri: str, condition: str) -> None:
    Graph.open(uri).maintenance.ensure_indices()
    graph = opened(uri, "auto")
    assert notes(graph, f"$p: Person  {condition}", "$p.name")["seek"] == ("key index of Person",)
    table = open_table(graph.repository.store, graph.snapshot().table("node:Person"))
    assert "ScalarIndexQuery" in table.index_plan(in_list("id", ["42"]))
    assert bag(opened(uri, "auto"), f"$p: Person  {condition}", "$p.num") == bag(
        opened(uri, "csr"), f"$p: Person  $p.name is not null  {condition}", "$p.num"
    )


def test_a_key_that_does_not_exist_or_was_deleted(uri: str) -> None:
    for key in (17, 9999):
        assert bag(opened(uri, "auto"), f"$p: Person {{ num: {key} }}", "$p.name") == []


def test_a_key_that_is_asked_for_again_and_again_is_found_in_memory(uri: str) -> None:
    Graph.open(uri).maintenance.ensure_indices()
    graph = opened(uri, "auto")
    seen = [notes(graph, "$p: Person { num: 42 }", "$p.name")["seek"] for _ in range(12)]
    assert seen[0] == ("key index of Person",)
    assert seen[-1] == ()


@pytest.mark.parametrize("pattern", ["$p follows $q", "$q follows $p", "$p $e:follows $q", "$p follows{1,3} $q"])
@pytest.mark.parametrize("start", [5, 42, 16, 17])
def test_a_few_nodes_are_expanded_by_index(uri: str, pattern: str, start: int) -> None:
    clauses = f"$p: Person {{ num: {start} }}  {pattern}"
    returned = "$q.num, $e.@id" if "$e" in pattern else "$q.num"
    assert bag(opened(uri, "btree"), clauses, returned) == bag(opened(uri, "csr"), clauses, returned)


def followed(folder: Path, nodes: int, each: int) -> str:
    """A graph in which everybody follows so many others; with as many edges as are worth an index."""
    graph = Graph.init(folder, SCHEMA.replace(" { id: String? }", ""))
    froms = np.repeat(np.arange(nodes), each)
    tos = np.random.default_rng(3).integers(0, nodes, len(froms))
    assert len(froms) >= expansion.LARGE_TABLE
    ends = {"from": froms.astype(str).tolist(), "to": tos.astype(str).tolist()}
    graph.load({"Person": pa.table({"num": range(nodes)}), "Follows": pa.table(ends)})
    graph.maintenance.ensure_indices()
    return graph.uri


def test_the_choice_is_made_again_at_every_hop(tmp_path: Path) -> None:
    graph = opened(followed(tmp_path / "many", 6_000, 4), "auto")  # more than a few are reached by the fourth hop
    text = "query q() { match { $p: Person { num: 5 }  $p follows{1,5} $q } return { $q.num } }"
    (operator,) = [o for o in graph.explain(text, analyze=True).operators if o.name == "expand"]
    assert operator.notes == ("index, 1 nodes", "topology, loaded") or operator.notes[-1] == "topology, loaded"
    assert operator.notes[0].startswith("index")
    again = graph.explain(text, analyze=True)
    assert [o.notes for o in again.operators if o.name == "expand"] == [("topology",)]


@pytest.mark.parametrize(("more", "way"), [(0, "index, 1 nodes"), (1, "topology, loaded")])
def test_nodes_with_many_edges_are_expanded_by_topology(tmp_path: Path, more: int, way: str) -> None:
    graph = opened(followed(tmp_path / "g", 10, expansion.MANY_EDGES + more), "auto")
    assert notes(graph, "$p: Person { num: 5 }  $p follows $q", "$q.num")["expand"] == (way,)


def random_graph(rng: np.random.Generator, nodes: int, edges: int) -> tuple[Adjacency, Adjacency]:
    ends = rng.integers(0, nodes, edges), rng.integers(0, nodes, edges)
    none = np.arange(edges)
    out = build_adjacency(Arcs(ends[0], ends[1], none), nodes, nodes, distinct=True)
    return out, build_adjacency(Arcs(ends[1], ends[0], none), nodes, nodes, distinct=True)


def test_two_searches_that_meet_find_what_one_tree_finds() -> None:
    rng = np.random.default_rng(11)
    for _ in range(40):
        nodes = int(rng.integers(2, 40))
        out, back = random_graph(rng, nodes, int(rng.integers(0, 3 * nodes)))
        for high in (None, 1, 2, 3):
            tree = SearchTree(out, 0, high, lambda _: None)
            for goal in range(nodes):
                path, wanted = meet(out, back, 0, goal, high, lambda _: None), tree.path_to(goal)
                assert (path is None) == (wanted is None)
                if path is not None and wanted is not None:
                    assert len(path) == len(wanted)
                    assert (path[0], path[-1]) == (0, goal)
                    assert all(b in out.targets[out.starts[a] : out.starts[a + 1]] for a, b in pairwise(path))


def test_limits_are_checked_before_rows_are_made() -> None:
    from omnigraph.errors import LimitExceeded

    governor = Governor(Limits(max_rows=10, max_memory=200))
    governor.check_rows(10, 2)
    with pytest.raises(LimitExceeded, match=r"11 rows of bindings; the limit is 10"):
        governor.check_rows(11)
    with pytest.raises(LimitExceeded, match=r"240 bytes .* the limit is 200"):
        governor.check_rows(10, 3)
    with pytest.raises(LimitExceeded, match="longer than 0 seconds"):
        Governor(Limits(max_seconds=0.0)).check_time()
