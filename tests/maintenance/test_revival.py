"""Whoever brings old pins back to life beside a collector gets all of them, or a typed refusal."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.errors import HistoricalVersionReclaimed, NotFound, StoreReplaced
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from tests.maintenance.scenes import busy_graph, contents, leftovers, sweep
from tests.support.graphs import Crash, people
from tests.support.invariants import check_every_version


def during(point: Point, action: Callable[[], object]) -> None:
    """Once, at a failpoint of whoever comes first."""
    once: list[int] = []

    def act() -> None:
        if not once:
            once.append(1)
            action()

    failpoints.arm({point: act})


def outcome(revive: Callable[[], object]) -> str:
    try:
        revive()
    except (HistoricalVersionReclaimed, NotFound, StoreReplaced):
        return "refused"
    return "revived"


def revivals(graph: Graph, version: int) -> dict[str, Callable[[], Any]]:
    rival = Graph.open(graph.uri)
    return {
        "branch": lambda: rival.branches.create("revived", version),
        "tag": lambda: rival.tags.create("revived", version),
    }


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_before_the_second_look_it_is_spared(tmp_path: Path, kind: str) -> None:
    graph = busy_graph(tmp_path)
    version = graph.snapshot().version - 4
    before = contents(graph, version)
    graph.maintenance.optimize()
    state = graph.repository.at_version(version)
    rival = Graph.open(graph.uri)
    # The root is durable before the list is read: here, without reading it at all.
    create = rival.repository.refs.create if kind == "branch" else rival.repository.tags.create
    during(Point.GC_CONDEMNED, lambda: create("revived", state))
    sweep(graph)
    assert contents(graph, "revived") == before
    check_every_version(graph.uri)
    sweep(graph)
    assert contents(graph, "revived") == before
    assert leftovers(graph) == {}


@pytest.mark.parametrize("kind", ["branch", "tag"])
@pytest.mark.parametrize("point", [Point.GC_CONDEMNED, Point.GC_SWEPT])
def test_while_the_collector_is_at_work_it_is_refused(tmp_path: Path, kind: str, point: Point) -> None:
    graph = busy_graph(tmp_path)
    version = graph.snapshot().version - 4
    before = contents(graph, version)
    graph.maintenance.optimize()
    outcomes: list[str] = []
    revive = revivals(graph, version)[kind]
    during(point, lambda: outcomes.append(outcome(revive)))
    sweep(graph)
    failpoints.arm(None)
    assert outcomes == ["refused"]
    assert "revived" not in [b.name for b in graph.branches.list()]
    assert "revived" not in [t.name for t in graph.tags.list()]
    with pytest.raises(HistoricalVersionReclaimed):
        contents(graph, version)
    assert before
    check_every_version(graph.uri)


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_a_collector_that_comes_and_goes_in_between_is_noticed(tmp_path: Path, kind: str) -> None:
    """The state was read, then reclaimed, and only then the root was made."""
    graph = busy_graph(tmp_path)
    version = graph.snapshot().version - 4
    graph.maintenance.optimize()
    revive = revivals(graph, version)[kind]
    keeper = Graph.open(graph.uri)
    during(Point.BRANCH_MANIFEST if kind == "branch" else Point.TAG_WRITTEN, lambda: _collected(keeper, kind))
    assert outcome(revive) == "refused"
    failpoints.arm(None)
    assert [b.name for b in graph.branches.list()] == ["main"]
    assert graph.tags.list() == []
    check_every_version(graph.uri)
    sweep(graph)
    assert leftovers(graph) == {}


def _collected(keeper: Graph, kind: str) -> None:
    if kind == "tag":
        # The tag is there already; a collector that had looked before it deletes what it named.
        collector = threading.Thread(target=_blindly, args=(keeper,))
        collector.start()
        collector.join()
        return
    sweep(keeper)


def _blindly(keeper: Graph) -> None:
    from omnigraph.maintenance.cleanup import CleanupPolicy
    from omnigraph.maintenance.collector import Collector

    policy = CleanupPolicy(keep=1, grace=_no_time())
    tags = keeper.repository.tags
    hidden, tags.list = tags.list, list  # type: ignore[method-assign, assignment]
    try:
        collector = Collector(keeper.repository, policy.retention(keeper.repository.store.settings))
        for part in collector.condemn():
            collector.remove(part)
    finally:
        tags.list = hidden  # type: ignore[method-assign]


def _no_time() -> Any:
    import datetime as dt

    return dt.timedelta(0)


def test_a_merge_that_adopts_condemned_pins_is_refused_or_whole(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    graph.branches.create("dev")
    graph.load({"Person": people("dev1")}, branch="dev")
    rival = Graph.open(graph.uri)
    outcomes: list[str] = []

    def merge() -> None:
        rival.branches.merge("dev")
        rival.branches.delete("dev")
        outcomes.append("merged")

    during(Point.GC_CONDEMNED, merge)
    sweep(graph)
    failpoints.arm(None)
    assert outcomes == ["merged"]
    assert Graph.open(graph.uri).entity_at("node:Person", "dev1") is not None
    check_every_version(graph.uri)


def test_a_list_of_a_dead_collector_refuses_only_what_it_names(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path)
    old, newest = graph.snapshot().version - 4, graph.snapshot().version

    def die() -> None:
        raise Crash

    failpoints.arm({Point.GC_CONDEMNED: die})
    with pytest.raises(Crash):
        sweep(graph)
    failpoints.arm(None)
    fresh = Graph.open(graph.uri)
    with pytest.raises(HistoricalVersionReclaimed):
        fresh.branches.create("old", old)
    fresh.branches.create("new", newest)
    assert contents(graph, "new") == contents(graph)
