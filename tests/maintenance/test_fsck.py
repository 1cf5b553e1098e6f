"""`fsck` passes what is sound and names what is not; `stats` counts what lies there."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.api.reports import FsckReport
from omnigraph.cli.main import run
from omnigraph.storage.apply_effects import write_rows
from omnigraph.storage.effects import AppendRows
from omnigraph.versioning.staging import open_table
from omnigraph.write.transaction import WriteTxn
from tests.maintenance.scenes import busy_graph, files_below, sweep
from tests.support.graphs import people


def checks(uri: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for problem in checked(uri).problems:
        found[problem.check] = found.get(problem.check, 0) + 1
    return found


def checked(uri: str) -> FsckReport:
    return Graph.open(uri, mode="ro").maintenance.fsck()


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = busy_graph(tmp_path)
    made.branches.create("dev")
    made.load({"Person": people("on-dev")}, branch="dev")
    made.tags.create("v1", 3)
    made.maintenance.optimize()
    return made


def test_a_sound_graph_is_clean_before_and_after_cleanup(graph: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    report = checked(graph.uri)
    assert report.problems == ()
    assert (report.branches, report.versions) == (2, graph.snapshot().version + 2)
    assert report.rows > 0
    sweep(graph)
    report = checked(graph.uri)
    assert report.is_clean
    assert report.versions == 4  # two heads, their merge base, the tag
    before = files_below(graph)
    assert run(["fsck", graph.uri]) == 0
    assert files_below(graph) == before
    assert "clean" in capsys.readouterr().out


def test_a_missing_data_file_and_a_missing_version_are_named(graph: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    entry = graph.snapshot().tables["node:Person"]
    victim = Path(graph.uri) / entry.location / open_table(graph.repository.store, entry).data_files()[0]
    victim.unlink()
    report = checked(graph.uri)
    assert "file" in {p.check for p in report.problems}
    assert any(victim.name in p.message for p in report.problems)
    assert run(["fsck", graph.uri]) == 1
    assert victim.name in capsys.readouterr().out
    edge = graph.snapshot().tables["edge:Knows"]
    version = f"d{edge.staged_version}.manifest"
    (Path(graph.uri) / edge.location / "_versions" / version).unlink()
    assert any(version in p.message for p in checked(graph.uri).problems)


def test_a_missing_index_file_is_named(graph: Graph) -> None:
    entry = graph.snapshot().tables["node:Person"]
    for name in open_table(graph.repository.store, entry).index_files():
        (Path(graph.uri) / entry.location / name).unlink()
    assert {"file", "pin"} & checks(graph.uri).keys()


def test_a_key_stored_twice_and_an_edge_without_an_end_are_named(graph: Graph) -> None:
    """Made by publishing effects that were never validated."""
    txn = WriteTxn(graph.repository, "main", kind="load")
    person, knows = (txn.table(key) for key in ("node:Person", "edge:Knows"))
    again = person.scan(where="id = 'ann'")
    lost = knows.scan().slice(0, 1)
    lost = lost.set_column(lost.schema.get_field_index("id"), lost.schema.field("id"), [["lost"]])
    lost = lost.set_column(lost.schema.get_field_index("dst"), lost.schema.field("dst"), [["nobody"]])
    store = graph.repository.store.tables
    txn.commit(
        {
            "node:Person": AppendRows(write_rows(store, person, again)),
            "edge:Knows": AppendRows(write_rows(store, knows, lost)),
        },
        (),
    )
    assert checks(graph.uri).keys() >= {"keys", "edges"}


def test_a_manifest_that_was_cut_short_is_named(graph: Graph) -> None:
    newest = min((Path(graph.uri) / "__manifest" / "_versions").iterdir())
    newest.write_bytes(b"")
    with pytest.warns(RuntimeWarning, match="cut short"):
        report = Graph.open(graph.uri, mode="ro").maintenance.fsck()
    assert "manifest" in {p.check for p in report.problems}


def test_stats_count_rows_fragments_history_and_garbage(graph: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    found = Graph.open(graph.uri, mode="ro").maintenance.stats()
    person = next(t for t in found.tables if t.table_key == "node:Person")
    assert (person.fragments, person.uncovered_fragments, person.index_coverage) == (1, 0, 1.0)
    assert person.rows == graph.rows("node:Person").num_rows
    assert (found.branches, found.tags) == (2, 1)
    assert found.history_depth == len(list(graph.commits.walk()))
    assert found.bytes == sum((Path(graph.uri) / name).stat().st_size for name in files_below(graph))
    assert 0 < person.live_bytes < person.bytes < found.bytes
    assert run(["stats", graph.uri]) == 0
    assert "node:Person" in capsys.readouterr().out
