"""Reports of tasks about rows that they left out are read by the load that they belong to."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import CorruptGraph
from omnigraph.pipeline.source_checks import CheckReport, CheckScratch
from omnigraph.pipeline.staging import StagedSplit


class Planted:
    """What a stranger may leave in a store: something that acts when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("it was unpickled",)


def test_a_report_that_was_planted_is_not_read(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", "node P { name: String @key }")
    scratch = CheckScratch(graph.uri, "01LOAD", 10)
    report = CheckReport(3, 2, StagedSplit(7, (), (), None))
    scratch.write(report)
    objects = graph.repository.store.objects
    assert scratch.reports(objects) == [report]
    objects.put_new(f"{scratch.prefix}8-01ABC.report", b"\0" * 32 + pickle.dumps(Planted()))
    with pytest.raises(CorruptGraph, match="is not one of this load"):
        scratch.reports(objects)
    with pytest.raises(CorruptGraph):
        CheckScratch(graph.uri, "01LOAD", 10).reports(objects)
