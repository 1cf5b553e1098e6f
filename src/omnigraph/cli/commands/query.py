"""`query`, `lint` and `explain`: run queries on a graph, and check or explain them."""

from __future__ import annotations

import json as jsonlib
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from omnigraph.cli import completion, options
from omnigraph.cli.completion import QUERIES_VARIABLE
from omnigraph.cli.failures import FAILED
from omnigraph.cli.output import count_text, print_json, print_line
from omnigraph.cli.progress import spinner
from omnigraph.errors import InvalidArgument

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.api.explanation import Explanation
    from omnigraph.api.options import Engine as EngineName
    from omnigraph.api.progress import Listener
    from omnigraph.query.lint import QueryLint
    from omnigraph.schema.catalog import Catalog

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]", help="Which query of the file.", show_default=False, autocompletion=completion.queries
    ),
]
File = Annotated[
    str | None,
    typer.Option("--query", metavar="FILE", help="A .gq file, or a directory of them.", show_default=False),
]
Text = Annotated[str | None, typer.Option("-e", "--query-string", metavar="GQ", help="Query text.", show_default=False)]
Params = Annotated[str | None, typer.Option("--params", metavar="JSON", help="Parameters.", show_default=False)]
ParamsFile = Annotated[
    str | None, typer.Option("--params-file", metavar="FILE", help="Parameters as a JSON file.", show_default=False)
]
Format = Annotated[
    str,
    typer.Option(
        "--format", metavar="FORMAT", help="table, kv, csv, jsonl, json or arrow.", autocompletion=completion.formats
    ),
]
Engine = Annotated[
    str, typer.Option("--engine", metavar="ENGINE", help="arrow (this process) or spark: the rows are the same.")
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", min=1, metavar="N", help="Show the first N rows; 50 on a terminal.", show_default=False),
]
All = Annotated[bool, typer.Option("--all", help="Show all rows, also on a terminal.")]
SchemaFile = Annotated[
    str | None, typer.Option("--schema", metavar="FILE", help="Check against a .pg file.", show_default=False)
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
    limit: Limit = None,
    all_rows: All = False,
    engine: Engine = "arrow",
    json: options.Json = False,
) -> None:
    """Answer a query from one snapshot of the graph."""
    from omnigraph.cli.formats import STREAMED, part_shown, print_result

    shape = chosen_format(format, limit, all_rows=all_rows, json=json)
    source = query_source(name, file, text)
    given = query_params(params, params_file)
    graph = options.open_to_read(None, store)
    snapshot = options.snapshot_of(graph, branch, at)
    shown_branch = branch or (None if at is not None else "main")
    target = snapshot.commit_id if at is not None else None
    is_streamed = shape in STREAMED and engine in ("auto", "arrow")
    with stopped_at_once():
        with spinner("running", show=shape != "json") as progress:
            if is_streamed:
                stream = graph.stream(source, name, given, branch=shown_branch, snapshot=target)
            else:
                start_spark(engine, progress)
                result = graph.query(
                    source, name, given, branch=shown_branch, snapshot=target, engine=cast("EngineName", engine)
                )
        if is_streamed:
            STREAMED[shape](stream)
            return
    print_result(result, shape, part_shown(limit, "--all shows them, --limit N the first N", all_rows=all_rows))


def chosen_format(format: str, limit: int | None, *, all_rows: bool, json: bool) -> str:
    """Return the format that `--format`, `--json` and `--limit` select together."""
    from omnigraph.cli.formats import CUT, FORMATS

    if format not in FORMATS:
        options.usage(f"--format {format} is unknown: use {', '.join(FORMATS)}")
    shape = "json" if json else format
    if limit is not None and (all_rows or shape not in CUT):
        options.usage(f"--limit is for {' and '.join(CUT)}, and without --all: write `limit {limit}` in the query")
    return shape


def lint(
    uri: options.Uri = None,
    *,
    file: Annotated[str, typer.Option("--query", metavar="FILE", help="A .gq file.", show_default=False)],
    schema: SchemaFile = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Report all that is wrong or doubtful about a file of queries."""
    from omnigraph.query import lint_queries

    if schema is not None and (uri is not None or store is not None):
        options.usage("check against --schema or against a graph, not both")
    catalog, described = _catalog(uri, store, schema)
    report = lint_queries(_read(file), catalog, file)
    if json:
        print_json({**report.to_json(), "schema_source": described, "query_path": file})
    else:
        _print_lint(report, file)
    if report.errors:
        raise typer.Exit(FAILED)


def explain(
    name: Name = None,
    *,
    file: File = None,
    text: Text = None,
    schema: SchemaFile = None,
    analyze: Annotated[bool, typer.Option("--analyze", help="Run it, and show what each operator did.")] = False,
    params: Params = None,
    params_file: ParamsFile = None,
    branch: options.Branch = None,
    at: options.At = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Show what a query means, and the plan that answers it."""
    from omnigraph.api.explanation import Explanation

    source = query_source(name, file, text)
    given = query_params(params, params_file)
    if schema is not None:
        if analyze or branch is not None or at is not None:
            options.usage("--analyze, --branch and --at need a graph, not --schema")
        found = _meaning(source, name, schema)
    else:
        graph = options.open_to_read(None, store)
        target = options.snapshot_of(graph, branch, at).commit_id if at is not None else None
        with stopped_at_once(), spinner("running", show=analyze and not json):
            found = graph.explain(source, name, given, branch, target, analyze=analyze)
    assert isinstance(found, Explanation)
    print_json(found.to_json()) if json else print_line(str(found))


def _meaning(source: str | Path, name: str | None, schema: str) -> Explanation:
    """Explain a query without a graph: its meaning only, since there are no tables to plan for."""
    from omnigraph.api.explanation import Explanation
    from omnigraph.handles.texts import source_of
    from omnigraph.query import compile_query
    from omnigraph.query.ir_text import explain_ir

    catalog, _ = _catalog(None, None, schema)
    text, path = source_of(source, name)
    compiled = compile_query(text, catalog, name=name, path=path)
    return Explanation(compiled.name, explain_ir(compiled))


def start_spark(engine: str, progress: Listener | None) -> None:
    """Start the session of an engine before it is needed, if there is none, and report it."""
    if engine == options.Engine.spark:
        from omnigraph.pipeline.spark_session import plain_session

        plain_session(progress=progress)


@contextmanager
def stopped_at_once() -> Iterator[None]:
    """End the program at once on an interrupt, in any computation: a read leaves nothing to clean up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    # A handler in Python would wait for the running array operation; the default action does not.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def query_source(name: str | None, file: str | None, text: str | None) -> str | Path:
    """Return query text, a file or a directory; a name alone is a stored query."""
    if file is not None and text is not None:
        options.usage("give the query by --query FILE or by -e TEXT, not both")
    if text is not None:
        return f"{text}\n"  # a text that ends a line is never taken for the name of a file
    if file is not None:
        return options.named_file(file)
    stored = os.environ.get(QUERIES_VARIABLE)
    if name is None or not stored:
        options.usage(f"give the query by --query FILE or by -e TEXT, or name one that is stored in {QUERIES_VARIABLE}")
    return options.named_file(stored)


def _read(file: str) -> str:
    from omnigraph.write.user_files import read_text

    return read_text(file)


def query_params(text: str | None, file: str | None) -> dict[str, Any]:
    """Return the values of `--params` or `--params-file`."""
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


def _catalog(uri: str | None, store: str | None, schema: str | None) -> tuple[Catalog, dict[str, str]]:
    if schema is None:
        graph = options.open_to_read(uri, store)
        return graph.catalog(), {"kind": "graph", "uri": graph.uri}
    from itertools import count

    from omnigraph.schema import compile_schema

    numbers = count()
    # Ids are irrelevant here: a schema without a graph only has to be consistent in itself.
    catalog = compile_schema(_read(schema), lambda: f"{next(numbers):026d}", schema)
    return catalog, {"kind": "file", "path": schema}


def _print_lint(report: QueryLint, path: str) -> None:
    for each in report.results:
        print_line(f"ERROR {each.error}" if each.error is not None else f"OK    {each.kind} {each.name}")
        for warning in each.warnings:
            print_line(f"WARN  {each.name}: {warning}")
    for finding in report.findings:
        print_line(f"{finding.severity.upper():5} {finding.code} {finding.message}")
    totals = f"{count_text(report.errors, 'error')}, {count_text(report.warnings, 'warning')}"
    print_line(f"{path}: {count_text(len(report.results), 'query')}, {totals}")
