"""`log`: the history of a branch or of all of them, as a list or as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.api.json_shapes import commit_json
from omnigraph.cli import options
from omnigraph.cli.dag import Node, Row, draw, newest_first, without
from omnigraph.cli.output import clean, print_json, print_styled, time_text
from omnigraph.errors import NotFound

if TYPE_CHECKING:
    from rich.text import Text

    from omnigraph.api.commits import GraphCommit
    from omnigraph.graph import Graph


def log(
    uri: options.Uri = None,
    *,
    branch: options.Branch = None,
    all_: Annotated[bool, typer.Option("--all", help="The commits of every branch.")] = False,
    graph: Annotated[bool, typer.Option("--graph", help="Draw how the commits descend from each other.")] = False,
    limit: options.Limit = None,
    maintenance: Annotated[
        bool, typer.Option("--maintenance", help="Also show commits that changed no content.")
    ] = False,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Show the history, newest first, with branches and tags where they stand."""
    if branch is not None and all_:
        options.usage("--branch and --all exclude each other")
    opened = options.open_to_read(uri, store)
    names = [b.name for b in opened.branches.list()] if all_ else [branch or "main"]
    history = _history(opened, names, limit, maintenance=maintenance)
    if json:
        print_json({"commits": [_json(history, node.id) for node in history.nodes]})
        return
    rows = draw(history.nodes) if graph else [Row("", node.id) for node in history.nodes]
    last = max((at for at, row in enumerate(rows) if row.id is not None), default=-1)
    # Below the last commit there are only lines to commits outside the limit.
    print_styled(_line(history, row) for row in rows[: last + 1])


@dataclass(frozen=True, slots=True)
class _History:
    """The history to show: commits in order, and the names that point to each of them."""

    nodes: list[Node]
    commits: dict[str, GraphCommit]
    branches: dict[str, list[str]]
    tags: dict[str, list[str]]


def _history(graph: Graph, names: Iterable[str], limit: int | None, *, maintenance: bool) -> _History:
    # Commits that a branch inherited are those of its parent: one id, one commit.
    commits = {c.graph_commit_id: c for name in names for c in _newest(graph, name, limit, maintenance=maintenance)}
    nodes = [Node(c.graph_commit_id, _parents(c), c.created_at) for c in commits.values()]
    hidden = set() if maintenance else {i for i, c in commits.items() if _is_maintenance(c)}
    kept, stands_in = without(nodes, hidden)
    shown = newest_first(kept)[:limit]
    branches = _names_at(((b, head) for b, head in _heads(graph)), stands_in)
    tags = _names_at(((t.name, t.graph_commit_id) for t in graph.tags.list()), stands_in)
    return _History(shown, commits, branches, tags)


def _newest(graph: Graph, branch: str, limit: int | None, *, maintenance: bool) -> Iterator[GraphCommit]:
    """Return commits of a branch until `limit` shown ones are found; older ones are not read."""
    counted = 0
    for commit in graph.commits.walk(branch):
        yield commit
        counted += maintenance or not _is_maintenance(commit)
        if counted == limit:
            return


def _is_maintenance(commit: GraphCommit) -> bool:
    from omnigraph.api.commits import MAINTENANCE

    return commit.op_class == MAINTENANCE


def _parents(commit: GraphCommit) -> tuple[str, ...]:
    return tuple(p for p in (commit.parent_commit_id, commit.merged_parent_commit_id) if p is not None)


def _heads(graph: Graph) -> Iterator[tuple[str, str]]:
    for branch in graph.branches.list():
        try:
            yield branch.name, graph.commits.head(branch.name).graph_commit_id
        except NotFound:  # deleted in the meantime
            continue


def _names_at(names: Iterable[tuple[str, str]], stands_in: dict[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, commit_id in names:
        found.setdefault(stands_in.get(commit_id, commit_id), []).append(name)
    return found


def _json(history: _History, commit_id: str) -> dict[str, object]:
    names = {"branches": history.branches.get(commit_id, []), "tags": history.tags.get(commit_id, [])}
    return commit_json(history.commits[commit_id]) | names


def _line(history: _History, row: Row) -> Text:
    from rich.text import Text

    line = Text(row.drawing, style="cyan")
    if row.id is None:
        return line
    commit = history.commits[row.id]
    dim = "dim" if _is_maintenance(commit) else ""
    line.append(" " if row.drawing else "")
    line.append(row.id, style=dim or "yellow")
    decorations = [*history.branches.get(row.id, []), *(f"tag: {name}" for name in history.tags.get(row.id, []))]
    if decorations:
        line.append(f" [{clean(', '.join(decorations))}]", style="bold green")
    who = f" by {clean(commit.actor_id)}" if commit.actor_id else ""
    line.append(f" {commit.kind}{who} {time_text(commit.created_at)}", style="dim")
    if commit.message:
        line.append(f" {clean(commit.message)}", style=dim)
    return line
