"""Add properties to a schema text. Comments and layout stay: the new lines go at the end of the body of a type."""

from __future__ import annotations

import re
from collections.abc import Mapping

from omnigraph.datatypes import PropertyType
from omnigraph.schema import ast
from omnigraph.schema.parser import parse_schema

_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|\s+|"(?:\\.|[^"\\])*"|.', re.DOTALL)
PROPERTY_NAME = re.compile(r"[a-z_][A-Za-z0-9_]*")


def with_properties(text: str, added: Mapping[tuple[str, str], Mapping[str, PropertyType]]) -> str:
    """Return the text with properties added to types, which are named by their kind (`node`, `edge`) and name.

    >>> from omnigraph.datatypes import Scalar
    >>> since = {"since": PropertyType(Scalar.DATE, nullable=True)}
    >>> print(with_properties("edge Knows: A -> A // so", {("edge", "Knows"): since}))
    edge Knows: A -> A {
        since: Date?
    } // so
    """
    declarations = parse_schema(text).declarations
    starts = [*(_offset(text, each) for each in declarations), len(text)]
    for number in reversed(range(len(declarations))):
        each = declarations[number]
        kind = {ast.NodeDecl: "node", ast.EdgeDecl: "edge"}.get(type(each), "")
        properties = added.get((kind, each.name.text))
        if properties:
            begin, end = starts[number], starts[number + 1]
            text = text[:begin] + _extended(text[begin:end], properties) + text[end:]
    return text


def _offset(text: str, declaration: ast.Declaration) -> int:
    """Return the offset at which a declaration begins."""
    lines = text.split("\n")
    return sum(len(line) + 1 for line in lines[: declaration.span.line - 1]) + declaration.span.column - 1


def _extended(declaration: str, properties: Mapping[str, PropertyType]) -> str:
    lines = "".join(f"    {name}: {kind}\n" for name, kind in properties.items())
    last, closing = 0, None
    for match in _TOKEN.finditer(declaration):
        token = match.group()
        if token.startswith(("//", "/*")) or token.isspace():
            continue
        last = match.end()
        if token == "}":
            closing = match.start()
    if closing is None:  # an edge type without a body
        return f"{declaration[:last]} {{\n{lines}}}{declaration[last:]}"
    before = declaration[:closing].rstrip(" \t")
    return f"{before}{'' if before.endswith(chr(10)) else chr(10)}{lines}{declaration[closing:]}"
