"""Snapshots, commits and old versions, on disk and on S3."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import CommitNotFound, NotFound, TypeNotFound, VersionNotFound
from tests.support.rows import company, knows, person


def names(graph: Graph, at: object = None) -> list[str]:
    return sorted(graph.rows("node:Person", at)["name"].to_pylist())  # type: ignore[arg-type]


def test_a_fresh_graph_has_one_commit_and_empty_tables(graph: Graph) -> None:
    [commit] = graph.commits.list()
    assert (commit.kind, commit.manifest_version, commit.parent_commit_id) == ("init", 1, None)
    snapshot = graph.snapshot()
    assert (snapshot.version, snapshot.branch, snapshot.commit_id) == (1, "main", commit.graph_commit_id)
    assert {k: e.row_count for k, e in snapshot.tables.items()} == {
        "node:Person": 0, "node:Company": 0, "edge:Knows": 0, "edge:WorksAt": 0,
    }  # fmt: skip


def test_every_load_is_one_commit_of_all_its_tables(graph: Graph) -> None:
    result = graph.load([person("a"), person("b"), company("c"), knows("a", "b")], actor="ada", message="first")
    assert result.commit is not None
    assert (result.nodes, result.edges) == ({"Company": 1, "Person": 2}, {"Knows": 1})
    snapshot = graph.snapshot()
    assert snapshot.version == 2
    counts = {key: entry.row_count for key, entry in snapshot.tables.items() if entry.row_count}
    assert counts == {"node:Person": 2, "node:Company": 1, "edge:Knows": 1}
    head = graph.commits.head()
    assert head == result.commit
    assert (head.actor_id, head.message, head.kind, head.manifest_version) == ("ada", "first", "load", 2)


def test_commits_form_one_linear_chain_newest_first(graph: Graph) -> None:
    for name in "abc":
        graph.load([person(name)])
    commits = graph.commits.list()
    assert [c.manifest_version for c in commits] == [4, 3, 2, 1]
    assert [c.parent_commit_id for c in commits] == [*(c.graph_commit_id for c in commits[1:]), None]
    assert commits[0].created_at >= commits[-1].created_at > 1_700_000_000_000_000


def test_commits_by_actor_and_limit(graph: Graph) -> None:
    for i, actor in enumerate(["ada", "bob", "ada"]):
        graph.load([person(f"p{i}")], actor=actor)
    assert [c.manifest_version for c in graph.commits.list(actor="ada")] == [4, 2]
    assert [c.manifest_version for c in graph.commits.list(limit=2)] == [4, 3]
    assert graph.commits.list(actor="nobody") == []


def test_old_versions_read_as_they_were(graph: Graph) -> None:
    graph.load([person("a", 1)])
    first = graph.commits.head().graph_commit_id
    graph.load([person("a", 2), person("b")], mode="merge")
    graph.load([person("z")], mode="overwrite")
    assert names(graph) == ["z"]
    assert names(graph, 3) == ["a", "b"]
    assert names(graph, first) == ["a"]
    assert graph.entity_at("node:Person", "a", 2) == {"id": "a", "name": "a", "age": 1}
    assert graph.entity_at("node:Person", "a", 3) == {"id": "a", "name": "a", "age": 2}
    assert graph.entity_at("node:Person", "a") is None
    assert graph.snapshot_at_version(2).version == 2
    assert graph.snapshot_of(first).tables["node:Person"].row_count == 1


def test_a_pinned_snapshot_does_not_move(graph: Graph) -> None:
    graph.load([person("a")])
    pinned = graph.snapshot()
    graph.load([person("b")])
    assert pinned.tables["node:Person"].row_count == 1
    assert names(graph, pinned.version) == ["a"]


def test_what_does_not_exist_is_a_typed_error(graph: Graph) -> None:
    with pytest.raises(VersionNotFound, match="newest is 1"):
        graph.snapshot_at_version(9)
    with pytest.raises(VersionNotFound):
        graph.snapshot_at_version(0)
    with pytest.raises(NotFound, match="no branch, tag or commit"):
        graph.snapshot("nonsense")
    with pytest.raises(CommitNotFound, match="01AAAA"):
        graph.commits.get("01AAAA")
    with pytest.raises(TypeNotFound, match="no node type `Nobody`"):
        graph.rows("node:Nobody")


def test_a_reopened_graph_is_the_same_graph(graph: Graph) -> None:
    graph.load([person("a", 7), knows("a", "a", "2020-02-03")])
    again = Graph.open(graph.uri)
    assert again.snapshot() == graph.snapshot()
    assert (
        again.rows("edge:Knows").drop_columns("id").to_pylist()
        == graph.rows("edge:Knows").drop_columns("id").to_pylist()
    )
    assert again.commits.list() == graph.commits.list()
    assert again.schema.show() == graph.schema.show()


def test_state_kept_in_memory_equals_state_read_back(graph: Graph) -> None:
    """What a publisher remembers of its own publish must be what a fresh reader finds."""
    for i in range(3):
        graph.load([person(f"p{i}"), knows(f"p{i}", "p0")])
    graph.delete("Person", ["p1"])
    kept = graph.repository.head()
    read = Graph.open(graph.uri, "ro").repository.head()
    assert kept == read


def test_the_table_behind_a_type_can_be_read_by_lance(local_graph: Graph) -> None:
    import lance

    local_graph.load([person("a", 3)])
    uri, version = local_graph.table("node:Person")
    assert lance.dataset(uri, version=version).to_table().to_pylist() == [{"id": "a", "name": "a", "age": 3}]
    assert lance.dataset(uri).version == 2, "the table's own HEAD never moves"


def test_a_tag_whose_first_record_is_damaged_is_read_from_its_second(local_graph: Graph) -> None:
    local_graph.load([person("a")])
    tag = local_graph.tags.create("v1")
    path = Path(local_graph.uri) / "__tags" / "v1.json"
    path.write_bytes(path.read_bytes()[:-2])
    fresh = Graph.open(local_graph.uri)
    assert fresh.tags.list() == [tag]
    assert fresh.snapshot("v1").commit_id == tag.graph_commit_id
