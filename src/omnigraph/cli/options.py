"""The options that commands share: the graph, the state of it, and consent."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, cast

import typer

from omnigraph.cli import completion, interrupts
from omnigraph.cli.completion import STORE_VARIABLE
from omnigraph.cli.failures import MISUSED, UsageError
from omnigraph.cli.output import note
from omnigraph.errors import InvalidArgument

if TYPE_CHECKING:
    from omnigraph.api.changes import Kind as KindName
    from omnigraph.api.changes import Op as OpName
    from omnigraph.graph import Graph
    from omnigraph.versioning.snapshot import Snapshot


class Engine(StrEnum):
    """Where the work runs."""

    auto = "auto"
    arrow = "arrow"
    spark = "spark"


Workers = Annotated[
    Engine, typer.Option("--engine", help="arrow: this process; spark: tasks of a Spark session; auto: arrow.")
]
Uri = Annotated[str | None, typer.Argument(metavar="[URI]", help="The graph; the same as --store.", show_default=False)]
Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URI",
        help=f"The graph: a path, file:// or s3:// URI. [env: {STORE_VARIABLE}]",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Actor = Annotated[
    str | None, typer.Option("--as", metavar="ACTOR", help="Who the commit is recorded for.", show_default=False)
]
Message = Annotated[str | None, typer.Option("--message", metavar="TEXT", help="Why, for the history.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Do not announce the target on stderr, show no progress.")]
Yes = Annotated[bool, typer.Option("--yes", help="Consent to a destructive change of a graph that is not local.")]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TARGET",
        help="A branch, tag, commit id, version of main, time, BRANCH@VERSION, BRANCH@TIME or NAME~N.",
        show_default=False,
        autocompletion=completion.targets,
    ),
]
Branch = Annotated[
    str | None,
    typer.Option(
        "--branch", metavar="BRANCH", help="A branch.", show_default=False, autocompletion=completion.branches
    ),
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="At most N commits.")]

Kind = Annotated[
    list[str] | None, typer.Option("--kind", metavar="KIND", help="Only node or edge changes. May be repeated.")
]
Type = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="TYPE", help="Only this type. May be repeated.", autocompletion=completion.types),
]
Op = Annotated[
    list[str] | None, typer.Option("--op", metavar="OP", help="Only insert, update or delete. May be repeated.")
]


def wanted_kinds(kind: list[str] | None) -> tuple[KindName, ...]:
    """Return the words of `--kind`; the facade refuses others than node and edge."""
    return cast("tuple[KindName, ...]", tuple(kind or ()))


def wanted_ops(op: list[str] | None) -> tuple[OpName, ...]:
    """Return the words of `--op`; the facade refuses others than insert, update and delete."""
    return cast("tuple[OpName, ...]", tuple(op or ()))


def named_file(path: str) -> str | Path:
    """Return a file for a method of the facade that takes texts too: a path is never read as a text. URIs are texts."""
    return path if "://" in path else Path(path)


def group(purpose: str) -> typer.Typer:
    """Make a group of commands about one noun. The noun alone lists them, and is an incomplete command line."""
    commands = typer.Typer(add_completion=False)

    @commands.callback(invoke_without_command=True, help=purpose)
    def show_help(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())
            raise typer.Exit(MISUSED)

    return commands


def usage(message: str) -> NoReturn:
    """Refuse a combination of options; the exit code is that of a wrong command line."""
    raise UsageError(message)


def location(uri: str | None, store: str | None = None) -> str:
    """Return the graph that a command names, or the one of the environment."""
    if uri is not None and store is not None:
        usage("the graph is named twice: give a URI or --store, not both")
    named = uri if uri is not None else store
    if named is None:
        named = os.environ.get(STORE_VARIABLE) or None
    if named is None:
        usage(f"which graph? Pass --store URI, or set {STORE_VARIABLE}")
    return named


def open_to_read(uri: str | None, store: str | None = None) -> Graph:
    """Open the graph read-only: nothing in the store changes, recovery included."""
    from omnigraph.graph import Graph

    return Graph.open(location(uri, store), mode="ro")


def open_to_write(command: str, uri: str | None, store: str | None = None, *, quiet: bool) -> Graph:
    """Open the graph for a change, after announcing it on stderr."""
    from omnigraph.graph import Graph

    where = location(uri, store)
    announce(command, where, quiet=quiet)
    interrupts.begin_write(quiet=quiet)
    graph = Graph.open(where)
    interrupts.watch(graph)
    return graph


def announce(command: str, uri: str, *, quiet: bool) -> None:
    """Print one line on stderr that describes the change to come."""
    from omnigraph.storage.layout import GraphRoot

    root = GraphRoot.parse(uri)
    if not quiet:
        note(f"omnigraph {command} -> {root.uri} ({'local' if root.is_local else 'remote'})")


def require_consent(uri: str, what: str, *, yes: bool, json: bool) -> None:
    """Ask for confirmation of an irreversible change to a graph that may be shared."""
    from omnigraph.storage.layout import GraphRoot

    root = GraphRoot.parse(uri)
    if root.is_local or yes:
        return
    if json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidArgument(f"{what} on {root.uri} needs your consent", hint="pass --yes")
    sys.stderr.write(f"{what} on {root.uri}: type yes to go on: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != "yes":
        raise InvalidArgument(f"{what} was not confirmed; nothing was changed")


def snapshot_of(graph: Graph, branch: str | None, target: str | None) -> Snapshot:
    """Return the snapshot of `--branch` or `--at`; main's head when neither is given."""
    if branch is not None and target is not None:
        usage("--branch and --at exclude each other")
    if branch is not None:
        graph.branches.get(branch)  # a tag or a commit of that name is not a branch
        return graph.snapshot(branch)
    return graph.snapshot(target)
