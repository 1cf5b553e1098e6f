"""`.pg` text -> `ast.SchemaFile`, or one `ParseError` that points at the mistake. (text -> PARSER -> ast -> catalog)"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from omnigraph.datatypes import PropertyType, Scalar
from omnigraph.errors import Span
from omnigraph.parsing.cursor import END, Cursor, Token
from omnigraph.schema import ast
from omnigraph.schema.grammar import DIMENSION, ENUM_VALUE, KEYWORDS, TOKEN
from omnigraph.schema.names import CONSTRAINTS
from omnigraph.schema.syntax_hints import diagnose, type_hint

# Python refuses to parse integers of thousands of digits; no real schema comes near.
MAX_DIGITS = 400
T = TypeVar("T")
_FLAT_LIST = re.compile(r"\[[^\[\]]*\]")


def parse_schema(text: str, path: str | None = None) -> ast.SchemaFile:
    """Parse a schema. The grammar is checked here, the semantics in `checks`.

    >>> parse_schema("node Person { name: String @key }").nodes[0].name.text
    'Person'
    """
    parser = _SchemaParser(text, path)
    declarations: list[ast.Declaration] = []
    while not parser.at_kind(END):
        declarations.append(parser.declaration())
    return ast.SchemaFile(tuple(declarations), text, path)


class _SchemaParser(Cursor):
    """Parses declarations. An error lists every token that was possible where a rule stops."""

    pattern = TOKEN
    names = ("TYPE_NAME", "IDENT")

    def __init__(self, text: str, path: str | None) -> None:
        super().__init__(text, path)
        self._declined: set[str] = set()
        self._declined_at = -1

    # --- declarations -------------------------------------------------------------------------------------------------

    def declaration(self) -> ast.Declaration:
        start = self.peek().start
        if self.take_keyword("node"):
            return self.node(start)
        if self.take_keyword("edge"):
            return self.edge(start)
        if self.take_keyword("interface"):
            name, annotations = self.type_name(), self.annotations()
            return ast.InterfaceDecl(name, annotations, *self.body(), self.span_from(start))
        return self.unexpected(END)

    def node(self, start: int) -> ast.NodeDecl:
        name, annotations = self.type_name(), self.annotations()
        implements: list[ast.Name] = []
        if self.take_keyword("implements"):
            implements = self.separated(self.type_name)
            annotations += self.annotations()
        return ast.NodeDecl(name, annotations, tuple(implements), *self.body(), self.span_from(start))

    def edge(self, start: int) -> ast.EdgeDecl:
        name = self.type_name()
        self.require(":")
        source = self.type_name()
        self.require("->")
        target, annotations = self.type_name(), self.annotations()
        properties, constraints = self.body() if self.has("{") else ((), ())
        return ast.EdgeDecl(name, source, target, annotations, properties, constraints, self.span_from(start))

    def annotations(self) -> tuple[ast.Annotation, ...]:
        """Read the annotations before a body."""
        found: list[ast.Annotation] = []
        while self.has("@"):
            found.append(self.annotation())
        return tuple(found)

    def body(self) -> tuple[tuple[ast.PropertyDecl, ...], tuple[ast.Annotation, ...]]:
        """Attach each annotation to the property before it, unless it concerns the whole type."""
        self.require("{")
        properties: list[ast.PropertyDecl] = []
        constraints: list[ast.Annotation] = []
        while not self.take_mark("}"):
            if self.has("@"):
                annotation = self.annotation()
                if _is_about_the_type(annotation):
                    constraints.append(annotation)
                else:
                    self.hang(annotation, properties)
            else:
                properties.append(self.property())
        return tuple(properties), tuple(constraints)

    def hang(self, annotation: ast.Annotation, properties: list[ast.PropertyDecl]) -> None:
        if not properties:
            hint = "write it after a property, or before the `{` if it is about the whole type"
            self.fail(f"`@{annotation.name}` has no property to belong to", annotation.span, hint)
        last = properties.pop()
        properties.append(ast.PropertyDecl(last.name, last.type, last.type_span, (*last.annotations, annotation)))

    def property(self) -> ast.PropertyDecl:
        name = self.name(self.require_kind("IDENT"))
        self.require(":")
        start = self.peek().start
        found = self.type()
        return ast.PropertyDecl(name, found, self.span_from(start))

    # --- types --------------------------------------------------------------------------------------------------------

    def type(self) -> PropertyType:
        start = self.peek().start
        if self.take_mark("["):
            return self.list_type()
        if self.take_mark("enum"):
            self.require("(")
            values = self.separated(lambda: self.require_match("ENUM_VALUE", ENUM_VALUE).text)
            self.require(")")
            return PropertyType(Scalar.STRING, self.take_mark("?"), values=tuple(values))
        word = self.take_kind("TYPE_NAME") or self.require_kind("IDENT")
        if word.kind == "TYPE_NAME" and self.take_mark("("):
            size = self.require_match("INT", DIMENSION)
            self.require(")")
            return self.vector(word, size, self.span_from(start))
        span, nullable = self.span_of(word), self.take_mark("?")
        if word.text == "Vector":
            self.fail("`Vector` needs its dimension", span, "write for example `Vector(384)`")
        if word.text not in set(Scalar):
            self.fail(f"unknown type `{word.text}`", span, type_hint(word.text))
        return PropertyType(Scalar(word.text), nullable)

    def vector(self, word: Token, size: Token, span: Span) -> PropertyType:
        nullable = self.take_mark("?")
        if word.text != "Vector":
            hint = f"write `{word.text}`" if word.text in set(Scalar) else type_hint(word.text)
            self.fail(f"`{word.text}` takes no size", span, hint)
        return PropertyType(Scalar.F32, nullable, dimension=int(self.number_of(size.text, span)))

    def list_type(self) -> PropertyType:
        start = self.peek().start
        if self.has("["):
            inner = _FLAT_LIST.match(self.text, start)
            span = self.span(start, inner.end() if inner else start)
            self.fail("a list cannot hold lists", span, "use a flat list, or a node per inner list")
        item = self.type()
        span = self.span_from(start)
        self.require("]")
        if item.is_enum:
            self.fail("a list cannot hold enum values", span, "use `[String]`")
        if item.is_vector:
            self.fail("a list cannot hold vectors", span, "use one `Vector(n)` property, or a node per vector")
        if item.nullable:
            self.fail("list items take no `?`", span, f"write `[{item.scalar}]?` for a list that may be missing")
        return PropertyType(item.scalar, self.take_mark("?"), is_list=True)

    # --- annotations --------------------------------------------------------------------------------------------------

    def annotation(self) -> ast.Annotation:
        start = self.advance().start
        name = self.require_kind("IDENT").text
        arguments: list[ast.Argument] | None = None
        if self.take_mark("("):
            arguments = [] if self.has(")") else self.separated(self.argument)
            self.require(")")
        return ast.Annotation(name, None if arguments is None else tuple(arguments), self.span_from(start))

    def argument(self) -> ast.Argument:
        start = self.peek().start
        if self.take_mark("@"):
            return ast.Name(self.require_kind("IDENT").text, self.span_from(start), at=True)
        if self.take_mark(".."):
            return ast.Bounds(None, self.number(), self.span_from(start))
        if self.has_number():
            return self.number_or_range(start)
        word = self.take_kind("IDENT")
        if word is not None and self.take_mark("="):
            return ast.Keyword(self.name(word), self.keyword_value(word.text), self.span_from(start))
        return self.word_value(word) if word is not None else self.value()

    def number_or_range(self, start: int) -> ast.Literal | ast.Bounds:
        low = self.number()
        if not self.take_mark(".."):
            return ast.Literal(low, self.span_from(start))
        high = self.number() if self.has_number() else None
        return ast.Bounds(low, high, self.span_from(start))

    def keyword_value(self, name: str) -> ast.Literal:
        if self.has_number():
            start = self.peek().start
            return ast.Literal(self.number(), self.span_from(start))
        word = self.take_kind("IDENT")
        value = self.word_value(word) if word is not None else self.value()
        if isinstance(value, ast.Literal):
            return value
        message = f"`{name}` needs a quoted text, a number, true or false"
        return self.fail(message, value.span, f'write `{name}="{value.text}"`')

    def value(self) -> ast.Name | ast.Literal:
        """Read a string, or the name of a type."""
        word = self.take_kind("TYPE_NAME")
        if word is not None:
            return ast.Name(word.text, self.span_of(word))
        if not self.has_kind("STRING"):
            self.unexpected()
        span = self.here()
        return ast.Literal(self.string(), span)

    def word_value(self, word: Token) -> ast.Name | ast.Literal:
        # `true` and `false` are words in the lexer, so that `trueish` stays a name.
        span = self.span_of(word)
        return ast.Literal(word.text == "true", span) if word.text in ("true", "false") else ast.Name(word.text, span)

    def has_number(self) -> bool:
        return any([self.has("-"), self.has_kind("INT"), self.has_kind("FLOAT")])

    def number(self) -> int | float:
        start = self.peek().start
        sign = "-" if self.take_mark("-") else ""
        digits = self.take_kind("FLOAT") or self.require_kind("INT")
        return self.number_of(sign + digits.text, self.span_from(start))

    def number_of(self, digits: str, span: Span) -> int | float:
        is_whole = re.fullmatch(r"-?[0-9]+", digits) is not None
        if len(digits) > MAX_DIGITS or not math.isfinite(float(digits)):
            self.fail("this number is too large", span, "no property type could hold it")
        return int(digits) if is_whole else float(digits)

    # --- tokens -------------------------------------------------------------------------------------------------------

    def type_name(self) -> ast.Name:
        return self.name(self.require_kind("TYPE_NAME"))

    def name(self, token: Token) -> ast.Name:
        self.require_short_name(token)
        return ast.Name(token.text, self.span_of(token))

    def separated(self, item: Callable[[], T]) -> list[T]:
        """Read one item or more, with commas between them."""
        found = [item()]
        while self.take_mark(","):
            found.append(item())
        return found

    def has(self, mark: str) -> bool:
        """Return whether a mark or word stands at the cursor; an absent one is recorded as possible here."""
        return self.at(mark) or self.decline(mark)

    def has_kind(self, kind: str) -> bool:
        return self.at_kind(kind) or self.decline(kind)

    def take_mark(self, mark: str) -> bool:
        if self.has(mark):
            self.advance()
            return True
        return False

    def take_kind(self, kind: str) -> Token | None:
        return self.advance() if self.has_kind(kind) else None

    def take_keyword(self, word: str) -> bool:
        return self.take_match("IDENT", KEYWORDS[word]) is not None or self.decline(word)

    def require(self, mark: str) -> None:
        if not self.take_mark(mark):
            self.unexpected()

    def require_kind(self, kind: str) -> Token:
        return self.take_kind(kind) or self.unexpected()

    def require_match(self, kind: str, pattern: re.Pattern[str]) -> Token:
        return self.take_match(kind, pattern) or self.unexpected(kind)

    def decline(self, what: str) -> bool:
        """Record that a token was possible at the cursor. Always returns False."""
        if self._declined_at != self.peek().start:
            self._declined_at = self.peek().start
            self._declined = set()
        self._declined.add(what)
        return False

    def unexpected(self, *expected: str) -> NoReturn:
        """Fail at the cursor, listing the tokens expected there."""
        for each in expected:
            self.decline(each)
        offset = len(self.text.rstrip()) if self.at_kind(END) else self.peek().start
        message, width, hint = diagnose(self.text, offset, frozenset(self._declined))
        self.fail(message, self.span(offset, offset + width), hint)


def _is_about_the_type(annotation: ast.Annotation) -> bool:
    if annotation.name not in CONSTRAINTS or annotation.arguments is None:
        return False
    # `embedding: Vector(3) @index(metric="cosine")` concerns its property: it names no other.
    return not (annotation.name == "index" and annotation.keywords and not annotation.positional)
