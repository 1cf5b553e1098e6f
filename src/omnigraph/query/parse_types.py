"""Declarations of parameters: `$name: Type`.                                     (tokens -> PARAMETERS -> ast)"""

from __future__ import annotations

from omnigraph.datatypes import MAX_VECTOR_DIMENSION, PropertyType, Scalar
from omnigraph.query import ast
from omnigraph.query.lexer import QueryCursor
from omnigraph.schema.syntax_hints import type_hint


def parameter(cursor: QueryCursor) -> ast.ParamDecl:
    """Read one declaration."""
    if not cursor.at_kind("VAR"):
        word = cursor.peek().text if cursor.at_kind("IDENT") else "name"
        cursor.unexpected("a parameter starts with `$`", f"write `${word}: String`")
    start = cursor.peek().start
    name = cursor.name()
    cursor.expect(":", f"after `${name.text}`", f"give its type: `${name.text}: String`")
    return ast.ParamDecl(name, _type(cursor), cursor.span_from(start))


def _type(cursor: QueryCursor) -> PropertyType:
    if cursor.take("["):
        item = _scalar(cursor)
        if cursor.at("?"):
            cursor.fail("list items take no `?`", cursor.here(), f"write `[{item}]?` for a list that may be missing")
        cursor.expect("]", "to close the list type")
        if item is Scalar.BLOB:
            cursor.fail("a list cannot hold blobs", cursor.here(), "pass each as a parameter of its own")
        return PropertyType(item, _nullable(cursor), is_list=True)
    if cursor.at_kind("TYPE") and cursor.peek().text == "Vector":
        dimension = _dimension(cursor)
        return PropertyType(Scalar.F32, _nullable(cursor), dimension=dimension)
    return PropertyType(_scalar(cursor), _nullable(cursor))


def _nullable(cursor: QueryCursor) -> bool:
    return cursor.take("?") is not None


def _dimension(cursor: QueryCursor) -> int:
    cursor.advance()
    cursor.expect("(", "after `Vector`", "write for example `Vector(384)`")
    if not cursor.at_kind("INT"):
        cursor.unexpected("`Vector` needs its dimension", "write for example `Vector(384)`")
    value = int(cursor.peek().text[:20])
    if not 1 <= value <= MAX_VECTOR_DIMENSION:
        cursor.fail(
            f"a vector has 1 to {MAX_VECTOR_DIMENSION} numbers", cursor.here(), "write for example `Vector(384)`"
        )
    cursor.advance()
    cursor.expect(")", "to close `Vector(`")
    return value


def _scalar(cursor: QueryCursor) -> Scalar:
    token = cursor.peek()
    if token.text == "enum":
        cursor.fail("a parameter cannot be an enum", cursor.here(), "write `String`; the value is checked when written")
    if token.kind not in ("TYPE", "IDENT"):
        cursor.unexpected("expected a type", "write for example `String`, `[String]`, `Vector(3)` or `I64?`")
    if token.text not in set(Scalar):
        cursor.fail(f"unknown type `{token.text}`", cursor.here(), type_hint(token.text))
    cursor.advance()
    return Scalar(token.text)
