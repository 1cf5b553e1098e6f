"""What one process leaves for the next: it saves a read, and never shows."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.storage import calls
from omnigraph.storage.failpoints import Point
from omnigraph.storage.layout import LOCKS
from omnigraph.versioning.maintenance_plan import maintenance_plan
from omnigraph.versioning.manifest import ManifestState
from tests.support.graphs import crash_at

SCHEMA = "node A { name: String @key }\nnode B { name: String @key }\nnode C { name: String @key }"


@pytest.fixture
def counts() -> Iterator[Counter[str]]:
    yield calls.start()
    calls.stop()


def put(graph: Graph, kind: str, name: object) -> None:
    graph.load([{"type": kind, "data": {"name": str(name)}}])


def state_in_turn(graph: Graph) -> ManifestState:
    """What a publisher finds when it has its turn."""
    tip = graph.repository.refs.tip("main")
    with tip.turn():
        return tip.swap_base()[0]


def assert_as_stored(state: ManifestState, uri: str) -> None:
    stored = Graph.open(uri, "ro").repository.head()
    assert state == stored
    assert list(state.commits) == list(stored.commits)
    assert list(state.tables) == list(stored.tables)


def lock_of_main(uri: str) -> Path:
    [file] = (Path(uri) / LOCKS).iterdir()
    return file


def test_writers_in_turn_take_over_what_the_one_before_left(tmp_path: Path, counts: Counter[str]) -> None:
    first = Graph.init(tmp_path / "g", SCHEMA)
    others = [Graph.open(tmp_path / "g") for _ in range(2)]
    for number in range(120):  # enough for folds, and for commits to move to history files
        for kind, graph in zip("ABC", (first, *others), strict=True):
            put(graph, kind, number)
    for graph in (first, *others):
        graph.repository.store.wait_for_background_work()
    for number in range(3):
        put(others[0], "B", f"more-{number}")
        put(others[1], "C", f"more-{number}")
        before = counts["manifest read"]
        found = state_in_turn(first)
        assert counts["manifest read"] == before, "the version was handed over"
        assert_as_stored(found, first.uri)
        put(first, "A", f"more-{number}")
        assert_as_stored(state_in_turn(first), first.uri)


def test_every_kind_of_commit_is_handed_over_whole(tmp_path: Path, counts: Counter[str]) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    other, watcher = Graph.open(graph.uri), Graph.open(graph.uri)
    put(graph, "A", "a")
    put(other, "B", "b")

    def merge() -> None:
        other.branches.create("side")
        other.load([{"type": "A", "data": {"name": "s"}}], branch="side")
        put(graph, "B", "meanwhile")
        other.branches.merge("side", into="main")

    kinds: list[Callable[[], object]] = [
        lambda: other.load([{"type": "A", "data": {"name": "a2"}}, {"type": "B", "data": {"name": "b2"}}]),
        lambda: other.mutate('query drop() { delete A where name = "a" }'),
        lambda: other.load({"B": [{"name": "only"}]}, mode="overwrite"),
        lambda: other.schema.apply(SCHEMA + "\nnode D { name: String @key }"),
        merge,
        other.maintenance.optimize,
    ]
    for commit in kinds:
        put(graph, "C", f"before {counts['manifest swap']}")
        state_in_turn(watcher)
        commit()
        assert_as_stored(state_in_turn(watcher), graph.uri)
    left = counts["manifest read"]
    assert_as_stored(state_in_turn(watcher), graph.uri)
    assert counts["manifest read"] > left, "the reader it is compared with reads"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: b"",
        lambda content: content[:5],
        lambda content: content[:-1],
        lambda content: content[:100] + bytes([content[100] ^ 1]) + content[101:],
        lambda content: b"\0" * len(content),
        lambda content: b"\0" * 8,
        lambda content: b"\x03\0\0\0\xc2\x41\x24\x35abc",  # well-formed, and nothing that was ever left
    ],
)
def test_what_is_spoiled_is_not_taken(tmp_path: Path, counts: Counter[str], spoil: Callable[[bytes], bytes]) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    other = Graph.open(graph.uri)
    for number in range(3):
        put(graph, "A", number)
        put(other, "B", number)
    lock = lock_of_main(graph.uri)
    assert len(lock.read_bytes()) > 1000
    lock.write_bytes(spoil(lock.read_bytes()))
    before = counts["manifest read"]
    found = state_in_turn(graph)
    assert counts["manifest read"] == before + 1
    assert_as_stored(found, graph.uri)
    put(graph, "A", "after")
    assert_as_stored(state_in_turn(other), graph.uri)


@pytest.mark.parametrize("ahead", [0, 1, 40])
def test_what_was_left_in_another_store_is_not_taken(tmp_path: Path, ahead: int) -> None:
    """A copy of the store went its own way, and the folder of locks came back from there."""
    graph = Graph.init(tmp_path / "g", SCHEMA)
    other = Graph.open(graph.uri)
    put(graph, "A", 1)
    put(other, "B", 1)
    shutil.copytree(tmp_path / "g", tmp_path / "copy")
    elsewhere = [Graph.open(tmp_path / "copy") for _ in range(2)]
    put(graph, "A", 2)
    put(other, "B", 2)
    for number in range(1 + ahead):
        put(elsewhere[number % 2], "C", f"elsewhere-{number}")
    put(elsewhere[ahead % 2 - 1], "C", "elsewhere")
    shutil.copy(lock_of_main(elsewhere[0].uri), lock_of_main(graph.uri))
    found = state_in_turn(graph)
    assert_as_stored(found, graph.uri)
    assert found.tables["node:C"].row_count == 0
    put(graph, "A", 3)
    put(other, "B", 3)
    assert_as_stored(state_in_turn(graph), graph.uri)
    assert {key: entry.row_count for key, entry in state_in_turn(other).tables.items()} == {
        "node:A": 3, "node:B": 3, "node:C": 0,
    }  # fmt: skip


def test_a_writer_that_is_alone_leaves_nothing(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    put(graph, "A", "first")
    lock = lock_of_main(graph.uri)
    left = lock.read_bytes()
    for number in range(5):
        put(graph, "A", number)
    assert lock.read_bytes() == left


def test_what_was_tried_in_vain_is_not_handed_over(tmp_path: Path) -> None:
    """Two publishes in one turn: the second writes its rows and fails, and what is left is the first."""
    graph = Graph.init(tmp_path / "g", SCHEMA)
    other = Graph.open(graph.uri)
    put(graph, "A", 1)
    put(other, "B", 1)
    state_in_turn(other)
    repository = graph.repository
    tip = repository.refs.tip("main")
    with tip.turn():
        state, _ = tip.swap_base()
        plans = [maintenance_plan(state, [], kind="optimize", message=text) for text in ("done", "in vain")]
        repository.publisher.publish_in_turn(tip, plans[0])
        with crash_at(Point.BEFORE_SWAP):
            repository.publisher.publish_in_turn(tip, plans[1])
    found = state_in_turn(other)
    assert_as_stored(found, graph.uri)
    assert found.head == plans[0].commit_id
    put(other, "B", 2)
    assert_as_stored(state_in_turn(graph), graph.uri)
