"""A store that fails at one step, and intents that cannot be read: what is reported, and what is left behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph import Graph
from omnigraph.errors import ConflictError, CorruptGraph, KeyConflict, NotFound, OutcomeUnknown, StorageError
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from omnigraph.versioning.store import Settings
from tests.support.graphs import EXPIRED, armed, crash_at, expire_intents, knows, people, recovery_files
from tests.support.invariants import check_every_version
from tests.support.writers import small_graph

DAN = {"Person": people("dan"), "Knows": knows(("dan", "ann"))}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    small_graph(str(tmp_path / "g"))
    return str(tmp_path / "g")


def audit(uri: str) -> list[str]:
    return [row["recovery_kind"] for row in Graph.open(uri, mode="ro").recovery.audit().to_pylist()]


def is_there(uri: str, name: str = "dan") -> bool:
    return Graph.open(uri, mode="ro").entity_at("node:Person", name) is not None


# --- a step that fails ---------------------------------------------------------------------------------------------


def test_a_failing_intent_put_aborts_with_no_effect(uri: str) -> None:
    with armed(f"{Point.INTENT_BEFORE_BEGIN}:error"), pytest.raises(StorageError, match="before_begin"):
        Graph.open(uri).load(DAN)
    assert recovery_files(uri) == []
    Graph.open(uri, settings=EXPIRED)
    assert (is_there(uri), audit(uri), check_every_version(uri).versions) == (False, [], 2)


@pytest.mark.parametrize(
    "point",
    [
        Point.ROWS_WRITTEN,
        Point.INTENT_BEGUN,
        Point.TABLE_STAGED,
        Point.INTENT_BEFORE_COMPLETE,
        Point.INTENT_COMPLETED,
    ],
)
def test_what_was_reported_as_failed_is_never_published_later(uri: str, point: Point) -> None:
    with armed(f"{point}:error"), pytest.raises(StorageError) as caught:
        Graph.open(uri).load(DAN)
    Graph.open(uri, settings=EXPIRED)
    assert not is_there(uri) or isinstance(caught.value, OutcomeUnknown)
    assert [name for name in recovery_files(uri) if not name.endswith(".aborted")] == []


@pytest.mark.parametrize("point", [Point.MANIFEST_WRITTEN, Point.BEFORE_SWAP, Point.SWAPPED, Point.BEFORE_ACK])
@pytest.mark.parametrize("data", [DAN, {"Person": people("dan")}], ids=["two tables", "one table"])
def test_a_swap_of_unknown_outcome_is_looked_up_and_made_once(uri: str, point: Point, data: Any) -> None:
    with armed(f"{point}:error:1"):
        commit = Graph.open(uri).load(data).commit
    assert commit is not None
    assert Graph.open(uri).commits.head().graph_commit_id == commit.graph_commit_id
    assert check_every_version(uri).versions == 3
    assert recovery_files(uri) == []


def test_the_commit_that_a_retried_write_returns_is_the_one_that_is_stored(uri: str) -> None:
    with armed(f"{Point.BEFORE_SWAP}:error:1"):
        commit = Graph.open(uri).load(DAN).commit
    assert Graph.open(uri).commits.head() == commit


def test_a_store_that_keeps_failing_after_the_swap_leaves_the_outcome_open(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_PUBLISH_DEADLINE", "0")
    with armed(f"{Point.BEFORE_SWAP}:error"), pytest.raises(OutcomeUnknown) as caught:
        Graph.open(uri).load(DAN)
    assert caught.value.commit_id not in [c.graph_commit_id for c in Graph.open(uri).commits.list()]
    Graph.open(uri, settings=EXPIRED)
    assert not is_there(uri)


def test_a_failing_removal_is_a_warning_and_is_healed_with_one_row(uri: str) -> None:
    with armed(f"{Point.INTENT_BEFORE_REMOVE}:error"), pytest.warns(RuntimeWarning, match="stays for the next sweep"):
        commit = Graph.open(uri).load(DAN).commit
    assert commit is not None
    assert is_there(uri)
    for _ in range(2):
        graph = Graph.open(uri, settings=EXPIRED)
        [row] = graph.recovery.audit().to_pylist()
        assert (row["recovery_kind"], row["graph_commit_id"]) == ("RolledForward", commit.graph_commit_id)
        assert graph.commits.head() == commit
    assert recovery_files(uri) == []


def test_a_failing_listing_is_loud(uri: str) -> None:
    graph = Graph.open(uri)
    with armed(f"{Point.INTENT_BEFORE_LIST}:error"):
        with pytest.raises(StorageError, match="before_list"):
            Graph.open(uri)
        with pytest.raises(StorageError, match="before_list"):
            graph.recovery.list()
        assert Graph.open(uri, mode="ro").snapshot().version == 2


@pytest.mark.parametrize("point", [Point.RECOVERY_BEFORE_AUDIT, Point.RECOVERY_AUDITED, Point.INTENT_BEFORE_REMOVE])
@pytest.mark.parametrize("crash", [Point.INTENT_BEGUN, Point.INTENT_COMPLETED, Point.BEFORE_ACK])
def test_a_failing_audit_is_retried_to_exactly_one_row(uri: str, point: Point, crash: Point) -> None:
    with crash_at(crash):
        Graph.open(uri).load(DAN)
    with armed(f"{point}:error"), pytest.raises(StorageError):
        Graph.open(uri, settings=EXPIRED)
    for _ in range(2):
        Graph.open(uri, settings=EXPIRED)
        assert audit(uri) == ["RolledBack" if crash is Point.INTENT_BEGUN else "RolledForward"]
    assert is_there(uri) == (crash is not Point.INTENT_BEGUN)
    assert check_every_version(uri).versions == 3, "one commit: the write's own, or the one that records its rollback"


def test_a_conflict_whose_withdrawal_fails_leaves_the_outcome_open(uri: str) -> None:
    graph, rival = Graph.open(uri), Graph.open(uri)

    def take_the_key() -> None:
        failpoints.arm({Point.INTENT_ABORTED: fail})
        rival.load({"Person": people("dan")})

    def fail() -> None:
        raise StorageError("the store is gone")

    failpoints.arm({Point.INTENT_COMPLETED: take_the_key})
    with pytest.raises(OutcomeUnknown) as caught:
        graph.load(DAN)
    failpoints.arm(None)
    assert isinstance(caught.value.__cause__, KeyConflict)
    Graph.open(uri, settings=EXPIRED)
    assert audit(uri) == ["RolledBack"]


@pytest.mark.parametrize("point", [Point.FOLD_COMPACTED, Point.FOLD_INDEXED, Point.FOLD_PUBLISHED])
def test_a_failing_fold_is_not_the_failure_of_the_write_that_made_it_due(
    uri: str, point: Point, caplog: pytest.LogCaptureFixture
) -> None:
    graph = Graph.open(uri)
    with armed(f"{point}:error"):
        for i in range(66):
            graph.load({"Person": people(f"p{i}")})
        graph.repository.store.wait_for_background_work()
    assert [record.event for record in caplog.records if record.levelname == "WARNING"] == ["fold.failed"]
    assert graph.rows("node:Person").num_rows == 66 + 3


@pytest.mark.parametrize("types", [("Company",), ("Company", "WorksAt")])
def test_overwriting_nothing_with_nothing_is_no_failure(
    uri: str, types: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_FSYNC", "on")
    monkeypatch.setenv("OMNIGRAPH_PUBLISH_DEADLINE", "0")
    Graph.open(uri).load({name: [] for name in types}, "overwrite")


# --- an intent that cannot be read ------------------------------------------------------------------------------


def _cut(body: bytes) -> bytes:
    return body[: len(body) // 2]


def _newer(body: bytes) -> bytes:
    return json.dumps({**json.loads(body), "format": 99}).encode()


HEADERS = [
    pytest.param(_cut, id="cut short"),
    pytest.param(lambda _: b"\x00\xff", id="noise"),
    pytest.param(lambda _: b"[]", id="a list"),
    pytest.param(lambda _: b"{}", id="an empty object"),
    pytest.param(_newer, id="newer"),
    pytest.param(lambda _: b"", id="empty"),
]
PLANS = [
    pytest.param(_cut, id="cut short"),
    pytest.param(lambda _: b"", id="empty"),
    pytest.param(lambda _: b"[]", id="a list"),
    pytest.param(_newer, id="newer"),
]


@pytest.mark.parametrize("change", HEADERS)
def test_an_intent_that_cannot_be_read_is_kept_loudly_and_hurts_nobody(uri: str, change: Any) -> None:
    with crash_at(Point.INTENT_BEGUN):
        Graph.open(uri).load(DAN)
    _check_unreadable(uri, "json", change)


@pytest.mark.parametrize("change", PLANS)
def test_a_plan_that_cannot_be_read_is_kept_loudly_and_hurts_nobody(uri: str, change: Any) -> None:
    with crash_at(Point.INTENT_COMPLETED):
        Graph.open(uri).load(DAN)
    _check_unreadable(uri, "staged", change)


def _check_unreadable(uri: str, part: str, change: Callable[[bytes], bytes]) -> None:
    [path] = (Path(uri) / "__recovery").glob(f"*.{part}")
    body = change(path.read_bytes())
    path.write_bytes(body)
    expire_intents(uri)
    for settings in (EXPIRED, EXPIRED, None):
        with pytest.warns(RuntimeWarning, match="cannot be read and is kept"):
            graph = Graph.open(uri, settings=settings)
    assert path.read_bytes() == body
    assert graph.load({"Person": people("eve")}).commit is not None
    assert {"ann", "eve"} <= set(graph.rows("node:Person")["id"].to_pylist())
    [intent] = graph.recovery.list()
    assert (intent.state, intent.operation_id) == ("invalid", path.name.partition(".")[0])
    assert intent.problem
    assert audit(uri) == []


def test_an_unreadable_intent_does_not_gather_files(uri: str) -> None:
    with crash_at(Point.INTENT_BEGUN):
        Graph.open(uri).load(DAN)
    [path] = (Path(uri) / "__recovery").iterdir()
    path.write_bytes(b"{")
    for _ in range(4):
        expire_intents(uri)
        with pytest.warns(RuntimeWarning, match="cannot be read"):
            Graph.open(uri)
    assert len(recovery_files(uri)) <= 2


def test_a_rollback_of_two_recoveries_is_one_commit(uri: str) -> None:
    with crash_at(Point.INTENT_BEGUN):
        Graph.open(uri).load(DAN)
    first, second = Graph.open(uri, "ro"), Graph.open(uri, "ro")
    for graph in (first, second):
        graph.repository.store.read_only = False
    expire_intents(uri)
    [header] = [first.repository.recovery._header(f) for f in first.repository.intents.list()]
    assert header is not None
    made = [graph.repository.recovery._record_rollback(header, "twice") for graph in (first, second)]
    assert made[0] == made[1]
    assert len([c for c in Graph.open(uri, "ro").commits.list() if c.kind == "recovery"]) == 1


def test_an_unreadable_intent_can_be_discarded_after_a_look(uri: str) -> None:
    """Until then cleanup refuses: nobody knows which files the intent needs."""
    with crash_at(Point.INTENT_COMPLETED):
        Graph.open(uri).load(DAN)
    [path] = (Path(uri) / "__recovery").glob("*.staged")
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.write_bytes(body)
    operation = path.name.partition(".")[0]
    with pytest.raises(ConflictError, match="is held"):
        Graph.open(uri).recovery.discard(operation)
    expire_intents(uri)
    with pytest.warns(RuntimeWarning, match="cannot be read"):
        graph = Graph.open(uri)
    with pytest.warns(RuntimeWarning), pytest.raises(CorruptGraph, match=operation) as caught:
        graph.maintenance.cleanup(confirm=True)
    assert f"recovery discard {operation}" in str(caught.value.hint)
    record = graph.recovery.discard(operation, reason="looked at")
    assert (record.recovery_kind, record.reason) == ("RolledBack", "discarded: looked at")
    assert audit(uri) == ["RolledBack"]
    assert [p.name for p in (Path(uri) / "__quarantine").iterdir() if p.name.endswith(".staged")]
    graph.maintenance.cleanup(confirm=True)
    assert not is_there(uri)
    with pytest.raises(NotFound):
        graph.recovery.discard(operation)


def test_an_intent_that_can_be_read_is_not_discarded(uri: str) -> None:
    with crash_at(Point.INTENT_COMPLETED):
        Graph.open(uri).load(DAN)
    graph = Graph.open(uri)
    [intent] = graph.recovery.list()
    with pytest.raises(ConflictError, match="can be read"):
        graph.recovery.discard(intent.operation_id)
    graph.recovery.discard(intent.operation_id, force=True)
    assert graph.recovery.list() == []


@pytest.mark.parametrize("how", ["read", "branch", "index"])
def test_reads_branches_and_index_builds_heal(uri: str, how: str) -> None:
    healer = Graph.open(uri, settings=Settings(lease=0.0, lease_margin=0.0, sweep_interval=0.0))
    with crash_at(Point.INTENT_COMPLETED):
        Graph.open(uri).load(DAN)
    expire_intents(uri)
    match how:
        case "read":
            healer.snapshot()
            healer.repository.store.wait_for_background_work()
        case "branch":
            healer.branches.create("new")
        case "index":
            healer.maintenance.ensure_indices()
    assert is_there(uri)
    assert audit(uri) == ["RolledForward"]
