"""Files of archived history: what they hold is what their name and the manifest say."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import CorruptGraph
from omnigraph.versioning import history
from omnigraph.versioning.history import read_extent, walk
from omnigraph.versioning.manifest import HistoryExtent
from tests.support.fixtures import unflushed
from tests.support.graphs import SMALL, publish_nothing

__all__ = ["unflushed"]


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Graph, HistoryExtent]:
    """A graph and its one file of old commits."""
    graph = Graph.init(tmp_path_factory.mktemp("archived") / "g", SMALL)
    for _ in range(history.INLINE_MAX):
        publish_nothing(graph)
    [extent] = graph.repository.head().extents
    return graph, extent


def test_every_commit_is_in_one_place(archived: tuple[Graph, HistoryExtent]) -> None:
    graph, extent = archived
    state = graph.repository.head()
    found = [commit.graph_commit_id for commit in walk(graph.repository.store.objects, state)]
    assert len(found) == len(set(found)) == extent.count + len(state.commits) == history.INLINE_MAX + 1
    assert found == sorted(found, reverse=True)


def test_a_file_with_other_commits_is_refused(archived: tuple[Graph, HistoryExtent]) -> None:
    """Readable and of the right length: only the name, which is made of the content, tells."""
    graph, extent = archived
    file = Path(graph.uri) / extent.location
    body = file.read_bytes()
    commits = json.loads(zlib.decompress(body))
    commits[3]["actor_id"] = "somebody else"
    file.write_bytes(zlib.compress(json.dumps(commits, separators=(",", ":")).encode(), 6))
    with pytest.raises(CorruptGraph, match="checksum"):
        read_extent(graph.repository.store.objects, extent)
    file.write_bytes(body)
    assert len(read_extent(graph.repository.store.objects, extent)) == extent.count


@pytest.mark.parametrize("more", [-1, 1])
def test_a_manifest_that_counts_other_commits_is_refused(archived: tuple[Graph, HistoryExtent], more: int) -> None:
    graph, extent = archived
    with pytest.raises(CorruptGraph, match="not"):
        read_extent(graph.repository.store.objects, replace(extent, count=extent.count + more))
