"""What operations cost on a local disk, counted by kernel file events."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.versioning import history
from omnigraph.versioning.plan import PublishPlan
from omnigraph.versioning.store import mint
from tests.conftest import SCHEMA
from tests.support.counting import file_events
from tests.support.rows import knows, person


@pytest.fixture(autouse=True)
def _unflushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts do not depend on flushing; the histories below are long."""
    monkeypatch.setenv("OMNIGRAPH_FSYNC", "off")


def created_by(graph: Graph, rows: list[dict[str, object]]) -> int:
    with file_events(Path(graph.uri)) as events:
        graph.load(rows)
    return len(events.created)


def test_file_creates_are_within_budget_at_any_history_depth(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([person("a"), person("b"), knows("a", "b")])
    depth = 2
    costs = {}
    for target in (10, 100, 1000):
        while depth < target:
            graph.load([person(f"p{depth}")])
            depth += 1
        node = created_by(graph, [person(f"node-{target}")])
        edge = created_by(graph, [knows("a", "b")])
        both = created_by(graph, [person(f"two-{target}"), knows("a", "b")])
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
    repository = graph._repository
    state, _, _ = repository.refs.tip("main").swap_base()
    repository.publisher.publish(
        PublishPlan(
            commit_id=mint(), branch="main", native_branch=None, base_version=state.version, base_head=state.head,
            kind="load", schema_hash=state.schema_hash, changes=(), pins={}, message=str(number),
        )
    )  # fmt: skip


def test_ten_thousand_commits_are_listed_in_few_reads(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    total = 10_000
    manifest_bytes = []
    for number in range(total):
        empty_commit(graph, number)
        if number % 1000 == 999:
            newest = max((tmp_path / "g/__manifest/data").iterdir(), key=lambda p: p.stat().st_mtime_ns)
            manifest_bytes.append(newest.stat().st_size)
    with file_events(tmp_path / "g") as events:
        commits = Graph.open(tmp_path / "g", "ro").commits.list()
    assert [c.message for c in commits] == [str(n) for n in reversed(range(total))] + [None]
    assert len(events.opened) <= 60, f"{len(events.opened)} opens: {events.opened[:5]}"
    assert max(manifest_bytes) <= 400_000, f"a publish must not carry history: {manifest_bytes}"
    state = graph._repository.head()
    assert len(state.commits) <= history.INLINE_MAX
    parents = {c.graph_commit_id: c.parent_commit_id for c in commits}
    assert all(parents[a.graph_commit_id] == b.graph_commit_id for a, b in itertools.pairwise(commits))
