"""`shell`: queries and mutations one after another on an open graph."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from omnigraph.cli import completion, options


def shell(
    context: typer.Context,
    uri: options.Uri = None,
    *,
    branch: options.Branch = None,
    at: options.At = None,
    format: Annotated[
        str,
        typer.Option("--format", metavar="FORMAT", help="How results are shown.", autocompletion=completion.formats),
    ] = "table",
    history: Annotated[
        str, typer.Option("--history", metavar="FILE", help="Where lines are remembered; empty for nowhere.")
    ] = "~/.omnigraph_history",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before mutations.")] = False,
    actor: options.Actor = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Ask queries interactively; the shell's own commands begin with a backslash, help among them."""
    from omnigraph.cli.formats import FORMATS
    from omnigraph.cli.prompts import typed_statements
    from omnigraph.cli.repl import Repl, ShellSettings
    from omnigraph.cli.statements import statements

    if format not in FORMATS:
        options.usage(f"--format {format} is unknown: use {', '.join(FORMATS)}")
    graph = options.open_to_read(uri, store)
    options.snapshot_of(graph, branch, at)
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    pages = is_terminal and not context.find_root().params.get("no_pager")
    settings = ShellSettings(actor=actor, confirms=is_terminal and not yes, pages=pages)
    repl = Repl(graph, branch=branch, at=at, format="json" if json else format, settings=settings)
    raise typer.Exit(repl.run(typed_statements(repl, history) if is_terminal else statements(sys.stdin)))
