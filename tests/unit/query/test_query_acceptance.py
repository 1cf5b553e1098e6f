"""What the query language promises, promise by promise: parsing, type checking, lowering."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pytest

from omnigraph.datatypes import PropertyType, Scalar
from omnigraph.errors import InvalidArgument, LanguageError, ParseError, TypeCheckError
from omnigraph.query import ast, compile_file, compile_query, ir, parse_queries
from omnigraph.schema.catalog import Catalog

Read = Callable[..., ir.QueryIR]
Write = Callable[..., ir.MutationIR]


def parsed(text: str) -> ast.Query:
    return parse_queries(text).queries[0]


def clauses(text: str) -> tuple[ast.Clause, ...]:
    body = parsed(f"query q() {{ match {{ {text} }} return {{ 1 }} }}").body
    assert isinstance(body, ast.Read)
    return body.clauses


def rule_of(compile_it: Callable[[], object]) -> str | None:
    with pytest.raises(TypeCheckError) as caught:
        compile_it()
    return caught.value.rule


# --- parser -----------------------------------------------------------------------------------------------------------


def test_parameters() -> None:
    assert parsed("query q() { match { $p: P } return { 1 } }").params == ()
    query = parsed("query q($v: Vector( 4 ), $l: [DateTime], $m: DateTime?) { match { $p: P } return { 1 } }")
    assert [each.type for each in query.params] == [
        PropertyType(Scalar.F32, dimension=4),
        PropertyType(Scalar.DATETIME, is_list=True),
        PropertyType(Scalar.DATETIME, nullable=True),
    ]


def test_annotations_are_kept_and_given_once() -> None:
    query = parsed('query q() @instruction("i") @description("d") { match { $p: P } return { 1 } }')
    assert (query.description, query.instruction) == ("d", "i")
    with pytest.raises(ParseError, match="twice"):
        parsed('query q() @description("a") @description("b") { match { $p: P } return { 1 } }')


@pytest.mark.parametrize(
    ("text", "undirected", "hops", "edge_var"),
    [
        ("$a knows $b", False, None, None),
        ("$a <knows> $b", True, None, None),
        ("$a knows{1,3} $b", False, (1, 3), None),
        ("$a knows { 1 , 3 } $b", False, (1, 3), None),
        ("$a knows{1,} $b", False, (1, None), None),
        ("$a $w:knows $b", False, None, "w"),
        ("$a $w: <knows> $b", True, None, "w"),
    ],
)
def test_traversal_forms(
    text: str, undirected: bool, hops: tuple[int, int | None] | None, edge_var: str | None
) -> None:
    (found,) = clauses(text)
    assert isinstance(found, ast.Traversal)
    assert found.undirected is undirected
    assert (found.hops and (found.hops.low, found.hops.high)) == hops
    assert (found.edge_var.text if found.edge_var else None) == edge_var


def test_several_queries_and_multi_clause_not() -> None:
    file = parse_queries(
        "query a() { match { $p: P not { $p knows $f $f: P { x: 1 } $f.y > 2 } } return { 1 } }"
        "query b() { match { $p: P } return { 1 } }"
    )
    assert [query.name.text for query in file.queries] == ["a", "b"]
    body = file.queries[0].body
    assert isinstance(body, ast.Read)
    block = body.clauses[1]
    assert isinstance(block, ast.NotBlock)
    assert len(block.clauses) == 3


def test_string_escapes_and_truth_values() -> None:
    (binding,) = clauses(r'$p: P { a: "\"\\\n\r\t", b: true, c: false }')
    assert isinstance(binding, ast.Binding)
    values = [each.value for each in binding.matches]
    assert [each.value for each in values if isinstance(each, ast.Literal)] == ['"\\\n\r\t', True, False]
    with pytest.raises(ParseError, match="unsupported escape sequence"):
        clauses(r'$p: P { a: "\x" }')


@pytest.mark.parametrize("word", ["contains", "starts_with"])
def test_text_tests_are_refused_in_mutations(word: str) -> None:
    with pytest.raises(ParseError, match=word):
        parsed(f'query q() {{ delete Item where label {word} "x" }}')
    with pytest.raises(ParseError, match=word):
        parsed(f'query q() {{ update Item set {{ a: 1 }} where b = 1 and label {word} "x" }}')


def test_dates_lists_and_now() -> None:
    (first, second, third) = clauses(
        '$p.a = date("2024-01-31") $p.b = datetime("2024-01-31T12:00:00+01:00") $p.c in [1, -2]'
    )
    rights = [each.expression.right for each in (first, second, third)]  # type: ignore[union-attr]
    assert rights[0].value == dt.date(2024, 1, 31)
    assert rights[1].value == dt.datetime(2024, 1, 31, 11, tzinfo=dt.UTC)
    assert [item.value for item in rights[2].items] == [1, -2]
    mutation = parsed('query q() { insert A { a: now(), b: date("2024-01-31"), c: ["x"] } }').body
    assert isinstance(mutation, ast.Mutation)
    assert isinstance(mutation.statements[0].assignments[0].value, ast.Call)  # type: ignore[union-attr]


def test_mutations_of_all_kinds_in_one_query() -> None:
    body = parsed(
        'query q() { insert A { a: 1 b: 2, } update A set { a: 1 } where b = 2 delete A where not (a = 1 or b = "x") }'
    ).body
    assert isinstance(body, ast.Mutation)
    assert [type(each) for each in body.statements] == [ast.Insert, ast.Update, ast.Delete]


def test_nearest_takes_no_direction() -> None:
    head = "query q() { match { $d: D } return { nearest($d.v, $q) } order { nearest($d.v, $q)"
    with pytest.raises(ParseError, match="takes no `desc`"):
        parsed(f"{head} desc }} limit 3 }}")
    assert isinstance(parsed(f"{head} }} limit 3 }}").body, ast.Read)


def test_bare_search_is_the_same_as_equals_true(read: Read) -> None:
    for call in ('search($d.title, "x")', 'fuzzy($d.title, "x")', 'match_text($d.title, "x")'):
        bare = read(f"$d: Doc {call}", schema="library")
        assert bare == read(f"$d: Doc {call} = true", schema="library")
        assert isinstance(bare.pattern.filters[0], ir.TextMatch)


def test_rankings_in_order_parse() -> None:
    body = parsed(
        "query q() { match { $d: D } return { 1 }"
        " order { rrf(nearest($d.v, $q), bm25($d.t, $s), 10), bm25($d.t, $s) } }"
    ).body
    assert isinstance(body, ast.Read)
    assert [each.expression.function for each in body.order] == ["rrf", "bm25"]  # type: ignore[union-attr]


def test_errors_have_a_place() -> None:
    with pytest.raises(ParseError) as caught:
        parse_queries("query q() {\n    match { $p: Person }\n    retrun { $p }\n}", "q.gq")
    span = caught.value.span
    assert span is not None
    assert (span.line, span.column, span.width) == (3, 5, 6)
    assert str(caught.value).startswith("q.gq:3:5: ")


def test_bare_contains_is_a_traversal_and_a_property_makes_it_a_filter() -> None:
    edge, test, param = clauses('$q contains $m $q.text contains $m.word $q contains "x"')
    assert isinstance(edge, ast.Traversal)
    assert isinstance(test, ast.Filter)
    assert isinstance(param, ast.Filter)


def test_words_are_reserved_only_where_they_mean_something() -> None:
    query = parsed(
        "query match($limit: I64) { match { $not: P { order: 1, in: 2 } $not is $or $or.return > 1 }"
        " return { $not.limit as order $or.and as by } order { order, by desc } limit $limit }"
    )
    assert isinstance(query.body, ast.Read)
    assert [type(each) for each in query.body.clauses] == [ast.Binding, ast.Traversal, ast.Filter]
    assert len(query.body.projections) == 2


def test_columns_may_be_named_like_operators(read: Read) -> None:
    found = read("$p: Person", "$p.name as in, $p.age as not", "order { in desc, not }")
    assert [key.expr.name for key in found.order] == ["in", "not"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text",
    [
        "not " * 500 + "true",
        "(" * 500 + "true" + ")" * 500,
        "$p.age > " + "-" * 500 + "$p.age",
        "$p.age = 1" + " + 1" * 5000,
        "$p.age in " + "[" * 500 + "]" * 500,
        "not { " * 500 + "$p knows $q" + " }" * 500,
    ],
    ids=["not", "parentheses", "minus", "sum", "list", "blocks"],
)
def test_absurd_depth_is_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError, match="too"):
        clauses(f"$p: Person {text}")


def test_wide_is_fine(read: Read) -> None:
    wide = " and ".join(["$p.age > 1"] * 3000)
    assert len(read(f"$p: Person {wide}").pattern.filters) == 3000


# --- type check -------------------------------------------------------------------------------------------------------


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


# --- names, nulls, literals -------------------------------------------------------------------------------------------


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


# --- lowering ---------------------------------------------------------------------------------------------------------


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


# --- files ------------------------------------------------------------------------------------------------------------

TWO = "query a() { match { $p: Person } return { $p } }\nquery b() { match { $c: Company } return { $c } }"


def test_one_query_needs_no_name_and_several_do(people: Catalog) -> None:
    assert compile_query(TWO, people, "b").name == "b"
    with pytest.raises(InvalidArgument, match="several queries: a, b"):
        compile_query(TWO, people)
    with pytest.raises(InvalidArgument, match="no query `c`"):
        compile_query(TWO, people, "c")
    with pytest.raises(InvalidArgument, match="holds no query"):
        compile_query("// nothing", people)
    assert list(compile_file(TWO, people)) == ["a", "b"]


def test_a_broken_neighbour_does_not_hinder_a_query(people: Catalog) -> None:
    broken = "query x() { match { $p: Nothing } return { $p } }"
    assert compile_query(f"{TWO}\n{broken}", people, "a").name == "a"


def test_duplicate_names_are_an_error_with_both_places(people: Catalog) -> None:
    with pytest.raises(LanguageError, match="first at 1:7") as caught:
        compile_query(f"{TWO}\nquery a() {{ match {{ $p: Person }} return {{ $p }} }}", people, "a")
    assert caught.value.span is not None
    assert (caught.value.span.line, caught.value.span.column) == (3, 7)
