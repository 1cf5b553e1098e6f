"""Diff, the changes of a commit, and the feed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.api.changes import EntityChange
from omnigraph.api.commits import MAINTENANCE
from omnigraph.errors import ChangeFeedGap, CursorInvalid, InvalidArgument
from omnigraph.versioning.diff import Pinned, table_delta
from omnigraph.write.index_fold import fold
from tests.support.graphs import SMALL, knows, people


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "g", SMALL)
    graph.load({"Person": people("ann", "bob", "cyd", age=1), "Knows": knows(("ann", "bob"), ("bob", "cyd"))})
    return graph


def told(changes: Any) -> list[tuple[str, str, str, str]]:
    return [(c.entity_kind, c.type_name, c.entity_id, c.op) for c in changes]


def test_a_diff_has_both_images_in_order(graph: Graph) -> None:
    before = graph.commits.head().graph_commit_id
    graph.load({"Person": people("ann", "dan", age=2), "Company": [{"name": "acme"}]}, "merge")
    graph.delete("Person", ["cyd"])
    changes = list(graph.diff(before, "main"))
    assert told(changes) == [
        ("node", "Company", "acme", "insert"),
        ("node", "Person", "ann", "update"),
        ("node", "Person", "cyd", "delete"),
        ("node", "Person", "dan", "insert"),
        ("edge", "Knows", "bob-cyd", "delete"),
    ]
    ann = changes[1]
    assert ann.before == {"id": "ann", "name": "ann", "age": 1}
    assert ann.after == {"id": "ann", "name": "ann", "age": 2}
    edge = changes[-1]
    assert edge.before == {"id": "bob-cyd", "from": "bob", "to": "cyd", "since": None}
    assert edge.after is None
    back = list(graph.diff("main", before))
    assert [(c.entity_id, c.after, c.before) for c in back] == [(c.entity_id, c.before, c.after) for c in changes]
    assert told(graph.diff(before, "main", kinds=("edge",))) == [("edge", "Knows", "bob-cyd", "delete")]
    assert told(graph.diff(before, "main", types=("Person",), ops=("insert",))) == [("node", "Person", "dan", "insert")]
    with pytest.raises(InvalidArgument):
        list(graph.diff(before, "main", ops=("upsert",)))


def test_a_diff_across_the_first_write_of_a_branch(graph: Graph) -> None:
    graph.branches.create("dev")
    assert list(graph.diff("main", "dev")) == []
    graph.load({"Person": people("dan")}, branch="dev")
    assert told(graph.diff("main", "dev")) == [("node", "Person", "dan", "insert")]


def test_rewriting_a_row_as_it_was_is_no_change(graph: Graph) -> None:
    result = graph.load({"Person": people("ann", age=1)}, "merge")
    assert graph.commits.changes(result.commit.graph_commit_id) == ()


def test_a_compaction_is_an_empty_block(graph: Graph) -> None:
    for i in range(3):
        graph.load({"Person": people(f"p{i}")})
    cursor = graph.changes().cursor
    state = graph.repository.head()
    fold(graph.repository, state, state.tables["node:Person"])
    graph.load({"Person": people("last")})
    blocks = list(graph.changes(cursor))
    assert [(b.commit.op_class == MAINTENANCE, len(b.changes)) for b in blocks] == [(True, 0), (False, 1)]


def test_the_shorter_way_agrees_with_a_full_comparison(graph: Graph) -> None:
    chance = random.Random(7)
    heads = [graph.repository.head()]
    for step in range(30):
        names = [f"n{chance.randrange(40)}" for _ in range(3)]
        if step % 3 == 2:
            graph.delete("Person", names)
        else:
            graph.load({"Person": people(*set(names), age=chance.randrange(4))}, "merge")
        heads.append(graph.repository.head())
    entity = graph.catalog().node("Person")
    for _ in range(40):
        a, b = (Pinned(chance.choice(heads).tables["node:Person"], entity) for _ in range(2))
        short = table_delta(graph.repository.store, a, b, entity)
        full = table_delta(graph.repository.store, a, b, entity, exhaustive=True)
        for left, right in ((short.before, full.before), (short.after, full.after)):
            assert left.sort_by("id").equals(right.sort_by("id"))


def apply_change(target: Graph, change: EntityChange) -> None:
    if change.op == "delete":
        target.delete(change.type_name, [change.entity_id])
        return
    row = {k: v for k, v in change.after.items() if v is not None}
    target.load({change.type_name: [row]}, "merge")


def content(graph: Graph, at: Any = None) -> dict[str, list[dict[str, Any]]]:
    keys = graph.snapshot(at).tables
    return {k: sorted(graph.rows(k, at).to_pylist(), key=lambda r: r["id"]) for k in sorted(keys)}


def test_replaying_the_feed_gives_the_same_graph_at_every_commit(graph: Graph, tmp_path: Path) -> None:
    graph.branches.create("dev")
    graph.load({"Person": people("dev1", age=4), "Knows": knows(("dev1", "ann"))}, branch="dev")
    graph.load({"Person": people("ann", age=9)}, "merge")
    graph.branches.merge("dev")
    graph.delete("Person", ["bob"])
    graph.load({"Company": [{"name": "acme"}]})
    copy = Graph.init(tmp_path / "copy", SMALL)
    seen = []
    cursor = None
    while True:  # a consumer that crashes after each block and begins again with what it kept
        feed = graph.changes(cursor, "beginning", limit=1)
        blocks = list(feed)
        if not blocks:
            break
        [block] = blocks
        for change in block.changes:
            apply_change(copy, change)
        assert content(copy) == content(graph, block.commit.graph_commit_id)
        seen.append(block.commit.graph_commit_id)
        cursor = block.cursor
        assert feed.cursor == cursor
    parents = [graph.commits.get(c).parent_commit_id for c in seen]
    assert parents == [None, *seen[:-1]]
    assert graph.changes(cursor).caught_up


def test_where_a_feed_begins(graph: Graph) -> None:
    assert list(graph.changes()) == []
    first = graph.commits.list()[-1].graph_commit_id
    assert [b.commit for b in graph.changes(start=f"after:{first}")] == [graph.commits.head()]
    assert len(list(graph.changes(start="beginning"))) == 2
    with pytest.raises(InvalidArgument):
        graph.changes(start="yesterday")
    with pytest.raises(ChangeFeedGap):
        graph.changes(start="after:01M00000000000000000000000")


def test_cursors_belong_to_one_graph_and_one_life_of_a_branch(graph: Graph, tmp_path: Path) -> None:
    graph.branches.create("dev")
    cursor = graph.changes(branch="dev").cursor
    assert list(graph.changes(cursor, branch="dev")) == []
    with pytest.raises(CursorInvalid):
        graph.changes(cursor)
    graph.branches.delete("dev")
    graph.branches.create("dev")
    with pytest.raises(CursorInvalid):
        graph.changes(cursor, branch="dev")
    other = Graph.init(tmp_path / "other", SMALL)
    with pytest.raises(CursorInvalid):
        other.changes(graph.changes().cursor)
    for text in ("", "%%%", "e30=", "W10="):
        with pytest.raises(CursorInvalid):
            graph.changes(text)


def test_a_cursor_belongs_to_one_filter(graph: Graph) -> None:
    graph.load({"Person": people("dan")})
    begun = {"types": ("Person", "Company"), "ops": ("insert",)}
    feed = graph.changes(start="beginning", limit=1, **begun)
    [block] = feed
    for cursor in (block.cursor, feed.cursor):
        assert len(list(graph.changes(cursor, **begun))) == 2
        assert len(list(graph.changes(cursor, types=("Company", "Person", "Person"), ops=("insert",)))) == 2
        for other in ({}, {"types": ("Person",), "ops": ("insert",)}, {**begun, "kinds": ("node",)}):
            with pytest.raises(CursorInvalid, match="--type Company --type Person --op insert"):
                graph.changes(cursor, **other)
    with pytest.raises(CursorInvalid, match="all changes"):
        graph.changes(graph.changes().cursor, **begun)


def test_a_reclaimed_version_is_a_typed_gap(graph: Graph) -> None:
    from datetime import timedelta

    import lance

    cursor = graph.changes().cursor
    for i in range(4):
        graph.load({"Person": people(f"p{i}")})
    lance.dataset(f"{graph.uri}/__manifest").cleanup_old_versions(retain_versions=1, older_than=timedelta(0))
    with pytest.raises(ChangeFeedGap) as caught:
        list(Graph.open(graph.uri).changes(cursor))
    assert "baseline" in str(caught.value)
