"""`backup` and `clone`: the graph at another place."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli import options
from omnigraph.cli.failures import FAILED
from omnigraph.cli.output import clean, note, print_json, print_line, size_text

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
    with _watched("copying", show=not quiet) as advance:
        report = graph.maintenance.backup(target, verify=not no_verify, progress=advance)
    _print(report, "backed up", json=json)


def clone(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The graph: a path, file:// or s3:// URI.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="An empty place.")],
    *,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Make a graph of its own from another one, with its branches, tags and kept versions."""
    from omnigraph.maintenance.copying import copy_graph
    from omnigraph.storage.layout import GraphRoot

    graph = options.open_to_read(source)
    with _watched("copying", show=not quiet) as advance:
        report = copy_graph(graph.repository, GraphRoot.parse(target), fresh=True, progress=advance)
    _print(report, "cloned", json=json)


@contextmanager
def _watched(what: str, *, show: bool) -> Iterator[Callable[[int], None]]:
    """How many bytes were copied, on stderr for someone who watches. How many there will be is known at the end."""
    if not (show and sys.stderr.isatty()):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda count: progress.advance(task, count)


def _print(report: CopyReport, done: str, *, json: bool) -> None:
    if json:
        print_json(_json(report))
    else:
        for problem in report.problems:
            note(f"{problem.where}: {problem.message}")
        print_line(
            f"{done} {clean(report.source)} to {clean(report.target)}: {report.objects_copied} objects, "
            f"{size_text(report.bytes_copied)} copied, {report.objects_skipped} were there"
        )
    if not report.is_clean:
        raise typer.Exit(FAILED)


def _json(report: CopyReport) -> dict[str, Any]:
    return {
        "source": report.source,
        "target": report.target,
        "objects_copied": report.objects_copied,
        "bytes_copied": report.bytes_copied,
        "objects_skipped": report.objects_skipped,
        "objects_removed": report.objects_removed,
        "clean": report.is_clean,
        "problems": [{"check": p.check, "where": p.where, "message": p.message} for p in report.problems],
    }
