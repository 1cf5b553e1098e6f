"""`recovery list`, `run`, `discard` and `audit`: unfinished writes of crashed writers."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli import options
from omnigraph.cli.output import print_json, print_line, print_table, time_text

if TYPE_CHECKING:
    from omnigraph.graph import Graph

app = options.group("Writes whose writer died half-way.")


@app.command("list")
def list_(uri: options.Uri = None, *, store: options.Store = None, json: options.Json = False) -> None:
    """List the writes that are not resolved yet. Changes nothing."""
    found = options.open_to_read(uri, store).recovery.list()
    if json:
        print_json({"intents": [asdict(intent) for intent in found]})
        return
    rows = [
        (i.operation_id, i.state, i.writer_kind, i.actor, i.branch, "expired" if i.lease_expired else "held",
         i.problem or ", ".join(i.tables))
        for i in found
    ]  # fmt: skip
    print_table(["operation", "state", "kind", "actor", "branch", "lease", "tables"], rows)


@app.command("run")
def run(
    uri: options.Uri = None,
    *,
    store: options.Store = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Resolve every write whose lease has expired: finish it, or withdraw it."""
    where = options.location(uri, store)
    # Opening for writing resolves too, so the new rows of the audit are the result.
    before = {row["operation_id"] for row in _audit(options.open_to_read(where))}
    graph = options.open_to_write("recovery run", where, quiet=quiet)
    graph.recovery.run()
    _show([row for row in _audit(graph) if row["operation_id"] not in before], "resolved", json=json)


@app.command("discard")
def discard(
    operation: Annotated[str, typer.Argument(metavar="ID", help="The write, as `recovery list` shows it.")],
    uri: options.Uri = None,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why; goes into the audit.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Also a write that can be read or may be alive.")] = False,
    store: options.Store = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Give up a write whose intent cannot be read. Its bytes are kept in `__quarantine/`."""
    graph = options.open_to_write("recovery discard", options.location(uri, store), quiet=quiet)
    record = asdict(graph.recovery.discard(operation, reason=reason, force=force))
    if json:
        print_json(record)
    else:
        print_line(f"discarded {operation}; its objects are in __quarantine/")


@app.command("audit")
def audit(uri: options.Uri = None, *, store: options.Store = None, json: options.Json = False) -> None:
    """List what recovery has done so far, oldest first."""
    _show(_audit(options.open_to_read(uri, store)), "recoveries", json=json)


def _audit(graph: Graph) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = graph.recovery.audit().to_pylist()
    return [row | {"tables": jsonlib.loads(row["tables"])} for row in rows]


def _show(rows: list[dict[str, Any]], name: str, *, json: bool) -> None:
    if json:
        print_json({name: rows})
        return
    columns = [
        "operation_id",
        "recovery_kind",
        "writer_kind",
        "branch",
        "recovery_for_actor",
        "graph_commit_id",
        "reason",
    ]
    titles = ["operation", "outcome", "kind", "branch", "for actor", "commit", "reason", "time (UTC)"]
    print_table(titles, [(*(row[c] for c in columns), time_text(row["created_at"])) for row in rows])
