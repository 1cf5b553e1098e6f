"""A load that is refused reports every kind of fault that its rows have, in one run, and no fault that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidValue, MissingEndpoint, OmnigraphError

SCHEMA = """node Person { name: String @key  age: I32?  mail: String? @unique }
edge Knows: Person -> Person { since: Date? }
node Place { name: String @key  size: I32? }
edge Lives: Person -> Place @card(0..1)
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    opened = Graph.init(tmp_path / "g", SCHEMA)
    opened.load([{"type": "Person", "data": {"name": "Ada", "mail": "a@x"}}])
    return opened


def person(name: str, **more: object) -> dict[str, object]:
    return {"type": "Person", "data": {"name": name, **more}}


def faults(
    graph: Graph, rows: list[dict[str, object]], mode: str = "append"
) -> tuple[OmnigraphError, list[tuple[str, int]]]:
    with pytest.raises(OmnigraphError) as caught:
        graph.load(rows, mode=mode)  # type: ignore[arg-type]
    return caught.value, [(each.rule, each.row or 0) for each in caught.value.violations]  # type: ignore[attr-defined]


def test_wrong_values_duplicates_and_taken_keys_are_reported_together(graph: Graph) -> None:
    rows = [
        person("Bob"), person("Cleo", age="old"), person("Bob"), person("Ada"), person("Dora", mail="a@x"),
        person("Eve", mail="e@x"), person("Fay", mail="e@x"), {"type": "Place", "data": {"name": "Rome", "size": "x"}},
    ]  # fmt: skip
    error, found = faults(graph, rows)
    assert isinstance(error, InvalidValue)
    assert found == [("type", 2), ("type", 8), ("key", 3), ("taken", 4), ("unique", 5), ("unique", 7)]
    assert "(and 5 more)" in str(error)
    assert graph.snapshot().tables["node:Person"].row_count == 1


def test_a_missing_end_is_a_fault_unless_the_node_may_be_among_the_wrong_rows(graph: Graph) -> None:
    edge = {"edge": "Knows", "from": "Ada", "to": "Zoe"}
    wrong_place = {"type": "Place", "data": {"name": "Rome", "size": "x"}}
    assert faults(graph, [edge, wrong_place])[1] == [("type", 2), ("endpoint", 1)]
    assert faults(graph, [edge, person("Zoe", age="old")])[1] == [("type", 2)]
    error, found = faults(graph, [edge])
    assert (type(error), found) == (MissingEndpoint, [("endpoint", 1)])


def test_upserts_that_replace_each_other_are_no_duplicates(graph: Graph) -> None:
    edge = {"edge": "Knows", "from": "Ada", "to": "Ada", "data": {"id": "e1"}}
    assert faults(graph, [edge, edge, person("Cleo", age="old")], "merge")[1] == [("type", 3)]


def test_memory_is_bounded(graph: Graph) -> None:
    rows = [person(f"n{i}", age="old") for i in range(5_000)] + [person("Bob")] * 5_000
    assert len(faults(graph, rows)[1]) <= 200
