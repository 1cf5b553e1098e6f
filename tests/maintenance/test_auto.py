"""`optimize(auto=True)` does what is worth it, says why, and is cheap when nothing is."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.maintenance.thresholds import WORTHWHILE
from tests.maintenance.scenes import busy_graph, contents, files_below
from tests.support.counting import file_events
from tests.support.graphs import people
from tests.support.s3 import S3Server

INDEXED = "node Person { name: String @key  age: I32? @index }\nnode Quiet { name: String @key }"
MANY = WORTHWHILE.uncovered_rows


def due(graph: Graph, *, auto: bool = True) -> dict[str, tuple[str, ...]]:
    report = graph.maintenance.optimize(auto=auto, dry_run=True)
    assert report.commit is None
    return {table.table_key: table.due for table in report.tables}


def test_a_little_to_do_is_left_alone(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    version = graph.snapshot().version
    assert graph.maintenance.optimize(auto=True).commit is None
    assert not any(due(graph).values())
    assert any(due(graph, auto=False).values())
    assert graph.snapshot().version == version


def test_many_small_fragments_are_worth_it_and_other_tables_stay(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", INDEXED)
    graph.load({"Quiet": [{"name": "a"}]})
    for number in range(WORTHWHILE.small_fragments):
        assert graph.maintenance.optimize(auto=True).commit is None
        graph.load({"Person": people(f"p{number}", age=number)})
    assert due(graph)["node:Person"] == (f"{WORTHWHILE.small_fragments} small fragments",)
    quiet, before = graph.table("node:Quiet"), contents(graph)
    report = graph.maintenance.optimize(auto=True)
    assert {t.table_key for t in report.tables if t.committed} == {"node:Person"}
    assert graph.table("node:Quiet") == quiet
    assert contents(graph) == before
    assert graph.maintenance.optimize(auto=True).commit is None


def test_deleted_rows_are_worth_it(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", INDEXED)
    graph.load({"Person": people(*(f"p{i}" for i in range(100)))})
    graph.delete("Person", [f"p{i}" for i in range(20)])
    assert not any(due(graph).values())
    graph.delete("Person", [f"p{i}" for i in range(20, 25)])
    assert due(graph)["node:Person"] == ("25% of the rows deleted",)
    assert graph.maintenance.optimize(auto=True).commit is not None
    assert not any(due(graph).values())


def test_rows_without_an_index_are_worth_it(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", INDEXED)
    graph.load({"Person": people(*(f"p{i}" for i in range(MANY - 1)))})
    assert not any(due(graph).values())
    graph.load({"Person": people("one-more")})
    assert due(graph)["node:Person"] == (f"{MANY} rows without index id", f"{MANY} rows without index age")
    graph.maintenance.optimize(auto=True)
    assert not any(due(graph).values())
    assert all(s.covered_rows == s.rows for s in graph.maintenance.index_status() if s.table_key == "node:Person")


def test_a_dry_run_changes_nothing_and_needs_no_rights(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    files = files_below(graph)
    assert any(due(Graph.open(graph.uri, mode="ro"), auto=False).values())
    assert files_below(graph) == files


def test_nothing_to_do_opens_no_file(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    graph.maintenance.optimize()
    graph.maintenance.optimize(auto=True)
    with file_events(Path(graph.uri)) as events:
        assert graph.maintenance.optimize(auto=True).commit is None
    assert (events.opened, events.created) == ([], [])


@pytest.mark.s3
def test_nothing_to_do_costs_a_probe_or_one_look_at_each_table(s3: S3Server) -> None:
    graph = Graph.init("s3://graphs/auto", INDEXED)
    graph.load({"Person": people("a", "b"), "Quiet": [{"name": "q"}]})
    graph.maintenance.optimize()
    cold = Graph.open(graph.uri)
    costs = []
    for handle in (cold, cold):
        before = len(s3.requests())
        assert handle.maintenance.optimize(auto=True).commit is None
        costs.append(len(s3.requests()) - before)
    assert costs[0] <= 3 + 3 * 2, costs
    assert costs[1] <= 2, costs
