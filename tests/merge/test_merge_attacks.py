"""Attacks on merging and on schema changes, each with the rule that stops it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import ConflictError, ExpectedVersionMismatch, HistoricalVersionReclaimed, UnknownField
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from omnigraph.storage.row_difference import difference, everything
from omnigraph.versioning.staging import open_table
from omnigraph.write.index_fold import fold
from tests.support.graphs import SMALL, knows, people, recovery_files
from tests.support.invariants import check_every_version


@contextmanager
def once_at(point: Point, action: Callable[[], object]) -> Iterator[None]:
    """Let someone else act, once, at a step of what the block does."""
    done = []

    def act() -> None:
        if not done:
            done.append(True)
            action()

    failpoints.arm({point: act})
    try:
        yield
    finally:
        failpoints.arm(None)
    assert done, f"{point} was not passed"


def diverged(tmp_path: Path, rows: int = 3) -> Graph:
    graph = Graph.init(tmp_path / "g", SMALL)
    graph.load({"Person": people(*(f"p{i}" for i in range(rows)), age=1), "Knows": knows(("p0", "p1"))})
    graph.branches.create("dev")
    graph.load({"Person": people("dev", "p1", age=2)}, "merge", "dev")
    graph.load({"Person": people("main", "p2", age=3)}, "merge")
    return graph


def test_columns_of_two_forks_do_not_mix(tmp_path: Path) -> None:
    """Both forks number their new column alike: rows that cross are written anew by name."""
    graph = diverged(tmp_path)
    graph.schema.apply(SMALL.replace("age: I32?", "age: I32?  salary: I32?"), branch="dev")
    graph.schema.apply(SMALL.replace("age: I32?", "age: I32?  shoe: I32?"))
    graph.load({"Person": [{"name": "rich", "salary": 9}]}, branch="dev")
    graph.load({"Person": [{"name": "tall", "shoe": 5}]})
    graph.branches.merge("dev")
    rows = {r["name"]: (r["salary"], r["shoe"]) for r in graph.rows("node:Person").to_pylist()}
    assert rows["rich"] == (9, None)
    assert rows["tall"] == (None, 5)
    check_every_version(graph.uri)


@pytest.mark.parametrize("point", [Point.INTENT_COMPLETED, Point.TABLE_STAGED, Point.ROWS_WRITTEN])
def test_a_compaction_beside_a_merge_changes_nothing(point: Point, tmp_path: Path) -> None:
    """The staged update belongs to the pin it was made on: over the compacted one it is staged again."""
    graph = diverged(tmp_path)
    other = Graph.open(graph.uri)

    def compact() -> None:
        state = other.repository.head()
        fold(other.repository, state, state.tables["node:Person"])

    with once_at(point, compact):
        graph.branches.merge("dev")
    rows = sorted((r["name"], r["age"]) for r in graph.rows("node:Person").to_pylist())
    assert rows == [("dev", 2), ("main", 3), ("p0", 1), ("p1", 2), ("p2", 3)]
    check_every_version(graph.uri)


@pytest.mark.parametrize("point", [Point.INTENT_BEGUN, Point.TABLE_STAGED, Point.INTENT_COMPLETED])
def test_a_writer_on_the_target_makes_the_merge_lose_and_repeatable(point: Point, tmp_path: Path) -> None:
    graph = diverged(tmp_path)
    other = Graph.open(graph.uri)
    with (
        once_at(point, lambda: other.load({"Person": people("late", "p0", age=7)}, "merge")),
        pytest.raises(ExpectedVersionMismatch) as caught,
    ):
        graph.branches.merge("dev")
    assert caught.value.retryable
    assert graph.entity_at("node:Person", "dev") is None
    assert graph.branches.merge("dev").outcome == "merged"
    ages = {r["name"]: r["age"] for r in graph.rows("node:Person").to_pylist()}
    assert ages == {"p0": 7, "p1": 2, "p2": 3, "dev": 2, "main": 3, "late": 7}


def test_a_writer_elsewhere_does_not_disturb_a_merge(tmp_path: Path) -> None:
    graph = diverged(tmp_path)
    other = Graph.open(graph.uri)
    with once_at(Point.INTENT_COMPLETED, lambda: other.load({"Company": [{"name": "acme"}]})):
        assert graph.branches.merge("dev").outcome == "merged"
    assert graph.rows("node:Company").num_rows == 1


def test_an_edge_that_appears_at_a_node_that_a_merge_deletes(tmp_path: Path) -> None:
    graph = diverged(tmp_path)
    graph.delete("Person", ["p0"], "dev")
    other = Graph.open(graph.uri)
    with (
        once_at(Point.INTENT_COMPLETED, lambda: other.load({"Knows": knows(("p2", "p0"))})),
        pytest.raises(ConflictError) as caught,
    ):
        graph.branches.merge("dev")
    assert caught.value.retryable
    assert {str(c.kind) for c in graph.branches.merge("dev", dry_run=True).open_conflicts} == {"OrphanEdge"}


def test_a_fast_forward_beside_a_writer_does_not_take_his_row_away(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SMALL)
    graph.load({"Person": people("a")})
    graph.branches.create("dev")
    graph.load({"Person": people("b")}, branch="dev")
    other = Graph.open(graph.uri)
    with (
        once_at(Point.INTENT_COMPLETED, lambda: other.load({"Person": people("c")})),
        pytest.raises(ExpectedVersionMismatch),
    ):
        graph.branches.merge("dev")
    assert graph.branches.merge("dev").outcome == "merged"
    assert sorted(graph.rows("node:Person")["name"].to_pylist()) == ["a", "b", "c"]


def test_a_source_that_advances_is_merged_as_captured(tmp_path: Path) -> None:
    graph = diverged(tmp_path)
    captured = graph.commits.head("dev").graph_commit_id
    other = Graph.open(graph.uri)
    with once_at(Point.INTENT_BEGUN, lambda: other.load({"Person": people("later")}, branch="dev")):
        result = graph.branches.merge("dev")
    assert result.commit.merged_parent_commit_id == captured
    assert graph.entity_at("node:Person", "later") is None
    graph.branches.merge("dev")
    assert graph.entity_at("node:Person", "later") is not None


def test_a_write_prepared_under_an_old_schema_is_validated_again(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SMALL)
    other = Graph.open(graph.uri)
    wider = SMALL.replace("age: I32?", "age: I32?  level: I32 @default(4)")
    with once_at(Point.ROWS_WRITTEN, lambda: other.schema.apply(wider)):
        graph.load({"Person": people("ann", age=1)})
    assert graph.entity_at("node:Person", "ann") == {"id": "ann", "name": "ann", "age": 1, "level": 4}
    narrower = wider.replace("age: I32?  ", "")
    version = graph.snapshot().version
    with (
        once_at(Point.ROWS_WRITTEN, lambda: other.schema.apply(narrower, drop=["Person.age"])),
        pytest.raises(UnknownField),
    ):
        graph.load({"Person": people("bob", age=1)})
    assert graph.snapshot().version == version + 1


@pytest.mark.parametrize("point", [Point.TABLE_STAGED, Point.CONTRACT_WRITTEN, Point.INTENT_COMPLETED])
def test_an_apply_beside_writers_and_compaction_loses_nothing(point: Point, tmp_path: Path) -> None:
    graph = diverged(tmp_path)
    other = Graph.open(graph.uri)
    wider = SMALL.replace("age: I32?", "age: I64?  level: I32 @default(4)")

    def disturb() -> None:
        other.load({"Person": people("late", age=8)})
        state = other.repository.head()
        fold(other.repository, state, state.tables["node:Person"])

    with once_at(point, disturb):
        assert graph.schema.apply(wider).applied
    rows = {r["name"]: (r["age"], r["level"]) for r in graph.rows("node:Person").to_pylist()}
    assert rows == {"p0": (1, 4), "p1": (1, 4), "p2": (3, 4), "main": (3, 4), "late": (8, 4)}
    check_every_version(graph.uri)


def test_two_branches_that_add_one_type_never_share_a_directory(tmp_path: Path) -> None:
    graph = diverged(tmp_path)
    graph.schema.apply(SMALL + "\nnode Pet { name: String @key }", branch="dev")
    graph.schema.apply(SMALL + "\nnode Pet { tag: I32 @key }")
    places = [graph.snapshot(b).tables["node:Pet"].location for b in ("main", "dev")]
    assert len(set(places)) == 2
    graph.load({"Pet": [{"name": "rex"}]}, branch="dev")
    graph.load({"Pet": [{"tag": 1}]})
    [conflict] = graph.branches.merge("dev", dry_run=True).open_conflicts
    assert (str(conflict.kind), conflict.type_name) == ("SchemaConflict", "Pet")


def test_compaction_does_not_turn_a_difference_into_a_scan(tmp_path: Path) -> None:
    graph = diverged(tmp_path, rows=6000)
    base = graph.repository.at(graph.commits.list()[-2])
    state = graph.repository.head()
    fold(graph.repository, state, state.tables["node:Person"])
    graph.load({"Person": people("p7", age=9)}, "merge")
    before, after = (
        open_table(graph.repository.store, s.tables["node:Person"]) for s in (base, graph.repository.head())
    )
    columns = ["id", "age"]
    assert not {f.files[0].path for f in before.fragments.values()} & {
        f.files[0].path for f in after.fragments.values()
    }
    found = difference(before, after, columns, columns, by_row_id=True)
    assert sorted(found.removed["id"].to_pylist()) == ["p2", "p7"]
    assert sorted(found.added["id"].to_pylist()) == ["main", "p2", "p7"]
    assert everything(before, after, columns, columns).removed.num_rows == 6000
    graph.branches.merge("dev")
    ages = {r["name"]: r["age"] for r in graph.rows("node:Person").to_pylist()}
    assert [ages[k] for k in ("dev", "main", "p1", "p2", "p7", "p8")] == [2, 3, 2, 3, 9, 1]


def test_a_child_of_a_merged_or_deleted_branch_stays_readable(tmp_path: Path) -> None:
    graph = diverged(tmp_path)
    commit = graph.commits.head("dev").graph_commit_id
    graph.branches.merge("dev", delete_branch=True)
    graph = Graph.open(graph.uri)
    assert graph.entity_at("node:Person", "dev", commit) == {"id": "dev", "name": "dev", "age": 2}
    assert graph.commits.get(commit).manifest_branch == "dev"
    graph.branches.create("child", commit)
    graph.load({"Person": people("kid", age=1)}, branch="child")
    assert sorted(graph.rows("node:Person", "child")["name"].to_pylist()) == ["dev", "kid", "p0", "p1", "p2"]
    assert graph.branches.merge("child").outcome == "merged"
    assert graph.entity_at("node:Person", "kid") is not None
    assert graph.branches.merge("main", into="child").outcome == "fast_forward"


def test_pins_that_a_collector_condemned_are_not_adopted(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SMALL)
    graph.branches.create("dev")
    graph.load({"Person": people("a")}, branch="dev")
    entry = graph.snapshot("dev").tables["node:Person"]
    condemned = {"pins": [f"{entry.location}@{entry.staged_version}"], "objects": []}
    graph.repository.store.objects.put_new_json("__gc/01M.json", condemned)
    with pytest.raises(HistoricalVersionReclaimed):
        graph.branches.merge("dev")
    assert graph.snapshot().version == 1
    assert [name for name in recovery_files(graph.uri) if not name.endswith(".aborted")] == []
    graph.repository.store.objects.delete(["__gc/01M.json"])
    assert graph.branches.merge("dev").outcome == "fast_forward"


@pytest.mark.parametrize("strategy", ["ours", "theirs"])
def test_row_ids_of_two_lines_are_not_taken_for_each_other(strategy: str, tmp_path: Path) -> None:
    """Both lines give the same row id to different rows; a merge that keeps ours makes both of them ancestors."""
    graph = diverged(tmp_path, rows=6000)
    graph.load({"Person": people("both", age=10)}, branch="dev")
    graph.load({"Person": people("both", age=20)})
    graph.branches.create("again", "dev")
    graph.branches.merge("dev", strategy=strategy)
    for branch in ("main", "again"):
        state = graph.repository.head(branch)
        fold(graph.repository, state, state.tables["node:Person"])
    graph.load({"Person": people("more", age=1)}, branch="again")
    graph.branches.merge("main", into="again")
    graph.load({"Person": people("more", age=1)})
    assert graph.rows("node:Person").sort_by("id").equals(graph.rows("node:Person", "again").sort_by("id"))
    assert graph.entity_at("node:Person", "both", "again")["age"] == (20 if strategy == "ours" else 10)
