"""Corners of the collector: floors, graces, tables on their way, writers that leave no file yet."""

from __future__ import annotations

import datetime as dt
import os
import time
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import ConflictError
from omnigraph.maintenance.collector import CONTROL
from omnigraph.maintenance.roots import Retention, find_roots
from omnigraph.storage.failpoints import Point
from omnigraph.storage.layout import STAGING, manifest_path, table_path
from omnigraph.versioning import history
from omnigraph.versioning.store import Settings, mint
from tests.attacks.test_attacks import plan_of
from tests.maintenance.scenes import age_everything, files_below, sweep
from tests.support.graphs import SMALL, crash_at, people, publish_nothing, while_armed
from tests.support.invariants import check_every_version

pytestmark = pytest.mark.filterwarnings("ignore:keeping . versions leaves little")
HURRIED = Settings(superseded_grace=0.0)
NOW = dt.timedelta(0)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Six versions of main."""
    graph = Graph.init(tmp_path / "g", SMALL)
    for number in range(5):
        graph.load({"Person": people(f"p{number}")})
    return Graph.open(graph.uri, settings=HURRIED)


def test_the_floor_is_above_every_version_that_went(graph: Graph) -> None:
    """A writer that swaps into the slot of the last of them finds that it does not count."""
    graph.maintenance.cleanup(2, confirm=True)
    kept = [int(path.name.removesuffix(".manifest")) for path in (Path(graph.uri) / "__manifest/_versions").iterdir()]
    assert sorted(2**64 - 1 - number for number in kept) == [5, 6]
    assert graph.repository.claims.status(None).floor == 5


def test_what_was_published_and_given_up_needs_no_staging_grace(graph: Graph) -> None:
    report = graph.maintenance.cleanup(1, confirm=True)
    [persons] = [table for table in report.tables if table.table_key == "node:Person"]
    assert persons.old_versions_removed == 4
    check_every_version(graph.uri)


def test_a_table_that_is_being_created_is_not_garbage(graph: Graph) -> None:
    schema = graph.repository.store.tables.open(*_pin(graph)).schema
    path = table_path("node:New", mint())
    graph.repository.store.tables.create(path, schema)
    graph.maintenance.cleanup(1, confirm=True)
    assert (Path(graph.uri) / path / "_versions").is_dir()


def _pin(graph: Graph) -> tuple[str, int]:
    entry = graph.snapshot().tables["node:Person"]
    return entry.location, entry.staged_version


def test_a_writer_that_has_left_nothing_but_its_intent_is_respected(graph: Graph) -> None:
    Graph.open(graph.uri).repository.intents.begin(
        commit_id=mint(), kind="load", actor=None, branch="main", native_branch=None, base_version=1, entries=[]
    )
    with pytest.raises(ConflictError, match="an unfinished write"):
        graph.maintenance.cleanup(1, grace=NOW, confirm=True)


@pytest.mark.parametrize(("share", "refused"), [(0.3, True), (0.6, False)])
def test_a_plan_may_be_alive_for_half_the_staging_grace(graph: Graph, share: float, refused: bool) -> None:
    change = plan_of(graph, "staged").changes[0]
    when = time.time() - share * graph.repository.store.settings.staging_grace
    for name in change.files:
        os.utime(Path(graph.uri) / name, (when, when))
    if refused:
        with pytest.raises(ConflictError, match="unpublished files"):
            graph.maintenance.cleanup(1, grace=NOW, confirm=True)
    else:
        graph.maintenance.cleanup(1, grace=NOW, confirm=True)
    assert all((Path(graph.uri) / name).exists() for name in change.files) is refused


def test_a_claim_stays_until_its_manifest_is_gone(graph: Graph) -> None:
    """Its branch was deleted and collected, but for one file that could not be removed and lies there again."""
    graph.branches.create("dev")
    native = graph.repository.head("dev").native_branch
    graph.branches.delete("dev")
    location = Path(graph.uri) / manifest_path(native)

    def leave_a_file() -> None:
        (location / "data").mkdir(parents=True, exist_ok=True)
        (location / "data" / "left.lance").write_bytes(b"x")

    with while_armed({Point.GC_SWEPT: leave_a_file}):
        graph.maintenance.cleanup(1, grace=NOW, confirm=True)
    assert graph.repository.claims.objects_of(graph.repository.refs.every_incarnation()[0])
    (location / "data" / "left.lance").unlink()
    graph.maintenance.cleanup(1, grace=NOW, confirm=True)
    assert graph.repository.refs.every_incarnation() == []


def test_versions_go_before_the_files_that_they_name(graph: Graph) -> None:
    """A run that is killed half-way leaves no version that names a file which is gone."""
    removed: list[set[str]] = []
    root = Path(graph.uri)
    before = {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and p.parts[-3:-2] != ("__gc",)}

    def look() -> None:
        removed.append({name for name in before if not (root / name).exists()})

    with while_armed({Point.OBJECT_REMOVED: look}):
        graph.maintenance.cleanup(1, confirm=True)
    for table in {name.split("/_versions/")[0] for name in removed[-1] if "/_versions/" in name}:
        mine = [[name for name in step if name.startswith(f"{table}/")] for step in removed]
        last_version = next(i for i, step in enumerate(mine) if all(v in step for v in mine[-1] if "/_versions/" in v))
        assert not any("/data/" in name for name in mine[last_version])


def test_what_an_unfinished_write_stands_on_is_a_root(graph: Graph) -> None:
    """What it staged, what it builds on, and what it adopts, though no kept state names any of it."""
    retention = Retention(1, None, NOW, NOW)
    change = plan_of(graph, "late", has_intent=True).changes[0]
    Graph.open(graph.uri).load({"Person": people("rival")})
    pins = find_roots(graph.repository, retention, graph.repository.store.store_clock()).pins
    assert {(change.location, change.staged_version), (change.location, change.base_version)} <= pins
    graph.branches.create("dev")
    graph.load({"Person": people("dev")}, branch="dev")
    adopted = graph.snapshot("dev").tables["node:Person"]
    graph.load({"Company": [{"name": "elsewhere"}]})
    with crash_at(Point.INTENT_COMPLETED):
        Graph.open(graph.uri).branches.merge("dev")
    graph.load({"Person": people("more")}, branch="dev")
    pins = find_roots(graph.repository, retention, graph.repository.store.store_clock()).pins
    assert (adopted.location, adopted.staged_version) in pins


def test_claims_stay_when_a_table_could_not_be_cleaned(graph: Graph) -> None:
    """The next run still has to find what the deleted branch leaves behind."""
    graph.branches.create("dev")
    graph.branches.delete("dev")
    location, version = _pin(graph)
    pin = Path(graph.uri) / location / "_versions" / f"d{version}.manifest"
    body = pin.read_bytes()
    pin.unlink()
    report = sweep(Graph.open(graph.uri))
    assert [table.table_key for table in report.tables if table.error] == ["node:Person"]
    assert [branch.name for branch in graph.repository.refs.every_incarnation()] == ["dev"]
    pin.write_bytes(body)
    sweep(Graph.open(graph.uri))
    assert graph.repository.refs.every_incarnation() == []


def test_scratch_files_of_a_live_write_stay_however_old(graph: Graph) -> None:
    live, dead = mint(), mint()
    for commit_id in (live, dead):
        scratch = Path(graph.uri) / STAGING / commit_id / "part-0"
        scratch.parent.mkdir(parents=True)
        scratch.write_text("scratch")
    age_everything(graph, 8 * 86_400)
    graph.repository.intents.begin(
        commit_id=live, kind="load", actor=None, branch="main", native_branch=None, base_version=1, entries=[]
    )
    graph.maintenance.cleanup(3, confirm=True)
    assert files_below(graph, STAGING) == {f"{STAGING}/{live}/part-0"}


def test_archived_history_that_a_kept_version_names_stays_however_old(graph: Graph) -> None:
    for _ in range(history.INLINE_MAX):
        publish_nothing(graph)
    commits = [commit.graph_commit_id for commit in graph.commits.walk()]
    assert graph.repository.head().extents
    age_everything(graph, 8 * 86_400)
    preview = Graph.open(graph.uri, mode="ro", settings=HURRIED).maintenance.cleanup(1)
    assert CONTROL not in [table.table_key for table in preview.tables]
    graph.maintenance.cleanup(1, confirm=True)
    assert [commit.graph_commit_id for commit in Graph.open(graph.uri).commits.walk()] == commits


def test_the_grace_of_a_version_begins_when_it_was_replaced(graph: Graph) -> None:
    """It was the newest until a moment ago: readers may have just opened it, though it is old itself."""
    version = graph.snapshot().version
    age_everything(graph, 7200)
    patient = Graph.open(graph.uri)
    patient.load({"Person": people("now")})
    report = patient.maintenance.cleanup(1, confirm=True)
    assert report.manifest_versions_removed == version - 1
    assert patient.rows("node:Person", version).num_rows == 5
