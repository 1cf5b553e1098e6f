"""What the parser reads and refuses, and queries that share a file."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pytest

from omnigraph.datatypes import PropertyType, Scalar
from omnigraph.errors import InvalidArgument, LanguageError, ParseError
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
