"""Shell completion: names of the graph that the command line or the environment names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import typer

from omnigraph.errors import OmnigraphError

if TYPE_CHECKING:
    from omnigraph.graph import Graph

STORE_VARIABLE = "OMNIGRAPH_STORE"
QUERIES_VARIABLE = "OMNIGRAPH_QUERIES"


def branches(context: typer.Context, incomplete: str) -> list[str]:
    """Complete branches of the graph."""
    return _offered(context, incomplete, lambda graph: [branch.name for branch in graph.branches.list()])


def tags(context: typer.Context, incomplete: str) -> list[str]:
    """Complete tags of the graph."""
    return _offered(context, incomplete, lambda graph: [tag.name for tag in graph.tags.list()])


def targets(context: typer.Context, incomplete: str) -> list[str]:
    """Complete branches and tags: the targets that have names."""
    return [*branches(context, incomplete), *tags(context, incomplete)]


def types(context: typer.Context, incomplete: str) -> list[str]:
    """Complete types of nodes and edges, at the head of main."""
    return _offered(context, incomplete, lambda graph: [entity.name for entity in graph.catalog().entity_types])


def edge_types(context: typer.Context, incomplete: str) -> list[str]:
    """Complete types of edges."""
    return _offered(context, incomplete, lambda graph: graph.catalog().edges)


def queries(context: typer.Context, incomplete: str) -> list[str]:
    """Complete queries of the file or directory of `--query`, or else of the environment."""
    path = context.params.get("file") or os.environ.get(QUERIES_VARIABLE)
    if not path or context.params.get("text"):
        return []
    from omnigraph.handles.texts import stored_queries

    try:
        return [name for name in stored_queries(path) if name.startswith(incomplete)]
    except OmnigraphError:
        return []


def formats(context: typer.Context, incomplete: str) -> list[str]:
    """Complete formats of results."""
    from omnigraph.cli.formats import FORMATS

    return [name for name in FORMATS if name.startswith(incomplete)]


def _offered(context: typer.Context, incomplete: str, find: Callable[[Graph], Iterable[str]]) -> list[str]:
    """Return names that begin with the typed text; none for an unreadable graph, since a shell shows no errors here."""
    uri = context.params.get("uri") or context.params.get("store") or os.environ.get(STORE_VARIABLE)
    if not uri:
        return []
    from omnigraph.graph import Graph

    try:
        return sorted(name for name in find(Graph.open(uri, mode="ro")) if name.startswith(incomplete))
    except OmnigraphError:
        return []
