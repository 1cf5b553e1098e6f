"""The rules of the type checker, one test for each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from omnigraph.errors import TypeCheckError
from omnigraph.query import ir

Read = Callable[..., ir.QueryIR]
Write = Callable[..., ir.MutationIR]


def rule_of(compile_it: Callable[[], object]) -> str | None:
    with pytest.raises(TypeCheckError) as caught:
        compile_it()
    return caught.value.rule


@pytest.mark.parametrize(
    ("rule", "clauses", "schema"),
    [
        ("T1", "$p: Persn", "people"),
        ("T2", '$p: Person { nmae: "x" }', "people"),
        ("T3", '$p: Person { age: "x" }', "people"),
        ("T3", '$d: Doc { tags: ["x"] }', "library"),
        ("T7", '$d: Doc $d.tags = ["x"]', "library"),
        ("T7", '$d: Doc $d.tags contains ["x"]', "library"),
        ("T7", '$p: Person $p.age contains "x"', "people"),
        ("T7", "$p: Person $p.name contains 3", "people"),
        ("T7", "$p: Person $p.name starts_with 3", "people"),
        ("T7", '$p: Person $p.age starts_with "3"', "people"),
        ("T4", "$p nkows $f", "people"),
        ("T5", "$c: Company $c knows $f", "people"),
        ("T6", "$p: Person $p.agee > 3", "people"),
        ("T7", '$p: Person $p.age = "x"', "people"),
        ("T7", "$p: Person $q: Person $p = $q", "people"),
        ("T22", "$p <worksAt> $c", "people"),
        ("T15", "$p knows{3,1} $f", "people"),
        ("T15", "$p knows{0,2} $f", "people"),
        ("T9", "$p: Person not { $q: Person }", "people"),
        ("T19", '$d: Doc fuzzy($d.title, "x", 1.5)', "library"),
        ("T19", "$d: Doc $e: Doc search($d.title, $e.title)", "library"),
        ("T20", "$d: Doc $e: Doc match_text($d.title, $e.title)", "library"),
        ("T3", '$d: Doc { scan: "x" }', "library"),
        ("T7", '$d: Doc $d.scan = "x"', "library"),
        ("T23", "$p $w:knows{1,2} $f", "people"),
        ("T23", "$p $w:knows $f $g $w:knows $h", "people"),
        ("T23", "$p $w:knows $f $w = 1", "people"),
        ("T23", "$p $w:knows $f $w knows $g", "people"),
        ("T23", '$a $w:wrote $d search($w.note, "x")', "library"),
        ("T23", "$a $w:wrote $d nearest($w.note, [1]) < 2", "library"),
        ("T6", "$p $w:knows $f $w.nothing = 1", "people"),
    ],
)
def test_pattern_rules(read: Read, rule: str, clauses: str, schema: str) -> None:
    assert rule_of(lambda: read(clauses, schema=schema)) == rule


def test_list_property_takes_a_scalar_and_means_membership(read: Read) -> None:
    inline = read('$d: Doc { tags: "x" }', schema="library").pattern.filters
    contains = read('$d: Doc $d.tags contains "x"', schema="library").pattern.filters
    within = read('$d: Doc "x" in $d.tags', schema="library").pattern.filters
    assert inline == contains == within
    assert isinstance(inline[0], ir.Member)


def test_contains_on_text_is_a_text_test(read: Read) -> None:
    (found,) = read('$p: Person $p.name contains "x"').pattern.filters
    assert isinstance(found, ir.TextTest)


NEAREST = "order { nearest($d.embedding, $q) }"


@pytest.mark.parametrize(
    ("rule", "tail", "params"),
    [
        ("T17", NEAREST, "$q: Vector(3)"),
        ("T15", f"{NEAREST} limit 3", "$q: Vector(4)"),
        ("T15", f"{NEAREST} limit 3", "$q: I64"),
        ("T18", "order { nearest($d.embedding, $q), s } limit 3", "$q: Vector(3)"),
        ("T21", "order { rrf(nearest($d.embedding, $q), bm25($d.title, $q)) }", "$q: String"),
        ("T21", "order { rrf(nearest($d.embedding, $q), bm25($d.title, $q), 0) } limit 3", "$q: String"),
        ("T21", "order { rrf(nearest($d.embedding, $q), bm25($d.title, $q), 1.5) } limit 3", "$q: String"),
        ("T20", "order { bm25($d.pages, $q) }", "$q: String"),
        ("T20", "order { bm25($d.title, $d.slug) }", "$q: String"),
        ("T15", "order { nearest($d.embedding, $d.title) } limit 3", "$q: String"),
        ("T21", "order { rrf(nearest($d.embedding, $d.embedding), bm25($d.title, $q)) } limit 3", "$q: String"),
        (None, f"{NEAREST} limit 3", "$q: Vector(3)"),
        (None, f"{NEAREST} limit 3", "$q: String"),
        (None, "order { rrf(nearest($d.embedding, $q), bm25($d.title, $q)), s } limit 3", "$q: String"),
    ],
)
def test_ranking_rules(read: Read, rule: str | None, tail: str, params: str) -> None:
    def compile_it() -> ir.QueryIR:
        return read("$d: Doc", "$d.slug as s", tail, params, "library")

    if rule is None:
        assert compile_it().limit == 3
    else:
        assert rule_of(compile_it) == rule


def test_rrf_through_an_alias_needs_a_limit(read: Read) -> None:
    returned = 'rrf(bm25($d.title, "x"), bm25($d.body, "x")) as score'
    assert rule_of(lambda: read("$d: Doc", returned, "order { score }", schema="library")) == "T21"
    (key,) = read("$d: Doc", returned, "order { score } limit 3", schema="library").order
    assert key == ir.OrderKey(ir.Output("score", key.expr.type), descending=True)


@pytest.mark.parametrize("call", ["sum($p.name)", "avg($p.name)", "min($p)", "collect($p)", "sum($p)"])
def test_aggregates_refuse_what_they_cannot_aggregate(read: Read, call: str) -> None:
    assert rule_of(lambda: read("$p: Person", call)) == "T8"


@pytest.mark.parametrize(
    ("clauses", "direction"),
    [
        ("$a: Person $a worksAt $b", "out"),
        ("$a: Company $a worksAt $b", "in"),
        ("$b: Company $a worksAt $b", "out"),
        ("$b: Person $a worksAt $b", "in"),
        ("$a worksAt $b", "out"),
        ("$a: Person $b: Person $b knows $a", "out"),
        ("$a <knows> $b", "both"),
    ],
)
def test_direction_follows_from_the_types(read: Read, clauses: str, direction: str) -> None:
    (edge,) = read(clauses).pattern.edges
    assert edge.direction == direction


def test_direction_inside_not_knows_the_outer_types(read: Read) -> None:
    (block,) = read("$c: Company not { $c worksAt $p $p.age > 3 }").pattern.negations
    assert block.edges[0].direction == "in"
    assert block.nodes == (ir.NodePattern("p", ("Person",), declared=False),)


def test_open_hops_mean_reachable(read: Read) -> None:
    (edge,) = read("$a knows{2,} $b").pattern.edges
    assert (edge.min_hops, edge.max_hops) == (2, None)


@pytest.mark.parametrize(
    ("rule", "statements"),
    [
        ("T12", 'insert Item { sku: "a" }'),
        ("T12", 'insert Bought { to: "a", amount: 1 }'),
        ("T12", 'insert Bought { from: "a", amount: 1 }'),
        ("T12", "insert Note { embedding: [1, 2] }"),
        ("T11", 'update Item set { nothing: 1 } where sku = "a"'),
        ("T10", 'delete Nothing where sku = "a"'),
        ("T10", 'insert Item { sku: "a", label: "b", price: 1, kind: "toy" } insert Nothing { a: 1 }'),
        ("T13", 'update Item set { stock: 1, stock: 1 } where sku = "a"'),
        ("T14", "delete Item where sku = $x"),
        ("T14", "update Item set { stock: $x } where stock = 1"),
        ("T7", 'update Item set { label: now() } where sku = "a"'),
        ("T7", "delete Item where label = now()"),
        ("T7", 'update Item set { stock: "x" } where sku = "a"'),
        ("T11", "delete Item where photo is null"),
        ("T16", 'update Bought set { to: "x" } where amount = 1'),
    ],
)
def test_mutation_rules(write: Write, rule: str, statements: str) -> None:
    assert rule_of(lambda: write(statements)) == rule


def test_embed_target_may_be_left_out_with_its_source(write: Write) -> None:
    assert write('insert Note { text: "x" }').statements


def test_defaults_and_nullables_may_be_left_out(write: Write) -> None:
    assert write('insert Item { sku: "a", label: "b", price: 1, kind: "toy" }').statements


def test_edges_can_be_updated_and_deleted_exactly(write: Write) -> None:
    (update,) = write(
        "update Bought set { amount: 2 } where from = $a and to = $b", "$a: String, $b: String"
    ).statements
    assert isinstance(update, ir.Update)
    assert update.type_kind == "edge"
    assert {each.name for each in ir.walk(update.where) if isinstance(each, ir.Prop)} == {"src", "dst"}


def test_now_is_for_moments_and_the_reserved_name_is_refused(read: Read) -> None:
    assert read("$d: Doc $d.changed < now()", schema="library").pattern.filters
    assert rule_of(lambda: read("$d: Doc $d.published < now()", schema="library")) == "T7"
    with pytest.raises(TypeCheckError, match="reserved"):
        read("$p: Person", params="$__nanograph_now: DateTime")


def test_edge_properties_in_filter_return_and_aggregate(read: Read) -> None:
    found = read("$p $w:knows $f $w.strength > 0.5", "$w.since, count($w.strength) as n")
    assert [column.name for column in found.outputs] == ["w.since", "n"]


def test_node_and_edge_of_one_name(write: Write, read: Read) -> None:
    (delete,) = write("delete Sale where id_no = 1").statements
    assert delete.type_kind == "node"
    found = read("$a: Item $a sale $b", schema="shop")
    assert found.pattern.edges[0].edge_types == ("Sale",)
    assert read("$s: Sale", schema="shop").pattern.nodes[0].types == ("Sale",)


@pytest.mark.parametrize("returned", ["$d.scan", "count($d.scan)", "$b", "$d.scan as x"])
def test_blobs_are_no_read_values(read: Read, returned: str) -> None:
    assert rule_of(lambda: read("$d: Doc", returned, params="$b: Blob", schema="library")) == "T24"


def test_blobs_can_be_assigned(write: Write) -> None:
    assert write('update Item set { photo: "base64:AA==" } where sku = "a"').statements
    assert write("update Item set { photo: $p } where stock = 1", "$p: String").statements


def test_list_parameters(read: Read) -> None:
    found = read("$p $w:knows $f $p.name in $names $w.since in $days", params="$names: [String], $days: [Date]")
    assert all(isinstance(each, ir.Member) for each in found.pattern.filters)


@pytest.mark.parametrize("clause", ["$p: Person { name: $nobody }", "$p: Person $p.name = $nobody"])
def test_undeclared_parameters_are_errors(read: Read, clause: str) -> None:
    with pytest.raises(TypeCheckError, match="neither bound nor a parameter"):
        read(clause)
