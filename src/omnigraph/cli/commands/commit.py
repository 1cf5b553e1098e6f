"""`commit list`, `commit show` and `commit changes`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.api.json_shapes import change_json, commit_json
from omnigraph.cli import options
from omnigraph.cli.changes_text import print_changes, summary
from omnigraph.cli.output import clean, print_json, print_line, print_table, time_text

app = options.group("What was published, when and by whom.")


@app.command("list")
def list_(
    uri: options.Uri = None,
    *,
    branch: options.Branch = None,
    limit: options.Limit = None,
    wanted: Annotated[
        str | None, typer.Option("--filter", metavar="actor=NAME", help="Only the commits of one actor.")
    ] = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """List the commits of a branch, newest first."""
    actor = None if wanted is None else _actor(wanted)
    commits = options.open_to_read(uri, store).commits.list(branch or "main", actor=actor, limit=limit)
    if json:
        print_json({"commits": [commit_json(commit) for commit in commits]})
        return
    rows = [
        (c.graph_commit_id, c.manifest_branch, c.manifest_version, c.kind, c.actor_id, time_text(c.created_at),
         c.message)
        for c in commits
    ]  # fmt: skip
    print_table(["commit", "branch", "version", "kind", "actor", "time (UTC)", "message"], rows)


@app.command("show")
def show(
    commit_id: Annotated[str, typer.Argument(metavar="ID", help="The commit.", show_default=False)],
    *,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Show one commit, on whatever branch it is."""
    shown = commit_json(options.open_to_read(None, store).commits.get(commit_id))
    if json:
        print_json(shown)
        return
    shown["created_at"] = f"{time_text(shown['created_at'])} UTC"
    for name, value in shown.items():
        print_line(f"{name.replace('_', ' '):<24}{'-' if value is None else clean(str(value))}")


@app.command("changes")
def changes(
    commit_id: Annotated[str, typer.Argument(metavar="ID", help="The commit.", show_default=False)],
    *,
    kind: options.Kind = None,
    type_: options.Type = None,
    op: options.Op = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Show every entity that a commit changed, with its values before and after."""
    graph = options.open_to_read(None, store)
    found = graph.commits.changes(commit_id, options.wanted_kinds(kind), tuple(type_ or ()), options.wanted_ops(op))
    if json:
        print_json({"graph_commit_id": commit_id, "changes": [change_json(c) for c in found]})
    else:
        print_line(summary(print_changes(found)))


def _actor(wanted: str) -> str:
    name, equals, value = wanted.partition("=")
    if name != "actor" or not equals or not value:
        options.usage(f"--filter {wanted!r} is not understood; write actor=NAME")
    return value
