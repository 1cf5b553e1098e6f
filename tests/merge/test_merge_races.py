"""Merges whose target moves between the intent and the swap: what the merge relied on is asked again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import ConflictError, EndpointConflict, ExpectedVersionMismatch
from omnigraph.storage.failpoints import Point
from tests.merge.test_merge_attacks import once_at
from tests.support.fixtures import unflushed
from tests.support.graphs import knows, people
from tests.support.invariants import check_every_version

__all__ = ["unflushed"]
SCHEMA = """
node Person { name: String @key  email: String? @unique  age: I32? }
node Company { name: String @key }
edge Knows: Person -> Person
edge WorksAt: Person -> Company @card(1..2)
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Main and `dev` begin with four persons, of whom two know each other and one has two jobs."""
    graph = Graph.init(tmp_path / "g", SCHEMA)
    jobs = [{"id": f"j{i}", "from": "a", "to": f"c{i}"} for i in range(2)]
    graph.load({
        "Person": people("a", "b", "c", "d"), "Company": [{"name": f"c{i}"} for i in range(3)],
        "Knows": knows(("a", "b")), "WorksAt": jobs,
    })  # fmt: skip
    graph.branches.create("dev")
    return graph


def diverge(graph: Graph) -> None:
    """A commit of main that has nothing to do with anything: from now on no merge is a fast-forward."""
    graph.load({"Company": [{"name": "elsewhere"}]})


def refused(graph: Graph, rival: Callable[[Graph], object], error: type[ConflictError]) -> None:
    """A merge of `dev` during which a rival acts on main is refused, and main stays what the rival made of it."""
    other = Graph.open(graph.uri)
    with once_at(Point.INTENT_COMPLETED, lambda: rival(other)), pytest.raises(error) as caught:
        graph.branches.merge("dev")
    assert caught.value.retryable
    assert graph.commits.head().kind != "merge"
    check_every_version(graph.uri)


# --- a fast-forward ------------------------------------------------------------------------------------------------


def test_a_fast_forward_that_deletes_a_node_meets_a_new_edge_at_it(graph: Graph) -> None:
    graph.delete("Person", ["d"], "dev")
    refused(graph, lambda g: g.load({"Knows": knows(("c", "d"))}), ExpectedVersionMismatch)


def test_a_fast_forward_that_brings_an_edge_meets_the_end_of_its_node(graph: Graph) -> None:
    graph.load({"Knows": knows(("c", "d"))}, branch="dev")
    refused(graph, lambda g: g.delete("Person", ["d"]), ExpectedVersionMismatch)


def test_a_fast_forward_that_brings_an_edge_to_another_type_meets_the_end_of_its_node(graph: Graph) -> None:
    graph.load({"WorksAt": [{"from": "d", "to": "c2"}]}, branch="dev")
    refused(graph, lambda g: g.delete("Company", ["c2"]), ExpectedVersionMismatch)


def test_a_fast_forward_meets_rows_of_the_table_it_replaces(graph: Graph) -> None:
    graph.load({"Person": people("e")}, branch="dev")
    refused(graph, lambda g: g.load({"Person": people("f")}), ExpectedVersionMismatch)
    assert graph.entity_at("node:Person", "f") is not None


def test_a_fast_forward_under_a_new_schema_meets_any_write(graph: Graph) -> None:
    graph.schema.apply(SCHEMA.replace("age: I32?", "age: I32?  shoe: I32?"), branch="dev")
    refused(graph, lambda g: g.load({"Company": [{"name": "late"}]}), ConflictError)


def test_a_fast_forward_is_not_disturbed_by_what_is_not_near_it(graph: Graph) -> None:
    graph.load({"Company": [{"name": "new"}]}, branch="dev")
    other = Graph.open(graph.uri)
    with once_at(Point.INTENT_COMPLETED, lambda: other.load({"Knows": knows(("c", "d"))})):
        assert graph.branches.merge("dev").outcome == "fast_forward"
    assert graph.rows("edge:Knows").num_rows == 2
    check_every_version(graph.uri)


# --- a merge of rows -----------------------------------------------------------------------------------------------


def test_an_arriving_edge_meets_the_end_of_its_node(graph: Graph) -> None:
    diverge(graph)
    graph.load({"Knows": knows(("c", "d"))}, branch="dev")
    refused(graph, lambda g: g.delete("Person", ["d"]), EndpointConflict)


def test_an_arriving_edge_beside_edges_of_the_target_meets_the_end_of_its_node(graph: Graph) -> None:
    graph.load({"Knows": knows(("b", "c"))})
    graph.load({"Knows": knows(("c", "d"))}, branch="dev")
    refused(graph, lambda g: g.delete("Person", ["d"]), EndpointConflict)


def test_a_node_that_goes_meets_a_new_edge_at_its_source(graph: Graph) -> None:
    diverge(graph)
    graph.delete("Person", ["d"], "dev")
    refused(graph, lambda g: g.load({"Knows": knows(("d", "c"))}), EndpointConflict)


def test_a_node_that_goes_meets_a_new_edge_at_its_target(graph: Graph) -> None:
    diverge(graph)
    graph.delete("Person", ["d"], "dev")
    refused(graph, lambda g: g.load({"Knows": knows(("c", "d"))}), EndpointConflict)


def decided(graph: Graph, strategy: str, rival: Callable[[Graph], object]) -> None:
    """A rival takes away the conflict that a strategy has decided: the merge is refused, and right when repeated."""
    other = Graph.open(graph.uri)
    with once_at(Point.INTENT_COMPLETED, lambda: rival(other)), pytest.raises(ConflictError) as caught:
        graph.branches.merge("dev", strategy=strategy)
    assert caught.value.retryable
    assert graph.branches.merge("dev", strategy=strategy).conflicts == ()
    check_every_version(graph.uri)


def test_an_edge_that_was_left_out_meets_the_return_of_its_node(graph: Graph) -> None:
    graph.load({"Knows": knows(("c", "d"))}, branch="dev")
    graph.delete("Person", ["d"])
    decided(graph, "ours", lambda g: g.load({"Person": people("d")}))
    assert graph.rows("edge:Knows").num_rows == 2


def test_a_node_that_was_kept_meets_the_end_of_its_edge(graph: Graph) -> None:
    graph.delete("Person", ["d"], "dev")
    graph.load({"Knows": [{"id": "late", "from": "c", "to": "d"}]})
    decided(graph, "ours", lambda g: g.delete("Knows", ["late"]))
    assert graph.entity_at("node:Person", "d") is None


def test_a_row_that_was_kept_meets_its_old_value(graph: Graph) -> None:
    graph.load({"Person": [{"name": "d", "age": 1}]}, mode="merge", branch="dev")
    graph.load({"Person": [{"name": "d", "age": 2}]}, mode="merge")
    before = people("d")
    decided(graph, "ours", lambda g: g.load({"Person": [{**before[0], "age": None}]}, mode="merge"))
    found = graph.entity_at("node:Person", "d")
    assert found is not None
    assert found["age"] == 1


def test_an_edge_between_nodes_that_arrive_with_it_needs_nothing_of_the_target(graph: Graph) -> None:
    diverge(graph)
    graph.load({"Person": people("x", "y")}, branch="dev")
    graph.load({"Knows": knows(("x", "y"))}, branch="dev")
    assert graph.branches.merge("dev").outcome == "merged"
    check_every_version(graph.uri)


def test_an_adopted_table_meets_rows_of_the_target(graph: Graph) -> None:
    diverge(graph)
    graph.load({"Person": people("e")}, branch="dev")
    refused(graph, lambda g: g.load({"Person": people("f")}), ExpectedVersionMismatch)


def test_a_merged_table_meets_a_unique_value(graph: Graph) -> None:
    graph.load({"Person": people("mine")})
    graph.load({"Person": [{"name": "e", "email": "x@x"}]}, branch="dev")
    refused(graph, lambda g: g.load({"Person": [{"name": "f", "email": "x@x"}]}), ExpectedVersionMismatch)
    assert {str(c.kind) for c in graph.branches.merge("dev", dry_run=True).open_conflicts} == {"UniqueViolation"}


def test_a_merged_table_meets_an_edge_too_many(graph: Graph) -> None:
    graph.load({"WorksAt": [{"id": "m", "from": "c", "to": "c0"}]})
    graph.load({"WorksAt": [{"id": "t", "from": "c", "to": "c1"}]}, branch="dev")
    refused(graph, lambda g: g.load({"WorksAt": [{"id": "r", "from": "c", "to": "c2"}]}), ExpectedVersionMismatch)
    assert {str(c.kind) for c in graph.branches.merge("dev", dry_run=True).open_conflicts} == {"CardinalityViolation"}


# --- the minimum of @card between branches -------------------------------------------------------------------------

TWO = SCHEMA.replace("@card(1..2)", "@card(2..3)")


@pytest.fixture
def pairs(tmp_path: Path) -> Graph:
    """`a` has three jobs and may lose one, on either branch."""
    graph = Graph.init(tmp_path / "pairs", TWO)
    jobs = [{"id": f"j{i}", "from": "a", "to": f"c{i}"} for i in range(3)]
    graph.load({"Person": people("a"), "Company": [{"name": f"c{i}"} for i in range(4)], "WorksAt": jobs})
    graph.branches.create("dev")
    return graph


def test_edges_that_both_branches_may_remove_but_not_together(pairs: Graph) -> None:
    pairs.delete("WorksAt", ["j0"])
    pairs.delete("WorksAt", ["j1"], "dev")
    [conflict] = pairs.branches.merge("dev", dry_run=True).open_conflicts
    assert (str(conflict.kind), conflict.entity_id) == ("CardinalityViolation", "a")
    assert "would have 1" in conflict.message


def test_the_same_edge_removed_by_both_branches_is_no_violation(pairs: Graph) -> None:
    pairs.delete("WorksAt", ["j0"])
    pairs.delete("WorksAt", ["j0"], "dev")
    result = pairs.branches.merge("dev")
    assert not result.conflicts
    assert pairs.rows("edge:WorksAt").num_rows == 2


def test_an_edge_too_many_between_branches(pairs: Graph) -> None:
    pairs.delete("WorksAt", ["j0"])
    pairs.delete("WorksAt", ["j0"], "dev")
    pairs.branches.merge("dev")
    pairs.branches.create("two")
    pairs.load({"WorksAt": [{"id": "m", "from": "a", "to": "c3"}]})
    pairs.load({"WorksAt": [{"id": "t", "from": "a", "to": "c0"}]}, branch="two")
    [conflict] = pairs.branches.merge("two", dry_run=True).open_conflicts
    assert "would have 4" in conflict.message


def test_all_edges_of_a_source_may_go(pairs: Graph) -> None:
    """A source without edges is not held to the minimum: the rule is about sources that have some."""
    pairs.delete("WorksAt", ["j0"])
    pairs.delete("Person", ["a"], "dev")
    conflicts = pairs.branches.merge("dev", dry_run=True).open_conflicts
    assert "CardinalityViolation" not in {str(c.kind) for c in conflicts}
