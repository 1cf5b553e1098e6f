"""`index status` and `index build`: the indexes that speed up searches and lookups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.api.json_shapes import indexes_json
from omnigraph.cli import options
from omnigraph.cli.output import print_json, print_line, print_table

if TYPE_CHECKING:
    from omnigraph.api.reports import IndexStatus

app = options.group("Indexes: what there is, and building what is lacking.")


@app.command("status")
def status(
    uri: options.Uri = None,
    *,
    branch: options.Branch = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Show every index that the schema asks for, and the rows that it covers."""
    graph = options.open_to_read(uri, store)
    found = graph.maintenance.index_status(branch or "main")
    if json:
        print_json({"uri": graph.uri, "branch": branch or "main", "indexes": indexes_json(found)})
    else:
        _print(found)


@app.command("build")
def build(
    uri: options.Uri = None,
    *,
    branch: options.Branch = None,
    engine: options.Workers = options.Engine.arrow,
    actor: options.Actor = None,
    store: options.Store = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Build or extend what is lacking, in one commit that changes no answer."""
    graph = options.open_to_write("index build", uri, store, quiet=quiet)
    report = graph.maintenance.ensure_indices(branch or "main", actor, engine=engine.value)
    commit = report.commit.graph_commit_id if report.commit is not None else None
    if json:
        print_json(
            {"uri": graph.uri, "branch": branch or "main", "commit": commit, "indexes": indexes_json(report.indexes)}
        )
        return
    _print(report.indexes)
    print_line(f"commit {commit}" if commit else "nothing to build")


def _print(found: tuple[IndexStatus, ...]) -> None:
    head = ["table", "property", "kind", "state", "covered", "rows", "reason"]
    rows = [(i.table_key, i.property, i.kind, i.state, i.covered_rows, i.rows, i.reason or "-") for i in found]
    print_table(head, rows)
