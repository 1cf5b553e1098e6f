"""S3 that loses answers, resets connections, refuses and hangs: what was applied is never reported as failed, what is
unknown is called that, errors have the type of what happened, and no call outlives its deadline by much."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import (
    CorruptGraph,
    HistoricalVersionReclaimed,
    MissingData,
    NameTaken,
    OmnigraphError,
    StoreUnavailable,
)
from omnigraph.versioning.store import Settings
from tests.conftest import SCHEMA
from tests.support.rows import person
from tests.support.s3 import S3Server
from tests.support.s3_faults import (
    CLOSE_FIRST,
    HANG,
    LOSE_ANSWER,
    REFUSE,
    RESET,
    TRUNCATE,
    FaultProxy,
    fault_proxy,
)

pytestmark = pytest.mark.s3

ANSWER_FAULTS = [
    pytest.param({"action": LOSE_ANSWER, "times": 1}, id="a lost answer"),
    pytest.param({"action": LOSE_ANSWER, "times": 3}, id="three lost answers", marks=pytest.mark.slow),
    pytest.param({"action": RESET, "times": 1}, id="a reset"),
    pytest.param({"action": RESET, "times": 6}, id="six resets", marks=pytest.mark.slow),
    pytest.param({"action": REFUSE, "status": 503, "times": 2}, id="refused twice", marks=pytest.mark.slow),
    pytest.param({"action": CLOSE_FIRST, "times": 2}, id="closed twice", marks=pytest.mark.slow),
]


@pytest.fixture
def proxy(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """The server of the tests behind a proxy without rules."""
    with fault_proxy(s3.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        yield proxy


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"s3://graphs/{tmp_path.name}-geofence-404"


def is_intact(uri: str) -> bool:
    fresh = Graph.open(uri)
    fresh.maintenance.cleanup(confirm=True)
    fresh.maintenance.repair()
    return fresh.maintenance.fsck().is_clean


@pytest.mark.parametrize("fault", ANSWER_FAULTS)
@pytest.mark.parametrize("path", ["__refs/x/", "tree/.*_versions/", "tree/.*/data/"])
def test_a_branch_whose_creation_was_applied_is_there(
    proxy: FaultProxy, uri: str, fault: dict[str, object], path: str
) -> None:
    graph = Graph.init(uri, SCHEMA)
    commit = graph.load([person("a")]).commit
    assert commit is not None
    rule = proxy.add(**fault, path=path)  # type: ignore[arg-type]
    error = None
    try:
        graph.branches.create("x")
    except OmnigraphError as caught:
        error = caught.code
    created = error is None
    assert error != NameTaken.code
    proxy.clear()
    assert rule.used >= 1
    assert created or fault["times"] != 1, "one lost answer is nothing that a user should hear of"
    fresh = Graph.open(uri)
    assert [b.name for b in fresh.branches.list()] == (["main", "x"] if created else ["main"])
    assert fresh.snapshot(commit.graph_commit_id).version == 2
    if created:
        fresh.load([person("b")], branch="x")
    assert is_intact(uri)


@pytest.mark.parametrize("fault", ANSWER_FAULTS)
def test_a_tag_whose_creation_was_applied_is_there(proxy: FaultProxy, uri: str, fault: dict[str, object]) -> None:
    graph = Graph.init(uri, SCHEMA)
    rule = proxy.add(**fault, path="__tags/")  # type: ignore[arg-type]
    graph.tags.create("v1")
    proxy.clear()
    assert rule.used >= 1
    with pytest.raises(NameTaken):
        Graph.open(uri).tags.create("v1")
    assert [tag.name for tag in Graph.open(uri).tags.list()] == ["v1"]


@pytest.mark.parametrize("fault", ANSWER_FAULTS)
def test_two_owners_of_one_lease_are_told_apart(proxy: FaultProxy, uri: str, fault: dict[str, object]) -> None:
    first, second = Graph.init(uri, SCHEMA), Graph.open(uri)
    proxy.add(**fault, path="__recovery/.*lease-1")  # type: ignore[arg-type]
    taken = [graph.repository.intents._take("01ABC", 1) for graph in (first, second)]
    assert taken == [True, False]


@pytest.mark.parametrize("fault", ANSWER_FAULTS)
def test_a_graph_whose_birth_was_applied_is_there(proxy: FaultProxy, uri: str, fault: dict[str, object]) -> None:
    proxy.add(**fault, path="__manifest/_versions/")  # type: ignore[arg-type]
    Graph.init(uri, SCHEMA).load([person("a")])
    proxy.clear()
    with pytest.raises(NameTaken):
        Graph.init(uri, SCHEMA)
    assert Graph.open(uri).rows("node:Person").num_rows == 1


@pytest.mark.parametrize("fault", ANSWER_FAULTS)
@pytest.mark.parametrize("path", ["__manifest/_versions/", "__manifest/data/", "nodes/.*/data/", "nodes/.*/_versions/"])
def test_a_write_is_made_once_or_refused(proxy: FaultProxy, uri: str, fault: dict[str, object], path: str) -> None:
    graph = Graph.init(uri, SCHEMA)
    proxy.add(**fault, path=path)  # type: ignore[arg-type]
    commit = error = None
    try:
        commit = graph.load([person("a")]).commit
    except OmnigraphError as caught:
        error = caught.code
    assert error in (None, "storage_error", "store_unavailable", "outcome_unknown")
    proxy.clear()
    fresh = Graph.open(uri)
    if commit is not None:
        assert fresh.commits.head().graph_commit_id == commit.graph_commit_id
        assert fresh.rows("node:Person").num_rows == 1
    assert len(fresh.commits.list()) <= 2
    assert is_intact(uri)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"action": REFUSE, "status": 503}, StoreUnavailable),
        ({"action": REFUSE, "status": 500}, StoreUnavailable),
        ({"action": REFUSE, "status": 403}, StoreUnavailable),
        ({"action": CLOSE_FIRST}, StoreUnavailable),
        ({"action": TRUNCATE}, StoreUnavailable),
    ],
    ids=["503", "500", "403", "closed", "cut short"],
)
def test_a_failing_store_is_neither_damage_nor_absence(
    proxy: FaultProxy, uri: str, fault: dict[str, object], expected: type[OmnigraphError]
) -> None:
    """The graph's own path holds `404` and `eof`: texts decide nothing."""
    Graph.init(uri, SCHEMA).load([person("a")])
    graph = Graph.open(uri, settings=Settings(publish_deadline=1.0))
    for path in ("nodes/.*/data/",) if fault.get("status") != 403 else ("nodes/.*/data/", "__manifest/_versions/"):
        proxy.clear()
        proxy.add(method="GET", path=path, times=99, **fault)  # type: ignore[arg-type]
        with pytest.raises(OmnigraphError) as caught:
            Graph.open(uri, "ro", settings=Settings(publish_deadline=1.0)).rows("node:Person")
        assert type(caught.value) is expected, caught.value
        assert not isinstance(caught.value, (CorruptGraph, MissingData, HistoricalVersionReclaimed))
    proxy.clear()
    assert graph.rows("node:Person").num_rows == 1


def test_a_missing_object_is_missing(proxy: FaultProxy, uri: str) -> None:
    Graph.init(uri, SCHEMA).load([person("a")])
    proxy.add(REFUSE, method="GET", path="nodes/.*/data/", status=404, times=99)
    with pytest.raises(MissingData):
        Graph.open(uri, "ro").rows("node:Person")


def test_a_store_that_hangs_ends_a_write_near_its_deadline(proxy: FaultProxy, uri: str) -> None:
    """The bound is on requests, each of which ends with the deadline; without one the client repeats for minutes."""
    Graph.init(uri, SCHEMA)
    graph = Graph.open(uri, settings=Settings(publish_deadline=1.0))
    proxy.add(HANG, path="", times=1000, seconds=60)
    with pytest.raises(OmnigraphError) as caught:
        graph.load([person("a")])
    assert caught.value.code in ("store_unavailable", "outcome_unknown", "storage_error")
    assert proxy.rules[0].used <= 8
