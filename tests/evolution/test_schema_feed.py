"""The feed and diffs across schema changes: every row that reads differently is told, and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.errors import Unsupported

BASE = "node P { k: String @key  v: I32?  w: F32 }\nnode Q { k: String @key }\nedge K: P -> P { n: I32? }"
ROWS = [{"k": "a", "v": 1, "w": 0.1}, {"k": "b", "w": 2.5}]
Images = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "g", BASE)
    graph.load({"P": ROWS, "Q": [{"k": "q"}], "K": [{"id": "e", "from": "a", "to": "b", "n": 1}]})
    return graph


def images(graph: Graph, at: str) -> Images:
    """Every entity of a commit, by public names, without nulls."""
    found: Images = {}
    for key in graph.snapshot(at).tables:
        for row in (
            graph.rows(key, at)
            .rename_columns([{"src": "from", "dst": "to"}.get(name, name) for name in graph.rows(key, at).column_names])
            .to_pylist()
        ):
            found[key, row["id"]] = plain(row)
    return found


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def replay(before: Images, changes: Any) -> Images:
    """The entities after some changes. Each has to say truly what was there."""
    found = dict(before)
    for change in changes:
        key = (f"{change.entity_kind}:{change.type_name}", change.entity_id)
        assert change.before is None or plain(change.before) == found.pop(key)
        assert change.before != change.after
        if change.after is not None:
            found[key] = plain(change.after)
    return found


DEFAULT = BASE.replace("v: I32?", "v: I32?  level: I64 @default(7)")
SCHEMAS = {
    "a default": (DEFAULT, 2),
    "a nullable property": (BASE.replace("v: I32?", "v: I32?  city: String?"), 0),
    "a nullable property with a default": (BASE.replace("v: I32?", 'v: I32?  city: String? @default("Rome")'), 2),
    "wider types": (BASE.replace("v: I32?", "v: I64?").replace("w: F32", "w: F64?"), 0),
    "a dropped property": (BASE.replace("  v: I32?", ""), 1),
    "a dropped type": (BASE.replace("node Q { k: String @key }\n", ""), 1),
    "another property of the same name": (BASE.replace("v: I32?", "v: String?"), None),
    "an index": (BASE.replace("v: I32?", "v: I32? @index"), 0),
}


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("hard", [False, True])
def test_a_block_tells_the_rows_that_a_schema_change_changed(graph: Graph, name: str, hard: bool) -> None:
    text, count = SCHEMAS[name]
    old = graph.commits.head().graph_commit_id
    feed_from = graph.changes().cursor
    if count is None:  # of another type, so it has to be dropped first
        graph.schema.apply(BASE.replace("  v: I32?", ""), hard, allow_drops=True)
    graph.schema.apply(text, hard, allow_drops=True)
    for block in graph.changes(feed_from):
        assert block.schema_changed
        assert count is None or len(block.changes) == count
        parent = block.commit.parent_commit_id
        commit = block.commit.graph_commit_id
        assert replay(images(graph, parent), block.changes) == images(graph, commit)
        assert tuple(graph.commits.changes(commit)) == block.changes
    there, back = list(graph.diff(old, "main")), list(graph.diff("main", old))
    assert replay(images(graph, old), there) == images(graph, "main")
    assert replay(images(graph, "main"), back) == images(graph, old)


def test_images_show_what_their_own_side_has(graph: Graph) -> None:
    graph.schema.apply(DEFAULT)
    one, _ = graph.commits.changes(graph.commits.head().graph_commit_id)
    assert one.before == {"id": "a", "k": "a", "v": 1, "w": pytest.approx(0.1)}
    assert one.after == {**one.before, "level": 7}
    swapped = DEFAULT.replace("v: I32?  level: I64 @default(7)", 'v: I64 @default(7) @rename_from("level")')
    graph.schema.apply(swapped.replace("v: I64 @default(7)", "x: I64 @default(7)"), drop=["P.v"])
    first = graph.commits.head().parent_commit_id
    graph.schema.apply(swapped.replace('"level"', '"x"'))
    [change] = graph.diff(first, "main")
    assert (change.before["v (before)"], change.before["v"], change.after["v"]) == (1, 7, 7)
    assert "v (before)" not in change.after


def test_rows_of_a_wide_value_are_told_in_both_directions(graph: Graph) -> None:
    old = graph.commits.head().graph_commit_id
    graph.schema.apply(BASE.replace("v: I32?", "v: I64?"))
    graph.load({"P": [{"k": "a", "v": 2**40, "w": 0.1}]}, "merge")
    [there], [back] = list(graph.diff(old, "main")), list(graph.diff("main", old))
    assert (there.before["v"], there.after["v"]) == (1, 2**40)
    assert (back.before["v"], back.after["v"]) == (2**40, 1)


def test_types_that_exclude_each_other_are_refused(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", "node P { k: String @key  v: U32? }")
    graph.load({"P": [{"k": "a", "v": 1}]})
    graph.branches.create("dev")
    graph.schema.apply("node P { k: String @key  v: U64? }")
    graph.schema.apply("node P { k: String @key  v: I64? }", branch="dev")
    graph.load({"P": [{"k": "a", "v": -1}]}, "merge", "dev")
    with pytest.raises(Unsupported, match="cannot be compared"):
        list(graph.diff("main", "dev"))


def test_what_comes_back_and_what_a_merge_brings_is_told(graph: Graph) -> None:
    start = graph.changes().cursor
    graph.schema.apply(BASE.replace("  v: I32?", ""), drop=["P.v"])
    graph.load({"P": [{"k": "c", "w": 1.0}]})
    graph.schema.apply(BASE)
    graph.branches.create("dev")
    graph.schema.apply(DEFAULT, branch="dev")
    graph.load({"P": [{"k": "d", "w": 1.0}]}, branch="dev")
    graph.load({"P": [{"k": "m", "w": 1.0, "v": 5}]})
    graph.branches.merge("dev")
    graph.schema.apply(DEFAULT.replace("  w: F32", ""), drop=["P.w"])
    graph.schema.apply(DEFAULT.replace("w: F32", "w: F64 @default(3.0)"))
    told = []
    for block in graph.changes(start):
        commit = block.commit.graph_commit_id
        assert replay(images(graph, block.commit.parent_commit_id), block.changes) == images(graph, commit)
        told.append((block.commit.kind, block.schema_changed, len(block.changes)))
    assert told == [
        ("schema_apply", True, 1), ("load", False, 1), ("schema_apply", True, 1), ("load", False, 1),
        ("merge", True, 5), ("schema_apply", True, 5), ("schema_apply", True, 5),
    ]  # fmt: skip
