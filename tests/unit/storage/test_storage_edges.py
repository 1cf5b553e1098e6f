"""Thresholds and corners of storage: tails, key lookups, control objects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.errors import Unsupported
from omnigraph.storage.apply_effects import fits
from omnigraph.storage.durability import Durability
from omnigraph.storage.effects import Compacted, Rewritten
from omnigraph.storage.layout import GraphRoot
from omnigraph.storage.lookup import MAX_LISTED, existing_ids, in_list, locate, rows_where_any, tuple_keys
from omnigraph.storage.objects import ObjectStore
from omnigraph.storage.tables import Table
from omnigraph.storage.tail import EMPTY_TAIL, MAX_TAIL_HASHES, Tail, key_hash, pack_hashes
from omnigraph.versioning.staging import open_table
from tests.support.fixtures import unflushed
from tests.support.graphs import SMALL, knows, people

__all__ = ["unflushed"]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "g", SMALL)
    graph.load({"Person": people("ann", "bob", "o'hara"), "Knows": knows(("ann", "bob"))})
    return graph


def table_of(graph: Graph, key: str) -> Table:
    """At its pin, as a process sees it that has written nothing."""
    return open_table(graph.repository.store, graph.snapshot().tables[key])


# --- tails ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "kept"), [(MAX_TAIL_HASHES, True), (MAX_TAIL_HASHES + 1, False)])
def test_a_tail_has_a_limit(size: int, kept: bool) -> None:
    tail = Tail({1: pack_hashes(map(str, range(size)))})
    assert tail.size == size
    assert tail.restricted([1]) == (tail if kept else EMPTY_TAIL)
    assert tail.restricted([2]) == EMPTY_TAIL


def test_a_fragment_is_read_where_its_hashes_are_unknown_or_match() -> None:
    tail = Tail({1: pack_hashes(["a", "b"]), 2: pack_hashes(["c"])})
    assert tail.suspects([1, 2, 3], frozenset([key_hash("a")])) == [1, 3]
    assert tail.suspects([1, 2], frozenset([key_hash("x")])) == []


# --- lookups -------------------------------------------------------------------------------------------------------


def test_both_ends_of_many_nodes_are_looked_at(graph: Graph) -> None:
    """More than can be listed in one predicate."""
    table = table_of(graph, "edge:Knows")
    for name in ("ann", "bob"):
        ids = [name, *(f"nobody{i}" for i in range(MAX_LISTED))]
        assert rows_where_any(table, ["src", "dst"], ids)["id"].to_pylist() == ["ann-bob"]
        assert locate(table_of(graph, "node:Person"), ids, EMPTY_TAIL).ids == (name,)


def test_an_id_may_hold_a_quote(graph: Graph) -> None:
    assert in_list("id", ["o'hara"]) == "`id` IN ('o''hara')"
    assert graph.entity_at("node:Person", "o'hara") is not None


def test_which_of_several_ids_exist_is_told_apart(graph: Graph) -> None:
    entry = graph.snapshot().tables["node:Person"]
    assert locate(table_of(graph, "node:Person"), ["ann", "nobody"], entry.tail).ids == ("ann",)


def test_tuples_are_told_apart_by_their_parts() -> None:
    keys = tuple_keys([pa.chunked_array([["x:1:y", "x"]]), pa.chunked_array([["z", "1:y:1:z"]])]).to_pylist()
    assert len(set(keys)) == 2
    left, right = (pa.chunked_array([part]) for part in (["a:b", "a"], ["c", "b:c"]))
    assert len(set(tuple_keys([left, right]).to_pylist())) == 2


def test_fragments_with_other_deletions_are_looked_at_again(graph: Graph) -> None:
    """A key that went after a version and came back in the same fragment's place is not taken for absent."""
    before = table_of(graph, "node:Person")
    graph.delete("Person", ["bob"])
    after = table_of(graph, "node:Person")
    tail = graph.snapshot().tables["node:Person"].tail
    # `absent_in` says that the older version lacks the keys: only what the two share may be passed over.
    assert existing_ids(before, ["bob"], tail, absent_in=after) == {"bob"}


# --- compactions ---------------------------------------------------------------------------------------------------


def test_a_compaction_whose_new_ids_are_in_use_does_not_fit(graph: Graph) -> None:
    table = table_of(graph, "node:Person")
    [fragment] = table.fragments.values()
    fresh = replace(fragment, id=fragment.id + 1)
    assert fits(table, Compacted((Rewritten((fragment,), (fresh,)),), (), ()))
    assert not fits(table, Compacted((Rewritten((fragment,), (fragment,)),), (), ()))
    assert not fits(table, Compacted((Rewritten((fresh,), (replace(fragment, id=99),)),), (), ()))


# --- control objects -----------------------------------------------------------------------------------------------


def parts(folder: Path) -> tuple[GraphRoot, dict[str, str], Durability]:
    root = GraphRoot.parse(str(folder))
    return root, {}, Durability(root, enabled=False)


def test_only_finished_files_are_objects(tmp_path: Path) -> None:
    objects = ObjectStore(*parts(tmp_path))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "one#1").write_text("an unfinished put")
    objects.put_new("folder/two", b"2")
    assert [objects.exists(f"folder/{name}") for name in ("one#1", "two")] == [False, True]
    assert not objects.exists("folder")
    objects.move("folder/two", "folder/three")
    assert [objects.exists(f"folder/{name}") for name in ("two", "three")] == [False, True]


def test_a_store_that_overwrites_is_refused(tmp_path: Path) -> None:
    class Careless(ObjectStore):
        """A store as some S3 servers are: every put succeeds."""

        def put_new(self, path: str, body: object, *, flush: bool = True) -> bool:
            return True

    with pytest.raises(Unsupported, match="put-if-absent"):
        Careless(*parts(tmp_path)).probe_put_if_absent("probe")
