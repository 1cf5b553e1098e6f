"""`diff`: what differs between two states of the graph."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.api.json_shapes import change_json
from omnigraph.cli import completion, options
from omnigraph.cli.changes_text import print_changes, print_stat, stat_of, summary
from omnigraph.cli.output import print_json, print_line


def diff(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A", help="The target to start from.", show_default=False, autocompletion=completion.targets
        ),
    ],
    b: Annotated[
        str,
        typer.Argument(
            metavar="B", help="The target to arrive at.", show_default=False, autocompletion=completion.targets
        ),
    ] = "main",
    *,
    stat: Annotated[bool, typer.Option("--stat", help="Only count, by type.")] = False,
    kind: options.Kind = None,
    type_: options.Type = None,
    op: options.Op = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Show what would turn one target into another, with values before and after."""
    graph = options.open_to_read(None, store)
    found = graph.diff(
        a, b, kinds=options.wanted_kinds(kind),
        types=tuple(type_ or ()), ops=options.wanted_ops(op),
    )  # fmt: skip
    if stat:
        counts = stat_of(found)
        if json:
            print_json(
                {"a": a, "b": b, "stat": [{"entity_kind": k, "type_name": n, **c} for (k, n), c in counts.items()]}
            )
        else:
            print_stat(counts)
    elif json:
        print_json({"a": a, "b": b, "changes": [change_json(c) for c in found]})
    else:
        print_line(summary(print_changes(found)))
