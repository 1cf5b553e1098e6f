"""`shell`: questions one after another on an open graph."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from omnigraph.cli import options


def shell(
    uri: options.Uri = None,
    *,
    branch: options.Branch = None,
    at: options.At = None,
    format: Annotated[str, typer.Option("--format", metavar="FORMAT", help="How results are shown.")] = "table",
    history: Annotated[
        str, typer.Option("--history", metavar="FILE", help="Where lines are remembered; empty for nowhere.")
    ] = "~/.omnigraph_history",
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Ask queries interactively; the shell's own commands begin with a backslash, help among them."""
    from omnigraph.cli.formats import FORMATS
    from omnigraph.cli.repl import Repl, lines_of_terminal, plain_lines

    if format not in FORMATS:
        options.usage(f"--format {format} is unknown: use {', '.join(FORMATS)}")
    graph = options.open_to_read(uri, store)
    options.snapshot_of(graph, branch, at)
    repl = Repl(graph, branch=branch, at=at, format="json" if json else format)
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    lines = lines_of_terminal(repl, history) if is_terminal else plain_lines(sys.stdin)
    raise typer.Exit(repl.run(lines))
