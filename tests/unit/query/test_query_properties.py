"""Random queries: formatting and parsing are inverse, and no text makes the compiler fail in an unplanned way."""

from __future__ import annotations

import datetime as dt

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import LanguageError, Span
from omnigraph.query import ast, compile_file, parse_queries
from omnigraph.query.format import format_query
from omnigraph.query.grammar import AGGREGATES, COMPARISONS, FUNCTIONS
from omnigraph.query.ir_text import explain_ir
from tests.unit.query.conftest import GOLDEN, catalog

HERE = Span(1, 1)
NAMES = st.sampled_from(["a", "b", "limit", "order", "not_x", "x1"])


def name(text: str) -> ast.Name:
    return ast.Name(text, HERE)


LITERALS = st.one_of(
    st.text(max_size=8),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    st.dates(),
    st.datetimes(timezones=st.just(dt.UTC)).map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
).map(lambda value: ast.Literal(value, HERE))

LEAVES = st.one_of(
    LITERALS,
    st.lists(LITERALS, max_size=3).map(lambda items: ast.ListLiteral(tuple(items), HERE)),
    NAMES.map(lambda text: ast.Var(text, HERE)),
    st.tuples(NAMES, NAMES).map(lambda pair: ast.PropertyRef(name(pair[0]), name(pair[1]), HERE)),
    NAMES.map(lambda text: ast.IdRef(name(text), HERE)),
)


def minus(operand: ast.Expression) -> ast.Expression:
    """`-1` is a literal to the parser, so no operator stands before a number."""
    if isinstance(operand, ast.Literal) and isinstance(operand.value, int | float) and operand.value is not True:
        return operand
    return ast.Unary("-", operand, HERE)


def logic(op: str, operands: list[ast.Expression]) -> ast.Expression:
    flat = [
        o for each in operands for o in (each.operands if isinstance(each, ast.Logic) and each.op == op else (each,))
    ]
    return ast.Logic(op, tuple(flat), HERE)


def deeper(inner: st.SearchStrategy[ast.Expression]) -> st.SearchStrategy[ast.Expression]:
    operators = st.sampled_from(["+", "-", "*", "/", "%", *COMPARISONS, "contains", "starts_with", "in"])
    return st.one_of(
        st.tuples(operators, inner, inner).map(lambda t: ast.Binary(t[0], t[1], t[2], HERE)),
        inner.map(minus),
        inner.map(lambda operand: ast.Unary("not", operand, HERE)),
        st.tuples(inner, st.booleans()).map(lambda t: ast.NullTest(t[0], t[1], HERE)),
        st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3)).map(lambda t: logic(*t)),
        st.tuples(st.sampled_from(AGGREGATES), inner, st.booleans()).map(
            lambda t: ast.Call(t[0], (t[1],), HERE, distinct=t[2])
        ),
    )


EXPRESSIONS = st.recursive(LEAVES, deeper, max_leaves=12)


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS, EXPRESSIONS)
def test_formatting_and_parsing_are_inverse(condition: ast.Expression, returned: ast.Expression) -> None:
    read = ast.Read((ast.Filter(condition, HERE),), (ast.Projection(returned, name("x"), HERE),))
    query = ast.Query(name("q"), (), read)
    text = format_query(query)
    assert parse_queries(text).queries == (query,), text


def good_queries() -> list[tuple[str, str]]:
    """The sound queries of the golden folder, each with the name of its schema."""
    texts = [path.read_text().split("\n", 1) for path in sorted(GOLDEN.glob("good_*.gq"))]
    return [(head.removeprefix("// schema: "), text) for head, text in texts]


GOOD = good_queries()
WORDS = {word for _, text in GOOD for word in text.replace("(", " ( ").replace("{", " { ").split()}
PIECES = sorted(WORDS | set(FUNCTIONS))


def compiles_or_explains(text: str, schema: str) -> None:
    """A text compiles to something that can be explained, or fails with a place in the text; nothing else."""
    failed: LanguageError | None = None
    try:
        found = compile_file(text, catalog(schema))
    except LanguageError as error:
        failed = error
    if failed is None:
        assert all(explain_ir(each) for each in found.values())
    else:
        assert failed.span is not None
        assert str(failed)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25), st.sampled_from(["people", "library", "shop"]))
def test_any_soup_of_words_is_a_query_or_a_language_error(pieces: list[str], schema: str) -> None:
    soup = " ".join(pieces)
    compiles_or_explains(soup, schema)
    compiles_or_explains(f"query q() {{ match {{ $p: Person {soup} }} return {{ $p }} }}", schema)
    compiles_or_explains(f"query q() {{ match {{ $d: Doc }} return {{ $d {soup} }} }}", schema)
    compiles_or_explains(f"query q() {{ update Item set {{ stock: 1 }} where {soup} }}", schema)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_query_or_a_language_error(text: str) -> None:
    compiles_or_explains(text, "people")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_query_is_a_query_or_a_language_error(data: st.DataObject) -> None:
    schema, text = data.draw(st.sampled_from(GOOD))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 12)))
    patch = data.draw(st.sampled_from(["", "}", "{", "$", '"', "not", "=", "$p", "Person", "1"]))
    compiles_or_explains(text[:start] + patch + text[end:], schema)
