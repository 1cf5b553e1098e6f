"""Merges of branches whose schemas differ: no row is lost, no table is left behind, and what agrees does not clash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.errors import MergeConflict
from omnigraph.versioning.staging import open_table
from omnigraph.write.reshape import clashes

BASE = "node P { k: String @key  v: I32? }\nedge K: P -> P { n: I32? }"
OTHER = "\nnode Q { k: String @key }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "g", BASE)
    graph.load({"P": [{"k": "a", "v": 1}, {"k": "b", "v": 1}], "K": [{"id": "e", "from": "a", "to": "b", "n": 1}]})
    graph.branches.create("dev")
    return graph


def rows(graph: Graph, key: str) -> dict[str, dict[str, Any]]:
    return {row.pop("id"): row for row in graph.rows(key).to_pylist()}


def test_rows_that_only_the_source_changed_arrive_in_a_schema_that_only_the_target_has(graph: Graph) -> None:
    graph.schema.apply(BASE.replace("v: I32?", "v: I32?  w: I32? @default(7)"))
    graph.load({"P": [{"k": "a", "v": 2}, {"k": "c", "v": 3}]}, "merge", "dev")
    graph.delete("P", ["b"], "dev")
    assert graph.branches.merge("dev").outcome == "merged"
    assert rows(graph, "node:P") == {"a": {"k": "a", "v": 2, "w": 7}, "c": {"k": "c", "v": 3, "w": 7}}
    assert rows(graph, "edge:K") == {}


def test_a_renamed_table_that_only_the_source_changed_replaces_the_old_one(graph: Graph) -> None:
    graph.schema.apply('node R @rename_from("P") { k: String @key  v: I32? }\nedge K: R -> R { n: I32? }', branch="dev")
    graph.load({"R": [{"k": "c", "v": 3}]}, branch="dev")
    graph.schema.apply(BASE + OTHER)
    assert graph.branches.merge("dev").outcome == "merged"
    assert set(graph.snapshot().tables) == {"node:R", "node:Q", "edge:K"}
    assert set(rows(graph, "node:R")) == {"a", "b", "c"}


def test_a_fast_forward_brings_columns_of_tables_whose_edits_add_up_to_nothing(graph: Graph) -> None:
    graph.schema.apply(BASE.replace("v: I32?", "v: I32?  w: I32?"), branch="dev")
    graph.load({"P": [{"k": "c", "v": 3}]}, branch="dev")
    graph.delete("P", ["c"], "dev")
    assert graph.branches.merge("dev").outcome == "fast_forward"
    assert rows(graph, "node:P") == {k: {"k": k, "v": 1, "w": None} for k in ("a", "b")}


def test_the_same_widening_on_both_sides_is_no_conflict(graph: Graph) -> None:
    for branch, key in (("main", "x"), ("dev", "y")):
        graph.schema.apply(BASE.replace("v: I32?", "v: I64?"), branch=branch)
        graph.load({"P": [{"k": key, "v": 2**40}]}, branch=branch)
    assert graph.branches.merge("dev").outcome == "merged"
    assert {k: row["v"] for k, row in rows(graph, "node:P").items()} == {"a": 1, "b": 1, "x": 2**40, "y": 2**40}
    assert not graph.schema.plan(BASE.replace("v: I32?", "v: I64?")).steps


def test_different_widenings_are_a_conflict(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "u", "node P { k: String @key  v: U32? }")
    graph.branches.create("dev")
    graph.schema.apply("node P { k: String @key  v: U64? }")
    graph.schema.apply("node P { k: String @key  v: I64? }", branch="dev")
    with pytest.raises(MergeConflict) as caught:
        graph.branches.merge("dev")
    assert {str(c.kind) for c in caught.value.conflicts} == {"SchemaConflict"}


@pytest.mark.parametrize("is_taken_back", [True, False])
def test_a_dropped_type_clashes_with_edits_unless_they_were_taken_back(graph: Graph, is_taken_back: bool) -> None:
    graph.schema.apply("node P { k: String @key  v: I32? }", drop=["K"])
    graph.load({"K": [{"id": "e", "from": "a", "to": "b", "n": 2}]}, "merge", "dev")
    if is_taken_back:
        graph.load({"K": [{"id": "e", "from": "a", "to": "b", "n": 1}]}, "merge", "dev")
        assert graph.branches.merge("dev").outcome == "merged"
        assert set(graph.snapshot().tables) == {"node:P"}
    else:
        with pytest.raises(MergeConflict, match="contradict"):
            graph.branches.merge("dev")


def test_a_column_that_lies_hidden_in_a_table_is_seen_before_it_is_added_again(graph: Graph) -> None:
    before = graph.catalog().type_of("node:P")
    graph.schema.apply("node P { k: String @key }\nedge K: P -> P { n: I32? }", drop=["P.v"])
    after = graph.catalog().type_of("node:P")
    table = open_table(graph.repository.store, graph.snapshot().tables["node:P"])
    assert clashes(table, after, before)
    assert not clashes(table, after, after)


def test_an_orphan_is_shown_by_public_names(graph: Graph) -> None:
    graph.schema.apply(BASE.replace("n: I32?", "n: I32?  m: I32?"))
    graph.branches.create("late")
    graph.delete("P", ["b"])
    graph.load({"K": [{"id": "f", "from": "a", "to": "b", "n": 1, "m": 2}]}, branch="late")
    [conflict] = graph.branches.merge("late", dry_run=True).conflicts
    assert conflict.theirs == {"id": "f", "from": "a", "to": "b", "n": 1, "m": 2}


@pytest.mark.parametrize("side", [None, "ours", "theirs"])
def test_edges_of_a_new_type_never_arrive_without_their_nodes(graph: Graph, side: str | None) -> None:
    """The source brings an edge type that the target does not know, with an edge to a node that the target deleted."""
    graph.schema.apply(BASE + "\nedge Likes: P -> P", branch="dev")
    likes = [{"id": "kept", "from": "a", "to": "a"}, {"id": "lost", "from": "a", "to": "b"}]
    graph.load({"Likes": likes}, branch="dev")
    graph.delete("P", ["b"])
    if side is None:
        with pytest.raises(MergeConflict) as caught:
            graph.branches.merge("dev")
        assert [(c.kind, c.entity_id) for c in caught.value.conflicts] == [("OrphanEdge", "lost")]
        return
    assert graph.branches.merge("dev", "main", side).outcome == "merged"
    nodes, edges = ({"a"}, {"kept"}) if side == "ours" else ({"a", "b"}, {"kept", "lost"})
    assert set(rows(graph, "node:P")) == nodes
    assert set(rows(graph, "edge:Likes")) == edges
    assert graph.snapshot().tables["edge:Likes"].row_count == len(edges)
    assert graph.maintenance.fsck().problems == ()
    graph.load({"Likes": [{"id": "new", "from": "a", "to": "a"}]}, branch="dev")
    assert graph.branches.merge("dev", "main", side).outcome == "merged"
    assert set(rows(graph, "edge:Likes")) == {*edges, "new"}
