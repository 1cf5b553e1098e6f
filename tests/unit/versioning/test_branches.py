"""Branches and tags, on disk and on S3."""

from __future__ import annotations

import pytest

from omnigraph import Graph
from omnigraph.errors import BranchGone, BranchInUse, BranchNotFound, InvalidArgument, NameTaken, TagNotFound
from omnigraph.storage.failpoints import Point
from omnigraph.storage.layout import TAG_COPIES, TAGS, tag_path
from omnigraph.versioning.plan import PublishPlan
from omnigraph.versioning.store import mint
from tests.support.graphs import crash_at
from tests.support.rows import person


def names(graph: Graph, at: str | None = None) -> list[str]:
    return sorted(graph.rows("node:Person", at)["name"].to_pylist())


def test_a_branch_starts_as_its_source_and_goes_its_own_way(graph: Graph) -> None:
    graph.load([person("a")])
    graph.branches.create("feature")
    graph.load([person("b")], branch="feature")
    graph.load([person("c")])
    assert (names(graph, "feature"), names(graph)) == (["a", "b"], ["a", "c"])
    assert [b.name for b in graph.branches.list()] == ["main", "feature"]
    feature = graph.commits.list("feature")
    assert [c.manifest_branch for c in feature] == ["feature", "main", "main"]
    assert feature[0].parent_commit_id == feature[1].graph_commit_id


def test_only_a_written_table_differs_on_a_branch(graph: Graph) -> None:
    graph.load([person("a")])
    graph.branches.create("feature")
    graph.load([person("b")], branch="feature")
    main, feature = graph.snapshot().tables, graph.snapshot("feature").tables
    moved = {key for key in main if main[key].staged_version != feature[key].staged_version}
    assert moved == {"node:Person"}
    assert {e.location for e in main.values()} == {e.location for e in feature.values()}


def test_branch_from_a_branch_a_commit_a_tag_and_a_version(graph: Graph) -> None:
    graph.load([person("a")])
    old = graph.commits.head().graph_commit_id
    graph.tags.create("v1")
    graph.load([person("b")])
    graph.branches.create("child")
    graph.branches.create("grandchild", from_="child")
    graph.branches.create("from-commit", from_=old)
    graph.branches.create("from-tag", from_="v1")
    graph.branches.create("from-version", from_=2)
    assert names(graph, "grandchild") == ["a", "b"]
    for name in ("from-commit", "from-tag", "from-version"):
        assert names(graph, name) == ["a"]
        graph.load([person("new")], branch=name)
        assert names(graph, name) == ["a", "new"]
        assert graph.commits.list(name)[1].graph_commit_id == old
    assert names(graph) == ["a", "b"]


def test_a_branch_survives_the_deletion_of_its_parent(graph: Graph) -> None:
    graph.load([person("a")])
    graph.branches.create("parent")
    graph.load([person("p")], branch="parent")
    commit = graph.commits.head("parent").graph_commit_id
    graph.branches.create("child", from_=commit)
    with pytest.raises(BranchInUse, match="child"):
        graph.branches.delete("parent")
    graph.branches.delete("child")
    graph.branches.delete("parent")
    assert [b.name for b in graph.branches.list()] == ["main"]


def test_deleting_frees_the_name_for_a_new_incarnation(graph: Graph) -> None:
    graph.branches.create("feature")
    graph.load([person("old")], branch="feature")
    first = graph.branches.get("feature")
    graph.branches.delete("feature")
    with pytest.raises(BranchNotFound, match="feature"):
        graph.snapshot_at_version(1, branch="feature")
    second = graph.branches.create("feature")
    assert first.native_branch != second.native_branch
    assert names(graph, "feature") == []


def test_a_writer_of_the_old_incarnation_is_refused(graph: Graph) -> None:
    graph.branches.create("feature")
    late = Graph.open(graph.uri)
    state = late.repository.head("feature")
    graph.branches.delete("feature")
    graph.branches.create("feature")
    plan = PublishPlan(
        commit_id=mint(), branch="feature", native_branch=state.native_branch, base_version=state.version,
        base_head=state.head, kind="load", schema_hash=state.schema_hash, changes=(), pins={},
    )  # fmt: skip
    with pytest.raises(BranchGone, match="deleted"):
        late.repository.publisher.publish(plan)
    assert len(graph.commits.list("feature")) == 1
    assert late.load([person("new")], branch="feature").commit is not None, "opened again, the new one is found"


def test_refusals(graph: Graph) -> None:
    graph.branches.create("a/b")
    with pytest.raises(NameTaken):
        graph.branches.create("main")
    with pytest.raises(NameTaken, match="exists"):
        graph.branches.create("a/b")
    with pytest.raises(NameTaken, match="inside"):
        graph.branches.create("a")
    with pytest.raises(NameTaken, match="inside"):
        graph.branches.create("a/b/c")
    with pytest.raises(BranchInUse):
        graph.branches.delete("main")
    with pytest.raises(BranchNotFound, match="branches: main, a/b"):
        graph.branches.delete("nope")
    with pytest.raises(BranchNotFound):
        graph.load([person("x")], branch="nope")


@pytest.mark.parametrize(
    "name",
    ["", "__schema_apply_lock__", "__manifest", "HEAD", "01KABCDEFGHJKMNPQRSTVWXYZ0", "/a", "a/", "a//b", "a..b", "a b",
     "-x", "x" * 201, "ä", "~tags"],
)  # fmt: skip
def test_bad_names_are_refused(local_graph: Graph, name: str) -> None:
    with pytest.raises(InvalidArgument):
        local_graph.branches.create(name)
    with pytest.raises(InvalidArgument):
        local_graph.tags.create(name)


def test_load_forks_a_missing_branch(graph: Graph) -> None:
    graph.load([person("a")])
    result = graph.load([person("b")], branch="feature", from_branch="main")
    assert (result.branch_created, result.base_branch) == (True, "main")
    assert names(graph, "feature") == ["a", "b"]
    assert not graph.load([person("c")], branch="feature", from_branch="main").branch_created


def test_an_interrupted_delete_leaves_a_closed_branch_and_a_free_name(graph: Graph) -> None:
    """What ends a branch is the mark of its claim, whether or not its deleter lived to close the manifest."""
    graph.branches.create("feature")
    graph.load([person("old")], branch="feature")
    with crash_at(Point.BRANCH_UNCLAIMED):
        graph.branches.delete("feature")
    other = Graph.open(graph.uri)
    assert [b.name for b in other.branches.list()] == ["main"]
    with pytest.raises(BranchNotFound):
        other.rows("node:Person", "feature") if other.repository.head("feature") else None
    assert other.branches.create("feature").generation == 2
    assert names(other, "feature") == []
    Graph.open(graph.uri).maintenance.cleanup(confirm=True)
    assert names(graph, "feature") == [], "a handle that knew the old incarnation finds the new one"


def test_tags_name_a_state_for_good(graph: Graph) -> None:
    graph.load([person("a")])
    tag = graph.tags.create("v1")
    graph.load([person("b")])
    assert names(graph, "v1") == ["a"]
    assert [t.name for t in graph.tags.list()] == ["v1"]
    assert tag.graph_commit_id == graph.commits.list()[1].graph_commit_id
    with pytest.raises(NameTaken):
        graph.tags.create("v1")
    graph.tags.delete("v1")
    assert graph.tags.list() == []
    with pytest.raises(TagNotFound):
        graph.tags.delete("v1")


@pytest.mark.parametrize("lost", [TAGS, TAG_COPIES])
def test_a_name_is_taken_as_long_as_one_record_of_its_tag_is_there(graph: Graph, lost: str) -> None:
    graph.load([person("a")])
    tag = graph.tags.create("v1")
    graph.load([person("b")])
    graph.repository.store.objects.delete([tag_path("v1", lost)])
    with pytest.raises(NameTaken, match="there is a tag 'v1'"):
        graph.branches.create("v1")
    with pytest.raises(NameTaken, match="tag 'v1' exists"):
        graph.tags.create("v1")
    assert Graph.open(graph.uri).tags.list() == [tag]
    assert names(graph, "v1") == ["a"]
    graph.maintenance.repair(confirm=True)
    assert graph.maintenance.fsck().is_clean


def test_a_tag_holds_its_branch(graph: Graph) -> None:
    graph.branches.create("feature")
    graph.load([person("a")], branch="feature")
    graph.tags.create("keep", "feature")
    with pytest.raises(BranchInUse, match="keep"):
        graph.branches.delete("feature")
    graph.tags.delete("keep")
    graph.branches.delete("feature")
