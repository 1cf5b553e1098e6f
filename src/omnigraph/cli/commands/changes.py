"""`changes poll` and `changes baseline`: the feed of a branch."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.api.json_shapes import block_json
from omnigraph.cli import options
from omnigraph.cli.changes_text import print_changes
from omnigraph.cli.output import clean, print_json, print_line

app = options.group("What each commit of a branch changed, in order.")


@app.command("poll")
def poll(
    uri: options.Uri = None,
    *,
    branch: options.Branch = None,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="CURSOR", help="Go on after this place.", show_default=False)
    ] = None,
    start: Annotated[
        str, typer.Option("--start", metavar="START", help="Without a cursor: now, beginning or after:COMMIT.")
    ] = "now",
    limit: options.Limit = None,
    kind: options.Kind = None,
    type_: options.Type = None,
    op: options.Op = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Print the commits after a place, oldest first, each with what it changed, and where to go on."""
    graph = options.open_to_read(uri, store)
    feed = graph.changes(
        cursor, start, branch or "main", limit=limit, kinds=options.wanted_kinds(kind), types=tuple(type_ or ()),
        ops=options.wanted_ops(op),
    )  # fmt: skip
    if json:
        blocks = [block_json(block) for block in feed]
        print_json({"blocks": blocks, "cursor": feed.cursor, "caught_up": feed.caught_up})
        return
    for block in feed:
        shown = f"commit {block.commit.graph_commit_id} {block.commit.kind}"
        print_line(f"{shown} {clean(block.commit.message)}".rstrip())
        if block.schema_changed:
            print_line("    the schema changed")
        print_changes(block.changes)
    print_line(f"cursor: {feed.cursor}")
    print_line(f"caught_up: {'yes' if feed.caught_up else 'no'}")


@app.command("baseline")
def baseline(
    uri: options.Uri = None,
    *,
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="Where to write the rows.", show_default=False)],
    branch: options.Branch = None,
    kind: options.Kind = None,
    type_: options.Type = None,
    op: options.Op = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Write all rows of a branch to a file that `load` reads, and print the cursor that goes on from there.

    With a filter, the rows of these kinds and types are written, and the cursor goes on under the same filter.
    """
    from omnigraph.cli.baseline import write_baseline

    graph = options.open_to_read(uri, store)
    commit_id, cursor, rows = write_baseline(
        graph, branch or "main", out, kinds=options.wanted_kinds(kind), types=tuple(type_ or ()),
        ops=options.wanted_ops(op),
    )  # fmt: skip
    if json:
        print_json({"snapshot_commit_id": commit_id, "resume_cursor": cursor, "rows": rows, "path": out})
        return
    print_line(f"wrote {rows} rows of commit {commit_id} to {out}")
    print_line(f"cursor: {cursor}")
