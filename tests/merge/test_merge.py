"""Merging: outcomes, conflicts, strategies, and what stays readable."""

from __future__ import annotations

import datetime as dt

import pytest
import time_machine

from omnigraph import Graph
from omnigraph.errors import InvalidArgument, MergeConflict
from omnigraph.versioning.ancestry import merge_bases, parents
from tests.support.graphs import SMALL, knows, people


@pytest.fixture
def graph(tmp_path) -> Graph:
    graph = Graph.init(tmp_path / "g", SMALL)
    graph.load({"Person": people("ann", "bob", "cyd", age=1), "Knows": knows(("ann", "bob"))})
    return graph


def ages(graph: Graph, at: str = "main") -> dict[str, int | None]:
    rows = graph.rows("node:Person", at)
    return dict(sorted(zip(rows["name"].to_pylist(), rows["age"].to_pylist(), strict=True)))


def put(graph: Graph, branch: str, **values: int | None) -> None:
    graph.load({"Person": [{"name": n, "age": v} for n, v in values.items()]}, "merge", branch)


def test_nothing_to_merge_makes_no_commit(graph: Graph) -> None:
    graph.branches.create("dev")
    head = graph.commits.head().graph_commit_id
    assert graph.branches.merge("dev").outcome == "already_up_to_date"
    put(graph, "main", ann=2)
    assert graph.branches.merge("dev").commit is None
    assert graph.commits.head().parent_commit_id == head


def test_a_fast_forward_adopts_pins_and_has_two_parents(graph: Graph) -> None:
    graph.branches.create("dev")
    put(graph, "dev", dan=4)
    before = graph.commits.head()
    result = graph.branches.merge("dev", actor="ada", message="take it")
    assert result.outcome == "fast_forward"
    assert result.commit == graph.commits.head()
    assert result.commit.parent_commit_id == before.graph_commit_id
    assert result.commit.merged_parent_commit_id == graph.commits.head("dev").graph_commit_id
    assert (result.commit.actor_id, result.commit.message, result.commit.kind) == ("ada", "take it", "merge")
    assert graph.table("node:Person") == graph.table("node:Person", "dev")
    assert ages(graph)["dan"] == 4
    assert graph.branches.merge("dev").outcome == "already_up_to_date"


def test_rows_of_both_sides_are_joined(graph: Graph) -> None:
    graph.branches.create("dev")
    put(graph, "dev", dan=4, ann=5)
    graph.delete("Person", ["cyd"], "dev")
    put(graph, "main", eve=6, bob=7)
    result = graph.branches.merge("dev")
    assert (result.outcome, result.conflicts) == ("merged", ())
    assert ages(graph) == {"ann": 5, "bob": 7, "dan": 4, "eve": 6}
    assert ages(graph, "dev") == {"ann": 5, "bob": 1, "dan": 4}


def test_every_row_conflict_comes_back_with_its_values(graph: Graph) -> None:
    graph.branches.create("dev")
    put(graph, "dev", ann=5, dan=5)
    graph.delete("Person", ["cyd"], "dev")
    put(graph, "main", ann=6, dan=6, cyd=6)
    head = graph.snapshot().version
    with pytest.raises(MergeConflict) as caught:
        graph.branches.merge("dev")
    found = {
        c.entity_id: (str(c.kind), c.base and c.base["age"], c.ours and c.ours["age"], c.theirs and c.theirs["age"])
        for c in caught.value.conflicts
    }
    assert found == {
        "ann": ("DivergentUpdate", 1, 6, 5),
        "cyd": ("DeleteVsUpdate", 1, 6, None),
        "dan": ("DivergentInsert", None, 6, 5),
    }
    assert graph.snapshot().version == head
    preview = graph.branches.merge("dev", dry_run=True)
    assert (preview.outcome, len(preview.open_conflicts), preview.commit) == ("merged", 3, None)
    assert graph.snapshot().version == head


def test_strategies_by_kind_and_by_type(graph: Graph) -> None:
    graph.branches.create("dev")
    put(graph, "dev", ann=5, dan=5)
    graph.delete("Person", ["cyd"], "dev")
    put(graph, "main", ann=6, dan=6, cyd=6)
    for strategy, expected in (
        ("ours", {"ann": 6, "bob": 1, "cyd": 6, "dan": 6}),
        ("theirs", {"ann": 5, "bob": 1, "dan": 5}),
        ({"DivergentUpdate": "theirs", "Person": "ours"}, {"ann": 6, "bob": 1, "cyd": 6, "dan": 6}),
        (
            {"DivergentUpdate": "theirs", "DivergentInsert": "ours", "DeleteVsUpdate": "theirs"},
            {"ann": 5, "bob": 1, "dan": 6},
        ),
    ):
        name = f"try{abs(hash(str(strategy)))}"
        graph.branches.create(name)
        result = graph.branches.merge("dev", into=name, strategy=strategy)
        assert ages(graph, name) == expected, strategy
        assert len(result.conflicts) == 3
        assert result.open_conflicts == ()
    with pytest.raises(InvalidArgument):
        graph.branches.merge("dev", strategy="mine")
    with pytest.raises(InvalidArgument):
        graph.branches.merge("dev", strategy={"Persn": "ours"})
    with pytest.raises(InvalidArgument):
        graph.branches.merge("dev", strategy={"UniqueViolation": "ours"})
    with pytest.raises(InvalidArgument):
        graph.branches.merge("main")


def test_edits_that_add_up_to_nothing_still_merge_and_move_no_table(graph: Graph) -> None:
    for name, other in (("forward", None), ("joined", "eve")):
        graph.branches.create(name)
        put(graph, name, ann=9)
        put(graph, name, ann=1)
        if other:
            put(graph, "main", **{other: 1})
        pins = {k: e.staged_version for k, e in graph.snapshot().tables.items()}
        result = graph.branches.merge(name)
        assert result.commit is not None
        assert {k: e.staged_version for k, e in graph.snapshot().tables.items()} == pins
        assert graph.branches.merge(name).outcome == "already_up_to_date"


def test_orphans_in_both_directions(graph: Graph) -> None:
    graph.branches.create("adds-edge")
    graph.load({"Knows": knows(("bob", "cyd"))}, branch="adds-edge")
    graph.branches.create("drops-node")
    graph.delete("Person", ["cyd"], "drops-node")
    for source, into in (("adds-edge", "drops-node"), ("drops-node", "adds-edge")):
        with pytest.raises(MergeConflict) as caught:
            graph.branches.merge(source, into=into)
        [conflict] = caught.value.conflicts
        assert (str(conflict.kind), conflict.entity_id) == ("OrphanEdge", "bob-cyd")
        for side in ("ours", "theirs"):
            name = f"{source}-{side}"
            graph.branches.create(name, into)
            graph.branches.merge(source, into=name, strategy=side)
            has_edge = (side == "ours") == (into == "adds-edge")
            edges = graph.rows("edge:Knows", name)["id"].to_pylist()
            assert ("bob-cyd" in edges, "cyd" in ages(graph, name)) == (has_edge, has_edge)


def test_a_merged_and_deleted_branch_stays_the_base(graph: Graph) -> None:
    """r is inserted on x, merged into main and z, x is deleted, main deletes r: merging z must not bring r back."""
    graph.branches.create("x")
    graph.branches.create("z")
    put(graph, "x", r=1)
    put(graph, "main", m=1)
    put(graph, "z", zed=1)
    graph.branches.merge("x")
    graph.branches.merge("x", into="z", delete_branch=True)
    assert [b.name for b in graph.branches.list()] == ["main", "z"]
    [base] = merge_bases(graph.repository)
    assert base.manifest_branch == "x"
    graph.delete("Person", ["r"])
    assert graph.branches.merge("z").outcome == "merged"
    assert "r" not in ages(graph)
    assert "zed" in ages(graph)


def test_criss_cross_takes_the_highest_of_several_bases(graph: Graph) -> None:
    graph.branches.create("a")
    graph.branches.create("b")
    put(graph, "a", fromA=1)
    put(graph, "b", fromB=1)
    graph.branches.create("a1", "a")
    graph.branches.create("b1", "b")
    graph.branches.merge("b1", into="a")
    graph.branches.merge("a1", into="b")
    put(graph, "a", onA=2)
    put(graph, "b", onB=2)
    preview = graph.branches.merge("a", into="b", dry_run=True)
    heads = {graph.commits.head(n).graph_commit_id: graph.commits.head(n) for n in ("a1", "b1")}
    assert (
        preview.base_commit_id == max(heads.values(), key=lambda c: (c.manifest_version, c.created_at)).graph_commit_id
    )
    assert graph.branches.merge("a", into="b").outcome == "merged"
    assert ages(graph, "b") == {"ann": 1, "bob": 1, "cyd": 1, "fromA": 1, "fromB": 1, "onA": 2, "onB": 2}


def test_round_trips_lose_nothing(graph: Graph) -> None:
    graph.branches.create("dev")
    for i in range(6):
        put(graph, "dev", **{f"d{i}": i})
        put(graph, "main", **{f"m{i}": i})
        graph.branches.merge("dev")
        graph.branches.merge("main", into="dev")
        assert ages(graph) == ages(graph, "dev")
    assert len(ages(graph)) == 15


def test_property_level_merge_joins_disjoint_edits(tmp_path) -> None:
    graph = Graph.init(tmp_path / "p", "node P { k: String @key a: I32? b: String? c: [I32]? }")
    graph.load({"P": [{"k": "1", "a": 1, "b": "x"}, {"k": "2", "a": 1}]})
    graph.branches.create("dev")
    graph.load({"P": [{"k": "1", "a": 2, "b": "x"}, {"k": "2", "a": 2}]}, "merge", "dev")
    graph.load({"P": [{"k": "1", "a": 1, "b": "y", "c": [1]}, {"k": "2", "a": 3}]}, "merge")
    with pytest.raises(MergeConflict) as caught:
        graph.branches.merge("dev")
    assert len(caught.value.conflicts) == 2
    with pytest.raises(MergeConflict) as caught:
        graph.branches.merge("dev", property_level=True)
    assert [c.entity_id for c in caught.value.conflicts] == ["2"]
    graph.branches.merge("dev", property_level=True, strategy="ours")
    assert graph.entity_at("node:P", "1") == {"id": "1", "k": "1", "a": 2, "b": "y", "c": [1]}
    assert graph.entity_at("node:P", "2")["a"] == 3


def test_unique_and_cardinality_between_branches(tmp_path) -> None:
    graph = Graph.init(
        tmp_path / "u",
        "node P { k: String @key mail: String? @unique }\nedge Owns: P -> P @card(0..2)",
    )
    graph.load({"P": [{"k": str(i)} for i in range(5)], "Owns": [{"id": "e0", "from": "0", "to": "1"}]})
    graph.branches.create("dev")
    graph.load({"P": [{"k": "a", "mail": "m"}], "Owns": [{"id": "e1", "from": "0", "to": "2"}]}, branch="dev")
    graph.load({"P": [{"k": "b", "mail": "m"}], "Owns": [{"id": "e2", "from": "0", "to": "3"}]})
    with pytest.raises(MergeConflict) as caught:
        graph.branches.merge("dev")
    assert sorted(str(c.kind) for c in caught.value.conflicts) == ["CardinalityViolation", "UniqueViolation"]


@pytest.mark.parametrize("hours", [-1, 1])
def test_commits_are_listed_after_their_parents_whatever_the_clocks_say(graph: Graph, hours: int) -> None:
    """The branch is written by a process whose clock is wrong."""
    graph.branches.create("dev")
    with time_machine.travel(dt.datetime.now(dt.UTC) + dt.timedelta(hours=hours), tick=True):
        put(graph, "dev", dan=4)
        put(graph, "dev", eve=5)
    put(graph, "main", fay=6)
    graph.branches.merge("dev")
    listed = graph.commits.list()
    place = {commit.graph_commit_id: at for at, commit in enumerate(listed)}
    for commit in listed:
        for parent in parents(commit):
            assert place[parent] > place[commit.graph_commit_id], commit
    assert listed[-1].kind == "init"
