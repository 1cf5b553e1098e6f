"""Adjacency as compressed sparse rows over the common node numbering, and breadth-first search on it.

`starts[n] .. starts[n + 1]` are the places in `targets` (and `edges`) that hold the neighbours of node `n`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Ints = np.ndarray[Any, np.dtype[np.int64]]
Places = np.ndarray[Any, Any]
"""Places within a type: 32 bits wide where that suffices."""
Guard = Callable[[int], None]
"""Refuses to make too many rows."""
_INT32 = 2**31
_EDGES_AT_ONCE = 2**16
_NOTHING: Ints = np.empty(0, np.int64)


@dataclass(frozen=True)
class Ends:
    """Source and target of every edge of a type, as places among their types' nodes; -1 where there is no such node."""

    source: Ints
    target: Ints

    def shifted(self, source: int, target: int) -> Ends:
        """Return the same ends in a numbering whose types begin elsewhere."""
        return Ends(
            np.where(self.source < 0, -1, self.source + source), np.where(self.target < 0, -1, self.target + target)
        )


@dataclass(frozen=True)
class Adjacency:
    """Neighbours of every node of one type (or of all), and where the types lie in the snapshot's numbering.

    `targets` and `edges` are places within their types; `edges` is empty when pairs were made distinct. The arrays
    belong to pins and are shared by snapshots; only the offsets are a snapshot's own. `to_one`: every node has exactly
    one neighbour, so `targets` is a column of the nodes.
    """

    starts: Ints
    targets: Places
    edges: Places
    near_offset: int = 0
    far_offset: int = 0
    edge_offset: int = 0
    far_count: int = 0
    to_one: bool = False

    @property
    def near_count(self) -> int:
        """Return the number of nodes that the expanded end can be."""
        return len(self.starts) - 1

    @property
    def chains(self) -> bool:
        """Return whether a second hop can start where the first one ended: both ends have one type."""
        return self.near_offset == self.far_offset

    def degrees(self, nodes: Ints) -> Ints:
        """Return the number of neighbours of each node; nodes of other types have none."""
        if self._are_in_a_row(nodes):
            first = int(nodes[0]) - self.near_offset
            return np.diff(self.starts[first : first + len(nodes) + 1])
        places = nodes - self.near_offset
        inside = (places >= 0) & (places < len(self.starts) - 1)
        places = np.where(inside, places, 0) if not inside.all() else places
        degrees: Ints = self.starts[places + 1] - self.starts[places] if len(self.starts) > 1 else np.zeros_like(places)
        return degrees if inside.all() else np.where(inside, degrees, 0)

    def _are_in_a_row(self, nodes: Ints) -> bool:
        """Return whether these are consecutive nodes of the expanded end."""
        if not len(nodes) or int(nodes[-1]) - int(nodes[0]) != len(nodes) - 1:
            return False
        if nodes[0] < self.near_offset or nodes[-1] >= self.near_offset + self.near_count:
            return False
        return bool((nodes[1:] - nodes[:-1] == 1).all())

    def _are_own(self, nodes: Ints) -> bool:
        """Return whether all of these are nodes of the expanded end."""
        least, most = self.near_offset, self.near_offset + self.near_count
        return not len(nodes) or (int(nodes.min()) >= least and int(nodes.max()) < most)

    def expand(self, nodes: Ints) -> tuple[Ints, Ints]:
        """For each node in turn return its place in the input, repeated, and its neighbours' places in `targets`."""
        return self._expand(nodes, lambda _: None)

    def _expand(self, nodes: Ints, guard: Guard) -> tuple[Ints, Ints]:
        if self.to_one and self._are_own(nodes):
            guard(len(nodes))
            return np.arange(len(nodes), dtype=np.int64), nodes - self.near_offset
        degrees = self.degrees(nodes)
        total = int(degrees.sum())
        guard(total)
        if len(nodes) == 1:
            first = int(self.starts[nodes[0] - self.near_offset]) if total else 0
            return np.zeros(total, np.int64), np.arange(first, first + total, dtype=np.int64)
        rows = np.repeat(np.arange(len(nodes), dtype=np.int64), degrees)
        present = degrees > 0
        firsts = np.repeat(self.starts[nodes[present] - self.near_offset], degrees[present])
        within = np.arange(total, dtype=np.int64) - np.repeat(np.cumsum(degrees) - degrees, degrees)
        return rows, firsts + within

    def row_sums(self, weights: Places, nodes: Ints) -> Ints:
        """For each of some nodes return the sum of its neighbours' weights.

        Nodes of other types have none. Cheap for nodes that lie close together, since the nodes between them are added
        up too.
        """
        places = nodes - self.near_offset
        inside = (places >= 0) & (places < self.near_count)
        if not inside.all():
            sums = np.zeros(len(nodes), np.int64)
            if inside.any():
                sums[inside] = self.row_sums(weights, nodes[inside])
            return sums
        if not len(nodes):
            return _NOTHING
        if self.to_one:
            single: Ints = weights.take(self.targets[places]).astype(np.int64)
            return single
        first, last = int(places.min()), int(places.max()) + 1
        sums = np.empty(last - first, np.int64)
        most = int(weights.max(initial=0))
        for low, high in self._pieces(first, last):
            begin, end = int(self.starts[low]), int(self.starts[high])
            # Half as wide is twice as fast, where no sum can overflow.
            kind = np.int32 if most * (end - begin) < _INT32 else np.int64
            running = np.zeros(end - begin + 1, kind)
            np.cumsum(weights.take(self.targets[begin:end]), dtype=kind, out=running[1:])
            sums[low - first : high - first] = np.diff(running[self.starts[low : high + 1] - begin])
        return sums if len(nodes) == last - first and self._are_in_a_row(nodes) else sums[places - first]

    def _pieces(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Split nodes `first .. last` into runs whose edges fill about a block, so that block arrays fit the cache."""
        while first < last:
            filled = int(np.searchsorted(self.starts, self.starts[first] + _EDGES_AT_ONCE, side="right")) - 1
            high = min(last, max(first + 1, filled))
            yield first, high
            first = high

    def reached(self, places: Ints) -> Ints:
        """Return the nodes at some places of `targets`."""
        found: Ints = self.targets[places].astype(np.int64)
        found += self.far_offset
        return found

    def neighbours(self, nodes: Ints, guard: Guard) -> tuple[Ints, Ints, Ints]:
        """For each node in turn return its place in the input, repeated, its neighbours, and the edges, if kept."""
        rows, places = self._expand(nodes, guard)
        if not len(self.edges):
            return rows, self.reached(places), _NOTHING
        return rows, self.reached(places), self.edges[places].astype(np.int64) + self.edge_offset


@dataclass(frozen=True)
class Arcs:
    """Edges as seen in one direction: from place, to place, edge number."""

    froms: Ints
    tos: Ints
    numbers: Ints


def arcs(ends: Ends, numbers: Ints, direction: str) -> Arcs:
    """Return the edges of one type in a direction: "out", "in" or "both"."""
    whole = (ends.source >= 0) & (ends.target >= 0)
    if not whole.all():
        ends, numbers = Ends(ends.source[whole], ends.target[whole]), numbers[whole]
    if direction == "out":
        return Arcs(ends.source, ends.target, numbers)
    if direction == "in":
        return Arcs(ends.target, ends.source, numbers)
    apart = ends.source != ends.target  # a self-loop is one edge, seen from either end
    return Arcs(
        np.concatenate([ends.source, ends.target[apart]]),
        np.concatenate([ends.target, ends.source[apart]]),
        np.concatenate([numbers, numbers[apart]]),
    )


def join_arcs(parts: list[Arcs]) -> Arcs:
    """Join the arcs of several edge types."""
    return Arcs(*(_joined([getattr(p, name) for p in parts]) for name in ("froms", "tos", "numbers")))


def build_adjacency(found: Arcs, near_count: int, far_count: int, *, distinct: bool) -> Adjacency:
    """Build compressed rows. `distinct`: each pair once, and no edge numbers."""
    source, target, numbers = found.froms, found.tos, found.numbers
    if distinct:
        source, target = _pairs(source, target, far_count)
        numbers = np.empty(0, np.int64)
    else:
        order = np.argsort(source, kind="stable")
        source, target, numbers = source[order], target[order], numbers[order]
    starts = np.zeros(near_count + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=near_count), out=starts[1:])
    return Adjacency(starts, narrow(target), narrow(numbers))


def is_to_one(starts: Ints, targets: Places) -> bool:
    """Return whether every node has exactly one neighbour."""
    return len(targets) == len(starts) - 1 and bool((starts[1:] - starts[:-1] == 1).all())


def extend_adjacency(old: Adjacency, added: Arcs, near_count: int, far_count: int, *, distinct: bool) -> Adjacency:
    """Add edges and nodes that are numbered after the old ones to an adjacency. Costs a copy, not a sort."""
    starts = np.full(near_count + 1, old.starts[-1], np.int64)
    starts[: len(old.starts)] = old.starts
    if distinct:
        source, target = _pairs(added.froms, added.tos, far_count)
        codes = source * np.int64(max(far_count, 1)) + target
        known = np.repeat(np.arange(len(old.starts) - 1, dtype=np.int64), np.diff(old.starts))
        known *= max(far_count, 1)
        known += old.targets
        places = np.searchsorted(known, codes)
        fresh = np.append(known, -1)[places] != codes
        source, target, places = source[fresh], target[fresh], places[fresh]
        numbers: Places = np.empty(0, np.int32)
    else:
        order = np.argsort(added.froms, kind="stable")
        source, target = added.froms[order], added.tos[order]
        places = starts[source + 1]
        numbers = np.insert(old.edges.astype(np.int64), places, added.numbers[order])
    targets = np.insert(old.targets.astype(np.int64), places, target)
    starts[1:] += np.cumsum(np.bincount(source, minlength=near_count))
    return Adjacency(starts, narrow(targets), narrow(numbers))


def narrow(values: Any) -> Places:
    """Return the same places in half the memory, where they fit."""
    fits = not len(values) or (values[-1] < _INT32 and int(values.max()) < _INT32)
    found: Places = values.astype(np.int32, copy=False) if fits else values
    return found


def sorted_distinct(values: Ints) -> Ints:
    """Return distinct values in order. Sorting is several times faster here than `np.unique`, which hashes integers."""
    ordered = np.sort(values)
    if len(ordered) < 2:
        return ordered
    first = np.empty(len(ordered), np.bool_)
    first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def _pairs(source: Ints, target: Ints, far_count: int) -> tuple[Ints, Ints]:
    width = np.int64(max(far_count, 1))
    codes = sorted_distinct(source * width + target)
    source = codes // width
    return source, codes - source * width


def _joined(arrays: list[Ints]) -> Ints:
    return np.concatenate(arrays) if arrays else np.empty(0, np.int64)


class Neighbourhood(Protocol):
    """Neighbours of nodes, from compressed rows or from an index of the edge table."""

    @property
    def near_offset(self) -> int:
        """Return where the nodes of the expanded end begin."""

    @property
    def near_count(self) -> int:
        """Return the number of nodes that the expanded end can be."""

    @property
    def chains(self) -> bool:
        """Return whether a second hop can start where the first one ended."""

    def neighbours(self, nodes: Ints, guard: Guard) -> tuple[Ints, Ints, Ints]:
        """For each node in turn return its place in the input, repeated, its neighbours, and the edges to them."""


def reach(way: Neighbourhood, start: int, low: int, high: int | None, guard: Guard) -> tuple[Ints, Ints]:
    """Return nodes first reached at distance `low .. high` from `start`, with their distances, breadth first.

    The start itself is reached only through a stored self-loop, at distance 1. Edges between different types do not
    chain.
    """
    base = way.near_offset
    if not 0 <= start - base < way.near_count:
        return _NOTHING, _NOTHING
    seen = np.zeros(way.near_count, np.bool_)
    if not way.chains:
        high = 1
    else:
        seen[start - base] = True
    frontier = np.array([start], np.int64)
    found: list[Ints] = []
    distances: list[Ints] = []
    distance = 0
    while len(frontier) and (high is None or distance < high):
        distance += 1
        _, met, _ = way.neighbours(frontier, guard)
        fresh, again = _first_met(met, seen, base, start) if way.chains else (sorted_distinct(met), False)
        report = np.append(fresh, start) if distance == 1 and again else fresh
        if distance >= low and len(report):
            found.append(report)
            distances.append(np.full(len(report), distance, np.int64))
        frontier = fresh
    return _joined(found), _joined(distances)


def _first_met(met: Ints, seen: np.ndarray[Any, np.dtype[np.bool_]], base: int, start: int) -> tuple[Ints, bool]:
    """Return nodes not seen before, once each and in order, now marked; and whether the start was among them."""
    places = met - base
    again = bool((met == start).any())
    fresh = places[~seen[places]]
    if len(fresh) * 8 < len(seen):
        fresh = sorted_distinct(fresh)
        seen[fresh] = True
    else:
        # Many: marking and testing is cheaper than sorting.
        before = seen.copy()
        seen[fresh] = True
        fresh = np.flatnonzero(seen & ~before)
    return fresh + base, again
