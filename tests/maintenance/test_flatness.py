"""After upkeep a graph is small; upkeep beside writers costs them no commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import Graph
from tests.maintenance.scenes import files_below, leftovers, sweep
from tests.support.graphs import people
from tests.support.invariants import check_every_version
from tests.support.workers import read_acks, workers

SCHEMA = "node Person { name: String @key  age: I32? }"


def live_rows(count: int) -> dict[str, list[dict[str, object]]]:
    """Rows of some weight, so that data outweighs the fixed costs of a graph."""
    return {"Person": [{"name": f"p{i:06d}" + "x" * 200, "age": i} for i in range(count)]}


def size(graph: Graph) -> int:
    return sum((Path(graph.uri) / name).stat().st_size for name in files_below(graph))


@pytest.mark.slow
def test_disk_after_a_thousand_small_commits_is_near_what_the_rows_need(tmp_path: Path) -> None:
    fresh = Graph.init(tmp_path / "fresh", SCHEMA)
    fresh.load(live_rows(3000))
    fresh.maintenance.optimize()
    sweep(fresh)
    graph = Graph.init(tmp_path / "busy", SCHEMA)
    graph.load(live_rows(2000))
    for row in live_rows(3000)["Person"][2000:]:
        graph.load({"Person": [row]})
    before = size(graph)
    graph.maintenance.optimize()
    sweep(graph)
    assert graph.rows("node:Person").num_rows == fresh.rows("node:Person").num_rows
    assert size(graph) <= 3 * size(fresh), (size(graph), size(fresh), before)
    assert leftovers(graph) == {}
    found = graph.maintenance.stats()
    assert found.history_depth > 1000
    assert found.manifest_bytes < 1_000_000


@pytest.mark.processes
def test_writers_beside_continuous_optimize_lose_no_commit_and_see_no_conflict(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load({"Person": people("first")})
    ack, count = tmp_path / "acks", 25
    with workers(4) as writers:
        for number, writer in enumerate(writers):
            writer.send(
                "commits", graph.uri, worker=f"w{number}", count=count, data={"Person": [{"name": "*"}]}, ack=str(ack)
            )
        runs = 0
        while len(read_acks(ack)) < 4 * count and all(writer.is_alive() for writer in writers):
            runs += graph.maintenance.optimize().commit is not None
        replies = [writer.receive() for writer in writers]
    assert replies == [{"ok": count}] * 4
    assert runs > 0
    acks = read_acks(ack)
    lineage = [c.graph_commit_id for c in graph.commits.walk()]
    assert all(lineage.count(each["commit"]) == 1 for each in acks)
    assert graph.rows("node:Person").num_rows == 4 * count + 1
    graph.maintenance.optimize()
    assert all(status.covered_rows == status.rows for status in graph.maintenance.index_status())
    check_every_version(graph.uri)
