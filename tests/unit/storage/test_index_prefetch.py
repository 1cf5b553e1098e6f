"""Key indexes that are read before lookups need them: once, where lookups are many, and never at their cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.storage import calls
from omnigraph.storage.index_prefetch import IndexPrefetch
from omnigraph.storage.tables import Table
from omnigraph.versioning.staging import open_table
from omnigraph.write.index_fold import fold


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(tmp_path / "g", "node P { name: String @key  age: I32? }")
    graph.load({"P": [{"name": f"p{i}"} for i in range(50)]})
    return folded(graph)


@pytest.fixture
def counted() -> Iterator[Counter[str]]:
    yield calls.start()
    calls.stop()


def folded(graph: Graph) -> Graph:
    state = graph.repository.head()
    fold(graph.repository, state, state.tables["node:P"])
    return graph


def home_of(graph: Graph) -> Table:
    return open_table(graph.repository.store, graph.repository.head().tables["node:P"]).index_home


def look_up(warming: IndexPrefetch, home: Table, times: int) -> None:
    for _ in range(times):
        warming.looked_up(home)
    warming.wait()


def test_an_index_is_read_once_it_is_used_often_and_not_again(graph: Graph, counted: Counter[str]) -> None:
    warming, home = IndexPrefetch(patience=3, few=10), home_of(graph)
    look_up(warming, home, 2)
    assert counted["index read"] == 0
    look_up(warming, home, 10)
    assert counted["index read"] == 1


def test_what_a_fold_adds_for_few_rows_is_no_reason_to_read_again(graph: Graph, counted: Counter[str]) -> None:
    warming = IndexPrefetch(patience=3, few=10)
    look_up(warming, home_of(graph), 3)
    graph.load({"P": [{"name": "folded"}]})
    home = home_of(folded(graph))
    assert home.memory.count_lookup() == 1, "another version of the index"
    look_up(warming, home, 3)
    assert counted["index read"] == 1
    graph.load({"P": [{"name": f"q{i}"} for i in range(50)]})
    look_up(warming, home_of(folded(graph)), 3)
    assert counted["index read"] == 2


def test_a_graph_that_is_opened_again_has_a_cache_of_its_own(graph: Graph, counted: Counter[str]) -> None:
    warming = IndexPrefetch(patience=3, few=10)
    for opened in (graph, Graph.open(graph.uri)):
        look_up(warming, home_of(opened), 3)
    assert counted["index read"] == 2


@pytest.mark.parametrize("bounds", [{"few": 50}, {"few": 10, "many": 40}], ids=["too small", "too large"])
def test_indexes_that_are_not_worth_it_or_have_no_room(
    graph: Graph, bounds: dict[str, int], counted: Counter[str]
) -> None:
    look_up(IndexPrefetch(patience=1, **bounds), home_of(graph), 5)
    assert counted["index read"] == 0


def test_deletions_are_read_where_lookups_are_many(graph: Graph, counted: Counter[str]) -> None:
    graph.mutate('query d() { delete P where name = "p7" }')
    home = home_of(Graph.open(graph.uri))
    [fragment_id] = home.fragments
    assert home.deleted_offsets(fragment_id) is None
    look_up(IndexPrefetch(patience=3), home, 3)
    deleted = home.deleted_offsets(fragment_id)
    assert deleted is not None
    assert deleted.tolist() == [7]
    assert (counted["index read"], counted["deletions read"]) == (0, 1), "an index of few rows is not worth it"


def test_an_index_that_is_gone_disturbs_nobody(graph: Graph, counted: Counter[str]) -> None:
    home = home_of(graph)
    for file in Path(graph.uri).glob("**/_indices/*/*"):
        file.unlink()
    warming = IndexPrefetch(patience=1, few=10)
    look_up(warming, home, 1)  # an error in the thread would fail this test
    assert counted["index read"] == 1
    assert home.shared.not_prefetched({"any"}) == {"any"}
