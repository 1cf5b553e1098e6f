"""What operations cost on an object store, counted at the server: every request line, from before the first open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import Graph
from tests.conftest import SCHEMA
from tests.support.rows import knows, person
from tests.support.s3 import Request, S3Server

pytestmark = pytest.mark.s3

DEPTHS = (10, 100, 1000)
LARGE = 1_000_000
Rows = list[dict[str, object]]


def counted(s3: S3Server, action: Callable[[], Any]) -> list[Request]:
    before = len(s3.requests())
    action()
    return s3.requests()[before:]


def shown(requests: list[Request]) -> str:
    return "\n".join(str(r) for r in requests)


def assert_cost(s3: S3Server, limit: int, action: Callable[[], Any]) -> list[Request]:
    requests = counted(s3, action)
    assert len(requests) <= limit, f"{len(requests)} requests, budget {limit}:\n{shown(requests)}"
    return requests


def cost_of_a_write(s3: S3Server, graph: Graph, limit: int, rows: Callable[[str], Rows]) -> list[Request]:
    """The requests of one write, the least of three: one of them may meet a fold, which runs beside the write that made
    it due and leaves the next one something new to read.
    """
    found = []
    for attempt in "abc":
        graph._store.wait_for_upkeep()
        found.append(counted(s3, lambda mark=attempt: graph.load(rows(mark))))
    least = min(found, key=len)
    assert len(least) <= limit, f"{len(least)} requests, budget {limit}:\n{shown(least)}"
    return least


def test_writes_cost_the_same_at_any_history_depth(s3: S3Server) -> None:
    graph = Graph.init("s3://graphs/cost-depth", SCHEMA)
    graph.load([person("a"), person("b"), knows("a", "b")])
    depth = 2
    costs: dict[int, tuple[int, int, int]] = {}
    for target in DEPTHS:
        while depth < target:
            graph.load([person(f"p{depth}")])
            depth += 1
        node = cost_of_a_write(s3, graph, 8, lambda mark, t=target: [person(f"node-{t}-{mark}")])
        edge = cost_of_a_write(s3, graph, 10, lambda _: [knows("a", "b")])
        both = cost_of_a_write(s3, graph, 14, lambda mark, t=target: [person(f"two-{t}-{mark}"), knows("a", "b")])
        costs[target] = (len(node), len(edge), len(both))
        assert not [r for r in node if r.is_list], f"a warm insert lists nothing:\n{shown(node)}"
    # Once a table has an index, a commit reads the index list of its base version: one request, at any depth.
    assert costs[100] == costs[1000], f"requests per write must not depend on history: {costs}"
    assert all(b - a <= 2 for a, b in zip(costs[10], costs[1000], strict=True)), costs


def test_writes_cost_the_same_into_a_large_table(s3: S3Server) -> None:
    graph = Graph.init("s3://graphs/cost-large", SCHEMA)
    graph.load({"Person": pa.table({"name": [f"n{i}" for i in range(LARGE)]})})
    graph._store.wait_for_upkeep()
    graph.load([person("warm"), knows("n1", "n2")])
    assert_cost(s3, 8 + 2, lambda: graph.load([person("cold-page")]))  # the first lookup may read an index page
    assert_cost(s3, 8, lambda: graph.load([person("cold-page2")]))
    assert_cost(s3, 10 + 2, lambda: graph.load([knows("n1", "n2")]))
    assert_cost(s3, 10, lambda: graph.load([knows("n1", "n2")]))


def test_a_repeated_read_is_one_probe(s3: S3Server) -> None:
    graph = Graph.init("s3://graphs/cost-read", SCHEMA)
    graph.load([person("a", 1)])
    graph.entity_at("node:Person", "a")
    requests = assert_cost(s3, 2, lambda: graph.entity_at("node:Person", "a"))
    assert [r.method for r in requests].count("HEAD") == 1
    assert_cost(s3, 1, graph.snapshot)


def test_cold_open_and_old_snapshot(s3: S3Server) -> None:
    uri = "s3://graphs/cost-open"
    graph = Graph.init(uri, SCHEMA)
    for i in range(5):
        graph.load([person(f"p{i}")])
    assert_cost(s3, 4, lambda: Graph.open(uri, "ro"))
    assert_cost(s3, 4, lambda: Graph.open(uri, "rw"))
    opened = Graph.open(uri, "ro")
    assert_cost(s3, 3, lambda: opened.snapshot_at_version(3))


def many_types(count: int) -> str:
    return "\n".join(f"node T{i} {{ name: String @key }}" for i in range(count))


def test_branch_operations_do_not_see_the_number_of_types(s3: S3Server) -> None:
    costs = []
    for count in (3, 300):
        uri = f"s3://graphs/cost-branch-{count}"
        graph = Graph.init(uri, many_types(count))
        graph.load([{"type": "T1", "data": {"name": "x"}}])
        create = assert_cost(s3, 11, lambda g=graph: g.branches.create("feature"))
        delete = assert_cost(s3, 13, lambda g=graph: g.branches.delete("feature"))
        costs.append((len(create), len(delete)))
    assert costs[0] == costs[1], f"(create, delete) requests at 3 and at 300 types: {costs}"


def test_a_write_costs_the_same_at_3_and_300_types(s3: S3Server) -> None:
    costs = []
    for count in (3, 300):
        graph = Graph.init(f"s3://graphs/cost-types-{count}", many_types(count))
        graph.load([{"type": "T1", "data": {"name": "x"}}])
        costs.append(len(assert_cost(s3, 8, lambda g=graph: g.load([{"type": "T1", "data": {"name": "y"}}]))))
    assert costs[0] == costs[1]
