"""Lint a schema text: all errors and warnings in one report. Never raises on a bad schema.

Errors are those of the compiler. Warnings have stable codes:

====  =====================================================================
S101  a node type without `@key`: loading the same row twice gives two nodes
S102  a vector without `@index`: every search reads the whole column
S103  an edge type name that is not PascalCase
S104  an annotation the engine does not know
S105  an interface that no node type implements
S106  a `@unique` that repeats the key
====  =====================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from omnigraph.errors import LanguageError, ParseError, Span
from omnigraph.schema import ast
from omnigraph.schema.checks import check_schema
from omnigraph.schema.names import KNOWN_ANNOTATIONS, nearest
from omnigraph.schema.parser import parse_schema
from omnigraph.schema.resolve import all_properties, groups


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One warning: the schema is valid, but probably not as intended."""

    code: str
    message: str
    span: Span
    hint: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON values."""
        place = {"line": self.span.line, "column": self.span.column, "width": self.span.width}
        return {"code": self.code, "message": self.message, **place, "hint": self.hint}


@dataclass(frozen=True, slots=True)
class LintReport:
    """The result of a lint. `status` is `error` when the schema does not compile."""

    status: str
    errors: tuple[LanguageError, ...]
    warnings: tuple[LintFinding, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "status": self.status,
            "errors": [error.as_dict() for error in self.errors],
            "warnings": [finding.to_json() for finding in self.warnings],
        }


def lint_schema(text: str, path: str | None = None) -> LintReport:
    """Return every error and warning of a schema text.

    >>> lint_schema("node Person { name: String }").warnings[0].code
    'S101'
    """
    try:
        schema = parse_schema(text, path)
    except ParseError as error:
        return LintReport("error", (error,), ())
    errors = check_schema(schema)
    warnings = sorted(_warnings(schema), key=lambda each: (each.span.line, each.span.column, each.code))
    return LintReport("error" if errors else "ok", errors, tuple(warnings))


def _warnings(schema: ast.SchemaFile) -> Iterator[LintFinding]:
    for node in schema.nodes:
        yield from _key_warnings(schema, node)
    for edge in schema.edges:
        if not re.fullmatch(r"[A-Z]([A-Za-z0-9]*[a-z0-9][A-Za-z0-9]*)?", edge.name.text):
            words = [word for word in edge.name.text.split("_") if word]
            pascal = "".join(word[:1].upper() + word[1:].lower() for word in words)
            message = f"edge type `{edge.name.text}` is not in PascalCase"
            yield LintFinding("S103", message, edge.name.span, f"queries read best with `{pascal}`")
    implemented = {name.text for node in schema.nodes for name in node.implements}
    for interface in schema.interfaces:
        if interface.name.text not in implemented:
            message = f"no node type implements `{interface.name.text}`"
            yield LintFinding("S105", message, interface.name.span, "implement or remove it")
    for declaration in schema.declarations:
        yield from _property_warnings(declaration)
        yield from _unknown_annotations(declaration)


def _key_warnings(schema: ast.SchemaFile, node: ast.NodeDecl) -> Iterator[LintFinding]:
    interfaces = {each.name.text: each for each in schema.interfaces}
    found = list(groups(node, all_properties(node, interfaces)))
    keys = [frozenset(name.text for name in group.names) for group in found if group.kind == "key"]
    if not keys:
        message = f"node type `{node.name.text}` has no `@key`: the same row loaded twice gives two nodes"
        yield LintFinding("S101", message, node.name.span, "put `@key` on the property that names a node")
    for group in found:
        if group.kind == "unique" and frozenset(name.text for name in group.names) in keys:
            yield LintFinding("S106", "this `@unique` repeats the key", group.span, "a key is unique already")


def _property_warnings(declaration: ast.Declaration) -> Iterator[LintFinding]:
    indexed = {name.text for group in groups(declaration, declaration.properties) for name in group.names}
    for each in declaration.properties:
        if each.type.is_vector and each.name.text not in indexed:
            message = f"vector `{each.name.text}` has no `@index`: every search reads the whole column"
            yield LintFinding("S102", message, each.name.span, 'write `@index(metric="cosine")`')


def _unknown_annotations(declaration: ast.Declaration) -> Iterator[LintFinding]:
    written = [*declaration.annotations, *(a for each in declaration.properties for a in each.annotations)]
    for annotation in written:
        if annotation.name not in KNOWN_ANNOTATIONS:
            close = nearest(annotation.name, KNOWN_ANNOTATIONS)
            hint = f"did you mean `@{close}`?" if close else "it is kept but has no effect"
            yield LintFinding("S104", f"unknown annotation `@{annotation.name}`", annotation.span, hint)
