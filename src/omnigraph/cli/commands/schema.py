"""`schema show`, `schema plan`, `schema apply` and `schema lint`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli import options
from omnigraph.cli.failures import FAILED
from omnigraph.cli.output import count_text, print_json, print_line
from omnigraph.errors import LanguageError

if TYPE_CHECKING:
    from omnigraph.schema.lint import LintFinding, LintReport
    from omnigraph.write.schema_apply import SchemaChange

app = options.group("The types that a graph has.")


@app.command("show")
def show(
    uri: options.Uri = None,
    *,
    at: options.At = None,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Draw it as a Mermaid class diagram.")] = False,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Print the schema of the graph, as of a target."""
    graph = options.open_to_read(uri, store)
    snapshot = graph.snapshot(at)
    text = graph.schema.mermaid(at) if mermaid else graph.schema.show(at)
    if json:
        print_json({"uri": graph.uri, "schema_hash": snapshot.schema_hash, "schema": text})
    else:
        print_line(text.rstrip("\n"))


Schema = Annotated[str, typer.Option("--schema", metavar="FILE", help="The .pg file to go to.", show_default=False)]
DataLoss = Annotated[
    bool, typer.Option("--allow-data-loss", help="Remove what is dropped from the tables instead of hiding it.")
]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", metavar="NAME", help="Drop this type (Person) or property (Person.age); repeatable."),
]
Fresh = Annotated[
    list[str] | None,
    typer.Option("--fresh", metavar="NAME", help="Begin anew instead of restoring what was dropped; repeatable."),
]


@app.command("plan")
def plan(
    uri: options.Uri = None,
    *,
    schema: Schema,
    branch: options.Branch = None,
    allow_data_loss: DataLoss = False,
    drop: Drop = None,
    fresh: Fresh = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Show the steps from the schema of a branch to a file, and the digest that applies them. Nothing is changed."""
    graph = options.open_to_read(uri, store)
    change = graph.schema.plan(
        _source(schema), allow_data_loss, branch or "main", drop=drop or (), fresh=fresh or (), path=schema
    )
    _print_change(graph.uri, change, json=json)
    if not change.supported:
        raise typer.Exit(FAILED)


@app.command("apply")
def apply(
    uri: options.Uri = None,
    *,
    schema: Schema,
    branch: options.Branch = None,
    plan: Annotated[
        str | None, typer.Option("--plan", metavar="DIGEST", help="Apply exactly this plan, or nothing.")
    ] = None,
    drop: Drop = None,
    allow_drops: Annotated[
        bool, typer.Option("--allow-drops", help="Drop whatever the file does not declare.")
    ] = False,
    fresh: Fresh = None,
    allow_data_loss: DataLoss = False,
    message: Annotated[str | None, typer.Option("--message", metavar="TEXT", help="Why, for the history.")] = None,
    actor: options.Actor = None,
    yes: options.Yes = False,
    store: options.Store = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Bring the schema of a branch to a file, in one commit."""
    where = options.location(uri, store)
    text = _source(schema)
    if allow_data_loss:
        options.require_consent(where, "schema apply --allow-data-loss", yes=yes, json=json)
    graph = options.open_to_write("schema apply", where, quiet=quiet)
    change = graph.schema.apply(
        text, allow_data_loss, branch or "main", actor, plan=plan, drop=drop or (), allow_drops=allow_drops,
        fresh=fresh or (), message=message, path=schema,
    )  # fmt: skip
    _print_change(graph.uri, change, json=json, applied=True)


def _print_change(uri: str, change: SchemaChange, *, json: bool, applied: bool = False) -> None:
    if json:
        print_json(
            {"uri": uri, "supported": change.supported, "step_count": len(change.steps),
             "steps": [step.as_dict() for step in change.steps], "plan": change.digest, "drops": list(change.drops)}
            | ({"applied": change.applied} if applied else {})
            | {"graph_manifest_version": change.graph_manifest_version}
        )  # fmt: skip
        return
    print_line(f"supported: {'yes' if change.supported else 'no'}")
    if applied:
        print_line(f"applied: {'yes' if change.applied else 'no'}")
    for step in change.steps:
        print_line(f"- {step}")
    if change.steps and not applied:
        print_line(f"plan: {change.digest}")
    if change.drops and not applied:
        print_line(f"drops: to be allowed by {' '.join(f'--drop {name}' for name in change.drops)}")


@app.command("lint")
def lint(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A .pg file.", show_default=False)],
    *,
    json: options.Json = False,
) -> None:
    """Report all that is wrong or doubtful about a schema file; no graph is needed."""
    from omnigraph.schema.lint import lint_schema

    source = _source(file)
    report = lint_schema(source, file)
    if json:
        print_json({"path": file} | report.to_json())
    else:
        _print_report(report, source, file)
    if report.errors:
        raise typer.Exit(FAILED)


def _source(file: str) -> str:
    from omnigraph.write.user_files import read_text

    return read_text(file)


def _print_report(report: LintReport, source: str, path: str) -> None:
    for error in report.errors:
        print_line(f"error: {error}")
    for finding in report.warnings:
        print_line(f"warning: {_as_error(finding, source, path)}")
    totals = f"{count_text(len(report.errors), 'error')}, {count_text(len(report.warnings), 'warning')}"
    print_line(f"{path}: {totals}")


def _as_error(finding: LintFinding, source: str, path: str) -> LanguageError:
    """A warning drawn like an error: place, line and caret."""
    message = f"{finding.message} ({finding.code})"
    return LanguageError(message, span=finding.span, source=source, path=path, hint=finding.hint)
