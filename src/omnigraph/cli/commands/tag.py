"""`tag create`, `tag list` and `tag delete`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.api.json_shapes import tag_json
from omnigraph.cli import completion, options
from omnigraph.cli.output import print_json, print_line, print_table, time_text

app = options.group("Names for states of the graph that should last.")
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The tag.", show_default=False, autocompletion=completion.tags)
]


@app.command("create")
def create(
    name: Name,
    *,
    at: options.At = None,
    store: options.Store = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Name the head of main, or a target. Cleanup keeps what a tag names."""
    graph = options.open_to_write("tag create", None, store, quiet=quiet)
    tag = graph.tags.create(name, at)
    if json:
        print_json({"uri": graph.uri} | tag_json(tag))
    else:
        print_line(f"created tag {tag.name} at {tag.graph_commit_id} ({tag.branch} version {tag.manifest_version})")


@app.command("list")
def list_(uri: options.Uri = None, *, store: options.Store = None, json: options.Json = False) -> None:
    """List the tags and what they name."""
    tags = options.open_to_read(uri, store).tags.list()
    if json:
        print_json({"tags": [tag_json(tag) for tag in tags]})
        return
    rows = [(t.name, t.graph_commit_id, t.branch, t.manifest_version, time_text(t.created_at)) for t in tags]
    print_table(["tag", "commit", "branch", "version", "created (UTC)"], rows)


@app.command("delete")
def delete(
    name: Name, *, store: options.Store = None, quiet: options.Quiet = False, json: options.Json = False
) -> None:
    """Forget a tag. What it named stays readable until cleanup."""
    graph = options.open_to_write("tag delete", None, store, quiet=quiet)
    graph.tags.delete(name)
    if json:
        print_json({"uri": graph.uri, "name": name, "deleted": True})
    else:
        print_line(f"deleted tag {name}")
