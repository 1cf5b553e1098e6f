"""Taking commits back or over, and going back to a state: what a branch shows then, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import (
    ArgumentRefused,
    CommitNotFound,
    ExpectedVersionMismatch,
    HistoricalVersionReclaimed,
    InvalidArgument,
    MergeConflict,
    OmnigraphError,
    Unsupported,
)
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from omnigraph.versioning.store import Settings
from tests.maintenance.scenes import contents, leftovers, sweep
from tests.support.graphs import SMALL, Crash, knows, people
from tests.support.invariants import check_every_version

BY_ROW_ID = Settings(diff_few_rows=0)
"""Where few rows lie in files that differ, they are read; here row ids tell them apart, as in large tables."""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "g", SMALL)
    graph.load({"Person": people("ann", "bob", "cyd", age=1), "Knows": knows(("ann", "bob"))})
    return graph


def put(graph: Graph, branch: str = "main", **ages: int | None) -> str:
    done = graph.load({"Person": [{"name": n, "age": v} for n, v in ages.items()]}, "merge", branch)
    assert done.commit is not None
    return done.commit.graph_commit_id


def ages(graph: Graph, at: str = "main") -> dict[str, int | None]:
    rows = graph.rows("Person", at)
    return dict(sorted(zip(rows["name"].to_pylist(), rows["age"].to_pylist(), strict=True)))


# --- revert ---------------------------------------------------------------------------------------------------------


def test_a_revert_takes_a_commit_back_and_keeps_what_came_after(graph: Graph) -> None:
    wrong = put(graph, ann=99, dan=4)
    put(graph, bob=2, eve=5)
    result = graph.revert(wrong, actor="ada")
    assert ages(graph) == {"ann": 1, "bob": 2, "cyd": 1, "eve": 5}
    assert (result.outcome, result.source, result.target) == ("reverted", wrong, "main")
    assert result.commit is not None
    assert (result.commit.kind, result.commit.actor_id, result.commit.merged_parent_commit_id) == (
        "revert",
        "ada",
        None,
    )
    assert result.commit.message == f"revert {wrong} (load)"
    assert [(c.op, c.entity_id) for c in graph.commits.changes(result.commit.graph_commit_id)] == [
        ("update", "ann"), ("delete", "dan"),
    ]  # fmt: skip
    assert graph.commits.get(wrong).graph_commit_id == wrong
    check_every_version(graph.uri)


def test_a_reverted_delete_brings_a_node_back_with_its_edges(graph: Graph) -> None:
    gone = graph.delete("Person", ["ann"]).commit
    assert gone is not None
    assert graph.rows("Knows").num_rows == 0
    graph.revert(gone.graph_commit_id)
    assert ages(graph) == {"ann": 1, "bob": 1, "cyd": 1}
    assert graph.rows("Knows")["id"].to_pylist() == ["ann-bob"]
    check_every_version(graph.uri)


def test_a_revert_may_be_reverted(graph: Graph) -> None:
    first = put(graph, ann=7)
    back = graph.revert(first).commit
    assert back is not None
    assert ages(graph)["ann"] == 1
    graph.revert(back.graph_commit_id)
    assert ages(graph)["ann"] == 7


def test_what_was_changed_again_is_a_conflict_that_a_side_decides(graph: Graph) -> None:
    wrong = put(graph, ann=99, dan=4)
    put(graph, ann=100)
    head = graph.commits.head().graph_commit_id
    with pytest.raises(MergeConflict) as caught:
        graph.revert(wrong)
    assert [(c.type_name, c.entity_id, str(c.kind)) for c in caught.value.conflicts] == [
        ("Person", "ann", "DivergentUpdate")
    ]
    assert graph.commits.head().graph_commit_id == head
    assert len(graph.revert(wrong, dry_run=True).open_conflicts) == 1
    assert graph.commits.head().graph_commit_id == head
    graph.revert(wrong, strategy="ours")
    assert ages(graph) == {"ann": 100, "bob": 1, "cyd": 1}
    put(graph, dan=4)
    graph.revert(wrong, strategy="theirs")
    assert ages(graph) == {"ann": 1, "bob": 1, "cyd": 1}


def test_a_revert_that_would_leave_an_edge_without_an_end_is_refused(graph: Graph) -> None:
    added = put(graph, dan=4)
    graph.load({"Knows": knows(("dan", "ann"))})
    with pytest.raises(MergeConflict) as caught:
        graph.revert(added)
    assert {str(c.kind) for c in caught.value.conflicts} == {"OrphanEdge"}
    assert "dan" in ages(graph)


def test_reverting_nothing_makes_no_commit(graph: Graph) -> None:
    wrong = put(graph, ann=5)
    graph.revert(wrong)
    head = graph.commits.head().graph_commit_id
    again = graph.revert(wrong)
    assert (again.outcome, again.commit) == ("nothing_to_do", None)
    graph.maintenance.optimize()
    upkeep = graph.commits.head().graph_commit_id
    assert graph.revert(upkeep).outcome == "nothing_to_do"
    assert graph.commits.head().graph_commit_id == upkeep
    assert head in [c.graph_commit_id for c in graph.commits.list()]


def test_a_merge_is_reverted_to_its_first_parent(graph: Graph) -> None:
    graph.branches.create("dev")
    put(graph, "dev", dan=4, ann=2)
    put(graph, bob=3)
    merged = graph.branches.merge("dev").commit
    assert merged is not None
    put(graph, eve=5)
    graph.revert(merged.graph_commit_id)
    assert ages(graph) == {"ann": 1, "bob": 3, "cyd": 1, "eve": 5}
    check_every_version(graph.uri)


def test_what_cannot_be_reverted(graph: Graph) -> None:
    first = graph.commits.list()[-1].graph_commit_id
    with pytest.raises(InvalidArgument, match="is the first of the graph"):
        graph.revert(first)
    with pytest.raises(CommitNotFound):
        graph.revert("01KABCDEFGHJKMNPQRSTVWXYZ0")
    graph.branches.create("dev")
    elsewhere = put(graph, "dev", dan=4)
    with pytest.raises(InvalidArgument, match="is not part of branch 'main'"):
        graph.revert(elsewhere)
    graph.schema.apply(SMALL.replace("age: I32?", "age: I32?  mail: String?"))
    with pytest.raises(Unsupported, match="changed the schema"):
        graph.revert(graph.commits.head().graph_commit_id)
    with pytest.raises(ArgumentRefused):
        graph.revert(7)  # type: ignore[arg-type]


def test_rows_before_a_schema_change_are_reverted_after_it(graph: Graph) -> None:
    wrong = put(graph, ann=99, dan=4)
    graph.schema.apply(SMALL.replace("age: I32?", "age: I32?  mail: String?"))
    graph.load({"Person": [{"name": "bob", "age": 2, "mail": "b@x"}]}, "merge")
    graph.revert(wrong)
    assert ages(graph) == {"ann": 1, "bob": 2, "cyd": 1}
    assert graph.entity_at("Person", "bob")["mail"] == "b@x"  # type: ignore[index]
    check_every_version(graph.uri)


# --- cherry-pick ----------------------------------------------------------------------------------------------------


def test_a_cherry_pick_takes_one_commit_of_a_branch_and_no_other(graph: Graph) -> None:
    graph.branches.create("dev")
    put(graph, "dev", dan=4)
    wanted = put(graph, "dev", ann=7, eve=5)
    put(graph, "dev", fay=6)
    put(graph, gus=8, bob=2)  # rows of the two branches have the same row ids
    result = graph.cherry_pick(wanted)
    assert ages(graph) == {"ann": 7, "bob": 2, "cyd": 1, "eve": 5, "gus": 8}
    assert result.commit is not None
    assert (result.outcome, result.commit.kind, result.commit.merged_parent_commit_id) == (
        "cherry_picked", "cherry_pick", None,
    )  # fmt: skip
    assert graph.cherry_pick(wanted).outcome == "nothing_to_do"
    assert graph.branches.merge("dev").outcome == "merged"
    assert ages(graph) == {"ann": 7, "bob": 2, "cyd": 1, "dan": 4, "eve": 5, "fay": 6, "gus": 8}
    check_every_version(graph.uri)


def test_a_cherry_picked_edge_needs_its_ends(graph: Graph) -> None:
    graph.branches.create("dev")
    put(graph, "dev", dan=4)
    edge = graph.load({"Knows": knows(("ann", "dan"))}, branch="dev").commit
    assert edge is not None
    with pytest.raises((MergeConflict, OmnigraphError)):
        graph.cherry_pick(edge.graph_commit_id)
    assert graph.rows("Knows").num_rows == 1
    check_every_version(graph.uri)


def test_a_cherry_pick_tells_rows_of_two_lines_apart(graph: Graph) -> None:
    """Both branches gave one row id to different rows; compaction leaves nothing but row ids to compare."""
    graph.branches.create("dev")
    put(graph, "dev", dan=4)
    changed = put(graph, "dev", dan=5)
    put(graph, eve=6)
    graph.maintenance.optimize()
    with pytest.raises(MergeConflict) as caught:
        Graph.open(graph.uri, settings=BY_ROW_ID).cherry_pick(changed)
    assert [(c.entity_id, str(c.kind)) for c in caught.value.conflicts] == [("dan", "DeleteVsUpdate")]
    assert ages(graph) == {"ann": 1, "bob": 1, "cyd": 1, "eve": 6}


def test_a_cherry_pick_meets_what_the_branch_changed(graph: Graph) -> None:
    graph.branches.create("dev")
    theirs = put(graph, "dev", ann=7)
    put(graph, ann=8)
    with pytest.raises(MergeConflict):
        graph.cherry_pick(theirs)
    graph.cherry_pick(theirs, strategy={"Person": "theirs"})
    assert ages(graph)["ann"] == 7


# --- restore --------------------------------------------------------------------------------------------------------


def test_the_whole_graph_is_restored_as_a_new_commit(graph: Graph) -> None:
    graph.tags.create("good")
    before = contents(graph)
    put(graph, ann=99, dan=4)
    graph.delete("Person", ["bob"])
    preview = graph.restore("good", dry_run=True)
    assert (preview.commit, preview.written, preview.removed) == (
        None, {"node:Person": 2, "edge:Knows": 1}, {"node:Person": 1},
    )  # fmt: skip
    broken = graph.commits.head().graph_commit_id
    result = graph.restore("good", actor="ada")
    assert contents(graph) == before
    assert result.commit is not None
    assert (result.outcome, result.commit.kind, result.commit.parent_commit_id) == ("restored", "restore", broken)
    assert result.commit.message == "restore good"
    assert graph.restore("good").outcome == "nothing_to_do"
    graph.restore(broken)
    assert ages(graph) == {"ann": 99, "cyd": 1, "dan": 4}
    check_every_version(graph.uri)


def test_a_schema_is_restored_with_the_graph(graph: Graph) -> None:
    graph.load({"Company": [{"name": "acme"}], "WorksAt": [{"id": "w", "from": "ann", "to": "acme"}]})
    before, schema = contents(graph), graph.schema.show()
    graph.tags.create("good")
    graph.schema.apply(SMALL.replace("age: I32?", "age: I64?  mail: String?").replace("node Company", "node Team {"
        " name: String @key }\nnode Company"))  # fmt: skip
    graph.load({"Team": [{"name": "t"}], "Person": [{"name": "zoe", "age": 2**40, "mail": "z@x"}]})
    graph.schema.apply(
        "node Person { name: String @key }\nedge Knows: Person -> Person { since: I32? }", allow_drops=True
    )
    graph.load({"Person": [{"name": "yan"}]})
    result = graph.restore("good")
    assert result.commit is not None
    assert contents(graph) == before
    assert graph.schema.show() == schema
    graph.load({"WorksAt": [{"id": "w2", "from": "bob", "to": "acme"}]})
    check_every_version(graph.uri)
    graph.maintenance.optimize()
    assert len(contents(graph)["edge:WorksAt"]) == 2


def test_types_and_entities_are_restored_under_the_rules_of_today(graph: Graph) -> None:
    graph.tags.create("good")
    put(graph, ann=99, bob=99, dan=4)
    graph.load({"Knows": knows(("dan", "ann"))})
    done = graph.restore("good", ids={"Person": ["ann"]})
    assert (done.written, done.removed) == ({"node:Person": 1}, {})
    assert ages(graph) == {"ann": 1, "bob": 99, "cyd": 1, "dan": 4}
    head = graph.commits.head().graph_commit_id
    with pytest.raises(OmnigraphError, match="dan"):
        graph.restore("good", types=["Person"])  # an edge needs dan
    assert graph.commits.head().graph_commit_id == head
    done = graph.restore("good", types=["Person", "Knows"])
    assert (done.written, done.removed) == ({"node:Person": 1}, {"node:Person": 1, "edge:Knows": 1})
    assert ages(graph) == {"ann": 1, "bob": 1, "cyd": 1}
    assert graph.restore("good", types=["Person"]).outcome == "nothing_to_do"
    graph.delete("Person", ["ann"])
    assert graph.restore("good", ids={"Person": ["ann"], "Knows": ["ann-bob"]}).commit is not None
    assert graph.rows("Knows")["id"].to_pylist() == ["ann-bob"]
    with pytest.raises(OmnigraphError, match="Persn"):
        graph.restore("good", types=["Persn"])
    with pytest.raises(ArgumentRefused):
        graph.restore("good", types="Person")
    check_every_version(graph.uri)


def test_a_type_that_is_younger_than_the_target_is_not_emptied(graph: Graph) -> None:
    graph.tags.create("good")
    graph.schema.apply(SMALL + "\nnode Team { name: String @key }")
    graph.load({"Team": [{"name": "t"}]})
    with pytest.raises(InvalidArgument, match="Team is not in the graph at that state"):
        graph.restore("good", types=["Team"])
    assert graph.rows("Team").num_rows == 1


def test_a_reclaimed_state_cannot_be_restored(graph: Graph) -> None:
    old = graph.commits.head().graph_commit_id
    put(graph, ann=2)
    sweep(graph)
    with pytest.raises(HistoricalVersionReclaimed):
        graph.restore(old)
    assert ages(graph)["ann"] == 2


# --- reset, and branches ---------------------------------------------------------------------------------------------


def test_a_branch_is_reset_to_another_and_merges_from_there(graph: Graph) -> None:
    graph.branches.create("dev")
    put(graph, "dev", ann=7, dan=4)
    put(graph, bob=2, eve=5)
    done = graph.branches.reset("dev", "main")
    assert ages(graph, "dev") == ages(graph)
    assert done.commit is not None
    assert done.commit.merged_parent_commit_id == graph.commits.head().graph_commit_id
    put(graph, "dev", fay=6)
    assert graph.branches.merge("dev").outcome == "fast_forward"
    assert ages(graph) == {"ann": 1, "bob": 2, "cyd": 1, "eve": 5, "fay": 6}
    with pytest.raises(OmnigraphError, match="nowhere"):
        graph.branches.reset("nowhere")
    check_every_version(graph.uri)


def test_rows_of_two_lines_are_told_apart_after_a_reset(graph: Graph) -> None:
    """Both branches gave the same row ids to different rows; compaction leaves nothing but row ids to compare."""
    graph.branches.create("dev")
    put(graph, "dev", dan=4)
    put(graph, eve=5)
    graph.branches.reset("dev")
    graph.maintenance.optimize(branch="dev")
    put(graph, "dev", fay=6)
    assert ages(graph, "dev") == {"ann": 1, "bob": 1, "cyd": 1, "eve": 5, "fay": 6}
    graph.branches.merge("dev")
    assert ages(graph) == ages(graph, "dev")
    check_every_version(graph.uri)


def test_a_row_that_both_lines_have_is_not_taken_for_another(graph: Graph) -> None:
    """dan and eve have each other's row ids on the two branches."""
    graph.branches.create("dev")
    put(graph, "dev", dan=4)
    put(graph, eve=5)
    put(graph, dan=4)
    graph.branches.reset("dev")
    graph.delete("Person", ["dan"], "dev")
    graph.maintenance.optimize(branch="dev")
    put(graph, fay=6)
    Graph.open(graph.uri, settings=BY_ROW_ID).branches.merge("dev")
    assert ages(graph) == {"ann": 1, "bob": 1, "cyd": 1, "eve": 5, "fay": 6}
    check_every_version(graph.uri)


def test_what_is_written_beside_a_restore_ends_it(graph: Graph) -> None:
    graph.tags.create("good")
    put(graph, ann=99)

    def write_beside() -> None:
        failpoints.arm(None)
        Graph.open(graph.uri).load({"Company": [{"name": "acme"}]})

    failpoints.arm({Point.TABLE_STAGED: write_beside})
    with pytest.raises(ExpectedVersionMismatch):
        graph.restore("good")
    assert ages(graph)["ann"] == 99
    graph.restore("good")
    assert (ages(graph)["ann"], graph.rows("Company").num_rows) == (1, 0)


@pytest.mark.parametrize("point", [Point.INTENT_COMPLETED, Point.BEFORE_SWAP, Point.SWAPPED])
def test_a_killed_restore_is_done_or_not(graph: Graph, point: Point) -> None:
    graph.tags.create("good")
    before = contents(graph)
    put(graph, ann=99)
    graph.delete("Person", ["bob"])
    broken = contents(graph)

    def crash() -> None:
        raise Crash

    failpoints.arm({point: crash})
    with pytest.raises(Crash):
        graph.restore("good")
    failpoints.arm(None)
    assert contents(graph) in (before, broken)
    Graph.open(graph.uri).restore("good")
    assert contents(graph) == before
    check_every_version(graph.uri)


# --- a model --------------------------------------------------------------------------------------------------------


def _random_write(graph: Graph, rng: random.Random, branch: str) -> None:
    names = sorted(ages(graph, branch))
    actions: list[Callable[[], object]] = [
        lambda: put(graph, branch, **{f"n{rng.randrange(40)}": rng.randrange(100) for _ in range(3)}),
        lambda: graph.delete("Person", rng.sample(names, min(2, len(names))), branch),
        lambda: graph.maintenance.optimize(branch=branch),
    ]
    if len(names) > 1:
        pair = tuple(rng.sample(names, 2))
        actions.append(lambda: graph.load({"Knows": knows((pair[0], pair[1]))}, "merge", branch))
    rng.choice(actions)()


@pytest.mark.parametrize("seed", range(3))
def test_any_state_is_restored_and_any_newest_commit_reverted(graph: Graph, seed: int) -> None:
    rng = random.Random(seed)
    graph.branches.create("dev")
    for _ in range(12):
        _random_write(graph, rng, rng.choice(["main", "dev"]))
    for _ in range(4):
        branch, other = rng.choice([("main", "dev"), ("dev", "main")])
        wanted = rng.choice(graph.commits.list(rng.choice([branch, other]))).graph_commit_id
        graph.restore(wanted, branch)
        assert contents(graph, branch) == contents(graph, wanted)
        _random_write(graph, rng, branch)
        newest = graph.commits.head(branch)
        assert newest.parent_commit_id is not None
        before = contents(graph, newest.parent_commit_id)
        graph.revert(newest.graph_commit_id, branch)
        assert contents(graph, branch) == before
    check_every_version(graph.uri)
    sweep(graph, 1)
    assert leftovers(graph) == {}
