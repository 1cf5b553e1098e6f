"""`branch create`, `branch list`, `branch merge` and `branch delete`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.api.json_shapes import merge_json
from omnigraph.cli import completion, options
from omnigraph.cli.changes_text import conflict_count, print_conflicts
from omnigraph.cli.commands.undo import print_restored
from omnigraph.cli.failures import FAILED
from omnigraph.cli.output import clean, note, print_json, print_line
from omnigraph.cli.progress import spinner
from omnigraph.errors import MergeConflict

if TYPE_CHECKING:
    from omnigraph.api.conflicts import Conflict
    from omnigraph.graph import Graph

app = options.group("Lines of history that do not disturb each other.")
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The branch.", show_default=False, autocompletion=completion.branches),
]


@app.command("create")
def create(
    name: Name,
    *,
    base: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="TARGET",
            help="What it begins with: a TARGET as for --at.",
            autocompletion=completion.targets,
        ),
    ] = "main",
    store: options.Store = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:  # fmt: skip
    """Begin a branch. No data is copied."""
    graph = options.open_to_write("branch create", None, store, quiet=quiet)
    branch = graph.branches.create(name, base)
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


@app.command("reset")
def reset(
    name: Name,
    *,
    at: options.At = "main",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would change.")] = False,
    message: options.Message = None,
    actor: options.Actor = None,
    store: options.Store = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Make a branch what a target is, main by default, as a new commit. Its own commits stay in its history."""
    graph = options.open_to_write("branch reset", None, store, quiet=quiet)
    result = graph.branches.reset(name, at, dry_run=dry_run, actor=actor, message=message)
    print_restored(result, f"{name} to {at or 'main'}", dry_run=dry_run, json=json)


ConflictFile = Annotated[
    str | None,
    typer.Option("--conflicts", metavar="FILE", help="Write open conflicts here, to fill in which side wins."),
]
ResolutionFile = Annotated[
    str | None, typer.Option("--resolutions", metavar="FILE", help="Such a file, filled in: it decides them.")
]


Into = Annotated[
    str,
    typer.Option("--into", metavar="TARGET", help="The branch to merge into.", autocompletion=completion.branches),
]


@app.command("merge")
def merge(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="The branch to merge.", show_default=False, autocompletion=completion.branches
        ),
    ],
    *,
    into: Into = "main",
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            "--strategy",
            metavar="SIDE",
            help="ours or theirs, for every conflict; KIND=SIDE or TYPE=SIDE for some. May be repeated.",
        ),
    ] = None,
    property_level: Annotated[
        bool, typer.Option("--property-level", help="Join edits of one entity that touch different properties.")
    ] = False,
    conflicts: ConflictFile = None,
    resolutions: ResolutionFile = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would happen.")] = False,
    delete_branch: Annotated[bool, typer.Option("--delete-branch", help="Delete SOURCE afterwards.")] = False,
    message: options.Message = None,
    engine: options.Workers = options.Engine.arrow,
    actor: options.Actor = None,
    store: options.Store = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Bring the changes of a branch into another, in one commit with two parents."""
    graph = options.open_to_write("branch merge", None, store, quiet=quiet)
    try:
        with spinner("merging", show=not (quiet or json)) as progress:
            result = graph.branches.merge(
                source, into, _strategy(strategy or []), dry_run, delete_branch, property_level, actor, message,
                engine=engine.value, resolutions=resolutions, progress=progress,
            )  # fmt: skip
    except MergeConflict as error:
        _keep(graph, conflicts, error.conflicts)
        if json:
            raise
        print_conflicts(error.conflicts)
        note(f"error: {error}")
        raise typer.Exit(FAILED) from error
    _keep(graph, conflicts, result.open_conflicts)
    if json:
        print_json(merge_json(result, actor))
        return
    print_conflicts(result.conflicts)
    if dry_run and result.open_conflicts:
        print_line(f"merging {source} into {into} would meet {conflict_count(len(result.open_conflicts))}")
        return
    print_line(f"{'would merge' if dry_run else 'merged'} {source} into {into}: {result.outcome}")
    if result.branch_deleted:
        print_line(f"deleted branch {source}")
    if result.branch_delete_error:
        note(f"warning: branch {source} was not deleted: {result.branch_delete_error}")


def _keep(graph: Graph, path: str | None, conflicts: Sequence[Conflict]) -> None:
    """Write conflicts to a file, if one is named."""
    if path is not None:
        count = graph.branches.write_conflicts(path, conflicts)
        note(f'{conflict_count(count)} written to {clean(path)}: set each `resolution` to "ours" or "theirs"')


def _strategy(given: list[str]) -> str | dict[str, str] | None:
    """`theirs`, or `Person=ours` as often as needed."""
    everywhere = [word for word in given if "=" not in word]
    if len(everywhere) > 1 or (everywhere and len(given) > 1):
        options.usage("--strategy takes one side for everything, or NAME=SIDE as often as needed")
    if everywhere:
        return everywhere[0]
    return dict(word.split("=", 1) for word in given) or None
