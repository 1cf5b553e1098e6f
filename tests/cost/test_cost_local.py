"""What operations cost on a local disk, counted by kernel file events."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.versioning import history
from omnigraph.versioning.plan import PublishPlan
from omnigraph.versioning.store import mint
from tests.conftest import SCHEMA
from tests.support.counting import file_events
from tests.support.rows import knows, person


def created_by(graph: Graph, rows: Callable[[str], list[dict[str, object]]]) -> int:
    """Files that one write creates, the least of three: the fold that one of them makes due runs beside it."""
    created = []
    for attempt in "abc":
        graph.repository.store.wait_for_background_work()
        with file_events(Path(graph.uri)) as events:
            graph.load(rows(attempt))
        created.append(len(events.created))
    return min(created)


def test_file_creates_are_within_budget_at_any_history_depth(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([person("a"), person("b"), knows("a", "b")])
    depth = 2
    costs = {}
    for target in (10, 100, 1000):
        while depth < target:
            graph.load([person(f"p{depth}")])
            depth += 1
        node = created_by(graph, lambda mark, t=target: [person(f"node-{t}-{mark}")])
        edge = created_by(graph, lambda _: [knows("a", "b")])
        both = created_by(graph, lambda mark, t=target: [person(f"two-{t}-{mark}"), knows("a", "b")])
        assert node <= 7
        assert edge <= 7
        assert both <= 13
        costs[target] = (node, edge, both)
    assert len(set(costs.values())) == 1, costs


def test_a_repeated_snapshot_opens_nothing(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([person("a")])
    graph.snapshot()
    with file_events(tmp_path / "g") as events:
        graph.snapshot()
    assert events.opened == []


def test_an_external_commit_is_seen_by_the_next_read(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    other = Graph.open(tmp_path / "g")
    graph.load([person("a")])
    assert other.entity_at("node:Person", "a") == {"id": "a", "name": "a", "age": None}


def empty_commit(graph: Graph, number: int) -> None:
    """A commit that touches no table: what is measured is history, not rows."""
    repository = graph.repository
    state, _ = repository.refs.tip("main").swap_base()
    repository.publisher.publish(
        PublishPlan(
            commit_id=mint(), branch="main", native_branch=None, base_version=state.version, base_head=state.head,
            kind="load", schema_hash=state.schema_hash, changes=(), pins={}, message=str(number),
        )
    )  # fmt: skip


@dataclass(frozen=True)
class Upkept:
    """Operations right after an optimize: file creates of a one-row write, opens of an open and of a point read."""

    writing: int
    opening: int
    reading: int


def upkept(graph: Graph, mark: str) -> Upkept:
    graph.load([person(f"warm-{mark}")])
    graph.maintenance.optimize()
    root = Path(graph.uri)
    with file_events(root) as writing:
        graph.load([person(f"cost-{mark}")])
    graph.maintenance.optimize()
    with file_events(root) as opening:
        fresh = Graph.open(graph.uri, mode="ro")
    with file_events(root) as reading:
        assert fresh.entity_at("node:Person", f"cost-{mark}") is not None
    return Upkept(len(writing.created), len(opening.opened), len(reading.opened))


@dataclass(frozen=True)
class Deep:
    """A graph of many commits, and what was measured on the way there."""

    graph: Graph
    total: int
    costs: dict[int, Upkept]
    manifest_bytes: list[int]


@pytest.fixture(scope="module", params=[2_000, pytest.param(10_000, marks=pytest.mark.slow)])
def deep(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Deep:
    """Thousands of commits. Few of them write rows: what is measured is history."""
    graph = Graph.init(tmp_path_factory.mktemp("deep") / "g", SCHEMA)
    found = Deep(graph, request.param, {}, [])
    for number in range(found.total):
        if number in (100, found.total - 1):
            found.costs[number] = upkept(graph, str(number))
        empty_commit(graph, number)
        if number % 500 == 499:
            newest = max((Path(graph.uri) / "__manifest/data").iterdir(), key=lambda p: p.stat().st_mtime_ns)
            found.manifest_bytes.append(newest.stat().st_size)
    return found


def test_thousands_of_commits_are_listed_in_few_reads(deep: Deep) -> None:
    with file_events(Path(deep.graph.uri)) as events:
        commits = Graph.open(deep.graph.uri, "ro").commits.list()
    numbered = [c.message for c in commits if c.message and c.message.isdigit()]
    assert numbered == [str(n) for n in reversed(range(deep.total))]
    assert len(events.opened) <= 60, f"{len(events.opened)} opens: {events.opened[:5]}"
    parents = {c.graph_commit_id: c.parent_commit_id for c in commits}
    assert all(parents[a.graph_commit_id] == b.graph_commit_id for a, b in itertools.pairwise(commits))


def test_a_publish_carries_no_history(deep: Deep) -> None:
    assert max(deep.manifest_bytes) <= 400_000, deep.manifest_bytes
    assert deep.manifest_bytes[-1] <= 2 * deep.manifest_bytes[0], deep.manifest_bytes
    assert len(deep.graph.repository.head().commits) <= history.INLINE_MAX


def test_after_optimize_operations_cost_the_same_at_a_hundred_and_at_thousands_of_commits(deep: Deep) -> None:
    shallow, late = deep.costs.values()
    assert shallow == late, deep.costs
    assert shallow.writing <= 7
