"""What writes demand of the state they are published on, demand by demand, and `@card` with a minimum under races."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.errors import CardinalityViolation, DuplicateKey, MissingEndpoint, OmnigraphError
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import Point
from omnigraph.versioning.plan import CardinalityWithin, KeysAbsent, KeysPresent, NoIncident, Requirement, ValuesAbsent
from omnigraph.write.transaction import WriteTxn
from omnigraph.write.validation import NOWHERE, Findings, TableDelta, check_fields, no_ids
from omnigraph.write.validation.edges import check_endpoints
from omnigraph.write.validation.keys import check_keys, duplicates
from tests.support.fixtures import disarmed, unflushed
from tests.support.graphs import crash_at, while_armed
from tests.support.invariants import check_every_version

__all__ = ["disarmed", "unflushed"]
SCHEMA = """
node Person { name: String @key  email: String? @unique  age: I32? }
node Task { title: String @key }
edge Owns: Person -> Task @card(1..2)
edge Knows: Person -> Person
"""
P, T, OWNS, K = "node:Person", "node:Task", "edge:Owns", "edge:Knows"
ADDRESS = ("email",)


def owns(edge_id: str, source: str, target: str) -> dict[str, str]:
    return {"id": edge_id, "from": source, "to": target}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Ann has two tasks, bob one, cy and dee none; ann knows bob, cy knows dee."""
    graph = Graph.init(tmp_path / "g", SCHEMA)
    persons = [{"name": "ann"}, {"name": "bob", "email": "b@x"}, {"name": "cy"}, {"name": "dee"}]
    graph.load({
        "Person": persons, "Task": [{"title": f"t{i}"} for i in range(4)],
        "Owns": [owns("o1", "ann", "t0"), owns("o2", "ann", "t1"), owns("o3", "bob", "t0")],
        "Knows": [owns("k1", "ann", "bob"), owns("k2", "cy", "dee")],
    })  # fmt: skip
    return graph


def load(data: dict[str, Any], mode: str = "append") -> Callable[[Graph], object]:
    return lambda graph: graph.load(data, mode)  # type: ignore[arg-type]


# --- demands -------------------------------------------------------------------------------------------------------

DEMANDS: dict[str, tuple[Callable[[Graph], object], list[Requirement]]] = {
    "inserts": (
        load({"Person": [{"name": "eve", "email": "e@x"}], "Owns": [owns("o9", "bob", "t2"), owns("o8", "eve", "t2")]}),
        [
            KeysAbsent(P, ("eve",)), ValuesAbsent(P, ADDRESS, (("e@x",),)), KeysAbsent(OWNS, ("o9", "o8")),
            KeysPresent(P, ("bob",)), KeysPresent(T, ("t2",)), CardinalityWithin(OWNS, 1, 2, (("bob", 1), ("eve", 1))),
        ],
    ),
    "an edge that is replaced": (
        load({"Task": [{"title": "new"}], "Owns": [owns("o3", "bob", "new")]}, "merge"),
        [KeysPresent(P, ("bob",)), CardinalityWithin(OWNS, 1, 2, (("bob", 1),), ("o3",))],
    ),
    "an edge that moves to another source": (
        load({"Task": [{"title": "new"}], "Owns": [owns("o1", "cy", "new")]}, "merge"),
        [KeysPresent(P, ("cy",)), CardinalityWithin(OWNS, 1, 2, (("cy", 1), ("ann", 0)), ("o1",))],
    ),
    "a row that is replaced": (
        load({"Person": [{"name": "bob", "email": "n@x"}], "Task": [{"title": "t0"}]}, "merge"),
        [ValuesAbsent(P, ADDRESS, (("n@x",),), ("bob",))],
    ),
    "a node and its edges": (
        lambda graph: graph.delete("Person", ["cy"]),
        [NoIncident(K, ("src", "dst"), ("cy",), ("k2",)), NoIncident(OWNS, ("src",), ("cy",))],
    ),
    "a source and its edges": (
        lambda graph: graph.delete("Person", ["ann"]),
        [NoIncident(K, ("src", "dst"), ("ann",), ("k1",)), NoIncident(OWNS, ("src",), ("ann",), ("o1", "o2"))],
    ),
    "a type that is overwritten": (
        load({"Task": [{"title": f"t{i}"} for i in (0, 1, 9)], "Knows": [owns("k1", "ann", "bob")]}, "overwrite"),
        [KeysPresent(P, ("ann", "bob")), NoIncident(OWNS, ("dst",), ("t2", "t3"))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DEMANDS)
def test_what_a_write_demands(graph: Graph, name: str) -> None:
    """As its intent says: everything it has read, and nothing else."""
    write, demands = DEMANDS[name]
    with crash_at(Point.INTENT_COMPLETED):
        write(graph)
    [plan] = Graph.open(graph.uri, mode="ro").repository.recovery.pending_plans()
    assert sorted(map(str, plan.requirements)) == sorted(map(str, demands))
    assert {r.table_key for r in demands} <= plan.pins.keys()


# --- rules at their edges ------------------------------------------------------------------------------------------


def edges_of(graph: Graph) -> Counter[str]:
    return Counter(graph.rows(OWNS)["src"].to_pylist())


def test_a_source_keeps_its_minimum(graph: Graph) -> None:
    graph.delete("Owns", ["o1"])
    with pytest.raises(CardinalityViolation, match="would have 0"):
        graph.delete("Owns", ["o2"])
    with pytest.raises(CardinalityViolation):
        graph.load({"Owns": [owns("o2", "bob", "t3")]}, "merge")
    graph.load({"Owns": [owns("o2", "ann", "t3")]}, "merge")
    graph.delete("Person", ["ann"])
    assert edges_of(graph) == {"bob": 1}


def test_a_source_keeps_its_maximum(graph: Graph) -> None:
    with pytest.raises(CardinalityViolation, match="would have 3"):
        graph.load({"Owns": [owns("o4", "ann", "t2")]})
    graph.load({"Owns": [owns("o4", "bob", "t2"), owns("o5", "cy", "t2")]})
    with pytest.raises(CardinalityViolation):
        graph.load({"Owns": [owns("o3", "ann", "t0"), owns("o6", "cy", "t0"), owns("o7", "cy", "t1")]}, "merge")
    assert edges_of(graph) == {"ann": 2, "bob": 2, "cy": 1}


def test_a_minimum_without_a_maximum_is_a_rule(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "min", SCHEMA.replace("@card(1..2)", "@card(2..)"))
    graph.load({"Person": [{"name": "ann"}], "Task": [{"title": f"t{i}"} for i in range(4)]})
    with pytest.raises(CardinalityViolation, match="min 2"):
        graph.load({"Owns": [owns("o1", "ann", "t0")]})
    graph.load({"Owns": [owns(f"o{i}", "ann", f"t{i}") for i in range(4)]})
    assert edges_of(graph) == {"ann": 4}


def test_many_edges_that_go_count_their_own_sources_only(tmp_path: Path) -> None:
    """More than can be listed in one predicate."""
    graph = Graph.init(tmp_path / "many", SCHEMA)
    names = [f"p{i}" for i in range(5_000)]
    edges = [owns(f"e{name}-{i}", name, f"t{i}") for name in names for i in range(2)]
    graph.load({"Person": [{"name": n} for n in names], "Task": [{"title": "t0"}, {"title": "t1"}], "Owns": edges})
    graph.delete("Owns", [f"e{name}-0" for name in names[:4_500]])
    with pytest.raises(CardinalityViolation):
        graph.delete("Owns", [f"e{name}-1" for name in names[:4_500]])
    assert graph.rows(OWNS).num_rows == 5_500


def test_an_overwrite_and_the_edges_of_what_it_keeps_and_drops(graph: Graph) -> None:
    graph.load({"Task": [{"title": "t0"}, {"title": "t1"}]}, "overwrite")
    with pytest.raises(MissingEndpoint):
        graph.load({"Task": [{"title": "t1"}]}, "overwrite")
    with pytest.raises(MissingEndpoint):
        graph.load({"Task": [{"title": "t0"}], "Owns": [owns("o1", "ann", "t1")]}, "overwrite")
    graph.load({"Task": [{"title": "t5"}], "Owns": [owns("o1", "ann", "t5")]}, "overwrite")
    graph.load({"Person": [{"name": "ann", "email": "b@x"}], "Knows": []}, "overwrite")
    check_every_version(graph.uri)


def test_unique_values_pass_between_rows_of_one_write(graph: Graph) -> None:
    graph.load({"Person": [{"name": "bob", "email": None}, {"name": "cy", "email": "b@x"}]}, "merge")
    with pytest.raises(DuplicateKey):
        graph.load({"Person": [{"name": "bob", "email": "b@x"}]}, "merge")
    graph.load({"Person": [{"name": "cy", "email": "b@x", "age": 3}]}, "merge")
    with pytest.raises(DuplicateKey):
        graph.load({"Person": [{"name": "x", "email": "n@x"}, {"name": "y", "email": "n@x"}]})
    graph.load({"Person": [{"name": "x", "email": None}, {"name": "y", "email": None}]})


def test_an_edge_to_a_node_that_the_same_write_removes(graph: Graph) -> None:
    delta = TableDelta(
        entity=graph.catalog().edge("Knows"), inserted=pa.table({"id": ["n"], "src": ["bob"], "dst": ["dee"]}),
        updated=pa.table({"id": pa.array([], pa.string())}), removed=no_ids(), fields_checked=True,
    )  # fmt: skip
    nobody = pa.table({"id": pa.array([], pa.string())})
    node = TableDelta(
        entity=graph.catalog().node("Person"), inserted=nobody, updated=nobody, removed=pa.array(["dee"]),
        fields_checked=True,
    )  # fmt: skip
    found = Findings()
    base = WriteTxn(graph.repository, "main", kind="load")
    assert list(check_endpoints(base, {K: delta, P: node}, found)) == [KeysPresent(P, ("bob",))]
    assert [violation.value for violation in found] == ["dee"]


def test_rows_that_replace_each_other_are_seen_beside_new_ones(graph: Graph) -> None:
    twice = pa.table({"id": ["o1", "o1"]})
    delta = TableDelta(
        entity=graph.catalog().edge("Knows"), inserted=pa.table({"id": ["n"]}), updated=twice, removed=no_ids(),
        fresh_ids=True,
    )  # fmt: skip
    found = Findings()
    assert list(check_keys(WriteTxn(graph.repository, "main", kind="load"), delta, found)) == []
    assert len(list(found)) == 1


def test_values_that_reach_the_validator_are_judged_by_it(tmp_path: Path) -> None:
    """Whatever the readers of files let pass."""
    graph = Graph.init(tmp_path / "values", "node V { name: String @key  must: I32  weight: F64? }")
    entity = graph.catalog().node("V")
    columns = {p.name: p.column for p in entity.properties}
    rows = pa.table({
        "id": ["a", "b", "c"], columns["name"]: ["a", "b", "c"], columns["must"]: pa.array([1, None, 3], pa.int32()),
        columns["weight"]: [None, 1.0, float("inf")],
    })  # fmt: skip
    found = Findings()
    check_fields(entity, rows, NOWHERE, found)
    assert sorted(violation.rule for violation in found) == ["required", "type"]


def test_nulls_are_no_duplicates_of_each_other() -> None:
    assert duplicates(pa.array(["a", None, None, "a"])) == [(3, 0)]


# --- races ---------------------------------------------------------------------------------------------------------


def beside(graph: Graph, write: Callable[[Graph], object], rival: Callable[[Graph], object]) -> OmnigraphError | None:
    """What a write comes to when a rival commits after it was validated and staged."""
    other = Graph.open(graph.uri)

    def act() -> None:
        failpoints.arm(None)
        rival(other)

    with while_armed({Point.TABLE_STAGED: act}):
        try:
            write(graph)
        except OmnigraphError as error:
            return error
    return None


def test_two_removals_that_leave_a_source_below_its_minimum(graph: Graph) -> None:
    error = beside(graph, lambda g: g.delete("Owns", ["o1"]), lambda g: g.delete("Owns", ["o2"]))
    assert error is not None
    assert edges_of(graph) == {"ann": 1, "bob": 1}


def test_two_edges_that_lift_a_source_above_its_maximum(graph: Graph) -> None:
    error = beside(graph, load({"Owns": [owns("m", "bob", "t1")]}), load({"Owns": [owns("r", "bob", "t2")]}))
    assert isinstance(error, CardinalityViolation)
    assert edges_of(graph) == {"ann": 2, "bob": 2}


def test_an_edge_that_is_replaced_beside_a_new_one(graph: Graph) -> None:
    write, rival = load({"Owns": [owns("o3", "bob", "t3")]}, "merge"), load({"Owns": [owns("r", "bob", "t2")]})
    assert beside(graph, write, rival) is None
    assert edges_of(graph) == {"ann": 2, "bob": 2}


def test_a_node_that_goes_beside_a_new_edge_at_it(graph: Graph) -> None:
    beside(graph, lambda g: g.delete("Person", ["dee"]), load({"Knows": [owns("r", "bob", "dee")]}))
    check_every_version(graph.uri)


def test_an_edge_beside_the_end_of_its_node(graph: Graph) -> None:
    error = beside(graph, load({"Knows": [owns("m", "bob", "dee")]}), lambda g: g.delete("Person", ["dee"]))
    assert error is not None
    check_every_version(graph.uri)
