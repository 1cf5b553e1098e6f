"""Lint a file of queries: all errors and warnings in one report. Never raises on bad queries.

====  ========  ==================================================================================================
Q000  error     the text does not parse; nothing else is reported
L201  warning   a property that updates could set, of a node type that some query updates, and none ever does
====  ========  ==================================================================================================

A query with a type error is one entry among the others. A mutation without parameters gets a warning of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.errors import LanguageError, ParseError
from omnigraph.query import ast, ir
from omnigraph.query.compile import duplicate
from omnigraph.query.operations import Operation, describe_operation
from omnigraph.query.parser import parse_queries
from omnigraph.query.typecheck import CheckedMutation, CheckedQuery, check_query
from omnigraph.schema.catalog import Catalog, NodeType

_SEVERITIES = ("error", "warning", "info")
_NO_PARAMETERS = "this mutation has no parameters: it does the same every time it runs"


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A finding about the whole file."""

    severity: str
    code: str
    message: str
    type_name: str | None = None
    property: str | None = None
    query_names: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON values; fields that do not apply are left out."""
        body: dict[str, Any] = {"severity": self.severity, "code": self.code, "message": self.message}
        if self.type_name is not None:
            body["type_name"] = self.type_name
        if self.property is not None:
            body["property"] = self.property
        return body | {"query_names": list(self.query_names)}


@dataclass(frozen=True, slots=True)
class QueryResult:
    """One query: valid with the types it reads, writes and returns, or invalid with its error."""

    name: str
    kind: str
    warnings: tuple[str, ...]
    error: LanguageError | None
    operation: Operation | None

    @property
    def status(self) -> str:
        """Return `ok` or `error`."""
        return "error" if self.error else "ok"

    def to_json(self) -> dict[str, Any]:
        """Return the entry as JSON values; the error as `place: message`."""
        body: dict[str, Any] = {"name": self.name, "kind": self.kind, "status": self.status}
        body["warnings"] = list(self.warnings)
        if self.error is not None:
            body["error"] = str(self.error).split("\n", 1)[0]
        if self.operation is not None:
            body["operation"] = self.operation.to_json()
        return body


@dataclass(frozen=True, slots=True)
class QueryLint:
    """The report of one file."""

    query_path: str | None
    results: tuple[QueryResult, ...]
    findings: tuple[LintFinding, ...]
    schema_source: Mapping[str, str] | None = None

    @property
    def errors(self) -> int:
        """Return the number of queries and findings that are errors."""
        return sum(each.status == "error" for each in self.results) + self._count("error")

    @property
    def warnings(self) -> int:
        """Return the number of warnings, of queries and of the file."""
        return sum(len(each.warnings) for each in self.results) + self._count("warning")

    @property
    def infos(self) -> int:
        """Return the number of informational findings."""
        return self._count("info")

    @property
    def status(self) -> str:
        """Return `error` when a query does not compile, else `ok`."""
        return "error" if self.errors else "ok"

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "status": self.status,
            "schema_source": dict(self.schema_source) if self.schema_source else None,
            "query_path": self.query_path,
            "queries_processed": len(self.results),
            "errors": self.errors,
            "warnings": self.warnings,
            "infos": self.infos,
            "results": [each.to_json() for each in self.results],
            "findings": [each.to_json() for each in self.findings],
        }

    def _count(self, severity: str) -> int:
        return sum(each.severity == severity for each in self.findings)


def lint_queries(
    text: str, catalog: Catalog, path: str | None = None, schema_source: Mapping[str, str] | None = None
) -> QueryLint:
    """Lint every query of a text. `schema_source` names the origin of the catalog, for the report only."""
    try:
        file = parse_queries(text, path)
    except ParseError as broken:
        finding = LintFinding("error", "Q000", str(broken).split("\n", 1)[0])
        return QueryLint(path, (), (finding,), schema_source)
    results: list[QueryResult] = []
    valid: list[CheckedQuery | CheckedMutation] = []
    first: dict[str, ast.Name] = {}
    for query in file.queries:
        checked, error = _checked(file, query, catalog, first)
        if checked is not None:
            valid.append(checked)
        results.append(_result(query, checked, error, catalog))
    findings = sorted(_unset_properties(valid, catalog), key=_place)
    return QueryLint(path, tuple(results), tuple(findings), schema_source)


def _checked(
    file: ast.QueryFile, query: ast.Query, catalog: Catalog, first: dict[str, ast.Name]
) -> tuple[CheckedQuery | CheckedMutation | None, LanguageError | None]:
    earlier = first.setdefault(query.name.text, query.name)
    if earlier is not query.name:
        return None, duplicate(file, query.name, earlier.span.line, earlier.span.column)
    try:
        return check_query(query, catalog), None
    except LanguageError as error:
        return None, error


def _result(
    query: ast.Query, checked: CheckedQuery | CheckedMutation | None, error: LanguageError | None, catalog: Catalog
) -> QueryResult:
    is_mutation = isinstance(query.body, ast.Mutation)
    warnings = (_NO_PARAMETERS,) if is_mutation and not query.params and checked is not None else ()
    operation = describe_operation(checked, catalog) if checked is not None else None
    return QueryResult(query.name.text, "mutation" if is_mutation else "read", warnings, error, operation)


def _place(finding: LintFinding) -> tuple[int, str, str, str]:
    return (
        _SEVERITIES.index(finding.severity),
        finding.type_name or "",
        finding.property or "",
        finding.message,
    )


def _unset_properties(valid: list[CheckedQuery | CheckedMutation], catalog: Catalog) -> Iterator[LintFinding]:
    updates: dict[str, dict[str, set[str]]] = {}
    for checked in valid:
        if isinstance(checked, CheckedMutation):
            for statement in checked.statements:
                if isinstance(statement, ir.Update) and statement.type_kind == "node":
                    by_query = updates.setdefault(statement.type_name, {})
                    names = {name for name, _ in statement.assignments}
                    by_query.setdefault(checked.query.name.text, set()).update(names)
    for type_name, by_query in updates.items():
        covered = set().union(*by_query.values())
        for name in _settable(catalog.nodes[type_name]):
            if name not in covered:
                message = f"`{type_name}.{name}` is nullable, {type_name} is updated, and no update sets it"
                yield LintFinding("warning", "L201", message, type_name, name, tuple(sorted(by_query)))


def _settable(node: NodeType) -> Iterator[str]:
    for each in node.properties:
        if each.type.nullable and each.name not in node.key and each.embed is None:
            yield each.name
