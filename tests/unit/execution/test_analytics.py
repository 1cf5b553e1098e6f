"""Whole-graph algorithms agree with networkx, however many blocks the work is cut into."""

from __future__ import annotations

import random

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.errors import CorruptGraph, InvalidArgument, InvalidValue, NotFound, OmnigraphError, UnknownField
from omnigraph.execution.analytics.blocks import Block, reduce_rows
from omnigraph.execution.analytics.view import GraphView
from omnigraph.execution.analytics.weights import checked_weights
from omnigraph.handles.analytics import Analytics
from omnigraph.local.algorithms import run_algorithm

SCHEMA = """
node Person { name: String @key  rank: F64?  group: I64? }
node City { name: String @key }
edge Knows: Person -> Person { strength: F64?  since: I32?  note: String? }
edge LivesIn: Person -> City
"""


class ManyBlocks:
    """Kernels over several small blocks, as a cluster would run them."""

    def __init__(self, view: GraphView, count: int) -> None:
        self._view = view
        self._count = count

    def run(self, direction, kernel, *vectors):
        blocks = self._view.rows(direction).blocks(self._count)
        return np.concatenate([kernel(block, *vectors) for block in blocks])

    def add_up(self, direction, kernel, *vectors):
        blocks = list(self._view.rows(direction).blocks(self._count))
        return sum(kernel(block, other, *vectors) for block in blocks for other in blocks)

    def whole(self, direction):
        return None


def random_graph(seed: int, nodes: int, edges: int) -> tuple[list[dict], nx.MultiDiGraph]:
    rng = random.Random(seed)
    model = nx.MultiDiGraph()
    rows = []
    for number in range(nodes):
        rows.append({"type": "Person", "data": {"name": f"p{number}"}})
        model.add_node(f"p{number}")
    for _ in range(edges):
        a, b = f"p{rng.randrange(nodes)}", f"p{int(rng.random() ** 2 * nodes)}"
        strength = rng.choice([0.0, 0.5, 1.0, 2.25, 7.0])
        rows.append({"edge": "Knows", "from": a, "to": b, "data": {"strength": strength}})
        model.add_edge(a, b, strength=strength)
    return rows, model


@pytest.fixture(params=[(1, 40, 30), (2, 60, 200), (3, 25, 400), (4, 5, 0)], ids=["sparse", "dense", "heavy", "none"])
def case(request, tmp_path):
    seed, nodes, edges = request.param
    rows, model = random_graph(seed, nodes, edges)
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load(rows)
    return graph, model


def values(table, column) -> dict:
    return dict(zip(table["id"].to_pylist(), table[column].to_pylist(), strict=True))


def engines(graph: Graph):
    def in_blocks(count: int) -> Analytics:
        return graph.analytics.on(lambda asked: run_algorithm(graph.local, asked, lambda view: ManyBlocks(view, count)))

    return [graph.analytics, in_blocks(2), in_blocks(7)]


def test_degrees(case) -> None:
    graph, model = case
    for analytics in engines(graph):
        found = analytics.degrees("Knows")
        assert values(found, "out_degree") == dict(model.out_degree())
        assert values(found, "in_degree") == dict(model.in_degree())
        assert values(found, "degree") == dict(model.degree())


def test_pagerank(case) -> None:
    graph, model = case
    expected = nx.pagerank(model, tol=1e-12, max_iter=500)
    results = [values(a.pagerank("Knows", iterations=500, tolerance=1e-13), "pagerank") for a in engines(graph)]
    assert results[0] == results[1] == results[2], "blocks must not change a result"
    assert results[0] == pytest.approx(expected, abs=1e-9)
    assert sum(results[0].values()) == pytest.approx(1.0)


def test_components(case) -> None:
    graph, model = case
    expected = {frozenset(part) for part in nx.weakly_connected_components(model)}
    for analytics in engines(graph):
        found: dict = {}
        for node, label in values(analytics.components("Knows"), "component").items():
            found.setdefault(label, set()).add(node)
        assert {frozenset(part) for part in found.values()} == expected


def test_triangles(case) -> None:
    graph, model = case
    simple = nx.Graph((a, b) for a, b in model.edges() if a != b)
    simple.add_nodes_from(model.nodes)
    for analytics in engines(graph):
        assert values(analytics.triangles("Knows"), "triangles") == nx.triangles(simple)


def test_shortest_paths(case) -> None:
    graph, model = case
    for analytics in engines(graph):
        found = analytics.shortest_paths("Knows", ["p0", "p3"]).to_pylist()
        for source in ("p0", "p3"):
            mine = {row["id"]: row["distance"] for row in found if row["source"] == source}
            assert mine == nx.single_source_shortest_path_length(model, source)
    near = graph.analytics.shortest_paths("Knows", ["p0"], max_hops=1)["id"].to_pylist()
    assert sorted(near) == sorted({"p0", *model.successors("p0")})


def test_weighted_and_personalised_pagerank(case) -> None:
    graph, model = case
    options = {"iterations": 800, "tolerance": 1e-14}
    for weight in (None, "strength"):
        for sources in (None, ["p0", "p3", "p0"]):
            start = dict.fromkeys(sources, 1.0) if sources else None
            expected = nx.pagerank(model, personalization=start, weight=weight, tol=1e-13, max_iter=2000)
            asked = {**options, "weight": weight, "sources": sources}
            results = [values(a.pagerank("Knows", **asked), "pagerank") for a in engines(graph)]
            assert results[0] == results[1] == results[2], "blocks must not change a result"
            assert results[0] == pytest.approx(expected, abs=1e-9)


def test_degrees_by_weight(case) -> None:
    graph, model = case
    for analytics in engines(graph):
        found = analytics.degrees("Knows", weight="strength")
        assert values(found, "degree") == dict(model.degree())
        assert values(found, "out_weight") == pytest.approx(dict(model.out_degree(weight="strength")))
        assert values(found, "weight") == pytest.approx(dict(model.degree(weight="strength")))


def test_weighted_shortest_paths(case) -> None:
    graph, model = case
    for analytics in engines(graph):
        found = analytics.shortest_paths("Knows", ["p0", "p3"], weight="strength").to_pylist()
        for source in ("p0", "p3"):
            mine = {row["id"]: row["distance"] for row in found if row["source"] == source}
            assert mine == nx.single_source_dijkstra_path_length(model, source, weight="strength")
    assert graph.analytics.shortest_paths("Knows", [], weight="strength").num_rows == 0


def test_communities_by_weight(tmp_path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    rows = [{"type": "Person", "data": {"name": f"p{n}"}} for n in range(4)]
    ends = [("p0", "p3", 1.0), ("p1", "p3", 1.0), ("p0", "p3", 0.5), ("p2", "p3", 4.0)]
    rows += [{"edge": "Knows", "from": a, "to": b, "data": {"strength": w}} for a, b, w in ends]
    graph.load(rows)
    number = {name: at for at, name in enumerate(graph.rows("node:Person")["id"].to_pylist())}
    for analytics in engines(graph):
        once = values(analytics.communities("Knows", iterations=1, weight="strength"), "community")
        assert once["p3"] == number["p2"], "one edge of weight 4 outvotes two of weight 1.5 together"
        assert values(analytics.communities("Knows", iterations=1), "community")["p3"] == number["p0"]


def with_weight(tmp_path, strength) -> Graph:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    rows = [{"type": "Person", "data": {"name": f"p{n}"}} for n in range(3)]
    rows += [{"edge": "Knows", "from": "p0", "to": "p1", "data": {"strength": 1.0}}]
    graph.load([*rows, {"edge": "Knows", "from": "p1", "to": "p2", "data": {"strength": strength}}])
    return graph


@pytest.mark.parametrize(("strength", "shown"), [(-0.25, "the weight -0.25"), (None, "no weight")])
def test_edges_that_have_no_usable_weight_are_refused(tmp_path, strength, shown) -> None:
    graph = with_weight(tmp_path, strength)
    for call in ("pagerank", "communities", "degrees"):
        with pytest.raises(InvalidValue, match=rf"Knows edge from 'p1' to 'p2' has {shown} in 'strength'"):
            getattr(graph.analytics, call)("Knows", weight="strength")


def test_weights_that_are_no_finite_numbers_are_refused(tmp_path) -> None:
    edge = Graph.init(tmp_path / "g", SCHEMA).catalog("main").edge("Knows")
    for value in (float("nan"), float("inf"), -1.0):
        with pytest.raises(InvalidValue, match="from 'a' to 'b'"):
            checked_weights(pa.array([0.0, value]), edge, "strength", lambda row: ("ab"[row - 1], "b"))
    assert checked_weights(pa.array([0, 3], pa.int32()), edge, "since", lambda _: ("", "")).tolist() == [0.0, 3.0]


def test_communities_are_those_of_the_definition(case) -> None:
    graph, model = case
    both = nx.MultiGraph(model)
    nodes = graph.rows("node:Person")["id"].to_pylist()
    number = {node: at for at, node in enumerate(nodes)}
    label = dict(number)
    for _ in range(4):
        after = {}
        for node in nodes:
            seen: dict = {}
            for a, b in model.edges():
                for near, far in ((a, b), (b, a)):
                    if near == node:
                        seen[label[far]] = seen.get(label[far], 0) + 1
            after[node] = min(seen, key=lambda found: (-seen[found], found)) if seen else label[node]
        label = after
    assert both.number_of_nodes() == len(nodes)
    for analytics in engines(graph):
        assert values(analytics.communities("Knows", iterations=4), "community") == label


def test_several_edge_types_run_over_all_their_nodes(tmp_path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    people = [{"type": "Person", "data": {"name": n}} for n in ("ada", "bob", "cy")]
    rest = [
        {"type": "City", "data": {"name": "ada"}}, {"edge": "LivesIn", "from": "ada", "to": "ada"},
        {"edge": "LivesIn", "from": "bob", "to": "ada"}, {"edge": "Knows", "from": "cy", "to": "cy"},
    ]  # fmt: skip
    graph.load([*people, *rest])
    found = graph.analytics.components(["Knows", "LivesIn"]).to_pylist()
    groups: dict = {}
    for row in found:
        groups.setdefault(row["component"], set()).add((row["type"], row["id"]))
    assert sorted(map(sorted, groups.values())) == [
        [("City", "ada"), ("Person", "ada"), ("Person", "bob")],
        [("Person", "cy")],
    ]
    paths = graph.analytics.shortest_paths("LivesIn", ["ada"], type="Person").to_pylist()
    assert [(r["type"], r["id"], r["distance"]) for r in paths] == [("City", "ada", 1), ("Person", "ada", 0)]


def test_results_become_properties_in_one_commit(case) -> None:
    graph, _ = case
    before = len(graph.commits.list())
    ranks = graph.analytics.pagerank("Knows")
    written = graph.analytics.write(ranks, "pagerank", "rank", actor="analyst")
    assert len(graph.commits.list()) == before + 1
    assert written.commit.actor_id == "analyst"
    assert values(graph.rows("node:Person"), "rank") == values(ranks, "pagerank")
    assert graph.analytics.degrees("Knows").equals(graph.analytics.degrees("Knows", at=written.commit.parent_commit_id))


def test_what_cannot_be_computed_is_refused(case) -> None:
    graph, _ = case
    with pytest.raises(OmnigraphError, match="Nope"):
        graph.analytics.degrees("Nope")
    with pytest.raises(InvalidArgument, match="damping"):
        graph.analytics.pagerank("Knows", damping=1.5)
    with pytest.raises(NotFound, match="nobody"):
        graph.analytics.shortest_paths("Knows", ["nobody"])
    with pytest.raises(InvalidArgument, match="sources is 'p0', not a list"):
        graph.analytics.shortest_paths("Knows", "p0")
    with pytest.raises(InvalidArgument, match="sources is 'p0', not a list"):
        graph.analytics.pagerank("Knows", sources="p0")
    with pytest.raises(InvalidArgument, match="sources is empty"):
        graph.analytics.pagerank("Knows", sources=[])
    with pytest.raises(InvalidArgument, match="max_hops counts edges"):
        graph.analytics.shortest_paths("Knows", ["p0"], max_hops=2, weight="strength")
    with pytest.raises(InvalidArgument, match="no property 'nope'") as refused:
        graph.analytics.pagerank("Knows", weight="nope")
    assert refused.value.hint == "numeric properties: since, strength"
    with pytest.raises(InvalidArgument, match=r"Knows.note is String\? and cannot weigh edges"):
        graph.analytics.shortest_paths("Knows", ["p0"], weight="note")
    with pytest.raises(UnknownField, match="score"):
        graph.analytics.write(graph.analytics.degrees("Knows"), "degree", "score")


def test_a_damaged_topology_is_not_computed_on() -> None:
    block = Block(0, np.array([0, 2]), np.array([0, 3], np.int32))
    assert reduce_rows(np.add, block, np.arange(4), 0).tolist() == [3]
    with pytest.raises(CorruptGraph, match="number 3 of 3"):
        reduce_rows(np.add, block, np.arange(3), 0)
