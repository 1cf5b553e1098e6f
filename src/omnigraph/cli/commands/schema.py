"""`schema show` and `schema lint`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli import options
from omnigraph.cli.failures import FAILED
from omnigraph.cli.output import counted, print_json, print_line
from omnigraph.errors import InvalidArgument, LanguageError

if TYPE_CHECKING:
    from omnigraph.schema.lint import LintFinding, LintReport

app = options.group("The types that a graph has.")


@app.command("show")
def show(
    uri: options.Uri = None, *, at: options.At = None, store: options.Store = None, json: options.Json = False
) -> None:
    """Print the schema of the graph, as of a target."""
    graph = options.open_to_read(uri, store)
    snapshot = options.snapshot_at(graph, at)
    text = graph.schema.show(None if at is None else options.target_of(graph, at))
    if json:
        print_json({"uri": graph.uri, "schema_hash": snapshot.schema_hash, "schema": text})
    else:
        print_line(text.rstrip("\n"))


@app.command("lint")
def lint(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .pg file.", show_default=False)],
    *,
    json: options.Json = False,
) -> None:
    """Report all that is wrong or doubtful about a schema file; no graph is needed."""
    from omnigraph.schema.lint import lint_schema

    source = _source(file)
    report = lint_schema(source, str(file))
    if json:
        print_json({"path": str(file)} | report.to_json())
    else:
        _print_report(report, source, str(file))
    if report.errors:
        raise typer.Exit(FAILED)


def _source(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgument(
            f"{file} is not UTF-8: byte {error.start} is 0x{error.object[error.start]:02x}"
        ) from error
    except OSError as error:
        raise InvalidArgument(f"{file} cannot be read: {error.strerror or error}") from error


def _print_report(report: LintReport, source: str, path: str) -> None:
    for error in report.errors:
        print_line(f"error: {error}")
    for finding in report.warnings:
        print_line(f"warning: {_as_error(finding, source, path)}")
    totals = f"{counted(len(report.errors), 'error')}, {counted(len(report.warnings), 'warning')}"
    print_line(f"{path}: {totals}")


def _as_error(finding: LintFinding, source: str, path: str) -> LanguageError:
    """A warning drawn like an error: place, line and caret."""
    message = f"{finding.message} ({finding.code})"
    return LanguageError(message, span=finding.span, source=source, path=path, hint=finding.hint)
