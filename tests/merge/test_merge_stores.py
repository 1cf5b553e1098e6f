"""The same merges on disk and on S3."""

from __future__ import annotations

from omnigraph import Graph
from tests.support.rows import person


def test_merging_on_any_store(graph: Graph, root: str) -> None:
    graph.load([person("a", 1), person("b", 1)])
    graph.branches.create("dev")
    graph.load([person("a", 2), person("c", 2)], "merge", "dev")
    assert graph.branches.merge("dev", dry_run=True).outcome == "fast_forward"
    graph.load([person("b", 3)], "merge")
    assert graph.branches.merge("dev", delete_branch=True).branch_deleted
    other = Graph.open(root)
    assert {r["name"]: r["age"] for r in other.rows("node:Person").to_pylist()} == {"a": 2, "b": 3, "c": 2}
    merge = other.commits.head()
    assert [(c.entity_id, c.op) for c in other.commits.changes(merge.graph_commit_id)] == [
        ("a", "update"),
        ("c", "insert"),
    ]
    text = other.schema.show().replace("age: I32?", "age: I64?  city: String?")
    assert other.schema.apply(text).applied
    assert graph.entity_at("node:Person", "a") == {"id": "a", "name": "a", "age": 2, "city": None}
