"""Names, nulls and literals of results, and what queries are lowered to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from omnigraph.datatypes import Scalar
from omnigraph.errors import TypeCheckError
from omnigraph.query import ir

Read = Callable[..., ir.QueryIR]
Write = Callable[..., ir.MutationIR]


def test_column_names(read: Read) -> None:
    found = read("$p: Person $p knows $f", "$p.name, $p, count(*), count($f), avg($p.age), $p.age as years, $p.@id")
    assert [each.name for each in found.outputs] == ["p.name", "p", "count", "f", "p.age", "years", "p.@id"]
    plain = read(
        "$p: Person", "$x, 1, $p.age + 1, nodes_of, $p.age is null".replace("nodes_of, ", ""), params="$x: I32"
    )
    assert [each.name for each in plain.outputs] == ["x", "literal", "p.age + 1", "p.age is null"]


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("$p.name", "String"),
        ("$p.age", "I32?"),
        ("$p.age > 3", "Bool?"),
        ('$p.name = "x"', "Bool"),
        ("$p.age is null", "Bool"),
        ("$p.age + 1", "I64?"),
        ("$p.age / 2.0", "F64?"),
        ("$c.name", "String?"),
        ("$c", "Company?"),
        ("$c.@id", "String?"),
        ("count($c)", "I64"),
        ("min($p.name)", "String?"),
        ("collect($p.name)", "[String]"),
        ("sum($p.age)", "F64?"),
        ("now()", "DateTime"),
    ],
)
def test_types_and_nulls_of_columns(read: Read, returned: str, expected: str) -> None:
    (column,) = read("$p: Person optional { $p worksAt $c }", f"{returned} as x").outputs
    assert str(column.type) == expected


def test_groups_are_never_empty(read: Read) -> None:
    found = read("$p: Person", "$p.age, min($p.name) as first")
    assert str(found.outputs[1].type) == "String"


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("$d.pages = 3", (3, Scalar.U32)),
        ("$d.pages = -3", (-3, Scalar.I64)),
        ("$d.pages = 2.7", (2.7, Scalar.F64)),
        ("$d.rating = 2", (2.0, Scalar.F32)),
        ("$d.rating = 0.5", (0.5, Scalar.F32)),
        ("$d.year = 3000000000", (3000000000, Scalar.I64)),
    ],
)
def test_literals_take_the_type_they_meet_unless_that_loses_something(
    read: Read, clause: str, expected: tuple[object, Scalar]
) -> None:
    (found,) = read(f"$d: Doc {clause}", schema="library").pattern.filters
    assert isinstance(found, ir.Compare)
    assert isinstance(found.right, ir.Const)
    assert found.right.type.value is not None
    assert (found.right.value, found.right.type.value.scalar) == expected


def test_precedence(read: Read) -> None:
    (found,) = read(
        "$d: Doc not $d.archived and $d.pages > 1 or $d.pages + 2 * 3 = 7", schema="library"
    ).pattern.filters
    assert isinstance(found, ir.Or)
    both, sum_test = found.operands
    assert isinstance(both, ir.And)
    assert isinstance(both.operands[0], ir.Not)
    assert isinstance(sum_test, ir.Compare)
    assert isinstance(sum_test.left, ir.Arithmetic)
    assert sum_test.left.op == "+"


def test_clause_order_does_not_matter(read: Read) -> None:
    parts = ("$p: Person { age: 3 }", "$p knows $f", "$f worksAt $c", '$c.name = "x"')
    forward, backward = read(" ".join(parts)), read(" ".join(reversed(parts)))
    assert set(forward.pattern.nodes) == set(backward.pattern.nodes)
    assert set(forward.pattern.edges) == set(backward.pattern.edges)
    assert set(forward.pattern.filters) == set(backward.pattern.filters)


def test_every_end_of_an_edge_is_a_node(read: Read) -> None:
    found = read("$a: Person $a knows $_ $a knows $_ $_ worksAt $c").pattern
    ends = {end for edge in found.edges for end in (edge.source, edge.target)}
    assert ends == {node.var for node in found.nodes}
    assert {node.var for node in found.nodes if not node.declared} == {"_1", "_2", "_3", "c"}


def test_anonymous_variables_connect_nothing_and_take_no_used_name(read: Read) -> None:
    found = read("$_1: Person $_1 knows $_ $_: Company").pattern
    assert [node.var for node in found.nodes] == ["_1", "_2", "_3"]


def test_disconnected_bindings_stay_apart(read: Read) -> None:
    found = read("$a: Person $b: Company").pattern
    assert found.edges == ()
    assert [node.var for node in found.nodes] == ["a", "b"]


def test_interfaces_stand_for_the_types_that_implement_them(read: Read) -> None:
    (node,) = read("$t: Titled", schema="library").pattern.nodes
    assert node.types == ("Doc", "Film")
    narrowed = read("$t: Titled $a directed $t", schema="library").pattern
    assert narrowed.nodes[0] == ir.NodePattern("t", ("Film",), declared=True)


def test_a_block_does_not_narrow_the_variables_around_it(read: Read) -> None:
    found = read("$t: Titled not { $a directed $t }", schema="library").pattern
    assert found.nodes[0].types == ("Doc", "Film")


def test_aggregate_queries_know_it(read: Read) -> None:
    assert not read("$p: Person", "$p.name").is_aggregate
    assert read("$p: Person", "count($p)").is_aggregate
    assert read("$p: Person", "$p.age", "having { count($p) > 1 }").is_aggregate
    assert read("$p: Person", "$p.age", "order { count($p) }").is_aggregate


def test_writes_and_deletes_do_not_mix(write: Write) -> None:
    with pytest.raises(TypeCheckError, match="inserts/updates and deletes") as caught:
        write('insert Sale { id_no: 1, total: 2 } delete Item where sku = "a"')
    assert caught.value.hint == "split into separate mutations"
    assert caught.value.rule == "D2"
