"""Topologies kept in the store: found again, extended after appends, never believed when damaged, never required."""

from __future__ import annotations

import random
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph import Graph
from omnigraph.execution.arrow.topology import Ends, arcs, build_adjacency, extend_adjacency
from omnigraph.storage.derived import DerivedStore
from omnigraph.storage.layout import DERIVED, GraphRoot
from omnigraph.storage.objects import ObjectStore
from omnigraph.versioning.store import GraphStore, Settings
from tests.conftest import SCHEMA
from tests.support.rows import knows, person

KEEP_ALL = Settings(derived_min_rows=0)
PATHS = "query q() { match { $a: Person  $a knows $b  $b knows $c } return { $a.name, $b.name, $c.name } }"
EDGES = "query q() { match { $a: Person  $a $k:knows $b } return { $a.name, $k.@id, $b.name } }"
COUNT = "query q() { match { $a: Person  $a knows $b } return { count(*) as n } }"
NAMES = [f"p{i}" for i in range(30)]


def some_edges(seed: int, count: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [knows(rng.choice(NAMES), rng.choice(NAMES)) for _ in range(count)]


def answers(graph: Graph, query: str = PATHS) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in graph.query(query).to_pylist())


def opened(uri: str, mode: str = "rw", **settings: Any) -> Graph:
    return Graph.open(uri, mode, settings=Settings(derived_min_rows=0, **settings))


def kept(uri: str) -> list[Path]:
    return sorted(p for p in (Path(uri) / DERIVED).rglob("*") if p.is_file())


@pytest.fixture
def uri(root: str) -> str:
    graph = Graph.init(root, SCHEMA)
    graph.load([*map(person, NAMES), *some_edges(1, 60)])
    return root


def computed(uri: str, query: str = PATHS) -> list[tuple[Any, ...]]:
    """Without any derived state."""
    return answers(opened(uri, derived=False), query)


def test_a_fresh_handle_finds_what_another_one_kept(uri: str) -> None:
    first = opened(uri)
    wanted = answers(first)
    first.local.executor.topologies.wait_until_kept()
    fresh = opened(uri)
    pins = _pins(fresh)
    assert fresh.local.executor.topologies.is_stored(pins, "out", distinct=True)
    assert answers(fresh) == wanted == computed(uri)


def test_kept_state_answers_without_the_edges(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([*map(person, NAMES), *some_edges(1, 60)])
    first = opened(graph.uri)
    wanted = answers(first, COUNT)
    first.local.executor.topologies.wait_until_kept()
    for data in (tmp_path / "g" / "edges").glob("*/data"):
        shutil.rmtree(data)
    assert answers(opened(graph.uri), COUNT) == wanted


@pytest.mark.parametrize("cut", [0, 5, 40, -1])
def test_a_damaged_file_is_computed_again_and_replaced(tmp_path: Path, cut: int) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([*map(person, NAMES), *some_edges(1, 60)])
    first = opened(graph.uri)
    wanted = answers(first)
    first.local.executor.topologies.wait_until_kept()
    files = kept(graph.uri)
    whole = {file: file.read_bytes() for file in files}
    for file in files:
        file.write_bytes(whole[file][:cut])
    fresh = opened(graph.uri)
    assert answers(fresh) == wanted
    fresh.local.executor.topologies.wait_until_kept()
    assert {file: file.read_bytes() for file in files} == whole


@pytest.mark.parametrize("query", [PATHS, EDGES, COUNT])
def test_appended_edges_and_nodes_extend_what_was_kept(uri: str, query: str) -> None:
    graph = opened(uri)
    answers(graph, query)
    graph.local.executor.topologies.wait_until_kept()
    for number in range(3):
        Graph.open(uri).load([person(f"new{number}"), *some_edges(number + 10, 7), knows(f"new{number}", "p0")])
        assert answers(graph, query) == computed(uri, query)
        assert answers(opened(uri), query) == computed(uri, query)
    Graph.open(uri).load([person("lonely")])
    assert answers(opened(uri), query) == computed(uri, query)


def test_an_extension_reads_only_the_new_edges(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([*map(person, NAMES), *some_edges(1, 60)])
    first = opened(graph.uri)
    before = answers(first, COUNT)
    first.local.executor.topologies.wait_until_kept()
    old = list((tmp_path / "g" / "edges").glob("*/data/*"))
    graph.load([person("x"), knows("x", "p0")])
    for file in old:
        file.unlink()
    assert answers(opened(graph.uri), COUNT) == [(before[0][0] + 1,)]


@pytest.mark.parametrize("query", [PATHS, EDGES, COUNT])
def test_deleted_nodes_and_replaced_edges_are_seen(uri: str, query: str) -> None:
    graph = opened(uri)
    answers(graph, query)
    graph.local.executor.topologies.wait_until_kept()
    Graph.open(uri).delete("Person", ["p3"])
    assert answers(opened(uri), query) == answers(graph, query) == computed(uri, query)
    Graph.open(uri).load([person("p3")], mode="append")
    Graph.open(uri).load([knows("p3", "p4")])
    assert answers(opened(uri), query) == answers(graph, query) == computed(uri, query)


def test_branches_that_append_to_one_state_do_not_meet(uri: str) -> None:
    graph = opened(uri)
    answers(graph)
    graph.local.executor.topologies.wait_until_kept()
    graph.branches.create("other")
    graph.load([person("m"), knows("m", "p1")])
    graph.load([person("o"), knows("o", "p2"), knows("o", "p3")], branch="other")
    for branch in ("main", "other"):
        found = sorted(tuple(r.values()) for r in opened(uri).query(PATHS, branch=branch).to_pylist())
        wanted = opened(uri, derived=False).query(PATHS, branch=branch).to_pylist()
        assert found == sorted(tuple(row.values()) for row in wanted)


@pytest.mark.parametrize("how", [{"mode": "ro"}, {"derived": False}])
def test_nothing_is_kept_by_readers_and_when_turned_off(tmp_path: Path, how: dict[str, Any]) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([*map(person, NAMES), *some_edges(1, 60)])
    reader = opened(graph.uri, **how)
    assert answers(reader) == computed(graph.uri)
    reader.local.executor.topologies.wait_until_kept()
    assert not kept(graph.uri)


def test_the_environment_turns_it_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_DERIVED", "off")
    assert not Settings.from_env().derived


def test_a_root_that_cannot_be_written_only_costs_time(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([*map(person, NAMES), *some_edges(1, 60)])
    (tmp_path / "g" / DERIVED).write_text("no directory")
    stuck = opened(graph.uri)
    assert answers(stuck) == computed(graph.uri)
    stuck.local.executor.topologies.wait_until_kept()


def test_small_tables_are_not_worth_a_file(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([*map(person, NAMES), *some_edges(1, 60)])
    answers(graph)
    graph.local.executor.topologies.wait_until_kept()
    assert not kept(graph.uri)


def test_racing_handles_keep_one_whole_state(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([*map(person, NAMES), *some_edges(1, 60)])
    wanted = computed(graph.uri)
    found: list[list[Any]] = []

    def run() -> None:
        mine = opened(graph.uri)
        found.append(answers(mine))
        mine.local.executor.topologies.wait_until_kept()

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 6
    assert answers(opened(graph.uri)) == wanted
    assert not [file for file in kept(graph.uri) if file.name.startswith(".")]


def test_old_states_are_dropped(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", SCHEMA)
    graph.load([*map(person, NAMES)])
    for number in range(8):
        graph.load(some_edges(number, 40))
        mine = opened(graph.uri)
        answers(mine, COUNT)
        mine.local.executor.topologies.wait_until_kept()
    by_folder: dict[Path, int] = {}
    for file in kept(graph.uri):
        by_folder[file.parent] = by_folder.get(file.parent, 0) + 1
    assert max(by_folder.values()) == 4


@pytest.mark.parametrize("direction", ["out", "in", "both"])
@pytest.mark.parametrize("distinct", [True, False])
def test_extending_is_building(direction: str, distinct: bool) -> None:
    rng = np.random.default_rng(5)
    for _ in range(30):
        near, far = rng.integers(1, 9), rng.integers(1, 9)
        far = near if direction == "both" else far
        more = int(rng.integers(0, 4))
        first = Ends(rng.integers(0, near, 12), rng.integers(0, far, 12))
        second = Ends(rng.integers(0, near + more, 6), rng.integers(0, far + more, 6))
        whole = Ends(np.append(first.source, second.source), np.append(first.target, second.target))
        if direction == "in":
            near, far = far, near
        old = build_adjacency(arcs(first, np.arange(12), direction), near, far, distinct=distinct)
        grown = extend_adjacency(
            old, arcs(second, np.arange(12, 18), direction), near + more, far + more, distinct=distinct
        )
        built = build_adjacency(arcs(whole, np.arange(18), direction), near + more, far + more, distinct=distinct)
        assert grown.starts.tolist() == built.starts.tolist()
        for node in range(near + more):
            place = slice(grown.starts[node], grown.starts[node + 1])
            pairs = [
                sorted(zip(a.targets[place], a.edges[place] if len(a.edges) else a.targets[place], strict=True))
                for a in (grown, built)
            ]
            assert pairs[0] == pairs[1]


def test_arrays_come_back_as_they_were(root: str) -> None:
    GraphStore(GraphRoot.parse(root)).objects.create_root()
    store = GraphStore(GraphRoot.parse(root))
    arrays = {"a": np.arange(7, dtype=np.int32), "none": np.empty(0, np.int64), "b": np.arange(9.0)}
    assert store.derived.write("some/where", {"rows": [1, 2]}, arrays)
    found = store.derived.read("some/where")
    assert found is not None
    assert found.facts == {"rows": [1, 2]}
    assert {name: (a.dtype, a.tolist()) for name, a in found.arrays.items()} == {
        name: (a.dtype, a.tolist()) for name, a in arrays.items()
    }
    assert store.derived.read("some/other") is None
    disabled = DerivedStore(store.objects, enabled=False)
    assert disabled.read("some/where") is None
    assert not disabled.newest("some", 3)
    assert isinstance(store.objects, ObjectStore)


def _pins(graph: Graph) -> Any:
    from omnigraph.execution.arrow.topologies import EdgePins

    snapshot = graph.snapshot()
    return EdgePins(*(snapshot.table(key) for key in ("edge:Knows", "node:Person", "node:Person")))
