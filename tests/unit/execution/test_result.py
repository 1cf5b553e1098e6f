"""The forms of a result."""

from __future__ import annotations

import polars
import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidArgument
from tests.support.graphs import SMALL, knows, people


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = Graph.init(tmp_path_factory.mktemp("result") / "g", SMALL)
    graph.load({"Person": people("ann", "bob", "cyd", age=1)})
    graph.load({"Knows": [{**edge, "since": 7} for edge in knows(("ann", "bob"), ("bob", "cyd"))]})
    return graph


PAIRS = "query pairs() { match { $a: Person  $a $k:knows $b } return { $a, $b, $k.since } order { $a.name } }"
NAMES = "query names() { match { $p: Person } return { $p.name } order { $p.name } }"
FRIENDS = """query friends() {
    match { $a: Person  optional { $a knows $b } } return { $a.name as who, $b.name as whom } order { $a.name }
}"""


def test_a_result_is_iterated_row_by_row(graph: Graph) -> None:
    found = graph.query(NAMES)
    assert [row["p.name"] for row in found] == ["ann", "bob", "cyd"]
    assert list(found) == list(found) == found.to_pylist()
    assert len(found) == 3
    assert pa.table(found) == found.to_arrow()
    assert polars.DataFrame(found).rows() == [("ann",), ("bob",), ("cyd",)]


def test_edges_become_a_networkx_graph(graph: Graph) -> None:
    found = graph.query(PAIRS).to_networkx()
    assert dict(found.nodes(data=True))["ann"] == {"name": "ann", "age": 1}
    assert [(a, b, data["k.since"]) for a, b, data in found.edges(data=True)] == [("ann", "bob", 7), ("bob", "cyd", 7)]
    values = graph.query(FRIENDS).to_networkx("who", "whom")
    assert sorted(values.nodes) == ["ann", "bob", "cyd"]  # cyd knows nobody: a node without an edge
    assert sorted(values.edges()) == [("ann", "bob"), ("bob", "cyd")]
    with pytest.raises(InvalidArgument, match="edges need two columns"):
        graph.query(NAMES).to_networkx()
    with pytest.raises(InvalidArgument, match="there is no column 'wo'"):
        graph.query(FRIENDS).to_networkx("wo", "whom")


def test_what_a_prompt_shows(graph: Graph) -> None:
    assert repr(graph) == f"<Graph {graph.uri} (local)>"
    assert repr(Graph.open(graph.uri, mode="ro")) == f"<Graph {graph.uri} (read-only, local)>"
    head = graph.commits.head().graph_commit_id
    assert repr(graph.snapshot()) == (
        f"<Snapshot main@3 {head}: edge:Knows 2, edge:WorksAt 0, node:Company 0, node:Person 3>"
    )
    assert repr(graph.query(NAMES)) == "<Result of names at main: 3 rows of p.name>"
    assert repr(graph.query(NAMES, at="main~1")).startswith("<Result of names at 01")
