"""`cleanup` takes what nothing needs, and nothing else; killed, it is run again."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import ConflictError, HistoricalVersionReclaimed, InvalidArgument, ReadOnlyGraph
from omnigraph.local.reads import rows_of_state
from omnigraph.maintenance.cleanup import CleanupPolicy
from omnigraph.maintenance.collector import Collector
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from omnigraph.versioning.changes import changes_between
from omnigraph.versioning.store import Settings
from omnigraph.write.merge import merge_branch
from omnigraph.write.merge_compare import Comparison, Terms, in_process
from omnigraph.write.transaction import WriteTxn
from tests.maintenance.scenes import age_everything, busy_graph, contents, files_below, leftovers, sweep
from tests.support.graphs import EXPIRED, Crash, crash_at, knows, people
from tests.support.invariants import check_every_version


def test_a_policy_is_needed_and_the_newest_version_cannot_be_given_away(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path, 1)
    with pytest.raises(InvalidArgument, match="policy"):
        graph.maintenance.cleanup(keep=None)
    with pytest.raises(InvalidArgument):
        graph.maintenance.cleanup(keep=0)
    with pytest.raises(ReadOnlyGraph):
        Graph.open(graph.uri, mode="ro").maintenance.cleanup(confirm=True)
    with pytest.warns(UserWarning, match="little to travel back"):
        graph.maintenance.cleanup(keep=2)


def test_a_preview_deletes_nothing_and_tells_what_a_confirmed_run_deletes(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    graph.maintenance.optimize()
    before = files_below(graph)
    sizes = {name: (Path(graph.uri) / name).stat().st_size for name in before}
    preview = Graph.open(graph.uri, mode="ro").maintenance.cleanup(3, grace=0, force=True)
    assert files_below(graph) == before
    assert not preview.confirmed
    assert preview.bytes_removed > 0
    done = sweep(graph, 3)
    gone = before - files_below(graph)
    assert done.tables == preview.tables
    assert (done.objects_removed, done.bytes_removed) == (len(gone), sum(sizes[name] for name in gone))
    assert done.manifest_versions_removed == preview.manifest_versions_removed > 0


def test_kept_versions_read_as_before_and_the_others_are_reclaimed(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    graph.maintenance.optimize()
    newest = graph.snapshot().version
    before = {version: contents(graph, version) for version in range(1, newest + 1)}
    sweep(graph, 4)
    for version in range(1, newest + 1):
        if version > newest - 4:
            assert contents(graph, version) == before[version]
        else:
            with pytest.raises(HistoricalVersionReclaimed):
                contents(graph, version)
    check = check_every_version(graph.uri)
    assert check.versions == 4
    assert leftovers(graph, 4) == {}


def test_it_is_idempotent_and_what_remains_can_be_written_to(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    before = contents(graph)
    sweep(graph)
    files = files_below(graph)
    again = sweep(graph)
    assert (again.tables, files_below(graph)) == ((), files)
    assert contents(graph) == before
    graph.load({"Person": people("after"), "Knows": knows(("after", "ann"))})
    graph.load({"Person": people("p3", age=1)}, "merge")
    graph.delete("Person", ["p4"])
    graph.maintenance.optimize()
    check_every_version(graph.uri)


def test_young_versions_stay_whatever_the_policy(tmp_path: Path) -> None:
    """Attack 17: a busy branch must not lose the version that a long read opened a moment ago."""
    graph = busy_graph(tmp_path)
    version = graph.snapshot().version
    before = contents(graph, version)
    for number in range(30):
        graph.load({"Person": people(f"more{number}")})
    with pytest.warns(UserWarning, match="little"):
        assert graph.maintenance.cleanup(1, 0, confirm=True).tables == ()
    assert contents(graph, version) == before


def test_an_hour_later_the_policy_holds(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    age_everything(graph, 3700)
    newest = graph.snapshot().version
    report = graph.maintenance.cleanup(3, confirm=True)
    assert report.manifest_versions_removed == newest - 3
    assert check_every_version(graph.uri).versions == 3


def test_age_and_number_both_keep(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    newest = graph.snapshot().version
    assert sweep(graph, 1, older_than=3600).manifest_versions_removed == 0
    age_everything(graph, 7200)
    assert sweep(graph, 5, older_than=3600).manifest_versions_removed == newest - 5


def test_tags_keep_what_they_name_until_they_are_deleted(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    version = graph.snapshot().version - 5
    before = contents(graph, version)
    graph.tags.create("kept", version)
    graph.maintenance.optimize()
    sweep(graph)
    assert contents(graph, "kept") == before
    graph.tags.delete("kept")
    sweep(graph)
    with pytest.raises(HistoricalVersionReclaimed):
        contents(graph, version)


def test_branches_keep_what_they_began_with(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    version = graph.snapshot().version - 5
    before = contents(graph, version)
    graph.branches.create("old", version)
    graph.maintenance.optimize()
    sweep(graph)
    assert contents(graph, "old") == before
    graph.load({"Person": people("on-old")}, branch="old")
    graph.maintenance.optimize("old")
    sweep(graph)
    graph.branches.merge("old")
    assert graph.entity_at("node:Person", "on-old") is not None
    check_every_version(graph.uri)


def test_a_deleted_branch_goes_but_its_merge_base_stays(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    graph.branches.create("dev")
    graph.load({"Person": people("dev1")}, branch="dev")
    graph.branches.create("child", "dev")
    graph.branches.merge("dev")
    graph.load({"Person": people("child1")}, branch="child")
    graph.load({"Person": people("main1")})
    sweep(graph)
    graph.branches.merge("child")
    names = set(graph.rows("node:Person")["name"].to_pylist())
    assert {"dev1", "child1", "main1"} <= names
    graph.branches.delete("child")
    graph.branches.delete("dev")
    before = contents(graph)
    sweep(graph)
    assert not files_below(graph, "__manifest/tree")
    assert contents(graph) == before
    assert leftovers(graph) == {}


def test_a_base_on_a_deleted_branch_stays_while_two_branches_need_it(tmp_path: Path) -> None:
    """Attack 10 after a cleanup: the deleted row must not come back."""
    graph = busy_graph(tmp_path)
    graph.branches.create("z")
    graph.branches.create("x")
    graph.load({"Person": people("r")}, branch="x")
    graph.branches.merge("x")
    graph.branches.merge("x", "z")
    graph.branches.delete("x")
    graph.load({"Person": people("z1")}, branch="z")
    graph.delete("Person", ["r"])
    sweep(graph)
    graph.branches.merge("z")
    assert graph.entity_at("node:Person", "r") is None
    assert graph.entity_at("node:Person", "z1") is not None


def test_a_dropped_type_goes_with_the_last_version_that_has_it(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", "node A { name: String @key }\nnode B { name: String @key }")
    graph.load({"A": [{"name": "a"}], "B": [{"name": "b"}]})
    location = graph.snapshot().tables["node:B"].location
    graph.schema.apply("node A { name: String @key }", allow_data_loss=True, allow_drops=True)
    assert files_below(graph, location)
    sweep(graph)
    assert not files_below(graph, location)
    assert contents(graph) == {"node:A": ["[('id', 'a'), ('name', 'a')]"]}


def test_what_an_unfinished_write_staged_stays_and_is_published(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    with crash_at(Point.INTENT_COMPLETED):
        Graph.open(graph.uri).load({"Person": people("dan"), "Knows": knows(("dan", "ann"))})
    with pytest.raises(ConflictError, match="a writer may be at work"):
        sweep(Graph.open(graph.uri), force=False)
    sweep(Graph.open(graph.uri))
    Graph.open(graph.uri, settings=EXPIRED)
    assert graph.entity_at("node:Person", "dan") is not None
    check_every_version(graph.uri)


def test_staged_files_without_an_intent_stay_for_the_grace(tmp_path: Path) -> None:
    """Attack 4: a write that is between staging and its swap."""
    graph = busy_graph(tmp_path)
    keeper = Graph.open(graph.uri)
    ran: list[int] = []

    def collect() -> None:
        if not ran:
            ran.append(keeper.maintenance.cleanup(3, 0, confirm=True).objects_removed)

    failpoints.arm({Point.BEFORE_SWAP: collect})
    graph.load({"Person": people("staged")})
    failpoints.arm(None)
    assert ran
    assert graph.entity_at("node:Person", "staged") is not None
    check_every_version(graph.uri)


def test_garbage_of_crashed_writers_goes_after_the_grace(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    sweep(graph)
    clean = files_below(graph)
    for point in (Point.ROWS_WRITTEN, Point.TABLE_STAGED, Point.BEFORE_SWAP):
        with crash_at(point):
            Graph.open(graph.uri).load({"Person": people(f"crashed-{point}")})
    with crash_at(Point.BRANCH_MANIFEST):
        Graph.open(graph.uri).branches.create("unclaimed")
    scratch = Path(graph.uri) / "__staging" / "01ABC" / "part-0"
    scratch.parent.mkdir(parents=True)
    scratch.write_text("scratch")
    half = Path(graph.uri) / "__refs" / "main.json#1"
    half.parent.mkdir(exist_ok=True)
    half.write_text("half")
    stray = Path(graph.uri) / graph.snapshot().tables["node:Person"].location / "data" / "stray.lance"
    stray.write_text("stray")
    assert files_below(graph) > clean
    # Younger than the grace, everything stays.
    assert graph.maintenance.cleanup(3, confirm=True).tables == ()
    age_everything(graph, 8 * 86_400)
    graph.maintenance.cleanup(3, confirm=True)
    assert files_below(graph) == clean


def test_half_a_branch_that_nobody_has_claimed_stops_no_collector(tmp_path: Path) -> None:
    """A store that was away while a branch was created came back with its version, and without the rows of it."""
    graph = busy_graph(tmp_path)
    sweep(graph)
    clean = files_below(graph)
    with crash_at(Point.BRANCH_MANIFEST):
        Graph.open(graph.uri).branches.create("half")
    [half] = [path for path in (Path(graph.uri) / "__manifest" / "tree").iterdir() if path.name.startswith("half")]
    for file in (half / "data").iterdir():
        file.unlink()
    graph.load({"Person": people("later")})
    assert all(table.error is None for table in graph.maintenance.cleanup(3, confirm=True).tables)
    assert half.exists(), "younger than the grace"
    age_everything(graph, 8 * 86_400)
    graph.maintenance.cleanup(3, confirm=True)
    assert not half.exists()
    assert {path for path in files_below(graph) if "half" in str(path)} == set()
    assert clean


def test_a_branch_that_is_being_created_is_not_garbage(tmp_path: Path) -> None:
    """Its first data file is there before its first version is."""
    graph = busy_graph(tmp_path)
    location = Path(graph.uri) / "__manifest" / "tree" / "dev.01ABC" / "data"
    location.mkdir(parents=True)
    (location / "first.lance").write_text("rows")
    age_everything(graph, 7200)
    with pytest.warns(UserWarning, match="little"):
        graph.maintenance.cleanup(1, 0, confirm=True)
    assert (location / "first.lance").exists()
    age_everything(graph, 8 * 86_400)
    graph.maintenance.cleanup(3, confirm=True)
    assert not (location / "first.lance").exists()


def test_a_kept_version_that_cannot_be_read_stops_work_on_its_table_only(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    entry = graph.snapshot().tables["node:Person"]
    pin = Path(graph.uri) / entry.location / "_versions" / f"d{entry.staged_version}.manifest"
    body = pin.read_bytes()
    pin.unlink()
    damaged = Graph.open(graph.uri)
    before = files_below(damaged, entry.location)
    report = sweep(damaged)
    errors = {t.table_key: t.error for t in report.tables if t.error}
    assert list(errors) == ["node:Person"]
    assert "cannot be read" in str(errors["node:Person"])
    assert files_below(damaged, entry.location) == before
    assert any(t.table_key == "edge:Knows" and t.objects_removed for t in report.tables)
    pin.write_bytes(body)
    healed = Graph.open(graph.uri)
    assert sweep(healed).tables
    check_every_version(graph.uri)
    assert leftovers(graph) == {}


def test_losing_the_right_to_delete_is_reported_and_the_next_run_finishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = busy_graph(tmp_path)
    location = graph.snapshot().tables["node:Person"].location
    refused = monkeypatch.context()
    with refused as patch:
        real = Path.unlink

        def unlink(path: Path, missing_ok: bool = False) -> None:
            if location in str(path) and "/data/" in str(path):
                raise PermissionError(13, "Permission denied", str(path))
            real(path, missing_ok=missing_ok)

        patch.setattr(Path, "unlink", unlink)
        report = sweep(graph)
    assert [t.table_key for t in report.tables if t.error] == ["node:Person"]
    assert contents(graph)
    # What was on its way out is finished without the seven days that an unknown file would have.
    age_everything(graph, 3700)
    Graph.open(graph.uri).maintenance.cleanup(3, confirm=True)
    assert leftovers(graph) == {}
    assert not files_below(graph, "__gc")
    check_every_version(graph.uri)


@pytest.mark.parametrize("point", [Point.GC_CONDEMNED, Point.GC_SWEPT, Point.OBJECT_REMOVED])
def test_a_killed_run_is_finished_by_the_next_one(tmp_path: Path, point: Point) -> None:
    graph = busy_graph(tmp_path)
    graph.maintenance.optimize()
    before = contents(graph)
    age_everything(graph, 3700)
    other = Path(shutil.copytree(graph.uri, tmp_path / "other"))
    Graph.open(other).maintenance.cleanup(3, confirm=True)
    hits = 0

    def die() -> None:
        nonlocal hits
        hits += 1
        if hits == (7 if point is Point.OBJECT_REMOVED else 1):
            raise Crash

    failpoints.arm({point: die})
    with pytest.raises(Crash):
        Graph.open(graph.uri).maintenance.cleanup(3, confirm=True)
    failpoints.arm(None)
    assert contents(graph) == before
    check_every_version(graph.uri)
    # Not with less patience than the first run: with the very same.
    Graph.open(graph.uri).maintenance.cleanup(3, confirm=True)
    kept = {name for name in files_below(graph) if "__gc/" not in name}
    assert {n for n in kept if ".floor-" not in n} == {n for n in files_below(Graph.open(other)) if ".floor-" not in n}
    assert contents(graph) == before


def test_a_stalled_reader_gets_a_typed_error(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    old = graph.snapshot().version
    reader = Graph.open(graph.uri, mode="ro")
    state = reader.repository.at_version(old)
    graph.load({"Person": people("p5", age=5)}, "merge")
    graph.maintenance.optimize()
    sweep(graph)
    with pytest.raises(HistoricalVersionReclaimed):
        rows_of_state(reader.local, state, "node:Person")
    with pytest.raises(HistoricalVersionReclaimed):
        reader.rows("node:Person", old)


def test_every_way_to_a_reclaimed_version_says_so(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    old = graph.commits.head().graph_commit_id
    graph.load({"Person": people("p5", age=5)}, "merge")
    begun = graph.diff(old, "main"), graph.diff("main", old)
    reader = Graph.open(graph.uri, mode="ro")
    stalled = reader.repository.at_commit(old), reader.repository.head()
    graph.maintenance.optimize()
    sweep(graph)
    for changes in begun:
        with pytest.raises(HistoricalVersionReclaimed):
            list(changes)
    with pytest.raises(HistoricalVersionReclaimed):
        list(reader.repository.read_through(changes_between(reader.repository.store, *stalled), *stalled))
    for action in (graph.table, graph.rows):
        with pytest.raises(HistoricalVersionReclaimed):
            action("node:Person", old)
    for call in (graph.snapshot, graph.catalog, graph.diff, lambda at: graph.tags.create("late", at)):
        with pytest.raises(HistoricalVersionReclaimed):
            call(old)
    with pytest.raises(HistoricalVersionReclaimed):
        graph.branches.create("late", old)
    assert {"late"}.isdisjoint({tag.name for tag in graph.tags.list()} | {b.name for b in graph.branches.list()})


def test_a_merge_whose_source_is_reclaimed_under_it_says_so(tmp_path: Path) -> None:
    """Everything of the source's head is deleted after the merge has captured it and before it reads a row."""
    graph = busy_graph(tmp_path)
    graph.branches.create("dev")
    graph.load({"Person": people("p5", age=5)}, "merge", "dev")
    graph.load({"Person": people("p6", age=6)}, "merge")

    def reclaim_first(txn: WriteTxn, terms: Terms) -> AbstractContextManager[Comparison]:
        graph.load({"Person": people("p5", age=7)}, "merge", "dev")
        graph.maintenance.optimize("dev")
        sweep(graph)
        return in_process(txn, terms)

    with pytest.raises(HistoricalVersionReclaimed):
        merge_branch(Graph.open(graph.uri).repository, "dev", "main", comparing=reclaim_first)
    assert graph.branches.merge("dev").outcome == "merged"


def test_derived_state_of_reclaimed_versions_and_dropped_tables_goes(tmp_path: Path) -> None:
    busy_graph(tmp_path)
    graph = Graph.open(tmp_path / "graph", settings=Settings(derived_min_rows=1))
    hop = "query hop() { match { $a: Person  $a knows $b } return { $b.name } }"
    graph.query(hop)
    deadline = time.monotonic() + 20
    mine: set[str] = set()
    while len(mine) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
        mine = {name for name in files_below(graph, "__derived") if "/." not in name}
    assert len(mine) == 2
    old = [Path(graph.uri) / Path(name).with_name("0" * 40) for name in mine]
    dropped = Path(graph.uri) / "__derived" / "topology" / "edges-gone" / "ends" / ("1" * 40)
    for path in (*old, dropped):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("derived from a version that is no more")
        os.utime(path, (1, 1))
    graph.load({"Person": people("more")})
    sweep(graph)
    # The newest of a kind is what the next version's is built on.
    assert files_below(graph, "__derived") == mine
    assert graph.query(hop).table.num_rows == 2


def test_stale_manifest_versions_in_a_reclaimed_past_are_collected(tmp_path: Path) -> None:
    """Attack 1, afterwards: a swap that landed in an emptied slot is no version of the branch."""
    graph = busy_graph(tmp_path)
    folder = Path(graph.uri) / "__manifest" / "_versions"
    oldest = max(folder.iterdir())  # names sort newest first
    body = oldest.read_bytes()
    sweep(graph)
    oldest.write_bytes(body)
    os.utime(oldest)
    sweep(graph)
    assert not oldest.exists()
    check_every_version(graph.uri)


def test_a_slow_collector_that_another_has_overtaken_is_no_error(tmp_path: Path) -> None:
    """What it would have kept is gone: it takes nothing of those tables, and the rest of its work is right."""
    graph = busy_graph(tmp_path)
    patient = Graph.open(graph.uri).repository
    slow = Collector(patient, CleanupPolicy(keep=100).retention(patient.store.settings))
    sweep(graph)
    condemned = slow.condemn()
    assert [part.error for part in condemned if part.error] == []
    for part in slow.spare(condemned):
        slow.remove(part)
    check_every_version(graph.uri)
    assert graph.maintenance.fsck().problems == ()


def test_a_version_that_is_needed_and_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    entry = graph.snapshot().tables["node:Person"]
    newest = Path(graph.uri) / entry.location / "_versions" / f"d{entry.staged_version}.manifest"
    newest.unlink()
    fresh = Graph.open(graph.uri).repository
    condemned = Collector(fresh, CleanupPolicy(keep=1).retention(Settings())).condemn()
    [error] = [part.error for part in condemned if part.error]
    assert "cannot be read: nothing of it is removed" in error
    assert [part.objects for part in condemned if part.error] == [()]
