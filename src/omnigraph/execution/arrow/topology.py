"""Adjacency as compressed sparse rows over the common node numbering, and breadth-first search on it.

`starts[n] .. starts[n + 1]` are the places in `targets` (and `edges`) that hold the neighbours of node `n`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Ints = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Ends:
    """Source and target of every edge of a type, as node numbers; -1 where the node does not exist."""

    source: Ints
    target: Ints

    def shifted(self, source: int, target: int) -> Ends:
        """The same in a numbering whose types begin elsewhere."""
        return Ends(
            np.where(self.source < 0, -1, self.source + source), np.where(self.target < 0, -1, self.target + target)
        )


@dataclass(frozen=True)
class Adjacency:
    """Neighbours of every node. `edges` are edge numbers, empty when pairs were made distinct."""

    starts: Ints
    targets: Ints
    edges: Ints

    def degrees(self, nodes: Ints) -> Ints:
        """How many neighbours each node has."""
        degrees: Ints = self.starts[nodes + 1] - self.starts[nodes]
        return degrees

    def expand(self, nodes: Ints) -> tuple[Ints, Ints]:
        """For each node in turn: its place in the input, repeated, and the places of its neighbours in `targets`."""
        degrees = self.degrees(nodes)
        total = int(degrees.sum())
        rows = np.repeat(np.arange(len(nodes), dtype=np.int64), degrees)
        firsts = np.repeat(self.starts[nodes], degrees)
        within = np.arange(total, dtype=np.int64) - np.repeat(np.cumsum(degrees) - degrees, degrees)
        return rows, firsts + within


def build_adjacency(parts: list[tuple[Ends, Ints]], direction: str, node_count: int, *, distinct: bool) -> Adjacency:
    """Compressed rows of several edge types at once; `direction` is "out", "in" or "both"."""
    froms, tos, numbers = [], [], []
    for ends, edges in parts:
        whole = (ends.source >= 0) & (ends.target >= 0)
        source, target, kept = ends.source[whole], ends.target[whole], edges[whole]
        if direction in ("out", "both"):
            froms.append(source)
            tos.append(target)
            numbers.append(kept)
        if direction == "in":
            froms.append(target)
            tos.append(source)
            numbers.append(kept)
        if direction == "both":
            apart = source != target  # a self-loop is one edge, seen from either end
            froms.append(target[apart])
            tos.append(source[apart])
            numbers.append(kept[apart])
    return _compress(_joined(froms), _joined(tos), _joined(numbers), node_count, distinct=distinct)


def _joined(arrays: list[Ints]) -> Ints:
    return np.concatenate(arrays) if arrays else np.empty(0, np.int64)


def _compress(source: Ints, target: Ints, numbers: Ints, node_count: int, *, distinct: bool) -> Adjacency:
    if distinct:
        codes = np.unique(source * np.int64(max(node_count, 1)) + target)
        source, target = np.divmod(codes, np.int64(max(node_count, 1)))
        numbers = np.empty(0, np.int64)
    else:
        order = np.argsort(source, kind="stable")
        source, target, numbers = source[order], target[order], numbers[order]
    starts = np.zeros(node_count + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=node_count), out=starts[1:])
    return Adjacency(starts, target, numbers)


def reach(adjacency: Adjacency, start: int, low: int, high: int | None) -> tuple[Ints, Ints]:
    """Nodes first met at distance `low .. high` from `start`, with their distances, breadth first.

    The start itself is met only through a stored self-loop, at distance 1.
    """
    node_count = len(adjacency.starts) - 1
    seen = np.zeros(node_count, np.bool_)
    seen[start] = True
    frontier = np.array([start], np.int64)
    found: list[Ints] = []
    distances: list[Ints] = []
    distance = 0
    while len(frontier) and (high is None or distance < high):
        distance += 1
        _, places = adjacency.expand(frontier)
        met = np.unique(adjacency.targets[places])
        fresh = met[~seen[met]]
        seen[fresh] = True
        report = np.append(fresh, start) if distance == 1 and start in met else fresh
        if distance >= low and len(report):
            found.append(report)
            distances.append(np.full(len(report), distance, np.int64))
        frontier = fresh
    return _joined(found), _joined(distances)


def shortest_path(adjacency: Adjacency, start: int, goal: int, high: int | None) -> list[int] | None:
    """One shortest path from `start` to `goal`, both included, or None. The smallest numbers win among equals."""
    if start == goal:
        return None
    node_count = len(adjacency.starts) - 1
    parent = np.full(node_count, -1, np.int64)
    parent[start] = start
    frontier = np.array([start], np.int64)
    distance = 0
    while len(frontier) and (high is None or distance < high):
        distance += 1
        rows, places = adjacency.expand(frontier)
        targets = adjacency.targets[places]
        fresh = parent[targets] < 0
        targets, sources = targets[fresh], frontier[rows[fresh]]
        # The first writer of a place wins, and rows come in ascending order of their source.
        targets, first = np.unique(targets, return_index=True)
        parent[targets] = sources[first]
        if parent[goal] >= 0:
            path = [goal]
            while path[-1] != start:
                path.append(int(parent[path[-1]]))
            return path[::-1]
        frontier = targets
    return None
