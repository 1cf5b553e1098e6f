"""Writers that come too late: on a branch that was deleted and collected, beside a collector with a wrong clock, on a
branch whose deletion was cut short. Nothing that was overtaken is acknowledged, and nothing deleted comes back."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import time
from pathlib import Path

import pytest
import time_machine

from omnigraph import Graph
from omnigraph.errors import (
    BranchGone,
    BranchNotFound,
    ConflictError,
    HistoricalVersionReclaimed,
    NotFound,
    OmnigraphError,
)
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from omnigraph.versioning.store import Settings
from tests.support.graphs import SMALL, crash_at, people, while_armed
from tests.support.invariants import check_every_version
from tests.support.workers import workers

pytestmark = [pytest.mark.filterwarnings("ignore:keeping:UserWarning")]

HURRIED = {"keep": 1, "grace": 0, "confirm": True, "force": True}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    Graph.init(tmp_path / "g", SMALL).load({"Person": people("ann")})
    return str(tmp_path / "g")


def age_everything(uri: str, seconds: float) -> None:
    then = time.time() - seconds
    for path in Path(uri).rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def names(uri: str, at: str | None = None) -> set[str]:
    return set(Graph.open(uri, "ro").rows("node:Person", at)["name"].to_pylist())


@pytest.mark.parametrize("settings", [Settings(), Settings(stale_base=0.5), Settings(stale_base=86_400)])
def test_a_write_on_a_branch_that_was_collected_is_refused(uri: str, settings: Settings) -> None:
    first = Graph.open(uri, settings=settings)
    first.branches.create("x")
    first.load({"Person": people("x1")}, branch="x")
    other = Graph.open(uri)
    other.branches.merge("x")
    other.branches.delete("x")
    age_everything(uri, 2 * 3600)
    other.maintenance.cleanup(keep=1, confirm=True)
    with pytest.raises((BranchNotFound, BranchGone)):
        first.load({"Person": people("late")}, branch="x")
    assert [branch.name for branch in Graph.open(uri).branches.list()] == ["main"]
    assert "late" not in names(uri)


@pytest.mark.parametrize("collected", [True, False], ids=["collected", "only deleted"])
@pytest.mark.parametrize("recreated", [True, False], ids=["recreated", "gone"])
def test_a_write_that_is_overtaken_by_the_end_of_its_branch_is_refused(
    uri: str, collected: bool, recreated: bool
) -> None:
    """The writer is held between its last look and its swap."""
    writer, other = Graph.open(uri), Graph.open(uri)
    writer.branches.create("x")
    writer.load({"Person": people("x1")}, branch="x")

    def overtake() -> None:
        failpoints.arm(None)
        other.branches.merge("x")
        other.branches.delete("x")
        if collected:
            other.maintenance.cleanup(**HURRIED)
        if recreated:
            other.branches.create("x")

    with while_armed({Point.BEFORE_SWAP: overtake}), pytest.raises(BranchGone):
        writer.load({"Person": people("late")}, branch="x")
    assert "late" not in names(uri)
    if recreated:
        assert "late" not in names(uri, "x")
        writer.load({"Person": people("next")}, branch="x")
        assert "next" in names(uri, "x")
    else:
        with pytest.raises(BranchNotFound):
            Graph.open(uri).branches.get("x")
    check_every_version(uri)


@pytest.mark.parametrize("point", [Point.BRANCH_UNCLAIMED, Point.BRANCH_CLOSED])
@pytest.mark.parametrize("tagged", [True, False], ids=["an older version is held", "nothing is held"])
def test_a_branch_whose_deleter_was_killed_does_not_come_back(uri: str, point: Point, tagged: bool) -> None:
    graph = Graph.open(uri)
    graph.branches.create("x")
    for name in ("x1", "x2"):
        graph.load({"Person": people(name)}, branch="x")
    if tagged:  # a branch that began there keeps that version as a merge base
        graph.branches.create("y", from_="x")
    graph.load({"Person": people("x3")}, branch="x")
    if tagged:
        graph.branches.merge("y", into="main")
        graph.branches.delete("y")
        graph.branches.merge("x", into="main")
    with crash_at(point):
        Graph.open(uri).branches.delete("x")
    warm = graph
    Graph.open(uri).maintenance.cleanup(**HURRIED)
    assert [branch.name for branch in Graph.open(uri).branches.list()] == ["main"]
    for handle in (warm, Graph.open(uri)):
        with pytest.raises(NotFound, match="is no branch"):
            handle.snapshot("x")
        with pytest.raises((BranchNotFound, BranchGone)):
            handle.load({"Person": people("late")}, branch="x")


@pytest.mark.processes
@pytest.mark.parametrize(
    "hours", [2, pytest.param(-2, marks=pytest.mark.slow), pytest.param(24 * 30, marks=pytest.mark.slow)]
)
def test_a_collector_with_a_wrong_clock_loses_nothing(uri: str, hours: int) -> None:
    graph = Graph.open(uri)
    for number in range(4):
        graph.load({"Person": people(f"p{number}")})
    with workers(1) as [writer]:
        writer.call("open", uri)
        writer.send("load", uri, data={"Person": people("held")}, hold=Point.BEFORE_SWAP)
        assert "held" in writer.receive()
        with time_machine.travel(dt.datetime.now(dt.UTC) + dt.timedelta(hours=hours), tick=True):
            collector = Graph.open(uri)
            for number in range(4):
                collector.load({"Person": people(f"q{number}")})
            report = collector.maintenance.cleanup(keep=1, confirm=True)
            assert report.manifest_versions_removed == 0, "nothing is an hour old by the clock of the store"
        writer.say()
        reply = writer.receive()
    assert "ok" in reply, reply
    assert {"held", "q3"} <= names(uri)
    check_every_version(uri)


def test_a_collector_beside_a_live_load_of_one_table_is_refused(uri: str) -> None:
    """Such a load leaves no intent; its files are all there is to see of it."""
    writer, collector = Graph.open(uri), Graph.open(uri)
    refused: list[OmnigraphError] = []

    def collect() -> None:
        failpoints.arm(None)
        with pytest.raises(ConflictError, match="a writer may be at work") as caught:
            collector.maintenance.cleanup(keep=1, grace=0, confirm=True)
        refused.append(caught.value)

    for point in (Point.ROWS_WRITTEN, Point.TABLE_STAGED, Point.MANIFEST_WRITTEN, Point.BEFORE_SWAP):
        with while_armed({point: collect}):
            writer.load({"Person": people(f"at {point}")})
    assert len(refused) == 4
    assert {f"at {Point.ROWS_WRITTEN}", f"at {Point.BEFORE_SWAP}"} <= names(uri)
    with while_armed({Point.BRANCH_MANIFEST: collect}):
        writer.branches.create("young")
    assert names(uri, "young") == names(uri)
    check_every_version(uri)


def test_a_graph_at_rest_may_be_cleaned_without_a_grace(uri: str) -> None:
    graph = Graph.open(uri)
    for number in range(5):
        graph.load({"Person": people(f"p{number}")})
    graph.maintenance.optimize()
    report = Graph.open(uri).maintenance.cleanup(keep=1, grace=0, confirm=True)
    assert report.manifest_versions_removed > 0
    assert len(names(uri)) == 6


@pytest.mark.parametrize("grace", [-1, float("nan"), float("inf"), float("-inf"), dt.timedelta(seconds=-1), "1"])
@pytest.mark.parametrize("name", ["grace", "older_than"])
def test_a_grace_that_is_no_duration_is_refused(uri: str, grace: object, name: str) -> None:
    with pytest.raises(OmnigraphError) as caught:
        Graph.open(uri).maintenance.cleanup(keep=3, **{name: grace})  # type: ignore[arg-type]
    assert caught.value.code == "invalid_argument"


def test_a_cleanup_that_cannot_remove_versions_leaves_their_tables(uri: str) -> None:
    graph = Graph.open(uri)
    for number in range(4):
        graph.load({"Person": people("ann", age=number)}, "merge")
    before = check_every_version(uri).versions
    with while_armed(failpoints.parse(f"{Point.OBJECT_REMOVED}:error:2")):
        report = Graph.open(uri).maintenance.cleanup(**HURRIED)
    assert [table.table_key for table in report.tables if table.error] == ["__manifest"]
    assert all(table.objects_removed == 0 for table in report.tables if table.table_key != "__manifest")
    assert check_every_version(uri).versions >= before - 2, "what is still listed can be read"


def test_commits_of_a_collected_branch_are_reclaimed_versions(uri: str) -> None:
    graph = Graph.open(uri)
    graph.branches.create("x")
    graph.load({"Person": people("x1")}, branch="x")
    commit = graph.load({"Person": people("x2")}, branch="x").commit
    assert commit is not None
    graph.branches.merge("x")
    graph.branches.delete("x")
    graph.load({"Person": people("more")})
    Graph.open(uri).maintenance.cleanup(**HURRIED)
    fresh = Graph.open(uri)
    assert fresh.commits.get(commit.graph_commit_id).manifest_branch == "x"
    for handle in (graph, fresh):
        with pytest.raises(HistoricalVersionReclaimed):
            handle.snapshot(commit.graph_commit_id)


def test_what_deleted_branches_leave_behind_is_collected(uri: str) -> None:
    graph = Graph.open(uri)
    for number in range(12):
        graph.branches.create(f"b{number % 5}")
        graph.load({"Person": people(f"p{number}")}, branch=f"b{number % 5}")
        graph.branches.delete(f"b{number % 5}")
    Graph.open(uri).maintenance.cleanup(**HURRIED)
    root = Path(uri)
    assert [p.name for p in (root / "__refs").iterdir() if not p.name.startswith("~")] == ["main"]
    assert not list((root / "__manifest" / "tree").glob("*"))
    assert len(list((root / "__locks").iterdir())) == 1
    empty = [path for path in root.rglob("*") if path.is_dir() and not any(path.iterdir())]
    assert [p for p in empty if "tree" in p.parent.parts or "_indices" in p.parts or "__refs" in p.parts] == []
    generation = graph.branches.create("b0").generation
    assert generation > 3, "a generation that was used is never used again, though its claim is gone"
    graph.load({"Person": people("again")}, branch="b0")
    assert "again" in names(uri, "b0")


def test_a_creator_that_looked_before_claims_were_collected_meets_no_older_branch(uri: str) -> None:
    """It computed its generation, then the claims went, then another created the name from nothing."""
    graph, other = Graph.open(uri), Graph.open(uri)
    graph.branches.create("x")
    graph.branches.delete("x")

    def overtake() -> None:
        failpoints.arm(None)
        other.maintenance.cleanup(**HURRIED)
        other.branches.create("x")
        other.load({"Person": people("theirs")}, branch="x")

    with while_armed({Point.BRANCH_MANIFEST: overtake}), pytest.raises(OmnigraphError) as caught:
        graph.branches.create("x")
    assert caught.value.code == "name_taken"
    assert "theirs" in names(uri, "x")


def test_a_copy_of_the_store_without_its_claims_takes_no_write(uri: str, tmp_path: Path) -> None:
    graph = Graph.open(uri)
    graph.branches.create("x")
    shutil.rmtree(Path(uri) / "__refs" / "x")
    with pytest.raises(BranchGone):
        graph.load({"Person": people("late")}, branch="x")
