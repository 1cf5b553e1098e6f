"""Traversal: what an edge, several hops, a missing edge and an optional one find."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidArgument, OmnigraphError
from tests.conformance.asking import FRIENDS, bag, chain, rows, text
from tests.conformance.conftest import Created
from tests.support.rows import company, knows, person, works_at

FROM_A = '$p: Person { name: "a" }'


# --- one hop ----------------------------------------------------------------------------------------------------------


def test_friends_of_alice(friends: Graph) -> None:
    assert bag(friends, '$p: Person { name: "Alice" } $p knows $f', "$f.name") == ["Bob", "Charlie"]


def test_employees_of_a_company_are_found_against_the_edge(friends: Graph) -> None:
    assert rows(friends, '$c: Company { name: "Acme" } $c worksAt $p', "$p.name") == ["Alice"]
    assert rows(friends, '$c: Company { name: "Acme" } $p worksAt $c', "$p.name") == ["Alice"]


def test_friends_of_friends(friends: Graph) -> None:
    assert rows(friends, '$p: Person { name: "Alice" } $p knows $m $m knows $f', "$f.name") == ["Diana"]


def test_undirected_traversal_sees_both_ends_once(friends: Graph, created: Created) -> None:
    pattern = '$p: Person { name: "Bob" } $p <knows> $f'
    assert bag(friends, pattern, "$f.name") == ["Alice", "Diana"]
    both_ways = created(rows=[*FRIENDS, knows("Diana", "Bob")])
    assert bag(both_ways, pattern, "$f.name") == ["Alice", "Diana"]


def test_undirected_hops(friends: Graph) -> None:
    assert bag(friends, '$p: Person { name: "Charlie" } $p <knows>{1,2} $f', "$f.name") == ["Alice", "Bob"]


def test_direction_is_inferred_from_the_only_typed_end(friends: Graph) -> None:
    assert bag(friends, "$c: Company $p worksAt $c", "$p.name, $c.name") == [("Alice", "Acme"), ("Bob", "Globex")]
    assert bag(friends, "$c: Company not { $c worksAt $p $p.age > 26 }", "$c.name") == ["Globex"]


def test_a_pattern_without_a_binding(friends: Graph) -> None:
    assert bag(friends, "$p worksAt $c", "$p.name, $c.name") == [("Alice", "Acme"), ("Bob", "Globex")]


def test_written_order_means_nothing(friends: Graph) -> None:
    pattern = '$f.age > 26 $m knows $f $p knows $m $p: Person { name: "Alice" }'
    assert rows(friends, pattern, "$p.name, $m.name, $f.name") == [("Alice", "Bob", "Diana")]


# --- several hops -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hops", "reached"), [("{1,3}", "bcd"), ("{2,3}", "cd"), ("{2,2}", "c"), ("{1,}", "bcd")])
def test_hops_along_a_chain(created: Created, hops: str, reached: str) -> None:
    graph = created(rows=chain("ab", "bc", "cd"))
    assert bag(graph, f"{FROM_A} $p knows{hops} $f", "$f.name") == list(reached)


def test_hops_in_a_cycle_end_and_leave_the_start_out(created: Created) -> None:
    graph = created(rows=chain("ab", "bc", "ca"))
    assert bag(graph, f"{FROM_A} $p knows{{1,5}} $f", "$f.name") == ["b", "c"]
    assert bag(graph, f"{FROM_A} $p knows{{1,}} $f", "$f.name") == ["b", "c"]


def test_a_stored_self_loop_reports_its_node(created: Created) -> None:
    graph = created(rows=chain("aa", "ab"))
    for edge in ("knows", "<knows>", "knows{1,3}", "$w:knows", "$w:<knows>"):
        assert bag(graph, f"{FROM_A} $p {edge} $f", "$f.name") == ["a", "b"], edge


def test_cross_type_edges_never_chain(created: Created) -> None:
    graph = created(rows=[person("x"), person("y"), company("x"), company("y"), works_at("x", "y"), works_at("y", "x")])
    pattern = '$p: Person { name: "x" } $p worksAt{1,2} $c'
    assert rows(graph, pattern, "$c.name") == ["y"]
    assert rows(graph, "$p: Person $p worksAt{2,2} $c", "$c.name") == []


def test_a_node_is_reported_at_its_shortest_distance_only(created: Created) -> None:
    graph = created(rows=chain("ab", "ac", "bc", "cd"))
    assert bag(graph, f"{FROM_A} $p knows{{2,2}} $f", "$f.name") == ["d"]


def test_hop_bounds_may_be_parameters(created: Created) -> None:
    graph = created(rows=chain("ab", "bc", "cd"))
    pattern, declared = f"{FROM_A} $p knows{{$low,$high}} $f", "$low: I64, $high: I64"
    assert bag(graph, pattern, "$f.name", "", declared, low=2, high=3) == ["c", "d"]
    for low, high in ((0, 2), (3, 2), (-1, 1)):
        with pytest.raises(InvalidArgument):
            rows(graph, pattern, "$f.name", "", declared, low=low, high=high)


def test_reachability_with_an_open_bound(created: Created) -> None:
    letters = "abcdefghijklmnopqrst"
    graph = created(rows=chain(*(x + y for x, y in pairwise(letters)), people="z"))
    assert bag(graph, f"{FROM_A} $p knows{{1,}} $f", "$f.name") == list(letters[1:])
    assert bag(graph, f"{FROM_A} $p knows{{5,}} $f", "$f.name") == list(letters[5:])


# --- multiplicity -----------------------------------------------------------------------------------------------------


def test_parallel_edges_are_one_pair_unless_named(created: Created) -> None:
    graph = created(rows=chain("ab", "ab", "ab"))
    assert rows(graph, "$p: Person $p knows $f", "$p.name, $f.name") == [("a", "b")]
    assert bag(graph, "$p: Person $p $w:knows $f", "$w.@id") == ["e0", "e1", "e2"]
    assert rows(graph, "$p: Person $p $_:knows $f", "$p.name, $f.name") == [("a", "b")]


def test_two_paths_through_different_nodes_are_two_rows(created: Created) -> None:
    graph = created(rows=chain("ab", "ac", "bd", "cd"))
    assert bag(graph, f"{FROM_A} $p knows $m $m knows $f", "$m.name, $f.name") == [("b", "d"), ("c", "d")]
    assert rows(graph, f"{FROM_A} $p knows $m $m knows $f", "$f.name") == ["d", "d"]


def test_two_expands_from_one_source_multiply(friends: Graph) -> None:
    found = bag(friends, '$p: Person { name: "Alice" } $p knows $f $p worksAt $c', "$f.name, $c.name")
    assert found == [("Bob", "Acme"), ("Charlie", "Acme")]


def test_unconnected_bindings_multiply(friends: Graph) -> None:
    assert rows(friends, "$p: Person $c: Company", "count(*)") == [8]
    assert rows(friends, "$p: Person $p knows $_ $c: Company $_ worksAt $c", "count(*)") == [6]


def test_a_cycle_closes(created: Created) -> None:
    graph = created(rows=chain("ab", "bc", "ca", "cd"))
    assert bag(graph, "$x: Person $x knows $y $y knows $z $z knows $x", "$x.name") == ["a", "b", "c"]
    assert rows(graph, "$x: Person $x knows $x", "$x.name") == []
    assert rows(created(rows=chain("aa", "ab")), "$x: Person $x knows $x", "$x.name") == ["a"]


# --- filters on what is reached ---------------------------------------------------------------------------------------


def test_a_binding_of_the_destination_restricts_the_source(friends: Graph) -> None:
    assert rows(friends, '$p: Person $p worksAt $c $c: Company { name: "Globex" }', "$p.name") == ["Bob"]
    pattern = "$p: Person $p worksAt $c $c: Company { name: $where }"
    assert rows(friends, pattern, "$p.name", "", "$where: String", where="Acme") == ["Alice"]
    assert rows(friends, pattern, "$p.name", "", "$where: String", where="Nowhere") == []


def test_projections_stay_aligned_over_hops(friends: Graph) -> None:
    one = bag(friends, "$p: Person $p knows $f", "$p.name, $p.age, $f.name, $f.age")
    assert one == [("Alice", 30, "Bob", 25), ("Alice", 30, "Charlie", 35), ("Bob", 25, "Diana", 28)]
    two = "$p: Person $p knows $m $m knows $f $m.age < 30"
    assert rows(friends, two, "$f.age, $p.name, $m.age") == [(28, "Alice", 25)]


def test_edge_properties_filter(friends: Graph) -> None:
    assert rows(friends, '$p: Person $p $w:knows $f $w.since >= date("2024-01-01")', "$f.name") == ["Diana"]
    assert bag(friends, "$p: Person $p $w:knows $f", "$f.name, $w.since is null as open") == [
        ("Bob", False),
        ("Charlie", True),
        ("Diana", False),
    ]


def test_no_matching_edge_gives_a_typed_empty_column(friends: Graph, created: Created) -> None:
    written = text("$p: Person $p $w:knows $f $f.age > 99", "$w.since, $f.age, $p.name")
    for graph in (friends, created(), created(rows=[person("a")])):
        found = graph.query(written).to_arrow()
        assert found.num_rows == 0
        assert found.schema.types == [pa.date32(), pa.int32(), pa.string()]
    inside = '$p: Person not { $p $w:knows $f $w.since > date("2030-01-01") }'
    assert rows(friends, inside, "count(*)") == [4]
    assert rows(created(rows=[person("a")]), inside, "count(*)") == [1]


# --- negation ---------------------------------------------------------------------------------------------------------


def test_the_unemployed(friends: Graph) -> None:
    assert bag(friends, "$p: Person not { $p worksAt $c }", "$p.name") == ["Charlie", "Diana"]
    assert bag(friends, "$p: Person not { $p worksAt $_ }", "$p.name") == ["Charlie", "Diana"]


@pytest.mark.parametrize("inner", ['$p worksAt $c $c.name = "Acme"', '$c: Company { name: "Acme" } $p worksAt $c'])
def test_everybody_who_is_not_at_acme(friends: Graph, inner: str) -> None:
    assert bag(friends, f"$p: Person not {{ {inner} }}", "$p.name") == ["Bob", "Charlie", "Diana"]


def test_double_negation(friends: Graph, created: Created) -> None:
    pattern = '$p: Person not { $p worksAt $c not { $c.name = "Acme" } }'
    assert bag(friends, pattern, "$p.name") == ["Alice", "Charlie", "Diana"]
    people, employers = [person(f"p{n}") for n in range(1, 5)], [company("Acme"), company("Globex")]
    jobs = [works_at("p1", "Acme"), works_at("p1", "Globex"), works_at("p2", "Globex"), works_at("p3", "Acme")]
    assert bag(created(rows=[*people, *employers, *jobs]), pattern, "$p.name") == ["p3", "p4"]


def test_negated_hops(created: Created) -> None:
    graph = created(rows=chain("ab", "bc", people="d"))
    assert bag(graph, "$p: Person not { $p knows{2,2} $f }", "$p.name") == ["b", "c", "d"]


def test_negated_directions(friends: Graph) -> None:
    assert rows(friends, "$p: Person not { $p <knows> $f }", "$p.name") == []
    assert bag(friends, "$p: Person not { $p knows $f }", "$p.name") == ["Charlie", "Diana"]


def test_without_edges_nothing_is_reached_and_everybody_is_kept(created: Created) -> None:
    graph = created(rows=[person("a"), person("b")])
    assert rows(graph, "$p: Person $p knows $f", "$f.name") == []
    assert bag(graph, "$p: Person not { $p knows $f }", "$p.name") == ["a", "b"]
    assert bag(graph, "$p: Person optional { $p knows{1,} $f }", "$p.name, $f.name") == [("a", None), ("b", None)]


def test_blocks_have_their_own_names(friends: Graph) -> None:
    """Inner variables are not visible outside, so two blocks may use one name for different things."""
    pattern = "$p: Person not { $p knows $x } not { $p worksAt $x }"
    assert bag(friends, pattern, "$p.name") == ["Charlie", "Diana"]
    pattern = '$p: Person not { $p worksAt $x $x.name = "Acme" } not { $p knows $x $x.age > 27 }'
    assert bag(friends, pattern, "$p.name") == ["Charlie", "Diana"]


# --- optional ---------------------------------------------------------------------------------------------------------


def test_optional_keeps_rows_without_a_match(friends: Graph) -> None:
    found = bag(friends, "$p: Person optional { $p worksAt $c }", "$p.name, $c.name")
    assert found == [("Alice", "Acme"), ("Bob", "Globex"), ("Charlie", None), ("Diana", None)]


def test_a_filter_inside_optional_is_part_of_the_match(friends: Graph) -> None:
    found = bag(friends, "$p: Person optional { $p $w:knows $f $f.age > 26 }", "$p.name, $f.name, $w.since")
    assert [each[:2] for each in found] == [("Alice", "Charlie"), ("Bob", "Diana"), ("Charlie", None), ("Diana", None)]
    assert found[2][2] is None


def test_a_filter_behind_optional_sees_nulls(friends: Graph) -> None:
    assert bag(friends, "$p: Person optional { $p worksAt $c } $c is null", "$p.name") == ["Charlie", "Diana"]
    assert bag(friends, "$p: Person optional { $p worksAt $c } $c.name is not null", "$p.name") == ["Alice", "Bob"]
    assert rows(friends, '$p: Person optional { $p worksAt $c } $c.name != "Acme"', "$p.name") == ["Bob"]


def test_optionals_follow_one_another(friends: Graph) -> None:
    pattern = "$p: Person optional { $p knows $f } optional { $f worksAt $c }"
    assert bag(friends, pattern, "$p.name, $f.name, $c.name") == [
        ("Alice", "Bob", "Globex"),
        ("Alice", "Charlie", None),
        ("Bob", "Diana", None),
        ("Charlie", None, None),
        ("Diana", None, None),
    ]
    nested = '$p: Person { name: "Alice" } optional { $p knows $f optional { $f knows $g } }'
    assert bag(friends, nested, "$f.name, $g.name") == [("Bob", "Diana"), ("Charlie", None)]


# --- alternatives, paths, interfaces ----------------------------------------------------------------------------------

SOCIAL = """
interface Named { name: String @key  note: String? }
node Person implements Named { age: I32? }
node Company implements Named { size: I64? }
edge Knows: Person -> Person { since: Date? }
edge Follows: Person -> Person
edge WorksAt: Person -> Company
"""


@pytest.fixture
def social(created: Created) -> Graph:
    edges = [("Knows", "ab"), ("Follows", "ab"), ("Follows", "bc"), ("Knows", "cd"), ("Follows", "da")]
    found = [
        {"edge": name, "from": pair[0], "to": pair[1], "data": {"id": f"{name[0]}-{pair}"}} for name, pair in edges
    ]
    people = [{"type": "Person", "data": {"name": name, "age": 10}} for name in "abcd"]
    return created(SOCIAL, [*people, {"type": "Company", "data": {"name": "a", "size": 3}}, *found, works_at("b", "a")])


def test_edge_alternatives(social: Graph) -> None:
    assert rows(social, f"{FROM_A} $p knows|follows $f", "$f.name") == ["b"]
    assert bag(social, f"{FROM_A} $p <knows|follows> $f", "$f.name") == ["b", "d"]
    assert bag(social, f"{FROM_A} $p knows|follows{{1,}} $f", "$f.name") == ["b", "c", "d"]
    assert bag(social, f"{FROM_A} $p $w:knows|follows $f", "$w.@id, $f.name") == [("F-ab", "b"), ("K-ab", "b")]


def test_named_alternatives_when_one_type_has_no_edges(created: Created) -> None:
    people = [{"type": "Person", "data": {"name": name}} for name in "ab"]
    edge = {"edge": "Knows", "from": "a", "to": "b", "data": {"id": "k"}}
    graph = created(SOCIAL, [*people, edge])
    assert rows(graph, "$p: Person $p $w:knows|follows $f", "$w.@id") == ["k"]
    assert rows(graph, "$p: Person $p $w:follows|knows $f", "$w.@id") == ["k"]


def test_shortest_path(social: Graph) -> None:
    pattern = f"{FROM_A} $path: shortest $p knows|follows{{1,6}} $q"
    found = rows(social, pattern, "$q.name, length($path) as far, nodes($path) as through", "order { far }")
    assert found == [("b", 1, ["a", "b"]), ("c", 2, ["a", "b", "c"]), ("d", 3, ["a", "b", "c", "d"])]
    assert rows(social, f'{FROM_A} $q: Person {{ name: "d" }} $x: shortest $p <follows> $q', "length($x)") == [1]
    assert rows(social, f'{FROM_A} $q: Person {{ name: "d" }} $x: shortest $p knows $q', "length($x)") == []
    limited = f"{FROM_A} $path: shortest $p knows|follows{{1,2}} $q"
    assert bag(social, limited, "$q.name") == ["b", "c"]


def test_one_of_several_shortest_paths_is_returned(created: Created) -> None:
    graph = created(rows=chain("ab", "ac", "bd", "cd", "de"))
    pattern = f'{FROM_A} $q: Person {{ name: "e" }} $x: shortest $p knows{{1,6}} $q'
    ((length, nodes),) = rows(graph, pattern, "length($x), nodes($x)")
    assert length == 3
    assert nodes in (["a", "b", "d", "e"], ["a", "c", "d", "e"])


def test_shortest_path_in_an_optional(social: Graph) -> None:
    pattern = f"{FROM_A} $q: Person optional {{ $x: shortest $p knows{{1,6}} $q }}"
    found = bag(social, pattern, "$q.name, length($x), nodes($x) is null as none")
    assert found == [("a", None, True), ("b", 1, False), ("c", None, True), ("d", None, True)]


def test_interfaces_match_every_implementing_type(social: Graph) -> None:
    assert bag(social, "$x: Named", "$x.name") == ["a", "a", "b", "c", "d"]
    found = rows(social, '$x: Named { name: "a" }', "$x")
    assert sorted(found, key=str) == [
        {"@id": "a", "name": "a", "age": 10},
        {"@id": "a", "name": "a", "size": 3},
    ]
    assert rows(social, "$x: Named $x worksAt $c", "$x.name, $c.size") == [("b", 3)]
    assert rows(social, "$x: Named not { $x knows|follows $y } not { $z worksAt $x }", "$x.name") == []


def test_types_of_an_interface_may_disagree_on_other_properties(created: Created) -> None:
    schema = (
        "interface Named { name: String @key } node A implements Named { size: I32? } "
        "node B implements Named { size: String? }"
    )
    graph = created(
        schema, [{"type": kind, "data": {"name": kind, "size": size}} for kind, size in (("A", 1), ("B", "big"))]
    )
    found = rows(graph, "$x: Named", "$x", "order { $x.name }")
    assert found == [{"@id": "A", "name": "A", "size": 1}, {"@id": "B", "name": "B", "size": "big"}]


def test_equal_ids_of_different_types_have_an_order(created: Created) -> None:
    people = [{"type": "Person", "data": {"name": name, "age": 10}} for name in "abc"]
    firm = {"type": "Company", "data": {"name": "a", "size": 3}}
    graph = created(SOCIAL, [*people, firm, knows("b", "a"), knows("b", "c"), works_at("c", "a")])
    found = rows(graph, '$p: Person { name: "b" } $p knows|worksAt{1,2} $x', "$x", "order { $p.name }")
    assert [each.get("size") for each in found] == [3, None, None], "Company a, Person a, Person c"


def test_distinct_nodes_of_different_types_stay_apart(social: Graph) -> None:
    pattern = '$x: Named { name: "a" }'
    assert len(rows(social, pattern, "distinct $x")) == 2
    assert [count for _, count in rows(social, pattern, "$x, count(*) as n")] == [1, 1]
    assert rows(social, pattern, "count(distinct $x) as nodes, count(distinct $x.@id) as ids") == [(2, 1)]


def test_a_group_by_id_is_a_group_by_value(social: Graph) -> None:
    found = bag(social, "$x: Named", "$x.@id as id, count(*) as n")
    assert found == [("a", 2), ("b", 1), ("c", 1), ("d", 1)]


# --- versions ---------------------------------------------------------------------------------------------------------


def test_new_edges_and_nodes_are_seen_at_once_and_elsewhere(created: Created) -> None:
    graph = created(rows=FRIENDS)
    pattern = '$p: Person { name: "Charlie" } $p knows $f'
    other = Graph.open(graph.uri)
    assert rows(graph, pattern, "$f.name") == rows(other, pattern, "$f.name") == []
    graph.load([person("Eve", 22), knows("Charlie", "Eve"), knows("Charlie", "Alice")])
    assert bag(graph, pattern, "$f.name") == ["Alice", "Eve"]
    assert bag(other, pattern, "$f.name") == ["Alice", "Eve"]
    assert bag(Graph.open(graph.uri, mode="ro"), '$p: Person { name: "Charlie" } $p knows{1,3} $f', "$f.name") == [
        "Alice",
        "Bob",
        "Diana",
        "Eve",
    ]


def test_deleted_nodes_take_their_edges_along(created: Created) -> None:
    graph = created(rows=FRIENDS)
    graph.delete("Person", ["Bob"])
    assert bag(graph, "$p: Person $p knows{1,} $f", "$p.name, $f.name") == [("Alice", "Charlie")]
    assert rows(graph, '$c: Company { name: "Globex" } $c worksAt $p', "$p.name") == []
    assert bag(graph, "$p: Person not { $p <knows> $f }", "$p.name") == ["Diana"]
    graph.load([person("Bob", 26), knows("Bob", "Alice")])
    assert bag(graph, '$p: Person { name: "Bob" } $p knows{1,2} $f', "$f.name") == ["Alice", "Charlie"]


def test_branches_and_old_snapshots_are_their_own_graphs(created: Created) -> None:
    graph = created(rows=FRIENDS)
    before = graph.commits.head().graph_commit_id
    graph.tags.create("start")
    graph.branches.create("side")
    graph.load([knows("Diana", "Alice")], branch="side")
    graph.delete("Person", ["Charlie"])
    pattern = "$p: Person $p knows{1,} $f"
    assert bag(graph, '$p: Person { name: "Diana" } $p knows $f', "$f.name", branch="side") == ["Alice"]
    assert rows(graph, '$p: Person { name: "Diana" } $p knows $f', "$f.name") == []
    assert rows(graph, pattern, "count(*)", branch="side") == [9]
    assert rows(graph, pattern, "count(*)", branch="main") == [3]
    assert rows(graph, pattern, "count(*)", snapshot=before) == [4]
    assert rows(graph, pattern, "count(*)", snapshot="start") == [4]
    assert graph.query(text(pattern, "count(*)"), snapshot=before).graph_commit_id == before
    with pytest.raises(OmnigraphError):
        rows(graph, pattern, "count(*)", branch="nowhere")


def test_edges_appended_over_many_loads_are_all_followed(created: Created) -> None:
    graph = created(rows=[person(name) for name in "abcdef"])
    for pair in ("ab", "bc", "cd", "de", "ef", "fa"):
        graph.load([knows(*pair)])
    assert bag(graph, f"{FROM_A} $p knows{{1,}} $f", "$f.name") == list("bcdef")
    assert bag(graph, f"{FROM_A} $p <knows> $f", "$f.name") == ["b", "f"]
    assert rows(graph, "$p: Person $p $w:knows $f", "count($w.@id)") == [6]
