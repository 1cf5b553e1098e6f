"""The walks of docs/dev/walks.md are what happens: real calls meet every hop in its order."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import Graph
from tests.docs.walks import calls_of, require_walk

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
INSERT = "query m($n: String) { insert Person { name: $n } }"
QUERY = "query q($n: String) { match { $p: Person $p knows $f $p.name = $n } return { $f.name } }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = Graph.init(tmp_path / "g", SCHEMA)
    made.load([{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(20)])
    made.load([{"edge": "Knows", "from": "p0", "to": "p1", "data": {}}])
    for n in range(3):
        made.mutate(INSERT, params={"n": f"warm{n}"})
        made.query(QUERY, params={"n": "p0"})
    return made


def test_one_insert(graph: Graph) -> None:
    require_walk("One insert", calls_of(lambda: graph.mutate(INSERT, params={"n": "Ada"})))


def test_one_query(graph: Graph) -> None:
    require_walk("One query", calls_of(lambda: graph.query(QUERY, params={"n": "p0"})))
