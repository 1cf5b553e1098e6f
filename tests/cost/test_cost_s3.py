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

DEPTHS = (10, 100, 300)
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
        graph.repository.store.wait_for_background_work()
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
        lists = [r.path for r in node if r.is_list]
        assert len(lists) == 1, f"a warm insert lists the claim of its branch:\n{shown(node)}"
        assert lists[0].endswith("__refs%2Fmain%2F")
    # Once a table has an index, a commit reads the index list of its base version: one request, at any depth.
    assert costs[100] == costs[300], f"requests per write must not depend on history: {costs}"
    assert all(b - a <= 2 for a, b in zip(costs[10], costs[300], strict=True)), costs


def test_writes_cost_the_same_into_a_large_table(s3: S3Server) -> None:
    graph = Graph.init("s3://graphs/cost-large", SCHEMA)
    graph.load({"Person": pa.table({"name": [f"n{i}" for i in range(LARGE)]})})
    graph.repository.store.wait_for_background_work()
    graph.load([person("warm"), knows("n1", "n2")])
    assert_cost(s3, 8 + 2, lambda: graph.load([person("cold-page")]))  # the first lookup may read an index page
    assert_cost(s3, 8, lambda: graph.load([person("cold-page2")]))
    assert_cost(s3, 10 + 2, lambda: graph.load([knows("n1", "n2")]))
    assert_cost(s3, 10, lambda: graph.load([knows("n1", "n2")]))


def test_a_repeated_read_is_two_probes(s3: S3Server) -> None:
    graph = Graph.init("s3://graphs/cost-read", SCHEMA)
    graph.load([person("a", 1)])
    graph.entity_at("node:Person", "a")
    requests = assert_cost(s3, 2, lambda: graph.entity_at("node:Person", "a"))
    assert [(r.method, r.status) for r in requests] == [("HEAD", 404), ("HEAD", 200)]
    assert_cost(s3, 2, graph.snapshot)


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


def test_listing_branches_reads_claims_once_and_no_manifest(s3: S3Server) -> None:
    uri = "s3://graphs/cost-branches"
    graph = Graph.init(uri, SCHEMA)
    for number in range(10):
        graph.branches.create(f"b{number}")
    fresh = Graph.open(uri, "ro")
    assert_cost(s3, 1 + 10, fresh.branches.list)
    assert_cost(s3, 1, fresh.branches.list)


def test_deleted_branches_cost_nothing_once_they_are_collected(s3: S3Server) -> None:
    costs = []
    for count in (1, 8):
        uri = f"s3://graphs/cost-deleted-{count}"
        graph = Graph.init(uri, SCHEMA)
        graph.load([person("a")])
        for number in range(count):
            graph.branches.create(f"b{number}")
            graph.branches.delete(f"b{number}")
        Graph.open(uri).maintenance.cleanup(grace=0, force=True, confirm=True)
        fresh = Graph.open(uri)
        cleanup = counted(s3, lambda g=fresh: g.maintenance.cleanup(confirm=True))
        listing = counted(s3, Graph.open(uri, "ro").branches.list)
        costs.append((len(cleanup), len(listing)))
    assert costs[0] == costs[1], f"(cleanup, list) requests after 1 and 8 deleted branches: {costs}"


def test_a_read_by_tag_or_commit_opens_no_other_branch(s3: S3Server) -> None:
    uri = "s3://graphs/cost-travel"
    graph = Graph.init(uri, SCHEMA)
    commit = graph.load([person("a")]).commit
    assert commit is not None
    graph.tags.create("v1")
    for number in range(6):
        graph.branches.create(f"b{number}")
    for target in ("v1", commit.graph_commit_id):
        requests = counted(s3, lambda t=target: Graph.open(uri, "ro").snapshot(t))
        assert not [r for r in requests if "tree" in r.path], shown(requests)
