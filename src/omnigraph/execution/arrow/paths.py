"""Shortest paths: two searches that meet in the middle, or one tree for many goals of one start."""

from __future__ import annotations

import numpy as np

from omnigraph.execution.arrow.topology import Guard, Ints, Neighbourhood, Places, sorted_distinct

Path = list[int]


class Wave:
    """A breadth-first search from one node, level by level, that records the parent of every node."""

    def __init__(self, way: Neighbourhood, start: int) -> None:
        self._way = way
        self._base = way.near_offset
        self.parent: Places = np.full(way.near_count, -1, np.int32 if way.near_count < 2**31 else np.int64)
        self.parent[start - self._base] = start - self._base
        self.frontier: Ints = np.array([start], np.int64)
        self.depth = 0

    def grow(self, guard: Guard) -> Ints:
        """Add one level: the nodes reached for the first time."""
        self.depth += 1
        rows, targets, _ = self._way.neighbours(self.frontier, guard)
        places = targets - self._base
        fresh = self.parent[places] < 0
        places, origins = places[fresh], self.frontier[rows[fresh]] - self._base
        # Written backwards, so that the first node to reach another is its parent.
        self.parent[places[::-1]] = origins[::-1]
        self.frontier = sorted_distinct(places) + self._base
        return self.frontier

    def trace(self, node: int) -> Path:
        """Return the path from the start of this search to a node it has reached."""
        path = [node]
        while int(self.parent[path[-1] - self._base]) != path[-1] - self._base:
            path.append(int(self.parent[path[-1] - self._base]) + self._base)
        return path[::-1]


def loop_or_edge(way: Neighbourhood, start: int, goal: int, guard: Guard) -> Path | None:
    """Return the only possible path where a second hop is impossible or the ends are one node: a stored edge."""
    _, reached, _ = way.neighbours(np.array([start], np.int64), guard)
    return [start, goal] if bool((reached == goal).any()) else None


def meet(
    ahead: Neighbourhood, back: Neighbourhood, start: int, goal: int, high: int | None, guard: Guard
) -> Path | None:
    """Return one shortest path between two nodes, both ends included, or None.

    The smaller of the two frontiers grows. The first node that both have reached lies on a shortest path: any shorter
    one would have been found a level earlier.
    """
    if start == goal or not ahead.chains:
        return loop_or_edge(ahead, start, goal, guard)
    if not _holds(ahead, start) or not _holds(ahead, goal):
        return None
    first, second = Wave(ahead, start), Wave(back, goal)
    while len(first.frontier) and len(second.frontier) and (high is None or first.depth + second.depth < high):
        grown, other = (first, second) if len(first.frontier) <= len(second.frontier) else (second, first)
        fresh = grown.grow(guard)
        met = fresh[other.parent[fresh - ahead.near_offset] >= 0]
        if len(met):
            middle = int(met[0])
            return first.trace(middle) + second.trace(middle)[-2::-1]
    return None


class SearchTree:
    """Shortest paths from one node, grown level by level, only as far as its callers need."""

    def __init__(self, way: Neighbourhood, start: int, high: int | None, guard: Guard) -> None:
        self._way = way
        self._start = start
        self._high = high
        self._guard = guard
        self._wave = Wave(way, start) if _holds(way, start) else None

    def path_to(self, goal: int) -> Path | None:
        """Return one shortest path from the start, both ends included, or None. To itself only a self-loop leads."""
        if goal == self._start or not self._way.chains:
            return loop_or_edge(self._way, self._start, goal, self._guard)
        wave = self._wave
        if wave is None or not _holds(self._way, goal):
            return None
        place = goal - self._way.near_offset
        while wave.parent[place] < 0 and len(wave.frontier) and (self._high is None or wave.depth < self._high):
            wave.grow(self._guard)
        return wave.trace(goal) if wave.parent[place] >= 0 else None


def _holds(way: Neighbourhood, node: int) -> bool:
    return 0 <= node - way.near_offset < way.near_count
