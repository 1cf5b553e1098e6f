"""`.pg` text -> `ast.SchemaFile`, or one `ParseError` that points at the mistake. (text -> PARSER -> ast -> catalog)"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NoReturn, cast

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput

from omnigraph.datatypes import PropertyType, Scalar
from omnigraph.errors import ParseError, Span
from omnigraph.schema import ast
from omnigraph.schema.grammar import GRAMMAR
from omnigraph.schema.names import CONSTRAINTS
from omnigraph.schema.slips import diagnose, type_hint
from omnigraph.schema.source_text import name_is_too_long, require_readable

# Python refuses to read integers of thousands of digits; nothing sensible comes near.
MAX_DIGITS = 400

_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}


def parse_schema(text: str, path: str | None = None) -> ast.SchemaFile:
    """Parse a schema. The grammar is checked here, the meaning in `checks`.

    >>> parse_schema("node Person { name: String @key }").nodes[0].name.text
    'Person'
    """
    require_readable(text, path)
    try:
        tree = _lark().parse(text)
    except UnexpectedInput as error:
        slip = diagnose(text, error)
        raise ParseError(slip.message, span=slip.span, source=text, path=path, hint=slip.hint) from None
    return _Builder(text, path).file(tree)


@cache
def _lark() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer="contextual", propagate_positions=True, maybe_placeholders=False)


class _Builder:
    """Turns lark's tree into ast nodes; holds the text so that errors can quote it."""

    def __init__(self, text: str, path: str | None) -> None:
        self.text = text
        self.path = path

    def file(self, tree: Tree[Token]) -> ast.SchemaFile:
        return ast.SchemaFile(tuple(self.declaration(child) for child in _trees(tree)), self.text, self.path)

    def declaration(self, tree: Tree[Token]) -> ast.Declaration:
        names = [self.name(token) for token in _tokens(tree, "TYPE_NAME")]
        annotations = tuple(self.annotation(child) for child in _trees(tree, "header"))
        body = next(_trees(tree, "body"), None)
        properties, constraints = self.body(body) if body is not None else ((), ())
        span = self.span(tree)
        if tree.data == "interface":
            return ast.InterfaceDecl(names[0], annotations, properties, constraints, span)
        if tree.data == "edge":
            return ast.EdgeDecl(names[0], names[1], names[2], annotations, properties, constraints, span)
        implements = tuple(
            self.name(token) for clause in _trees(tree, "implements") for token in _tokens(clause, "TYPE_NAME")
        )
        return ast.NodeDecl(names[0], annotations, implements, properties, constraints, span)

    def body(self, tree: Tree[Token]) -> tuple[tuple[ast.PropertyDecl, ...], tuple[ast.Annotation, ...]]:
        """Hang each annotation on the property before it, unless it speaks about the whole type."""
        properties: list[ast.PropertyDecl] = []
        constraints: list[ast.Annotation] = []
        for member in _trees(tree):
            if member.data == "property":
                properties.append(self.property(member))
                continue
            annotation = self.annotation(member)
            if _is_about_the_type(annotation):
                constraints.append(annotation)
            elif properties:
                last = properties.pop()
                properties.append(
                    ast.PropertyDecl(last.name, last.type, last.type_span, (*last.annotations, annotation))
                )
            else:
                hint = "write it after a property, or before the `{` if it is about the whole type"
                self.fail(f"`@{annotation.name}` has no property to belong to", annotation.span, hint)
        return tuple(properties), tuple(constraints)

    def property(self, tree: Tree[Token]) -> ast.PropertyDecl:
        type_tree = next(_trees(tree, "type"))
        name = self.name(next(_tokens(tree, "IDENT")))
        return ast.PropertyDecl(name, self.type(type_tree), self.span(type_tree))

    def type(self, tree: Tree[Token]) -> PropertyType:
        nullable = any(True for _ in _tokens(tree, "OPTIONAL"))
        inner = next(_trees(tree))
        if inner.data == "enum":
            values = tuple(str(token) for token in _tokens(inner, "ENUM_VALUE"))
            return PropertyType(Scalar.STRING, nullable, values=values)
        if inner.data == "list":
            return self.list_type(inner, nullable)
        token = cast(Token, inner.children[0])
        if inner.data == "vector":
            if token != "Vector":
                hint = f"write `{token}`" if token in set(Scalar) else type_hint(str(token))
                self.fail(f"`{token}` takes no size", self.span(inner), hint)
            return PropertyType(Scalar.F32, nullable, dimension=int(self.number(inner)))
        if token == "Vector":
            self.fail("`Vector` needs its dimension", self.span(inner), "write for example `Vector(384)`")
        if token not in set(Scalar):
            self.fail(f"unknown type `{token}`", self.span(inner), type_hint(str(token)))
        return PropertyType(Scalar(str(token)), nullable)

    def list_type(self, tree: Tree[Token], nullable: bool) -> PropertyType:
        inner = next(_trees(tree, "type"))
        span = self.span(inner)
        if next(_trees(inner, "list"), None) is not None:  # however deep it goes on
            self.fail("a list cannot hold lists", span, "use a flat list, or a node per inner list")
        item = self.type(inner)
        if item.is_enum:
            self.fail("a list cannot hold enum values", span, "use `[String]`")
        if item.is_vector:
            self.fail("a list cannot hold vectors", span, "use one `Vector(n)` property, or a node per vector")
        if item.nullable:
            self.fail("list items take no `?`", span, f"write `[{item.scalar}]?` for a list that may be missing")
        return PropertyType(item.scalar, nullable, is_list=True)

    def annotation(self, tree: Tree[Token]) -> ast.Annotation:
        has_parentheses = any(True for _ in _tokens(tree, "OPEN"))
        arguments = tuple(self.argument(child) for child in _trees(tree)) if has_parentheses else None
        return ast.Annotation(str(next(_tokens(tree, "IDENT"))), arguments, self.span(tree))

    def argument(self, tree: Tree[Token]) -> ast.Argument:
        span = self.span(tree)
        match tree.data:
            case "literal":
                return self.literal(tree)
            case "keyword":
                return self.keyword(tree)
            case "range":
                return self.bounds(tree)
            case "endpoint":
                return ast.Name(str(tree.children[0]), span, at=True)
            case _:
                word = str(tree.children[0])
                # `true` and `false` are words to the lexer, so that `trueish` stays a name.
                return ast.Literal(word == "true", span) if word in ("true", "false") else ast.Name(word, span)

    def keyword(self, tree: Tree[Token]) -> ast.Keyword:
        name = self.name(next(_tokens(tree, "IDENT")))
        value = self.argument(next(_trees(tree)))
        if not isinstance(value, ast.Literal):
            written = getattr(value, "text", "...")
            self.fail(
                f"`{name.text}` needs a quoted text, a number, true or false",
                value.span,
                f'write `{name.text}="{written}"`',
            )
        return ast.Keyword(name, value, self.span(tree))

    def bounds(self, tree: Tree[Token]) -> ast.Bounds:
        low: int | float | None = None
        high: int | float | None = None
        seen_dots = False
        for child in tree.children:
            if isinstance(child, Token):
                seen_dots = True
            elif seen_dots:
                high = self.number(child)
            else:
                low = self.number(child)
        return ast.Bounds(low, high, self.span(tree))

    def number(self, tree: Tree[Token] | Token) -> int | float:
        written = cast("Tree[Token]", tree)
        digits = "".join(token for kind in ("MINUS", "INT", "FLOAT") for token in _tokens(written, kind))
        is_whole = re.fullmatch(r"-?[0-9]+", digits) is not None
        if len(digits) > MAX_DIGITS or not math.isfinite(float(digits)):
            self.fail("this number is too large", self.span(written), "no property type could hold it")
        return int(digits) if is_whole else float(digits)

    def literal(self, tree: Tree[Token]) -> ast.Literal:
        child = tree.children[0]
        if isinstance(child, Token):
            return ast.Literal(self.string(child), self.span(tree))
        return ast.Literal(self.number(child), self.span(tree))

    def string(self, token: Token) -> str:
        def decode(found: re.Match[str]) -> str:
            if found[1] not in _ESCAPES:
                span = self.offset_span(cast(int, token.start_pos) + 1 + found.start(), 2)
                self.fail(f"unsupported escape sequence `\\{found[1]}`", span, r"use one of \" \\ \n \r \t")
            return _ESCAPES[found[1]]

        return re.sub(r"\\(.)", decode, token[1:-1], flags=re.DOTALL)

    def name(self, token: Token) -> ast.Name:
        span = Span(cast(int, token.line), cast(int, token.column), len(token))
        problem = name_is_too_long(token)
        if problem is not None:
            self.fail(problem, span, "choose a shorter name")
        return ast.Name(str(token), span)

    def span(self, tree: Tree[Token]) -> Span:
        """The place of a tree; a tree over several lines is cut at the end of its first."""
        written = self.text[tree.meta.start_pos : tree.meta.end_pos].split("\n", 1)[0].rstrip()
        return Span(tree.meta.line, tree.meta.column, max(1, len(written)))

    def offset_span(self, offset: int, width: int) -> Span:
        line_start = self.text.rfind("\n", 0, offset) + 1
        return Span(self.text.count("\n", 0, offset) + 1, offset - line_start + 1, width)

    def fail(self, message: str, span: Span, hint: str | None) -> NoReturn:
        raise ParseError(message, span=span, source=self.text, path=self.path, hint=hint)


def _is_about_the_type(annotation: ast.Annotation) -> bool:
    if annotation.name not in CONSTRAINTS or annotation.arguments is None:
        return False
    # `embedding: Vector(3) @index(metric="cosine")` speaks about its property: it names no other.
    return not (annotation.name == "index" and annotation.keywords and not annotation.positional)


def _trees(tree: Tree[Token], data: str | None = None) -> Iterator[Tree[Token]]:
    for child in cast("list[Any]", tree.children):
        if isinstance(child, Tree) and (data is None or child.data == data):
            yield child


def _tokens(tree: Tree[Token], kind: str) -> Iterator[Token]:
    for child in tree.children:
        if isinstance(child, Token) and child.type == kind:
            yield child
