"""Rows behind a key index that is older than the table: deleted, written again, written many times."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.errors import CorruptGraph
from omnigraph.storage.apply_effects import MAX_MASKED, apply_effect
from omnigraph.storage.effects import ReplaceRows
from omnigraph.storage.lookup import locate, rows_by_id
from omnigraph.storage.table_memory import TableMemory
from omnigraph.versioning.staging import open_table
from omnigraph.write.index_fold import fold

SCHEMA = "node P { name: String @key  age: I32? }"
UPDATE = "query u($n: String, $a: I32) { update P set { age: $a } where name = $n }"
DELETE = "query d($n: String) { delete P where name = $n }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load({"P": [{"name": f"p{i}", "age": 0} for i in range(50)]})
    state = graph.repository.head()
    fold(graph.repository, state, state.tables["node:P"])
    return graph


def rows(graph: Graph) -> dict[str, int | None]:
    found = graph.rows("node:P").to_pylist()
    assert len({r["name"] for r in found}) == len(found), "a key is there twice"
    assert graph.snapshot().tables["node:P"].row_count == len(found)
    return {r["name"]: r["age"] for r in found}


def test_a_deleted_row_is_not_deleted_twice(graph: Graph) -> None:
    graph.mutate(DELETE, params={"n": "p7"})
    assert graph.mutate(DELETE, params={"n": "p7"}).affected_nodes == 0
    graph.load({"P": [{"name": "p7", "age": 1}, {"name": "p8", "age": 1}]}, mode="merge")
    assert rows(graph) == {f"p{i}": int(i in (7, 8)) for i in range(50)}


def test_one_row_written_many_times(graph: Graph) -> None:
    for age in range(1, 6):
        graph.mutate(UPDATE, params={"n": "p3", "a": age})
        graph.load({"P": [{"name": "p4", "age": age}]}, mode="merge")
        assert rows(graph) == {f"p{i}": age if i in (3, 4) else 0 for i in range(50)}


def test_what_was_read_is_found_where_it_is(graph: Graph) -> None:
    graph.mutate(DELETE, params={"n": "p1"})
    entry = graph.snapshot().tables["node:P"]
    table = open_table(graph.repository.store, entry)
    assert rows_by_id(table, ["p1"], entry.tail, ["age"]).num_rows == 0
    assert rows_by_id(table, ["p2", "p1"], entry.tail, ["age"]).num_rows == 1
    assert locate(table, ["p2", "p1"], entry.tail).ids == ("p2",)
    assert locate(table, ["p1"], entry.tail).ids == ()


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_writes(graph: Graph, seed: int) -> None:
    chance, expected = random.Random(seed), dict.fromkeys((f"p{i}" for i in range(50)), 0)
    for age in range(1, 40):
        name = f"p{chance.randrange(8)}"
        match chance.choice(["update", "delete", "upsert", "two"]):
            case "update":
                graph.mutate(UPDATE, params={"n": name, "a": age})
                expected.update({name: age} if name in expected else {})
            case "delete":
                graph.mutate(DELETE, params={"n": name})
                expected.pop(name, None)
            case "upsert":
                graph.load({"P": [{"name": name, "age": age}]}, mode="merge")
                expected[name] = age
            case "two":
                both = [{"name": name, "age": age}, {"name": f"p{chance.randrange(8, 16)}", "age": age}]
                graph.load({"P": both}, mode="merge")
                expected.update({r["name"]: age for r in both})
        assert rows(graph) == expected


def test_many_masked_rows_move_the_home_of_the_indexes(graph: Graph) -> None:
    names = [f"m{i}" for i in range(2 * MAX_MASKED)]
    graph.load({"P": pa.table({"name": names, "age": pa.nulls(len(names), pa.int32())})})
    state = graph.repository.head()
    fold(graph.repository, state, state.tables["node:P"])
    homes, step = set(), MAX_MASKED // 3
    for begin in range(0, 5 * step, step):
        graph.delete("P", names[begin : begin + step])
        entry = graph.snapshot().tables["node:P"]
        table = open_table(graph.repository.store, entry)
        homes.add(table.index_home.version)
        assert sum(map(len, table.masked.values())) <= MAX_MASKED
        assert locate(table, [names[begin], "p30"], entry.tail).ids == ("p30",)
    assert len(homes) > 1
    assert rows(graph).keys() == {*(f"p{i}" for i in range(50)), *names[5 * step :]}


def test_rows_are_found_after_the_version_of_the_indexes_was_reclaimed(graph: Graph, tmp_path: Path) -> None:
    graph.mutate(DELETE, params={"n": "p0"})
    before = graph.snapshot().tables["node:P"]
    graph.mutate(DELETE, params={"n": "p1"})
    entry = graph.snapshot().tables["node:P"]
    store = Graph.open(tmp_path / "g").repository.store  # a process that has read no deletion file yet
    home, table = open_table(store, before), open_table(store, entry)
    table = replace(table, masked={0: frozenset({1})}, memory=TableMemory(home))
    for fragment_id, fragment in home.fragments.items():
        assert fragment.deletion_file is not None
        (tmp_path / "g" / home.path / fragment.deletion_file.path(fragment_id)).unlink()
    assert rows_by_id(table, ["p0", "p1", "p2"], entry.tail, ["id"])["id"].to_pylist() == ["p2"]
    assert table.index_home is table, "the home was gone"
    assert locate(table, ["p1"], entry.tail).ids == ()


@pytest.mark.parametrize("deleted", [False, True], ids=["keys in memory", "the index is asked"])
@pytest.mark.parametrize("ids", [["new"], ["p3", "new"], ["p3", "new", "nobody"]])
def test_rows_that_no_index_covers_are_read_beside_those_that_one_does(
    graph: Graph, deleted: bool, ids: list[str]
) -> None:
    """By a process that has written nothing. Deletions that it has not read leave the question to the index."""
    if deleted:
        graph.mutate(DELETE, params={"n": "p0"})
    graph.load({"P": [{"name": "new", "age": 9}]})
    entry = graph.snapshot().tables["node:P"]
    there = set(ids) - {"nobody"}
    table = open_table(Graph.open(graph.uri).repository.store, entry)
    assert table.uncovered_fragments
    assert set(rows_by_id(table, ids, entry.tail, ["id"])["id"].to_pylist()) == there
    table = open_table(Graph.open(graph.uri).repository.store, entry)
    assert set(locate(table, ids, entry.tail).ids) == there


def test_a_row_that_an_index_names_and_that_is_gone_is_not_masked_in_silence(graph: Graph) -> None:
    """Counts of rows would be wrong ever after."""
    before = graph.snapshot().tables["node:P"]
    graph.mutate(DELETE, params={"n": "p1"})
    entry = graph.snapshot().tables["node:P"]
    store = Graph.open(graph.uri).repository.store
    table = open_table(store, entry)
    table = replace(table, memory=TableMemory(open_table(store, before)))
    with pytest.raises(CorruptGraph, match=r"1 rows .* were to be masked and 0 are there"):
        apply_effect(store.tables, table, ReplaceRows(("p1",), ()), entry.tail)
