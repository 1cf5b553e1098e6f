"""States that a process remembers: what they were, and gone when their version is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import HistoricalVersionReclaimed
from omnigraph.storage.layout import MANIFEST, version_file

SCHEMA = "node P { name: String @key }"


def test_a_remembered_state_is_the_one_that_a_new_process_reads(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    for i in range(20):
        graph.load({"P": [{"name": f"p{i}"}]})
    graph.branches.create("side")
    graph.load({"P": [{"name": "q"}]}, branch="side")
    fresh = Graph.open(tmp_path / "g").repository
    for branch in ("main", "side"):
        newest = graph.repository.head(branch).version
        for version in range(1, newest + 1):
            mine = graph.repository.at_version(version, branch)
            assert mine == fresh.at_version(version, branch)
            assert mine.version == version


def test_a_remembered_state_whose_version_was_reclaimed_is_refused(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    for i in range(3):
        graph.load({"P": [{"name": f"p{i}"}]})
    version = graph.repository.head().version - 1
    assert graph.repository.at_version(version).version == version
    (tmp_path / "g" / MANIFEST / version_file(version)).unlink()
    with pytest.raises(HistoricalVersionReclaimed):
        graph.repository.at_version(version)
