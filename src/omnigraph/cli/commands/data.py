"""`init` and `snapshot`: create a graph, and show its contents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.api.json_shapes import commit_json, snapshot_json
from omnigraph.cli import options
from omnigraph.cli.output import clean, print_json, print_line, print_table
from omnigraph.errors import InvalidArgument

if TYPE_CHECKING:
    pass


def init(
    uri: options.Uri = None,
    *,
    schema: Annotated[str | None, typer.Option("--schema", metavar="FILE", help="The schema, a .pg file.")] = None,
    infer: Annotated[
        list[str] | None,
        typer.Option("--infer", metavar="FILE", help="Propose a schema for this file instead; may be repeated."),
    ] = None,
    schema_out: Annotated[
        str | None, typer.Option("--schema-out", metavar="FILE", help="With --infer: write the schema here.")
    ] = None,
    store: options.Store = None,
    actor: options.Actor = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Create a graph from a schema."""
    from omnigraph.graph import Graph

    if infer or schema_out is not None:
        if not infer or schema is not None:
            options.usage("give --schema FILE, or --infer FILE with or without --schema-out FILE")
        if uri is not None:
            options.usage(f"--infer makes no graph: leave {uri} out, or write --infer before it too")
        _propose(infer, schema_out, json=json)
        return
    if schema is None:
        options.usage("give --schema FILE, or --infer FILE to have one proposed")
    where = options.location(uri, store)
    options.announce("init", where, quiet=quiet)
    graph = Graph.init(where, options.named_file(schema), actor=actor)
    head = graph.commits.head()
    if json:
        print_json({"uri": graph.uri, "actor_id": actor, "commit": commit_json(head)})
    else:
        print_line(f"initialized {graph.uri}")


def _propose(files: list[str], target: str | None, *, json: bool) -> None:
    """Print or write a schema for files. Nothing else is made."""
    from omnigraph.graph import Graph
    from omnigraph.write.user_files import exists, write_file

    if target is not None and exists(target):
        raise InvalidArgument(f"{target} exists", hint="choose another name, or remove it first")
    text = Graph.infer(files)
    if target is not None:
        write_file(target, text.encode())
    if json:
        print_json({"schema": text, "schema_out": target})
    elif target is not None:
        print_line(f"wrote {target}: read it, then `omnigraph init --schema {target}`")
    else:
        print_line(text.rstrip("\n"))


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
        print_json(snapshot_json(found, graph.internal_schema_version))
        return
    print_line(f"branch           {clean(found.branch)}")
    print_line(f"manifest version {found.version}")
    print_line(f"internal schema  {graph.internal_schema_version}")
    print_line(f"commit           {found.commit_id}")
    print_line("")
    entries = [found.tables[key] for key in sorted(found.tables, key=_nodes_first)]
    rows = [(*e.table_key.split(":", 1), e.table_version, e.row_count) for e in entries]
    print_table(["kind", "type", "version", "entities"], rows)


def _nodes_first(table_key: str) -> tuple[bool, str]:
    return not table_key.startswith("node:"), table_key
