"""`blob`: the bytes of one entity's blob property."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli import completion, options
from omnigraph.cli.output import print_json, print_line
from omnigraph.errors import NotFound

if TYPE_CHECKING:
    from omnigraph.graph import Graph

app = options.group("Read blobs.")


class Kind(StrEnum):
    """Nodes or edges."""

    node = "node"
    edge = "edge"


Entity = Annotated[Kind, typer.Argument(metavar="KIND", help="node or edge.", show_default=False)]
TypeName = Annotated[
    str, typer.Argument(metavar="TYPE", help="The type.", show_default=False, autocompletion=completion.types)
]
EntityId = Annotated[str, typer.Argument(metavar="ID", help="The id of the entity.", show_default=False)]
PropertyName = Annotated[str, typer.Argument(metavar="PROPERTY", help="The Blob property.", show_default=False)]


@app.command()
def get(
    kind: Entity,
    type_name: TypeName,
    entity_id: EntityId,
    property_name: PropertyName,
    *,
    offset: Annotated[int, typer.Option("--offset", min=0, metavar="N", help="Skip N bytes.")] = 0,
    length: Annotated[int | None, typer.Option("--length", min=1, metavar="N", help="At most N bytes.")] = None,
    out: Annotated[str | None, typer.Option("--out", metavar="FILE", help="Write here, not to stdout.")] = None,
    branch: options.Branch = None,
    at: options.At = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Write the bytes of a blob to stdout or a file."""
    graph, target = _opened(store, branch, at)
    found = graph.blobs.get(
        f"{kind}:{type_name}", entity_id, property_name, at=target, offset=offset, length=length
    )  # fmt: skip
    if found is None:
        raise NotFound(f"{property_name} of {kind}:{type_name} {entity_id!r} is null", hint="null is not empty")
    if json:
        from omnigraph.write.export import blob_text

        print_json({"size": len(found), "data": blob_text(found)})
    elif out is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(found)
    else:
        from omnigraph.write.user_files import write_file

        write_file(out, found)
        print_line(f"wrote {len(found)} bytes to {out}")


@app.command()
def stat(
    kind: Entity,
    type_name: TypeName,
    entity_id: EntityId,
    property_name: PropertyName,
    *,
    branch: options.Branch = None,
    at: options.At = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Show the size of a blob and a mark that changes with its bytes."""
    graph, target = _opened(store, branch, at)
    found = graph.blobs.stat(f"{kind}:{type_name}", entity_id, property_name, at=target)
    body: dict[str, Any] = {
        "selector": {"entity": kind.value, "type": type_name, "id": entity_id, "property": property_name},
        "kind": "null" if found is None else found.kind,
        "target": {"branch": branch, "resolved_snapshot": target},
    }
    if found is not None:
        body |= {"size": found.size, "etag": found.etag}
    if json:
        print_json(body)
        return
    print_line(f"kind: {body['kind']}")
    if found is not None:
        print_line(f"size: {found.size}")
        print_line(f"etag: {found.etag}")


def _opened(store: str | None, branch: str | None, at: str | None) -> tuple[Graph, str]:
    graph = options.open_to_read(None, store)
    return graph, options.snapshot_of(graph, branch, at).commit_id
