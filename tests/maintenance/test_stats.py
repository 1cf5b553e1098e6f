"""`stats` costs the same whatever lies behind the newest state; what a cleanup would free is told when asked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.storage import calls
from tests.support.rows import person

SCHEMA = "node Person { name: String @key  city: String? @index }"
DEPTHS = (5, 600)


def calls_of_stats(graph: Graph, *, garbage: bool = False) -> Counter[str]:
    fresh = Graph.open(graph.uri, mode="ro")
    counts = calls.start()
    try:
        fresh.maintenance.stats(garbage=garbage)
    finally:
        calls.stop()
    return counts


def test_stats_make_the_same_calls_at_any_history_depth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_FSYNC", "off")
    graph = Graph.init(tmp_path / "g", SCHEMA)
    found = []
    depth = 0
    for target in DEPTHS:
        while depth < target:
            graph.load([person(f"p{depth}")])
            depth += 1
        graph.maintenance.optimize()
        found.append(calls_of_stats(graph))
    assert found[0] == found[1]
    assert found[0].total() <= 20, found[0]
    told = Graph.open(graph.uri).maintenance.stats()
    assert told.history_depth == len(list(graph.commits.walk()))
    assert told.history_files > 0
    assert told.garbage_bytes is None


def test_garbage_is_what_a_cleanup_would_free(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    for number in range(30):
        graph.load([person(f"p{number}")])
    graph.maintenance.optimize()
    expected = graph.maintenance.cleanup(keep=10).bytes_removed
    assert graph.maintenance.stats(garbage=True).garbage_bytes == expected
