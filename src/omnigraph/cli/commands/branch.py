"""`branch create`, `branch list` and `branch delete`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli import options
from omnigraph.cli.output import clean, print_json, print_line

app = options.group("Lines of history that do not disturb each other.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="The branch.", show_default=False)]


@app.command("create")
def create(
    name: Name,
    *,
    base: Annotated[
        str,
        typer.Option("--from", metavar="TARGET", help="A branch, tag, commit id, manifest version or BRANCH@VERSION."),
    ] = "main",
    store: options.Store = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:  # fmt: skip
    """Begin a branch. No data is copied."""
    graph = options.open_to_write("branch create", None, store, quiet=quiet)
    branch = graph.branches.create(name, options.target_of(graph, base))
    if json:
        print_json({"uri": graph.uri, "from": base, "name": branch.name, "graph_commit_id": branch.base_commit})
    else:
        print_line(f"created branch {branch.name} from {clean(base)}")


@app.command("list")
def list_(uri: options.Uri = None, *, store: options.Store = None, json: options.Json = False) -> None:
    """List the branches, main first."""
    names = [branch.name for branch in options.open_to_read(uri, store).branches.list()]
    if json:
        print_json({"branches": names})
        return
    for name in names:
        print_line(clean(name))


@app.command("delete")
def delete(
    name: Name,
    *,
    store: options.Store = None,
    yes: options.Yes = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Delete a branch. Refused for main, and while tags or other branches need it."""
    where = options.location(None, store)
    options.require_consent(where, f"branch delete {name}", yes=yes, json=json)
    graph = options.open_to_write("branch delete", where, quiet=quiet)
    graph.branches.delete(name)
    if json:
        print_json({"uri": graph.uri, "name": name, "deleted": True})
    else:
        print_line(f"deleted branch {name}")
