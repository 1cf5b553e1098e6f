"""Text to IR in one step: parse, check, lower.                              (text -> COMPILE -> ir -> executors)"""

from __future__ import annotations

from omnigraph.errors import InvalidArgument, ParseError
from omnigraph.query import ast, ir
from omnigraph.query.lower import lower
from omnigraph.query.parser import parse_queries
from omnigraph.query.typecheck import check_query
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.names import nearest


def compile_query(
    text: str, catalog: Catalog, name: str | None = None, path: str | None = None
) -> ir.QueryIR | ir.MutationIR:
    """Compile one query of a text; `name` may be left out when the text holds only one.

    >>> from omnigraph.schema import compile_schema
    >>> catalog = compile_schema("node Person { name: String @key }", lambda: "id")
    >>> compile_query("query all() { match { $p: Person } return { $p.name } }", catalog).outputs[0].name
    'p.name'
    """
    file = parse_queries(text, path)
    refuse_duplicates(file)
    return lower(check_query(_chosen(file, name), catalog))


def compile_file(text: str, catalog: Catalog, path: str | None = None) -> dict[str, ir.QueryIR | ir.MutationIR]:
    """Compile every query of a text; return them by name, in written order."""
    file = parse_queries(text, path)
    refuse_duplicates(file)
    return {query.name.text: lower(check_query(query, catalog)) for query in file.queries}


def refuse_duplicates(file: ast.QueryFile) -> None:
    """Fail at the second query of a name, and point at the first."""
    first: dict[str, ast.Name] = {}
    for query in file.queries:
        name = query.name
        if name.text in first:
            other = first[name.text].span
            raise duplicate(file, name, other.line, other.column)
        first[name.text] = name


def duplicate(file: ast.QueryFile, name: ast.Name, line: int, column: int) -> ParseError:
    """Return the error for a query whose name an earlier one has."""
    return ParseError(
        f"the query `{name.text}` is declared twice, first at {line}:{column}",
        span=name.span,
        source=file.source,
        path=file.path,
        hint="rename or remove one of them",
    )


def _chosen(file: ast.QueryFile, name: str | None) -> ast.Query:
    names = [query.name.text for query in file.queries]
    where = file.path or "the text"
    if not names:
        raise InvalidArgument(f"{where} holds no query", hint="write `query name() { ... }`")
    if name is None:
        if len(names) > 1:
            raise InvalidArgument(f"{where} holds several queries: {', '.join(names)}", hint="name one of them")
        return file.queries[0]
    for query in file.queries:
        if query.name.text == name:
            return query
    close = nearest(name, names)
    hint = f"did you mean `{close}`?" if close else f"it holds: {', '.join(names)}"
    raise InvalidArgument(f"{where} holds no query `{name}`", hint=hint)
