"""Collect the semantic errors of one schema, so that a lint shows them all and a compile raises the first."""

from __future__ import annotations

from omnigraph.errors import SchemaError, Span
from omnigraph.schema import ast


class Report:
    """The errors found so far. An error found twice (every node sees an injected property) counts once."""

    def __init__(self, schema: ast.SchemaFile) -> None:
        self._schema = schema
        self._found: dict[tuple[int, int, str], SchemaError] = {}

    def add(self, message: str, span: Span, hint: str | None = None) -> None:
        """Record one error at a place."""
        error = SchemaError(message, span=span, source=self._schema.source, path=self._schema.path, hint=hint)
        self._found.setdefault((span.line, span.column, message), error)

    @property
    def errors(self) -> tuple[SchemaError, ...]:
        """Return all errors, in the order of the text."""
        return tuple(self._found[place] for place in sorted(self._found))
