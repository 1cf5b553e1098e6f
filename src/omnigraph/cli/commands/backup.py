"""`backup` and `clone`: the graph at another place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.api.json_shapes import copy_json
from omnigraph.cli import interrupts, options
from omnigraph.cli.failures import FAILED
from omnigraph.cli.output import clean, note, print_json, print_line, size_text
from omnigraph.cli.progress import shown_progress

if TYPE_CHECKING:
    from omnigraph.api.reports import CopyReport


def backup(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Where the copy lies: a path or s3:// URI.")],
    *,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Do not check the copy afterwards.")] = False,
    store: options.Store = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Copy the graph with all its branches, tags and kept versions, or what is new since the last copy there."""
    graph = options.open_to_read(None, store)
    interrupts.begin_write(_unfinished(target))
    with shown_progress(show=not quiet) as progress:
        report = graph.maintenance.backup(target, verify=not no_verify, progress=progress)
    _print(report, "backed up", json=json)


def clone(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The graph: a path, file:// or s3:// URI.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="An empty place.")],
    *,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Make a graph of its own from another one, with its branches, tags and kept versions."""
    from omnigraph.maintenance.backup import copy_graph
    from omnigraph.storage.layout import GraphRoot

    graph = options.open_to_read(source)
    interrupts.begin_write(_unfinished(target))
    with shown_progress(show=not quiet) as progress:
        report = copy_graph(graph.repository, GraphRoot.parse(target), fresh=True, progress=progress)
    _print(report, "cloned", json=json)


def _unfinished(target: str) -> str:
    return f"the copy at {clean(target)} is not complete, or was not checked: `omnigraph backup` goes on with it"


def _print(report: CopyReport, done: str, *, json: bool) -> None:
    if json:
        print_json(copy_json(report))
    else:
        for problem in report.problems:
            note(f"{problem.where}: {problem.message}")
        print_line(
            f"{done} {clean(report.source)} to {clean(report.target)}: {report.objects_copied} objects, "
            f"{size_text(report.bytes_copied)} copied, {report.objects_skipped} were there"
        )
    if not report.is_clean:
        raise typer.Exit(FAILED)
