"""`optimize` changes how rows lie and nothing else, once, beside writers."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.api.commits import MAINTENANCE
from omnigraph.errors import InvalidArgument, OmnigraphError, ReadOnlyGraph
from omnigraph.maintenance import optimize as module
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from tests.maintenance.scenes import busy_graph, contents
from tests.support.graphs import Crash, knows, people
from tests.support.invariants import check_every_version


def test_it_merges_fragments_in_one_maintenance_commit_that_changes_nothing(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    before, version = contents(graph), graph.snapshot().version
    report = graph.maintenance.optimize(actor="keeper")
    person = next(t for t in report.tables if t.table_key == "node:Person")
    assert person.committed
    assert person.fragments_removed > person.fragments_added == 1
    assert report.commit is not None
    assert (report.commit.op_class, report.commit.kind, report.commit.actor_id) == (MAINTENANCE, "optimize", "keeper")
    assert graph.snapshot().version == version + 1
    assert contents(graph) == before
    assert all(status.covered_rows == status.rows for status in graph.maintenance.index_status())
    check_every_version(graph.uri)


def test_a_second_run_finds_nothing_to_do_and_makes_no_commit(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    graph.maintenance.optimize()
    version = graph.snapshot().version
    again = Graph.open(graph.uri).maintenance.optimize()
    assert again.commit is None
    assert not any(table.committed for table in again.tables)
    assert graph.snapshot().version == version


@pytest.mark.parametrize("commits", [3, 63, 64, 100, 130])
def test_one_run_is_enough_whatever_folds_left_behind(tmp_path: Path, commits: int) -> None:
    graph = Graph.init(tmp_path / "g", "node Person { name: String @key  age: I32? @index }")
    for number in range(commits):
        graph.load({"Person": people(f"p{number}", age=number)})
    assert graph.maintenance.optimize().commit is not None
    entry = graph.snapshot().tables["node:Person"]
    assert len(graph.repository.store.tables.open(entry.location, entry.staged_version).fragments) == 1
    assert graph.maintenance.optimize().commit is None
    check_every_version(graph.uri)


def test_small_fragments_between_large_ones_are_not_worked_on_again_and_again(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", "node Person { name: String @key  age: I32? }")
    for kind, count in (("a", 10), ("b", 200), ("c", 10), ("d", 200), ("e", 10)):
        graph.load({"Person": people(*(f"{kind}{i}" for i in range(count)))})
    first = graph.maintenance.optimize(target_rows=100)
    assert first.commit is not None
    assert graph.maintenance.optimize(target_rows=100).commit is None
    check_every_version(graph.uri)


def test_blobs_are_compacted_with_their_values(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", "node Doc { name: String @key  body: Blob? }")
    bodies = {f"d{i}": bytes([i]) * (i * 3_000) for i in range(12)} | {"empty": b"", "none": None}
    for name, body in bodies.items():
        text = None if body is None else f"base64:{base64.b64encode(body).decode()}"
        graph.load([{"type": "Doc", "data": {"name": name, "body": text}}])
    graph.delete("Doc", ["d3"])
    report = graph.maintenance.optimize()
    assert [table.committed for table in report.tables] == [True]
    reopened = Graph.open(graph.uri)
    found = {name: reopened.blobs.get("node:Doc", name, "body") for name in bodies if name != "d3"}
    assert found == {name: body for name, body in bodies.items() if name != "d3"}


def test_an_empty_graph_is_left_alone(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", "node A { name: String @key }")
    assert graph.maintenance.optimize().commit is None


def test_deleted_rows_are_dropped_from_the_files(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", "node Person { name: String @key  age: I32? }")
    graph.load({"Person": people(*(f"p{i}" for i in range(200)))})
    graph.delete("Person", [f"p{i}" for i in range(50)])
    graph.maintenance.optimize()
    entry = graph.snapshot().tables["node:Person"]
    [fragment] = graph.repository.store.tables.open(entry.location, entry.staged_version).fragments.values()
    assert (fragment.physical_rows, fragment.deletion_file) == (150, None)


def test_another_branch_is_not_touched(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    graph.branches.create("dev")
    main = graph.snapshot().version
    assert graph.maintenance.optimize("dev").commit is not None
    assert graph.snapshot().version == main
    assert contents(graph, "dev") == contents(graph)


def test_old_versions_stay_readable(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    old = graph.snapshot().version
    before = contents(graph, old)
    graph.maintenance.optimize()
    assert contents(graph, old) == before


def test_merging_branches_that_were_optimized_apart_sees_only_what_changed(tmp_path: Path) -> None:
    """Attack 18: compaction must not look like a change of every row."""
    graph = busy_graph(tmp_path)
    graph.branches.create("dev")
    graph.load({"Person": people("only-dev")}, branch="dev")
    graph.maintenance.optimize("dev")
    graph.load({"Person": people("only-main")})
    graph.maintenance.optimize()
    changes = {(c.entity_id, c.op) for c in graph.diff("main", "dev")}
    assert changes == {("only-dev", "insert"), ("only-main", "delete")}
    graph.branches.merge("dev")
    assert {"only-dev", "only-main"} <= set(graph.rows("node:Person")["name"].to_pylist())
    check_every_version(graph.uri)


def test_a_writer_that_commits_during_the_work_neither_fails_nor_is_lost(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    rival = Graph.open(graph.uri)
    done: list[str] = []

    def write() -> None:
        if not done:
            done.append("appended")
            rival.load({"Person": people("late"), "Knows": knows(("late", "ann"))})

    failpoints.arm({Point.OPTIMIZE_STAGED: write})
    report = graph.maintenance.optimize()
    assert done
    assert report.commit is not None
    assert [t.table_key for t in report.tables if t.committed] == ["edge:Knows", "node:Person"]
    assert graph.entity_at("node:Person", "late") is not None
    check_every_version(graph.uri)


def test_rows_that_change_during_the_work_make_it_start_again(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    rival = Graph.open(graph.uri)
    ages = iter(range(1000, 1003))

    def write() -> None:
        age = next(ages, None)
        if age is not None:
            rival.load({"Person": people("p5", age=age)}, "merge")

    failpoints.arm({Point.OPTIMIZE_STAGED: write})
    report = graph.maintenance.optimize()
    assert report.commit is not None
    assert graph.entity_at("node:Person", "p5")["age"] == 1002
    check_every_version(graph.uri)


def test_a_table_that_never_stands_still_is_left_for_later(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    rival = Graph.open(graph.uri)
    written: list[int] = []

    def write() -> None:
        written.append(len(written))
        rival.load({"Person": people("p5", age=len(written))}, "merge")

    failpoints.arm({Point.OPTIMIZE_STAGED: write})
    report = graph.maintenance.optimize()
    skipped = {t.table_key: t.skipped for t in report.tables}
    assert skipped["node:Person"] == module.CONTENDED
    assert graph.entity_at("node:Person", "p5")["age"] == len(written)
    check_every_version(graph.uri)


def test_a_killed_run_leaves_nothing_visible_and_the_next_one_does_the_work(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    before, version = contents(graph), graph.snapshot().version

    def die() -> None:
        raise Crash

    failpoints.arm({Point.OPTIMIZE_STAGED: die})
    with pytest.raises(Crash):
        graph.maintenance.optimize()
    failpoints.arm(None)
    fresh = Graph.open(graph.uri)
    assert fresh.snapshot().version == version
    assert fresh.maintenance.optimize().commit is not None
    assert contents(graph) == before


def test_attack_2_a_whole_fragment_delete_before_compaction_leaves_lookups_right(tmp_path: Path) -> None:
    """A new fragment must never take an id that an index still claims for rows that are gone."""
    graph = Graph.init(tmp_path / "g", "node Person { name: String @key  age: I32? }")
    graph.load({"Person": people(*(f"a{i}" for i in range(20)))})
    graph.maintenance.optimize()
    for number in range(20):
        graph.load({"Person": people(f"b{number}")})
    graph.maintenance.optimize()
    graph.delete("Person", [f"b{i}" for i in range(20)])
    for number in range(20):
        graph.load({"Person": people(f"c{number}")})
    graph.maintenance.optimize()
    expected = {f"{kind}{i}" for kind in "ac" for i in range(20)}
    assert set(graph.rows("node:Person")["name"].to_pylist()) == expected
    for name in expected:
        assert graph.entity_at("node:Person", name) is not None, name
    assert graph.entity_at("node:Person", "b3") is None
    graph.load({"Person": people("c3", age=3)}, "merge")
    check_every_version(graph.uri)


def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = busy_graph(tmp_path)
    with pytest.raises(InvalidArgument):
        graph.maintenance.optimize(target_rows=0)
    with pytest.raises(OmnigraphError):
        graph.maintenance.optimize("nowhere")
    with pytest.raises(ReadOnlyGraph):
        Graph.open(graph.uri, mode="ro").maintenance.optimize()
    monkeypatch.setenv(module.CONCURRENCY_VARIABLE, "none")
    with pytest.raises(InvalidArgument, match="CONCURRENCY"):
        graph.maintenance.optimize()
