"""`init` and `snapshot`: a graph's birth, and what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli import options
from omnigraph.cli.output import clean, commit_json, print_json, print_line, print_table

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.versioning.snapshot import Snapshot


def init(
    uri: options.Uri = None,
    *,
    schema: Annotated[str, typer.Option("--schema", metavar="FILE", help="The schema, a .pg file.")],
    store: options.Store = None,
    actor: options.Actor = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Create a graph from a schema."""
    from omnigraph.graph import Graph

    where = options.location(uri, store)
    options.announce("init", where, quiet=quiet)
    graph = Graph.init(where, options.named_file(schema), actor=actor)
    head = graph.commits.head()
    if json:
        print_json({"uri": graph.uri, "actor_id": actor, "commit": commit_json(head)})
    else:
        print_line(f"initialized {graph.uri}")


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
