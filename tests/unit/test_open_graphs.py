"""What an open graph owns: threads and memory that it releases when it is closed, and bytes that it keeps within."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidArgument
from omnigraph.versioning.store import Settings

SCHEMA = """
node Person { name: String @key  age: I64?  about: String? }
edge Knows: Person -> Person
"""
QUERY = "query q($name: String) { match { $p: Person $p knows $f $p.name = $name } return { $f.name, $f.age } }"
REACH = (
    "query q() { match { $p: Person $p knows $f } return { $p.name, $f.about, $f.age } order { $p.name, $f.about } }"
)


def fill(graph: Graph, people: int = 2000) -> None:
    rows = [{"name": f"p{n}", "age": n, "about": f"text {n} " * 20} for n in range(people)]
    ends = [{"from": f"p{n}", "to": f"p{(n * 7 + 1) % people}"} for n in range(people)]
    graph.load({"Person": rows, "Knows": ends})


def own_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("omnigraph")}


def test_a_closed_graph_has_no_threads_and_answers_nothing(tmp_path: Path) -> None:
    before = own_threads()
    with Graph.init(tmp_path / "g", SCHEMA) as graph:
        fill(graph)
        graph.query(REACH)
        assert own_threads() - before
        assert graph.repository.store.cache_budget.held > 0
    assert not own_threads() - before
    assert graph.repository.store.cache_budget.held == 0
    with pytest.raises(InvalidArgument, match="was closed"):
        graph.query(REACH)
    graph.close()
    assert Graph.open(tmp_path / "g").rows("Person").num_rows == 2000


def test_threads_do_not_grow_with_graphs_that_are_closed(tmp_path: Path) -> None:
    with Graph.init(tmp_path / "g", SCHEMA) as graph:
        fill(graph, 50)
    before = own_threads()
    for number in range(6):
        with Graph.open(tmp_path / "g") as graph:
            graph.load([{"type": "Person", "data": {"name": f"new {number}"}}])
            graph.query(QUERY, params={"name": "p1"})
    assert not own_threads() - before


@pytest.mark.parametrize("budget", [0, 50_000, 10_000_000])
def test_answers_do_not_depend_on_what_is_kept(tmp_path: Path, budget: int) -> None:
    Graph.init(tmp_path / "g", SCHEMA).close()
    graph = Graph.open(tmp_path / "g", settings=Settings(cache_bytes=budget))
    fill(graph)
    expected = sorted((f"p{n}", f"text {(n * 7 + 1) % 2000} " * 20) for n in range(2000))
    store = graph.repository.store
    for number in range(3):
        found = graph.query(REACH).to_pylist()
        assert [(row["p.name"], row["f.about"]) for row in found] == expected
        assert graph.query(QUERY, params={"name": "p5"}).to_pylist() == [{"f.name": "p36", "f.age": 36}]
        assert store.cache_budget.held <= budget
        graph.load([{"type": "Person", "data": {"name": f"alone {number}", "about": "nobody"}}])
    assert store.cache_budget.held > 0 or not budget


def test_memory_stays_within_the_budget_over_commits_and_reads(tmp_path: Path) -> None:
    """Each commit is a new pin of the table, whose columns are read anew: those of older pins go."""
    Graph.init(tmp_path / "g", SCHEMA).close()
    graph = Graph.open(tmp_path / "g", settings=Settings(cache_bytes=1_500_000))
    fill(graph)
    for number in range(20):
        graph.load([{"type": "Person", "data": {"name": f"new {number}", "about": "x" * 100}}])
        assert graph.query(REACH).row_count == 2000
        assert graph.repository.store.cache_budget.held <= 1_500_000


def test_graphs_prepare_their_writes_independently(tmp_path: Path) -> None:
    """A write of one graph does not wait for the preparation of another graph's write."""
    first, other = (Graph.init(tmp_path / name, SCHEMA) for name in ("a", "b"))
    done: list[int] = []

    def write(graph: Graph) -> Callable[[], None]:
        return lambda: done.append(graph.load([{"type": "Person", "data": {"name": "x"}}]).total_entities)

    with first.repository.store.preparing:
        thread = threading.Thread(target=write(other))
        thread.start()
        thread.join(30)
        assert done == [1]
        assert other.repository.store.preparing is not first.repository.store.preparing


def test_the_environment_sets_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_CACHE_BYTES", "123456")
    assert Graph.init(tmp_path / "g", SCHEMA).repository.store.cache_budget.capacity == 123456
    monkeypatch.setenv("OMNIGRAPH_CACHE_BYTES", "much")
    with pytest.raises(InvalidArgument, match="OMNIGRAPH_CACHE_BYTES"):
        Graph.open(tmp_path / "g")
