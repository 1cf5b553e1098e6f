"""Keys of data files in memory: they may leave a question to the index, and what they answer is true."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph import Graph
from omnigraph.storage import calls, lookup
from omnigraph.storage.hashes import hashes_of, text_hashes
from omnigraph.storage.key_sets import FileKeys, KeySets
from omnigraph.storage.tables import Table
from omnigraph.versioning.staging import open_table
from omnigraph.write.index_fold import fold

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


def test_a_table_of_too_many_rows_is_never_read(graph: Graph) -> None:
    sets, table = KeySets(few=10, patience=1, many=49), table_of(graph)
    for _ in range(3):
        assert not sets.certainly_new(table, ["new"])
        assert sets.locate(table, ["p1"]) is None
        sets.wait()


def test_what_has_no_room_is_forgotten(graph: Graph, tmp_path: Path) -> None:
    other = Graph.init(tmp_path / "other", SCHEMA)
    other.load({"P": [{"name": f"q{i}"} for i in range(50)]})
    state = other.repository.head()
    fold(other.repository, state, state.tables["node:P"])
    sets = KeySets(few=10, patience=1, capacity=1_000)
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


@given(st.lists(st.text(max_size=30), max_size=40))
def test_texts_have_the_same_hash_one_by_one_and_as_a_column(texts: list[str]) -> None:
    whole = text_hashes(pa.array(texts, pa.string())).tolist()
    assert hashes_of(texts).tolist() == whole
    assert [hashes_of([text])[0] for text in texts] == whole


def read(sets: KeySets, table: Table) -> KeySets:
    while sets.locate(table, ["p0"]) is None and sets.certainly_new(table, ["new"]) is False:
        sets.wait()
    return sets


def ids_found(sets: KeySets, table: Table, *ids: str) -> list[str] | None:
    found = sets.locate(table, ids)
    return None if found is None else [text for text, _ in found]


def test_rows_are_found_where_the_index_finds_them(graph: Graph) -> None:
    table = table_of(graph)
    sets = read(KeySets(few=10, patience=1), table)
    wanted = ["p7", "new", "p49", "p0"]
    where = table.dataset.scanner(columns=["id"], with_row_address=True).to_table().to_pylist()
    places = {row["id"]: row["_rowaddr"] for row in where}
    found = sets.locate(table, wanted)
    assert found is not None
    assert dict(found) == {name: places[name] for name in wanted if name in places}


def test_each_version_and_branch_has_its_own_deletions(graph: Graph) -> None:
    graph.branches.create("side")
    before = table_of(graph)
    sets = read(KeySets(few=10, patience=1), before)
    graph.mutate(DELETE, params={"n": "p7"})
    graph.mutate(DELETE, params={"n": "p8"}, branch="side")
    assert ids_found(sets, before, "p7", "p8") == ["p7", "p8"]
    assert ids_found(sets, table_of(graph), "p7", "p8") == ["p8"]
    assert ids_found(sets, table_of(graph, "side"), "p7", "p8") == ["p7"]


def test_a_fold_keeps_what_is_known_of_deletions(graph: Graph) -> None:
    sets = read(KeySets(few=10, patience=1), table_of(graph))
    graph.mutate(DELETE, params={"n": "p7"})
    graph.load({"P": [{"name": "folded"}]})
    state = graph.repository.head()
    fold(graph.repository, state, state.tables["node:P"])
    table = table_of(graph)
    assert table.index_home is table
    assert not sets.certainly_new(table, ["folded"]), "what the fold added is read"
    assert ids_found(sets, table, "p7", "p8", "folded") == ["p8", "folded"]
    graph.mutate(DELETE, params={"n": "folded"})
    assert ids_found(sets, table_of(graph), "p7", "p8", "folded") == ["p8"]


def test_deletions_that_nobody_read_leave_the_index_in_charge(graph: Graph) -> None:
    graph.mutate(DELETE, params={"n": "p7"})
    table = table_of(Graph.open(graph.uri))
    sets = KeySets()
    assert not sets.certainly_new(table, ["p8"]), "the keys are known now"
    assert ids_found(sets, table, "p7", "p8") is None
    [fragment_id] = table.covered_fragments.intersection(table.fragments)
    table.read_deletions(fragment_id)
    assert ids_found(sets, table, "p7", "p8") == ["p8"]


def test_ids_that_have_no_room_leave_their_hashes(graph: Graph) -> None:
    table = table_of(graph)
    sets = read(KeySets(few=10, patience=1, capacity=1_000), table)
    assert sets.certainly_new(table, ["new"])
    assert ids_found(sets, table, "p7") is None


def test_a_shared_hash_is_not_a_shared_key() -> None:
    one, other = "aaaaaaaabbbbbbbb", "cl9eispdY+*u`*~f"  # chosen to have the same hash
    keys = FileKeys.of(pa.array(["x", other, "y"]), room=1_000)
    assert keys.holds_any(hashes_of([one]))
    assert list(keys.find([one, other], hashes_of([one, other]))) == [(other, 1)]


@pytest.mark.parametrize("seed", range(3))
def test_memory_and_index_agree_whatever_was_written(graph: Graph, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every lookup of a run of writes is answered from memory and, beside it, by the index."""
    sets, chance, compared = KeySets(), random.Random(seed), 0
    for number in range(60):
        name = f"p{chance.randrange(60)}"
        match chance.choice(["delete", "upsert", "insert", "fold", "reopen"]):
            case "delete":
                graph.mutate(DELETE, params={"n": name})
            case "upsert":
                graph.load({"P": [{"name": name, "age": number}]}, mode="merge")
            case "insert":
                graph.load({"P": [{"name": f"new{number}"}]})
            case "fold":
                state = graph.repository.head()
                fold(graph.repository, state, state.tables["node:P"])
            case "reopen":
                graph = Graph.open(graph.uri) if chance.random() < 0.3 else graph
        table = table_of(graph)
        sets.certainly_new(table, ["reads what is small"])
        wanted = [f"p{i}" for i in range(60)] + [f"new{i}" for i in range(number)]
        known = sets.locate(table, wanted)
        if known is not None:
            compared += 1
            asked = lookup._probe_covered(table, lookup.in_list("id", wanted), ["id"]).to_pylist()
            assert sorted(known) == sorted((row["id"], row["_rowaddr"]) for row in asked)
        compare_rows(table, graph, chance.sample(wanted, 5))
        compare_rows(table, graph, wanted)
    assert compared > 10


def compare_rows(table: Table, graph: Graph, ids: list[str]) -> None:
    """Rows read by id are those that a scan finds, at the same addresses."""
    columns = ["age", "name"]
    tail = graph.repository.head().tables["node:P"].tail
    table.memory.remember_located((), None)
    found = lookup.rows_by_id(table, ids, tail, columns)
    scanned = table.dataset.scanner(filter=lookup.in_list("id", ids), with_row_address=True).to_table()
    assert found.schema.names == columns
    assert sorted(found.to_pylist(), key=str) == sorted(scanned.select(columns).to_pylist(), key=str)
    known = table.memory.located(tuple(ids))
    located = ((), ()) if known is None else (known.ids, known.addresses)
    expected = zip(scanned["id"].to_pylist(), scanned["_rowaddr"].to_pylist(), strict=True)
    assert dict(zip(*located, strict=True)) == dict(expected)


def test_an_update_reads_what_it_keeps_without_a_search(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "kept", "node P { name: String @key  age: I32?  city: String?  tags: [String]? }")
    graph.load({"P": [{"name": f"p{i}", "city": f"c{i}", "tags": [f"t{i}", "x"]} for i in range(50)]})
    state = graph.repository.head()
    fold(graph.repository, state, state.tables["node:P"])
    graph.mutate(DELETE, params={"n": "p3"})
    counted = calls.start()
    for number in (2, 4, 49):
        graph.mutate(f'query u() {{ update P set {{ age: {number} }} where name = "p{number}" }}')
    calls.stop()
    assert (counted["table commit"], counted["key lookup"]) == (3, 0)
    rows = {row["name"]: row for row in graph.rows("node:P").to_pylist()}
    assert len(rows) == 49
    for number in (2, 4, 49):
        kept = {"city": f"c{number}", "tags": [f"t{number}", "x"]}
        assert rows[f"p{number}"] == {"id": f"p{number}", "name": f"p{number}", "age": number, **kept}


def test_writes_of_a_process_that_knows_the_keys_ask_no_index(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "edges", f"{SCHEMA} edge Knows: P -> P")
    graph.load({"P": [{"name": f"p{i}"} for i in range(50)]})
    state = graph.repository.head()
    fold(graph.repository, state, state.tables["node:P"])
    graph.load({"P": [{"name": "the first insert reads the keys"}]})
    counted = calls.start()
    graph.mutate(DELETE, params={"n": "p3"})
    graph.load({"P": [{"name": "p4", "age": 4}]}, mode="merge")
    graph.mutate('query u() { update P set { age: 5 } where name = "p5" }')
    graph.load({"Knows": [{"from": "p6", "to": "p7"}]})
    assert (counted["table commit"], counted["key lookup"]) == (4, 0)
    graph.load({"P": [{"name": "p4", "age": 5}]}, mode="merge")
    calls.stop()
    assert counted["key lookup"] == 1, "the fragment that the last upsert left is read, and no index"
    assert graph.rows("node:P").num_rows == 50
