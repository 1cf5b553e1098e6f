"""What merging, comparing and following changes cost: operations follow the change, not the size of the graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from omnigraph import Graph
from tests.support.counting import file_events

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"


def of_size(folder: Path, rows: int) -> Graph:
    graph = Graph.init(folder / f"g{rows}", SCHEMA)
    names = pa.array([f"p{i:07}" for i in range(rows)])
    graph.load({"Person": pa.table({"name": names, "age": pa.array([1] * rows, pa.int32())})})
    index(graph)
    return graph


def index(graph: Graph) -> None:
    """Cover the table by its key index, as maintenance does."""
    from omnigraph.write.index_fold import fold

    graph.repository.store.wait_for_background_work()
    state = graph.repository.head()
    fold(graph.repository, state, state.tables["node:Person"])


def edit(graph: Graph, branch: str, count: int, offset: int) -> None:
    rows = [{"name": f"p{(i * 7 + offset):07}", "age": offset + 2} for i in range(count)]
    graph.load({"Person": rows}, "merge", branch)


def opened_by(graph: Graph, action: Callable[[], object]) -> int:
    with file_events(Path(graph.uri)) as events:
        action()
    return len(events.opened) + len(events.created)


def test_a_merge_of_few_rows_costs_the_same_in_a_large_graph(tmp_path: Path) -> None:
    costs = {}
    for rows in (20_000, 1_000_000):
        graph = of_size(tmp_path, rows)
        graph.branches.create("dev")
        edit(graph, "dev", 50, 0)
        edit(graph, "main", 8, 3)
        head = graph.commits.head().graph_commit_id
        merge = opened_by(graph, lambda graph=graph: graph.branches.merge("dev"))
        changes = opened_by(graph, lambda graph=graph: graph.commits.changes(graph.commits.head().graph_commit_id))
        diff = opened_by(graph, lambda graph=graph, head=head: list(graph.diff(head, "main")))
        assert len(list(graph.diff(head, "main"))) == 50
        costs[rows] = (merge, changes, diff)
    for small, large in zip(*costs.values(), strict=True):
        assert large <= 1.2 * small, costs


def test_a_fast_forward_moves_no_data(tmp_path: Path) -> None:
    costs = {}
    for rows in (10, 100_000):
        graph = of_size(tmp_path, rows)
        graph.branches.create("dev")
        fresh = pa.table({"name": pa.array([f"new{i}" for i in range(rows)])})
        graph.load({"Person": fresh}, branch="dev")
        graph.repository.store.wait_for_background_work()
        with file_events(Path(graph.uri)) as events:
            assert graph.branches.merge("dev").outcome == "fast_forward"
        assert not [name for name in events.created if "/nodes/" in name]
        assert not [name for name in events.opened if "/data/" in name and "/nodes/" in name]
        costs[rows] = len(events.opened) + len(events.created)
    assert costs[100_000] <= costs[10] + 2, costs


def test_a_merge_costs_what_it_touches_not_how_many_types_there_are(tmp_path: Path) -> None:
    costs = {}
    for types in (3, 300):
        text = "\n".join(f"node T{i} {{ k: String @key v: I32? }}" for i in range(types))
        graph = Graph.init(tmp_path / f"t{types}", text)
        graph.load({"T0": [{"k": "a", "v": 1}, {"k": "b", "v": 1}]})
        graph.branches.create("dev")
        graph.load({"T0": [{"k": "a", "v": 2}]}, "merge", "dev")
        graph.load({"T0": [{"k": "b", "v": 2}]}, "merge")
        costs[types] = opened_by(graph, lambda graph=graph: graph.branches.merge("dev"))
    assert costs[300] <= costs[3] + 2, costs
