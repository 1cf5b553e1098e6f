"""Whole-graph algorithms whose topology tasks build: equal to one process to the last bit, no edges in the driver."""

from __future__ import annotations

import gc
import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph import Graph, pipeline
from omnigraph.errors import InvalidValue
from omnigraph.pipeline import topology
from omnigraph.versioning.store import Settings

SCHEMA = """
node Person { name: String @key }
node City { name: String @key }
node Club { name: String @key }
edge Knows: Person -> Person { strength: F64 }
edge LivesIn: Person -> City { strength: F64 }
edge Near: City -> City { strength: F64? }
edge JoinedTo: Club -> Club
"""
ALGORITHMS: list[tuple[str, dict[str, Any]]] = [
    ("components", {}),
    ("triangles", {}),
    ("degrees", {"weight": "strength"}),
    ("pagerank", {"iterations": 2, "weight": "strength", "sources": ["p001", "p007"]}),
    ("communities", {"iterations": 1, "weight": "strength"}),
    ("shortest_paths", {"sources": ["p001"], "weight": "strength"}),
]
"""Those with a weight last: they have a topology of their own."""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Two edge types, several fragments, deleted rows, parallel edges and self-loops."""
    rng = random.Random(5)
    made = Graph.init(tmp_path_factory.mktemp("analytics") / "g", SCHEMA)
    made.load([{"type": "City", "data": {"name": name}} for name in ("Oslo", "Rome", "p001")])
    for part in range(3):
        people = [f"p{n:03}" for n in range(part * 60, part * 60 + 60)]
        rows: list[dict[str, Any]] = [{"type": "Person", "data": {"name": name}} for name in people]
        for _ in range(250):
            a, b = rng.choice(people), f"p{int(rng.random() ** 2 * (part + 1) * 60):03}"
            rows.append({"edge": "Knows", "from": a, "to": b, "data": {"strength": rng.random() + 0.1}})
        rows += [
            {"edge": "LivesIn", "from": name, "to": rng.choice(["Oslo", "p001"]), "data": {"strength": rng.random()}}
            for name in people[::2]
        ]
        made.load(rows)
    made.delete("Person", [f"p{n:03}" for n in range(5, 180, 17)])
    return made


def test_they_are_those_of_one_process(spark: Any, graph: Graph) -> None:
    """Several tasks find the ends of edges, and there are more blocks than slots."""
    edges = ["Knows", "LivesIn"]
    many = Graph.open(graph.uri, settings=Settings(analytics_few_rows=0, analytics_block_edges=200))
    runs = pipeline.analytics(spark, many)
    for name, options in ALGORITHMS:
        asked = {**options, "type": "Person"} if "sources" in options else options
        here: pa.Table = getattr(graph.analytics, name)(edges, **asked)
        there: pa.Table = getattr(runs, name)(edges, **asked).toArrow()
        assert there.cast(here.schema).equals(here), (name, options)
        assert here.num_rows > 5
    blocks = {path.name.rsplit("-", 2)[1] for path in Path(graph.uri).glob("__staging/analytics-*/in-*-starts.npy")}
    assert len(blocks) > 2
    topology.forget(many)


def test_a_topology_is_built_once_and_removed_when_another_one_is_asked_for(spark: Any, graph: Graph) -> None:
    topology.forget(graph)
    runs = pipeline.analytics(spark, graph)
    runs.pagerank("Knows", iterations=1)
    first = scratch_of(graph)
    assert len(first) == 1
    runs.components("Knows")
    assert scratch_of(graph) == first
    runs.degrees("LivesIn")
    second = scratch_of(graph)
    assert len(second) == 1
    assert second != first
    topology.forget(graph)
    assert scratch_of(graph) == []


def scratch_of(graph: Graph) -> list[str]:
    gc.collect()
    return sorted(path.name for path in Path(graph.uri, "__staging").glob("analytics-*"))


def test_types_without_rows(spark: Any, graph: Graph) -> None:
    runs = pipeline.analytics(spark, graph)
    for name in ("pagerank", "components", "triangles"):
        assert getattr(runs, name)("JoinedTo").count() == 0, name
    found = runs.degrees("Near").toArrow()
    assert found["degree"].to_pylist() == [0, 0, 0]


def test_a_weight_that_is_none_is_refused_by_its_edge(spark: Any, graph: Graph) -> None:
    graph.branches.create("unweighed")
    graph.load([{"edge": "Near", "from": "Oslo", "to": "Rome"}], branch="unweighed")
    with pytest.raises(InvalidValue, match="Near edge from 'Oslo' to 'Rome' has no weight in 'strength'"):
        pipeline.analytics(spark, graph).shortest_paths("Near", ["Oslo"], at="unweighed", weight="strength")


def test_the_driver_holds_no_edges(spark: Any, tmp_path: Path) -> None:
    nodes, edges = 20_000, 400_000
    graph = Graph.init(tmp_path / "g", "node P { name: String @key }\nedge F: P -> P { w: F64 }")
    rng = np.random.default_rng(1)
    ends = {end: np.char.add("p", rng.integers(0, nodes, edges).astype(str)) for end in ("from", "to")}
    names = pa.array([f"p{n}" for n in range(nodes)])
    graph.load({"P": pa.table({"name": names}), "F": pa.table({**ends, "w": rng.random(edges)})})
    graph = Graph.open(graph.uri)
    runs = pipeline.analytics(spark, graph)
    tracemalloc.start()
    arrow_before = pa.total_allocated_bytes()
    try:
        found = {
            "pagerank": runs.pagerank("F", iterations=2, weight="w").toArrow(),
            "components": runs.components("F").toArrow(),
            "triangles": runs.triangles("F").toArrow(),
        }
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    held = pa.total_allocated_bytes() - arrow_before
    assert peak < edges * 8, "not even one number for each edge"
    assert held < edges * 8
    assert found["pagerank"].equals(graph.analytics.pagerank("F", iterations=2, weight="w"))
    assert found["triangles"].equals(graph.analytics.triangles("F"))
