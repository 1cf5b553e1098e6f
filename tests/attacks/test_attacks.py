"""Attacks on the storage design, each with the rule that stops it. Where a rule can be switched off, the attack is also
shown to succeed without it, so that a test cannot pass by accident."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import lance
import pytest

from omnigraph import Graph
from omnigraph.errors import (
    CorruptGraph,
    ExpectedVersionMismatch,
    HistoricalVersionReclaimed,
    KeyConflict,
    OmnigraphError,
    OutcomeUnknown,
    PlanExpired,
    SchemaMoved,
    StorageError,
)
from omnigraph.storage import failpoints
from omnigraph.storage.apply_effects import write_rows
from omnigraph.storage.effects import AppendRows, ReplaceRows
from omnigraph.storage.failpoints import Point
from omnigraph.storage.layout import table_path, version_file
from omnigraph.versioning import history
from omnigraph.versioning.plan import KeysAbsent, Pin, PublishPlan
from omnigraph.versioning.staging import open_table, stage_change
from omnigraph.versioning.store import Settings, mint, ticks
from omnigraph.write.index_fold import fold
from omnigraph.write.rows import batch_from_rows
from omnigraph.write.validation import Findings, Places
from tests.conftest import SCHEMA
from tests.support.graphs import publish_nothing, while_armed
from tests.support.rows import knows, person

ROOT = Path(__file__).resolve().parents[2]


def names(graph: Graph) -> list[str]:
    return sorted(graph.rows("node:Person")["name"].to_pylist())


def plan_of(graph: Graph, name: str, *, replaces: bool = False, has_intent: bool = False, age: int = 1) -> PublishPlan:
    """A staged, unpublished insert (or upsert) of one person."""
    repository = graph.repository
    state = repository.head()
    entry = state.tables["node:Person"]
    rows = [person(name, age)["data"]]
    batch = batch_from_rows(graph.catalog().node("Person"), rows, Places(((None, [1]),)), Findings())
    written = write_rows(graph.repository.store.tables, open_table(graph.repository.store, entry), batch.table)
    effect = ReplaceRows((name,), written) if replaces else AppendRows(written)
    commit_id = mint()
    if has_intent:
        repository.intents.begin(
            commit_id=commit_id, kind="load", actor="owner", branch="main", native_branch=None,
            base_version=state.version, entries=[entry],
        )  # fmt: skip
    change = stage_change(graph.repository.store, entry, effect, commit_id)
    plan = PublishPlan(
        commit_id=commit_id, branch="main", native_branch=None, base_version=state.version, base_head=state.head,
        kind="load", schema_hash=state.schema_hash, changes=(change,),
        pins={"node:Person": Pin.of(entry)}, requirements=() if replaces else (KeysAbsent("node:Person", (name,)),),
        rebase_updates=replaces, actor="owner", staged_at=ticks(), has_intent=has_intent,
    )  # fmt: skip
    if has_intent:
        repository.intents.complete(plan)
    return plan


def manifest_cleanup(graph: Graph) -> None:
    """Give up all but three versions at once; what is staged keeps its grace."""
    hurried = Graph.open(graph.uri, settings=Settings(superseded_grace=0.0))
    assert hurried.maintenance.cleanup(3, confirm=True).manifest_versions_removed


STALE_WRITER = """
import sys, time
from omnigraph import Graph
from omnigraph.versioning.store import Settings
graph = Graph.open(sys.argv[1], settings=Settings(stale_base=float(sys.argv[2])))
graph.snapshot()
print("ready", flush=True)
sys.stdin.readline()
commit = graph.load([{"type": "Person", "data": {"name": "stale"}}]).commit
print(commit.manifest_version, flush=True)
"""


def stalled_write(graph: Graph, stale_base: float) -> int:
    """A process that read the branch, stalls while others publish and clean up, then writes. Returns its version."""
    process = subprocess.Popen(
        [sys.executable, "-c", STALE_WRITER, graph.uri, str(stale_base)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ.copy(),
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    for i in range(20):
        graph.load([person(f"p{i}")])
    manifest_cleanup(graph)
    time.sleep(1.0)
    out, _ = process.communicate("go\n", timeout=120)
    assert process.returncode == 0
    return int(out)


@pytest.mark.processes
def test_01_a_stalled_writer_never_commits_into_a_cleaned_past(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([person("first")])
    version = stalled_write(graph, stale_base=0.5)
    assert version == graph.snapshot().version
    assert "stale" in names(graph)


@pytest.mark.parametrize("with_floor", [True, False], ids=["with the floor", "without it"])
def test_01_a_swap_into_an_emptied_slot_never_counts(tmp_path: Path, with_floor: bool) -> None:
    """The writer is held between its last look and its swap: no age and no clock can tell, only the floor can."""
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([person("first")])
    graph.tags.create("base-of-the-writer")  # so that the version it builds on stays
    writer, others = Graph.open(graph.uri), Graph.open(graph.uri)

    def overtake() -> None:
        failpoints.arm(None)
        for i in range(6):
            others.load([person(f"p{i}")])
        manifest_cleanup(others)
        if not with_floor:
            for floor in Path(graph.uri, "__refs/main").glob("*.floor-*"):
                floor.unlink()

    with while_armed({Point.BEFORE_SWAP: overtake}):
        commit = writer.load([person("stale")]).commit
    assert commit is not None
    is_visible = "stale" in names(Graph.open(graph.uri))
    assert is_visible is with_floor, "without the floor the attack succeeds: acknowledged and never seen"
    assert (commit.manifest_version == Graph.open(graph.uri).snapshot().version) is with_floor


@pytest.mark.parametrize(
    "later", [pytest.param(0, id="recent"), pytest.param(history.INLINE_MAX, id="settled", marks=pytest.mark.slow)]
)
def test_01_a_swap_that_did_not_count_is_no_version_for_readers(tmp_path: Path, later: int) -> None:
    """Its file lies there until the next cleanup. What a tag keeps beside it is still read."""
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([person("first")])
    graph.tags.create("base-of-the-writer")
    writer, others = Graph.open(graph.uri), Graph.open(graph.uri)
    slot = graph.snapshot().version + 1

    def overtake() -> None:
        failpoints.arm(None)
        for i in range(6):
            others.load([person(f"p{i}")])
        manifest_cleanup(others)

    with while_armed({Point.BEFORE_SWAP: overtake}):
        commit = writer.load([person("stale")]).commit
    assert commit is not None
    for _ in range(later):
        publish_nothing(graph)
    assert (Path(graph.uri) / "__manifest" / version_file(slot)).exists()
    for handle in (graph, writer, Graph.open(graph.uri)):
        with pytest.raises(HistoricalVersionReclaimed):
            handle.snapshot_at_version(slot)
        assert handle.snapshot_at_version(slot - 1).version == slot - 1
        kept = handle.snapshot_at_version(commit.manifest_version)
        assert kept.commit_id == commit.graph_commit_id


def test_03_recovery_deletes_no_data_and_a_withdrawn_owner_cannot_publish(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    impatient = Graph.open(tmp_path / "g", settings=Settings(lease=0.0, lease_margin=0.0))
    plan = plan_of(graph, "mine", has_intent=True)
    impatient.load([person("mine", 99)])
    files = {p for p in Path(graph.uri).rglob("*") if p.is_file() and "__recovery" not in p.parts}
    [record] = impatient.recovery.run()
    assert record.recovery_kind == "RolledBack"
    assert {p for p in Path(graph.uri).rglob("*") if p.is_file()} >= files, "only the collector deletes data"
    with pytest.raises((OutcomeUnknown, PlanExpired, KeyConflict)):
        graph.repository.publisher.publish(plan)
    assert [r["age"] for r in graph.rows("node:Person").to_pylist()] == [99]


def test_03_a_live_intent_is_not_touched(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    plan = plan_of(graph, "mine", has_intent=True)
    assert Graph.open(tmp_path / "g").recovery.run() == []
    assert graph.repository.publisher.publish(plan).actor_id == "owner"
    assert names(graph) == ["mine"]


def test_05_recommitted_fragments_keep_row_ids_unique(tmp_path: Path) -> None:
    """An insert that follows a moved table reuses its data files, never committed metadata."""
    graph = Graph.init(tmp_path / "g", SCHEMA)
    plans = [plan_of(graph, f"p{i}") for i in range(4)]
    for plan in plans:
        graph.repository.publisher.publish(plan)
    assert names(graph) == ["p0", "p1", "p2", "p3"]
    uri, version = graph.table("node:Person")
    row_ids = lance.dataset(uri, version=version).to_table(columns=["_rowid"])["_rowid"].to_pylist()
    assert len(set(row_ids)) == 4
    for i in range(4):
        assert graph.entity_at("node:Person", f"p{i}") is not None


def test_06_a_stale_update_does_not_resurrect_a_deleted_row(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([person("victim"), person("target", 1)])
    plan = plan_of(graph, "target", replaces=True, age=2)
    graph.delete("Person", ["victim"])
    graph.repository.publisher.publish(plan)
    assert names(graph) == ["target"]
    assert graph.entity_at("node:Person", "target") == {"id": "target", "name": "target", "age": 2}


def test_06_an_update_over_a_folded_table_leaves_one_row(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    for i in range(10):
        graph.load([person(f"p{i}", 0)])
    plan = plan_of(graph, "p3", replaces=True, age=7)
    state = graph.repository.head()
    fold(graph.repository, state, state.tables["node:Person"])
    assert graph.commits.head().op_class == "maintenance"
    graph.repository.publisher.publish(plan)
    rows = [r for r in graph.rows("node:Person").to_pylist() if r["name"] == "p3"]
    assert rows == [{"id": "p3", "name": "p3", "age": 7}]
    assert graph.rows("node:Person").num_rows == 10


def test_06_updates_of_one_row_conflict(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([person("a", 1)])
    first, second = (plan_of(graph, "a", replaces=True, age=age) for age in (2, 3))
    graph.repository.publisher.publish(first)
    with pytest.raises(ExpectedVersionMismatch) as caught:
        graph.repository.publisher.publish(second)
    assert (caught.value.table_key, caught.value.expected, caught.value.actual) == ("node:Person", 2, 3)
    assert graph.entity_at("node:Person", "a") == {"id": "a", "name": "a", "age": 2}


def test_07_a_lost_acknowledgement_is_not_applied_again(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    plan = plan_of(graph, "mine")
    first = graph.repository.publisher.publish(plan)
    for i in range(3):
        Graph.open(tmp_path / "g").load([person(f"rival{i}")])
    again = Graph.open(tmp_path / "g").repository.publisher.publish(plan)
    assert again == first
    assert names(graph).count("mine") == 1
    assert [c.graph_commit_id for c in graph.commits.list()].count(plan.commit_id) == 1


def test_07_also_when_the_commit_has_been_settled_into_history(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    plan = plan_of(graph, "mine")
    first = graph.repository.publisher.publish(plan)
    for i in range(300):
        graph.load([{"type": "Company", "data": {"name": f"c{i}"}}])
    assert plan.commit_id not in graph.repository.head().commits
    assert Graph.open(tmp_path / "g").repository.publisher.publish(plan) == first
    assert names(graph) == ["mine"]


def test_08_a_plan_validated_under_another_schema_is_refused(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    plan = replace(plan_of(graph, "mine"), schema_hash="0" * 64)
    with pytest.raises(SchemaMoved):
        graph.repository.publisher.publish(plan)
    assert graph.snapshot().version == 1


def test_08_what_a_statement_read_is_checked_again(tmp_path: Path) -> None:
    """An edge is validated against the node table; the node table moves; the check is repeated on what replaced it."""
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([person("a"), person("b")])
    rival = Graph.open(tmp_path / "g")
    from omnigraph.errors import EndpointConflict
    from omnigraph.versioning.plan import KeysPresent

    state = graph.repository.head()
    plan = replace(
        plan_of(graph, "c"),
        pins={"node:Person": Pin.of(state.tables["node:Person"])},
        requirements=(KeysPresent("node:Person", ("a", "b")),),
    )
    rival.delete("Person", ["b"])
    with pytest.raises(EndpointConflict, match="'b' was removed"):
        graph.repository.publisher.publish(plan)


def test_11_one_path_is_never_two_tables(tmp_path: Path) -> None:
    assert table_path("node:Person", mint()) != table_path("node:Person", mint())
    assert table_path("node:Person", "X").startswith("nodes/40d76f1f51639ec0-")
    assert table_path("node:person", "X").split("-")[0] != table_path("node:Person", "X").split("-")[0]
    graph = Graph.init(tmp_path / "g", SCHEMA)
    entry = graph.snapshot().tables["node:Person"]
    with pytest.raises(StorageError):
        graph.repository.store.tables.create(entry.location, graph.catalog().node("Company").arrow_schema)
    assert graph.load([person("a")]).commit is not None


def test_12_a_reported_failure_is_never_published_later(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    plan = plan_of(graph, "mine", has_intent=True)
    Graph.open(tmp_path / "g").load([person("mine", 99)])
    with pytest.raises(KeyConflict):
        graph.repository.publisher.publish(plan)
    graph.delete("Person", ["mine"])  # now the plan would be publishable again
    impatient = Graph.open(tmp_path / "g", settings=Settings(lease=0.0, lease_margin=0.0))
    assert impatient.recovery.run() == []
    assert names(graph) == []
    assert {p.suffix for p in (tmp_path / "g/__recovery").iterdir()} <= {".aborted"}


def test_13_a_newest_version_that_was_cut_short_is_passed_over_loudly(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([person("kept")])
    graph.load([person("lost")])
    newest = tmp_path / "g/__manifest" / version_file(3)
    for damage in (b"", newest.read_bytes()[:40]):
        newest.write_bytes(damage)
        with pytest.warns(RuntimeWarning, match="cut short"):
            reopened = Graph.open(tmp_path / "g", "ro")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert names(reopened) == ["kept"]
            writer = Graph.open(tmp_path / "g")
            with pytest.raises(CorruptGraph, match="repair"):
                writer.load([person("new")])
            assert newest.read_bytes() == damage, "nothing is removed without being asked"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        healer = Graph.open(tmp_path / "g")
        assert not healer.maintenance.repair().is_clean
        report = healer.maintenance.repair(confirm=True)
    assert report.quarantined == (f"__manifest/{version_file(3)}",)
    healed = Graph.open(tmp_path / "g")
    healed.load([person("new")])
    assert names(healed) == ["kept", "new"]
    assert healed.maintenance.repair().is_clean


def test_13_a_read_error_is_not_taken_for_damage(tmp_path: Path) -> None:
    """Only a file that can be read and is cut short is passed over."""
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([person("a")])
    newest = tmp_path / "g/__manifest" / version_file(2)
    body = newest.read_bytes()
    newest.write_bytes(b"\xff" * (len(body) - 16) + body[-16:])  # damaged, but not cut short
    with pytest.raises(OmnigraphError, match="damaged"):
        Graph.open(tmp_path / "g", "ro")


def test_16_tables_are_born_with_the_tripwire(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([person("a"), knows("a", "a")])
    for key in ("node:Person", "edge:Knows"):
        uri, _ = graph.table(key)
        with pytest.raises(OSError, match="tag"):
            lance.dataset(uri).cleanup_old_versions(older_than=dt.timedelta(0))
    assert names(graph) == ["a"]
    assert all(t.classification == "no_drift" for t in graph.maintenance.repair().tables)


def test_16_foreign_drift_is_reported_and_harmless(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([person("a")])
    uri, _ = graph.table("node:Person")
    lance.write_dataset(graph.rows("node:Person").slice(0, 1), uri, mode="append")
    drift = {t.table_key: t.classification for t in graph.maintenance.repair().tables}
    assert drift["node:Person"] == "foreign_drift"
    graph.load([person("b")])
    assert names(graph) == ["a", "b"]
