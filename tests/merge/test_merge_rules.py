"""Merges at the edges of their rules: what a fast-forward brings, and what the merged graph would violate."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidArgument
from tests.support.fixtures import unflushed
from tests.support.graphs import knows, people
from tests.support.invariants import check_every_version

__all__ = ["unflushed"]
SCHEMA = """
node Person { name: String @key  email: String? @unique  age: I32? }
node Company { name: String @key  place: String? }
edge Knows: Person -> Person { since: I32? }
edge WorksAt: Person -> Company @card(2..3)
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Main and `dev` begin with three persons, one of whom has three jobs."""
    graph = Graph.init(tmp_path / "g", SCHEMA)
    jobs = [{"id": f"j{i}", "from": "a", "to": f"c{i}"} for i in range(3)]
    companies = [{"name": f"c{i}"} for i in range(5)]
    graph.load(
        {"Person": people("a", "b", "c", "d"), "Company": companies, "Knows": knows(("a", "b")), "WorksAt": jobs}
    )
    graph.branches.create("dev")
    return graph


def kinds(graph: Graph, **options: object) -> list[str]:
    result = graph.branches.merge("dev", dry_run=True, **options)  # type: ignore[arg-type]
    return sorted(str(conflict.kind) for conflict in result.conflicts)


# --- a fast-forward ------------------------------------------------------------------------------------------------


def test_a_fast_forward_brings_edits_that_keep_the_number_of_rows(graph: Graph) -> None:
    graph.load({"Person": [{"name": "b", "age": 7}]}, "merge", "dev")
    graph.delete("Person", ["d"], "dev")
    graph.load({"Person": people("e")}, branch="dev")
    assert graph.branches.merge("dev").outcome == "fast_forward"
    ages = {row["name"]: row["age"] for row in graph.rows("node:Person").to_pylist()}
    assert ages == {"a": None, "b": 7, "c": None, "e": None}


def test_a_fast_forward_brings_types_and_takes_types_away(graph: Graph) -> None:
    graph.schema.apply(SCHEMA + "node City { name: String @key }", branch="dev")
    graph.load({"City": [{"name": "rome"}]}, branch="dev")
    assert graph.branches.merge("dev").outcome == "fast_forward"
    assert graph.rows("node:City")["name"].to_pylist() == ["rome"]
    graph.branches.create("less")
    graph.schema.apply(SCHEMA, branch="less", allow_drops=True)
    assert graph.branches.merge("less").outcome == "fast_forward"
    assert "node:City" not in graph.snapshot().tables
    check_every_version(graph.uri)


def test_a_branch_is_not_merged_into_itself(graph: Graph) -> None:
    with pytest.raises(InvalidArgument):
        graph.branches.merge("dev", into="dev")


# --- unique values -------------------------------------------------------------------------------------------------


def test_nulls_of_both_branches_are_not_equal(graph: Graph) -> None:
    graph.load({"Person": people("x")})
    graph.load({"Person": people("y")}, branch="dev")
    assert kinds(graph) == []


def test_a_value_that_the_merge_frees_is_free(graph: Graph) -> None:
    graph.load({"Person": [{"name": "a", "email": "v@x"}]}, "merge")
    graph.load({"Person": [{"name": "a", "email": "w@x"}, {"name": "b", "email": "v@x"}]}, "merge", "dev")
    assert kinds(graph, strategy="theirs") == ["DivergentUpdate"]
    graph.branches.merge("dev", strategy="theirs")
    emails = {row["name"]: row["email"] for row in graph.rows("node:Person").to_pylist()}
    assert (emails["a"], emails["b"]) == ("w@x", "v@x")


def test_a_value_that_the_target_keeps_is_taken(graph: Graph) -> None:
    graph.load({"Person": [{"name": "a", "email": "v@x"}]}, "merge")
    graph.load({"Person": [{"name": "a", "email": "w@x"}, {"name": "b", "email": "v@x"}]}, "merge", "dev")
    assert kinds(graph, strategy="ours") == ["DivergentUpdate", "UniqueViolation"]


def test_a_rule_that_one_branch_declares_binds_the_rows_of_the_other(graph: Graph) -> None:
    graph.load({"Company": [{"name": "c0", "place": "rome"}]}, "merge")
    graph.branches.delete("dev")
    graph.branches.create("dev")
    graph.schema.apply(SCHEMA.replace("place: String?", "place: String? @unique"))
    graph.load({"Company": [{"name": "y", "place": "rome"}]}, branch="dev")
    assert kinds(graph) == ["UniqueViolation"]
    graph.load({"Company": [{"name": "y", "place": "oslo"}]}, "merge", "dev")
    assert kinds(graph) == []


# --- orphans -------------------------------------------------------------------------------------------------------


def test_an_edge_that_goes_with_its_node_is_no_orphan(graph: Graph) -> None:
    graph.load({"Knows": [{"id": "a-b", "from": "a", "to": "b", "since": 5}]}, "merge")
    graph.delete("Person", ["b"], "dev")
    assert kinds(graph, strategy="theirs") == ["DeleteVsUpdate"]
    graph.branches.merge("dev", strategy="theirs")
    assert graph.rows("edge:Knows").num_rows == 0
    check_every_version(graph.uri)


def test_an_edge_that_the_source_moved_elsewhere_is_no_orphan(graph: Graph) -> None:
    graph.load({"Knows": [{"id": "a-b", "from": "a", "to": "b", "since": 5}]}, "merge")
    graph.load({"Knows": [{"id": "a-b", "from": "a", "to": "c"}]}, "merge", "dev")
    graph.delete("Person", ["b"], "dev")
    assert kinds(graph, strategy="theirs") == ["DivergentUpdate"]
    graph.branches.merge("dev", strategy="theirs")
    assert graph.rows("edge:Knows")["dst"].to_pylist() == ["c"]
    check_every_version(graph.uri)


def test_edges_that_were_decided_against_do_not_come(graph: Graph) -> None:
    """Also where only the source has changed their table, whose pin could otherwise be adopted as it is."""
    graph.delete("Person", ["d"])
    graph.load({"Knows": knows(("c", "d"), ("b", "c"))}, branch="dev")
    assert kinds(graph) == ["OrphanEdge"]
    graph.branches.merge("dev", strategy="ours")
    assert sorted(graph.rows("edge:Knows")["id"].to_pylist()) == ["a-b", "b-c"]
    check_every_version(graph.uri)


def test_edges_of_a_new_type_that_were_decided_against_do_not_come(graph: Graph) -> None:
    graph.delete("Person", ["d"])
    graph.schema.apply(SCHEMA + "edge Likes: Person -> Person", branch="dev")
    graph.load({"Likes": knows(("c", "d"), ("b", "c"))}, branch="dev")
    graph.branches.merge("dev", strategy="ours")
    assert graph.rows("edge:Likes")["id"].to_pylist() == ["b-c"]
    check_every_version(graph.uri)


# --- @card ---------------------------------------------------------------------------------------------------------


def test_as_many_edges_as_the_minimum_are_enough(graph: Graph) -> None:
    graph.delete("WorksAt", ["j0"])
    graph.load({"WorksAt": [{"id": "j1", "from": "a", "to": "c4"}]}, "merge", "dev")
    assert kinds(graph) == []
    graph.branches.merge("dev")
    assert sorted(graph.rows("edge:WorksAt")["dst"].to_pylist()) == ["c2", "c4"]


def test_as_many_edges_as_the_maximum_are_allowed(graph: Graph) -> None:
    graph.delete("WorksAt", ["j0"])
    graph.delete("WorksAt", ["j1"], "dev")
    graph.load({"WorksAt": [{"id": "n", "from": "a", "to": "c4"}]}, branch="dev")
    assert kinds(graph) == []


def test_a_minimum_without_a_maximum_is_a_rule_of_merges(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "min", SCHEMA.replace("@card(2..3)", "@card(2..)"))
    jobs = [{"id": f"j{i}", "from": "a", "to": f"c{i}"} for i in range(3)]
    graph.load({"Person": people("a"), "Company": [{"name": f"c{i}"} for i in range(3)], "WorksAt": jobs})
    graph.branches.create("dev")
    graph.delete("WorksAt", ["j0"])
    graph.delete("WorksAt", ["j1"], "dev")
    assert kinds(graph) == ["CardinalityViolation"]


# --- rows that were composed ---------------------------------------------------------------------------------------


def test_a_composed_row_is_written_though_all_else_is_taken(graph: Graph) -> None:
    graph.load({"Person": [{"name": "a", "age": 5}]}, "merge")
    graph.load({"Person": [{"name": "a", "email": "a@x"}]}, "merge", "dev")
    graph.branches.merge("dev", property_level=True)
    row = graph.entity_at("node:Person", "a")
    assert row is not None
    assert (row["age"], row["email"]) == (5, "a@x")
