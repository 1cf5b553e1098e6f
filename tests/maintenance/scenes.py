"""Graphs with a history that is worth tidying, and what lies in their directories."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Any

from omnigraph import Graph
from omnigraph.api.reports import CleanupReport
from tests.support.graphs import SMALL, knows, people


def busy_graph(folder: Path, commits: int = 12) -> Graph:
    """Small appends, updates, edges and a delete."""
    graph = Graph.init(folder / "graph", SMALL)
    graph.load({"Person": people("ann", "bob", "cyd"), "Knows": knows(("ann", "bob"))})
    for number in range(commits):
        graph.load({"Person": people(f"p{number}", age=number)})
    graph.load({"Person": people("p0", "p1", age=77), "Knows": knows(("p0", "p1"))}, "merge")
    graph.delete("Person", ["p2"])
    return graph


def _ignore_short_history() -> None:
    """Not for a while only: that is a switch of the whole process, and some sweeps run in threads."""
    warnings.filterwarnings("ignore", "keeping .* leaves little", UserWarning)


def sweep(graph: Graph, keep: int = 1, **options: Any) -> CleanupReport:
    """A cleanup that has no patience."""
    _ignore_short_history()
    return graph.maintenance.cleanup(keep, confirm=True, **{"grace": 0, "force": True, **options})


def leftovers(graph: Graph, keep: int = 1) -> dict[str, int]:
    """What a cleanup without patience would still find."""
    _ignore_short_history()
    report = Graph.open(graph.uri, mode="ro").maintenance.cleanup(keep, grace=0, force=True)
    return {table.table_key: table.objects_removed for table in report.tables}


def contents(graph: Graph, at: Any = None) -> dict[str, list[str]]:
    """Every row of every type at a target, from a fresh handle."""
    fresh = Graph.open(graph.uri, mode="ro")
    return {
        key: sorted(str(sorted(row.items())) for row in fresh.rows(key, at).to_pylist())
        for key in fresh.snapshot(at).tables
    }


def files_below(graph: Graph, part: str = "") -> set[str]:
    """Files of a graph, relative to its root."""
    root = Path(graph.uri)
    return {path.relative_to(root).as_posix() for path in (root / part).rglob("*") if path.is_file()}


def age_everything(graph: Graph, seconds: float) -> None:
    """Let time pass for every file."""
    then = time.time() - seconds
    for name in files_below(graph):
        os.utime(Path(graph.uri) / name, (then, then))
