"""Triangles of the simple undirected graph, on any runner."""

from __future__ import annotations

import numpy as np

from omnigraph.execution.analytics.algorithms import SIMPLE, degrees
from omnigraph.execution.analytics.blocks import Block, Ints, Runner, Values

_WEDGES_AT_ONCE = 4 << 20


def triangles(runner: Runner, node_count: int) -> Ints:
    """Return the number of triangles at each node.

    Edges point from the end of lower degree: a hub then has few edges of its own, and each triangle is found once, from
    its lowest corner, with its middle one in the second block of a pair.
    """
    place = np.empty(node_count, np.int64)
    place[np.lexsort((np.arange(node_count), degrees(runner, SIMPLE)))] = np.arange(node_count)
    return runner.add_up(SIMPLE, _corner_kernel, place)


def _corner_kernel(block: Block, other: Block, place: Values) -> Values:
    """Count the triangles at each node whose lowest corner is in one block and whose middle is in another."""
    counts = np.zeros(len(place), np.int64)
    source, middle = _upward(block, place)
    codes = source * len(place) + middle  # in order, because rows and the neighbours of each are
    inside = (middle >= other.begin) & (middle < other.begin + other.size)
    source, middle = source[inside], middle[inside]
    owners, targets = _upward(other, place)
    starts = np.searchsorted(owners, np.arange(other.begin, other.begin + other.size + 1))
    wedges = starts[middle - other.begin + 1] - starts[middle - other.begin]
    for begin, end in _chunks(wedges):
        count = wedges[begin:end]
        low, mid = np.repeat(source[begin:end], count), np.repeat(middle[begin:end], count)
        within = np.arange(len(low)) - np.repeat(np.cumsum(count) - count, count)
        high = targets[np.repeat(starts[middle[begin:end] - other.begin], count) + within]
        code = low * len(place) + high
        at = np.minimum(np.searchsorted(codes, code), len(codes) - 1)
        closed = codes[at] == code
        for corner in (low, mid, high):
            counts += np.bincount(corner[closed], minlength=len(place))
    return counts


def _upward(block: Block, place: Values) -> tuple[Values, Values]:
    """Return the edges of a block that point to a higher rank, by their numbers, in order."""
    owners = np.repeat(np.arange(block.begin, block.begin + block.size), np.diff(block.starts))
    others = block.neighbours.astype(np.int64)
    up = place[owners] < place[others]
    return owners[up], others[up]


def _chunks(wedges: Values) -> list[tuple[int, int]]:
    """Return ranges of edges with a bounded number of wedges each."""
    total = np.cumsum(wedges)
    if not len(total) or not total[-1]:
        return []
    cuts = np.searchsorted(total, np.arange(_WEDGES_AT_ONCE, total[-1], _WEDGES_AT_ONCE), side="left") + 1
    edges = np.unique(np.concatenate([[0], cuts, [len(wedges)]]))
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
