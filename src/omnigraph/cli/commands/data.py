"""`init`, `load` and `snapshot`: a graph's birth, its rows, and what it holds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli import options
from omnigraph.cli.output import clean, commit_json, counted, print_json, print_line, print_table

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.versioning.snapshot import Snapshot
    from omnigraph.write.load import LoadResult


class Mode(StrEnum):
    """How rows meet what the graph holds."""

    append = "append"
    merge = "merge"
    overwrite = "overwrite"


def init(
    uri: options.Uri = None,
    *,
    schema: Annotated[Path, typer.Option("--schema", metavar="FILE", help="The schema, a .pg file.")],
    store: options.Store = None,
    actor: options.Actor = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Create a graph from a schema."""
    from omnigraph.graph import Graph

    where = options.location(uri, store)
    options.announce("init", where, quiet=quiet)
    graph = Graph.init(where, schema, actor=actor)
    head = graph.commits.head()
    if json:
        print_json({"uri": graph.uri, "actor_id": actor, "commit": commit_json(head)})
    else:
        print_line(f"initialized {graph.uri}")


def load(
    uri: options.Uri = None,
    *,
    data: Annotated[str, typer.Option("--data", metavar="FILE", help="JSON lines; - reads stdin.")],
    mode: Annotated[
        Mode,
        typer.Option(
            "--mode", help="append refuses ids that exist, merge replaces them, overwrite replaces whole types."
        ),
    ],
    branch: Annotated[str, typer.Option("--branch", metavar="BRANCH", help="Where to commit.")] = "main",
    base: Annotated[
        str | None, typer.Option("--from", metavar="BASE", help="Fork the branch from here when it does not exist.")
    ] = None,
    message: Annotated[str | None, typer.Option("--message", metavar="TEXT", help="Says why, in the history.")] = None,
    if_commit: Annotated[
        str | None, typer.Option("--if-commit", metavar="ID", help="Only if this is still the head of the branch.")
    ] = None,
    store: options.Store = None,
    actor: options.Actor = None,
    yes: options.Yes = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:  # fmt: skip
    """Write the nodes and edges of a file in one commit."""
    where = options.location(uri, store)
    if mode is Mode.overwrite:
        options.require_consent(where, "load --mode overwrite", yes=yes, json=json)
    graph = options.open_to_write("load", where, quiet=quiet)
    with _reading(data, show_progress=not quiet) as (source, advance):
        result = graph.load(
            source, mode=mode.value, branch=branch, from_branch=base, actor=actor, message=message,
            expect_head=if_commit, progress=advance,
        )  # fmt: skip
    if json:
        print_json(_load_json(graph, result, actor))
    else:
        _print_load(graph, result)


def snapshot(
    uri: options.Uri = None,
    *,
    branch: options.Branch = None,
    at: options.At = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Show what the graph holds at the head of a branch, or at a target."""
    graph = options.open_to_read(uri, store)
    found = options.snapshot_of(graph, branch, at)
    if json:
        print_json(_snapshot_json(graph, found))
        return
    print_line(f"branch           {clean(found.branch)}")
    print_line(f"manifest version {found.version}")
    print_line(f"internal schema  {graph.internal_schema_version}")
    print_line(f"commit           {found.commit_id}")
    print_line("")
    entries = [found.tables[key] for key in sorted(found.tables, key=_nodes_first)]
    rows = [(*e.table_key.split(":", 1), e.table_version, e.row_count) for e in entries]
    print_table(["kind", "type", "version", "entities"], rows)


@contextmanager
def _reading(data: str, *, show_progress: bool) -> Iterator[tuple[Any, Callable[[int], None]]]:
    """What to load, and who hears how far it got: a bar on stderr for someone who watches."""
    if data == "-":
        yield sys.stdin.buffer, lambda _: None
        return
    path = Path(data)
    if not (show_progress and sys.stderr.isatty() and path.is_file()):
        yield path, lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"reading {path.name}", total=path.stat().st_size)
        yield path, lambda count: progress.advance(task, count)


def _load_json(graph: Graph, result: LoadResult, actor: str | None) -> dict[str, Any]:
    return {
        "uri": graph.uri,
        "branch": result.branch,
        "mode": result.mode,
        "base_branch": result.base_branch,
        "branch_created": result.branch_created,
        "nodes": [{"name": name, "entities_loaded": count} for name, count in result.nodes.items()],
        "edges": [{"name": name, "entities_loaded": count} for name, count in result.edges.items()],
        "total_entities": result.total_entities,
        "actor_id": actor,
        "commit": None if result.commit is None else commit_json(result.commit),
    }


def _print_load(graph: Graph, result: LoadResult) -> None:
    if result.branch_created:
        print_line(f"created branch {result.branch} from {result.base_branch}")
    types = f"{counted(len(result.nodes), 'node type')}, {counted(len(result.edges), 'edge type')}"
    commit = "nothing to commit" if result.commit is None else f"commit {result.commit.graph_commit_id}"
    total = counted(result.total_entities, "entity")
    print_line(f"loaded {graph.uri} branch {result.branch} mode {result.mode}: {total} ({types}), {commit}")


def _snapshot_json(graph: Graph, found: Snapshot) -> dict[str, Any]:
    datasets = []
    for key in sorted(found.tables, key=_nodes_first):
        entry = found.tables[key]
        kind, _, name = key.partition(":")
        datasets.append(
            {
                "entity_kind": kind,
                "type_name": name,
                "dataset_path": entry.location,
                "published_dataset_version": entry.table_version,
                "entity_count": entry.row_count,
            }
        )
    return {
        "graph_branch": found.branch,
        "graph_manifest_version": found.version,
        "internal_schema_version": graph.internal_schema_version,
        "graph_commit_id": found.commit_id,
        "datasets": datasets,
    }


def _nodes_first(table_key: str) -> tuple[bool, str]:
    return not table_key.startswith("node:"), table_key
