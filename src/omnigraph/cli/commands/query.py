"""`query`, `lint` and `explain`: questions to a graph, and what is wrong with them."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli import options
from omnigraph.cli.failures import FAILED
from omnigraph.cli.output import counted, print_json, print_line
from omnigraph.errors import InvalidArgument

if TYPE_CHECKING:
    from omnigraph.query.lint import QueryLint
    from omnigraph.schema.catalog import Catalog

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Which query of the file.", show_default=False)]
File = Annotated[Path | None, typer.Option("--query", metavar="FILE", help="A .gq file.", show_default=False)]
Text = Annotated[str | None, typer.Option("-e", "--query-string", metavar="GQ", help="Query text.", show_default=False)]
Params = Annotated[str | None, typer.Option("--params", metavar="JSON", help="Parameters.", show_default=False)]
ParamsFile = Annotated[
    Path | None, typer.Option("--params-file", metavar="FILE", help="Parameters as a JSON file.", show_default=False)
]
Format = Annotated[str, typer.Option("--format", metavar="FORMAT", help="table, kv, csv, jsonl, json or arrow.")]
SchemaFile = Annotated[
    Path | None, typer.Option("--schema", metavar="FILE", help="Check against a .pg file.", show_default=False)
]


def query(
    name: Name = None,
    *,
    file: File = None,
    text: Text = None,
    params: Params = None,
    params_file: ParamsFile = None,
    branch: options.Branch = None,
    at: options.At = None,
    store: options.Store = None,
    format: Format = "table",
    json: options.Json = False,
) -> None:
    """Answer a query from one snapshot of the graph."""
    from omnigraph.cli.formats import FORMATS

    if format not in FORMATS:
        options.usage(f"--format {format} is unknown: use {', '.join(FORMATS)}")
    source, path = query_source(file, text)
    given = query_params(params, params_file)
    graph = options.open_to_read(None, store)
    snapshot = options.snapshot_of(graph, branch, at)
    shown_branch = branch or (None if at is not None else "main")
    target = snapshot.commit_id if at is not None else None
    result = graph.query(source if path is None else Path(path), name, given, branch=shown_branch, snapshot=target)
    FORMATS["json" if json else format](result)


def lint(
    uri: options.Uri = None,
    *,
    file: Annotated[Path, typer.Option("--query", metavar="FILE", help="A .gq file.", show_default=False)],
    schema: SchemaFile = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Report all that is wrong or doubtful about a file of queries."""
    from omnigraph.query import lint_queries

    if schema is not None and (uri is not None or store is not None):
        options.usage("check against --schema or against a graph, not both")
    catalog, described = _catalog(uri, store, schema)
    report = lint_queries(_read(file), catalog, str(file))
    if json:
        print_json({**report.to_json(), "schema_source": described, "query_path": str(file)})
    else:
        _print_lint(report, str(file))
    if report.errors:
        raise typer.Exit(FAILED)


def explain(
    name: Name = None,
    *,
    file: File = None,
    text: Text = None,
    schema: SchemaFile = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Show what a query means: its types, directions, filters and outputs."""
    from omnigraph.query import compile_query
    from omnigraph.query.ir_text import explain_ir

    source, path = query_source(file, text)
    catalog, _ = _catalog(None, store, schema)
    compiled = compile_query(source, catalog, name=name, path=path)
    shown = explain_ir(compiled)
    print_json({"query_name": compiled.name, "ir": shown.splitlines()}) if json else print_line(shown.rstrip("\n"))


def query_source(file: Path | None, text: str | None) -> tuple[str, str | None]:
    """The text of `--query FILE` or `-e TEXT`, and the file's path."""
    if (file is None) == (text is None):
        options.usage("give the query by --query FILE or by -e TEXT")
    return (_read(file), str(file)) if file is not None else (text or "", None)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{file} cannot be read: {error}") from error


def query_params(text: str | None, file: Path | None) -> dict[str, Any]:
    """The values of `--params` or `--params-file`."""
    if text is not None and file is not None:
        options.usage("--params and --params-file exclude each other")
    source = _read(file) if file is not None else text
    if source is None:
        return {}
    try:
        value = jsonlib.loads(source)
    except ValueError as error:
        raise InvalidArgument(f"the parameters are not JSON: {error}", hint='write {"name": "Ada"}') from error
    if not isinstance(value, dict):
        raise InvalidArgument("the parameters must be one JSON object", hint='write {"name": "Ada"}')
    return value


def _catalog(uri: str | None, store: str | None, schema: Path | None) -> tuple[Catalog, dict[str, str]]:
    if schema is None:
        graph = options.open_to_read(uri, store)
        return graph.catalog(), {"kind": "graph", "uri": graph.uri}
    from itertools import count

    from omnigraph.schema import compile_schema

    numbers = count()
    # Ids mean nothing here: a schema without a graph only has to be consistent with itself.
    catalog = compile_schema(_read(schema), lambda: f"{next(numbers):026d}", str(schema))
    return catalog, {"kind": "file", "path": str(schema)}


def _print_lint(report: QueryLint, path: str) -> None:
    for each in report.results:
        print_line(f"ERROR {each.error}" if each.error is not None else f"OK    {each.kind} {each.name}")
        for warning in each.warnings:
            print_line(f"WARN  {each.name}: {warning}")
    for finding in report.findings:
        print_line(f"{finding.severity.upper():5} {finding.code} {finding.message}")
    totals = f"{counted(report.errors, 'error')}, {counted(report.warnings, 'warning')}"
    print_line(f"{path}: {counted(len(report.results), 'query')}, {totals}")
