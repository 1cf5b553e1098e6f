"""What mutations remember and read of a table: one lookup at most, and no column that nobody asked for."""

from __future__ import annotations

import random
import string
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.versioning.staging import open_table

DELETE = "query d($n: String) { delete Doc where name = $n }"
RENAME = "query u($n: String) { update Doc set { rank: 9 } where name = $n }"
REWRITE = 'query r($n: String) { update Doc set { body: "short" } where name = $n }'
BODY = 4 << 20


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "g", "node Doc { name: String @key  rank: I32?  body: String? }")
    text = "".join(random.Random(7).choices(string.ascii_letters + string.digits, k=BODY))
    graph.load({"Doc": [{"name": f"d{i}", "rank": i, "body": text} for i in range(4)]})
    return graph


def bytes_read(graph: Graph, mutation: str) -> int:
    """What a mutation of `d1` reads of the version that it finds."""
    table = open_table(graph.repository.store, graph.snapshot().tables["node:Doc"])
    table.dataset.io_stats_incremental()
    assert graph.mutate(mutation, params={"n": "d1"}).affected_nodes == 1
    return int(table.dataset.io_stats_incremental().read_bytes)


def test_lookups_that_change_nothing_are_not_kept(graph: Graph) -> None:
    for number in range(50):
        assert graph.mutate(DELETE, params={"n": f"nobody{number}"}).commit is None
        assert graph.mutate(REWRITE, params={"n": f"nobody{number}"}).commit is None
    table = open_table(graph.repository.store, graph.snapshot().tables["node:Doc"])
    known = [n for n in range(50) if table.memory.located((f"nobody{n}",)) is not None]
    assert known in ([], [49])


def test_only_columns_that_are_kept_are_read(graph: Graph) -> None:
    assert bytes_read(graph, RENAME) > BODY // 2, "the text is kept, and the measure sees that it is read"
    assert bytes_read(graph, REWRITE) < BODY // 8
    graph.load({"Doc": [{"name": "d1", "rank": 1, "body": graph.rows("node:Doc")["body"][0].as_py()}]}, "merge")
    assert bytes_read(graph, DELETE) < BODY // 8
    assert graph.rows("node:Doc").num_rows == 3
