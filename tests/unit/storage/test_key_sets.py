"""Keys of data files in memory: they may say "perhaps" too often, and "new" only where it is true."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.storage.key_sets import KeySets
from omnigraph.storage.tables import Table
from omnigraph.versioning.staging import open_table
from omnigraph.write.coverage import fold

SCHEMA = "node P { name: String @key  age: I32? }"
DELETE = "query d($n: String) { delete P where name = $n }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load({"P": [{"name": f"p{i}"} for i in range(50)]})
    state = graph.repository.head()
    fold(graph.repository, state, state.tables["node:P"])
    return graph


def table_of(graph: Graph, branch: str = "main") -> Table:
    return open_table(graph.repository.store, graph.repository.head(branch).tables["node:P"])


def test_a_small_table_is_read_when_it_is_asked_about(graph: Graph) -> None:
    sets, table = KeySets(), table_of(graph)
    assert sets.certainly_new(table, ["new", "newer"])
    assert not sets.certainly_new(table, ["p7"])
    assert not sets.certainly_new(table, ["new", "p49"])


def test_a_large_table_is_read_in_the_background_once_it_is_asked_about_often(graph: Graph) -> None:
    sets, table = KeySets(few=10, patience=3), table_of(graph)
    for _ in range(3):
        assert not sets.certainly_new(table, ["new"]), "not known yet"
    sets.wait()
    assert sets.certainly_new(table, ["new"])
    assert not sets.certainly_new(table, ["p0"])


def test_what_a_fold_adds_to_a_known_table_is_read_at_once(graph: Graph) -> None:
    sets = KeySets(few=10, patience=1)
    sets.certainly_new(table_of(graph), ["new"])
    sets.wait()
    graph.load({"P": [{"name": "folded"}]})
    state = graph.repository.head()
    fold(graph.repository, state, state.tables["node:P"])
    table = table_of(graph)
    assert len(table.covered_fragments.intersection(table.fragments)) > 1
    assert sets.certainly_new(table, ["new"])
    assert not sets.certainly_new(table, ["folded"])


def test_a_table_beyond_the_capacity_is_never_read(graph: Graph) -> None:
    sets, table = KeySets(few=10, patience=1, capacity=60), table_of(graph)
    for _ in range(3):
        assert not sets.certainly_new(table, ["new"])
        sets.wait()


def test_what_has_no_room_is_forgotten(graph: Graph, tmp_path: Path) -> None:
    other = Graph.init(tmp_path / "other", SCHEMA)
    other.load({"P": [{"name": f"q{i}"} for i in range(50)]})
    state = other.repository.head()
    fold(other.repository, state, state.tables["node:P"])
    sets = KeySets(few=10, patience=1, capacity=100)
    for graph_asked, name in ((graph, "p3"), (other, "q3"), (graph, "p3"), (other, "q3")):
        table = table_of(graph_asked)
        sets.certainly_new(table, ["new"])
        sets.wait()
        assert sets.certainly_new(table, ["new"])
        assert not sets.certainly_new(table, [name])


def test_a_key_that_one_branch_deleted_is_held_on_the_other(graph: Graph) -> None:
    graph.branches.create("side")
    graph.mutate(DELETE, params={"n": "p7"})
    sets = KeySets()
    here, there = table_of(graph), table_of(graph, "side")
    assert not sets.certainly_new(here, ["p7"]), "deleted rows count: the file is read for all who have it"
    assert not sets.certainly_new(there, ["p7"])


def test_files_that_vanish_while_they_are_read_leave_the_index_in_charge(graph: Graph, tmp_path: Path) -> None:
    sets, table = KeySets(few=10, patience=1), table_of(Graph.open(tmp_path / "g"))
    for file in table.data_files():
        (tmp_path / "g" / table.path / file).unlink()
    assert not sets.certainly_new(table, ["new"])
    sets.wait()
    assert not sets.certainly_new(table, ["new"])
    sets.wait()
