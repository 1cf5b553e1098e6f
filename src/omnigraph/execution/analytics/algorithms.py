"""Degrees, PageRank, connected components, communities, triangles and shortest paths, over any runner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from omnigraph.errors import InvalidArgument
from omnigraph.execution.analytics.blocks import Block, Ints, Runner, Values, reduce_rows

OUT, IN, BOTH, SIMPLE = "out", "in", "both", "simple"
"""Rows by direction. `simple`: both directions, parallel edges once and self-loops left out, neighbours in order."""

_WEDGES_AT_ONCE = 4 << 20
_UNREACHED = -1


@dataclass(frozen=True)
class PageRankOptions:
    """`tolerance` stops earlier: when the ranks of all nodes together moved by less than it, times the nodes."""

    damping: float = 0.85
    iterations: int = 20
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.damping < 1:
            raise InvalidArgument(f"damping {self.damping} is not in [0, 1)", hint="0.85 is usual")
        if self.iterations < 1:
            raise InvalidArgument("PageRank needs at least one iteration")


def pagerank(runner: Runner, node_count: int, options: PageRankOptions) -> Values:
    """The rank of each node; ranks add up to 1. Nodes without outgoing edges give theirs to everyone."""
    if node_count == 0:
        return np.empty(0, np.float64)
    outgoing = runner.degrees(OUT).astype(np.float64)
    dangling = outgoing == 0
    outgoing[dangling] = 1.0
    rank = np.full(node_count, 1.0 / node_count)
    for _ in range(options.iterations):
        spread = float(rank[dangling].sum())
        gathered = runner.run(IN, _sum_kernel, rank / outgoing)
        after = (1 - options.damping) / node_count + options.damping * (gathered + spread / node_count)
        moved = float(np.abs(after - rank).sum())
        rank = after
        if options.tolerance is not None and moved < node_count * options.tolerance:
            break
    return rank


def _sum_kernel(block: Block, share: Values) -> Values:
    return reduce_rows(np.add, block, share, 0.0)


def components(runner: Runner, node_count: int) -> Ints:
    """Weakly connected components: each node's value is the lowest node number of its component."""
    label = np.arange(node_count, dtype=np.int64)
    while True:
        lowest = np.minimum(label, runner.run(BOTH, _min_kernel, label))
        # Hook whole components at once: the root of a node takes the lowest label that any member saw.
        np.minimum.at(lowest, label, lowest.copy())
        while True:
            jumped = lowest[lowest]
            if np.array_equal(jumped, lowest):
                break
            lowest = jumped
        if np.array_equal(lowest, label):
            return label
        label = lowest


def _min_kernel(block: Block, label: Values) -> Values:
    return reduce_rows(np.minimum, block, label, np.iinfo(np.int64).max)


def label_propagation(runner: Runner, node_count: int, iterations: int) -> Ints:
    """Communities: each round every node takes its neighbours' most frequent label, the lowest one of a tie."""
    label = np.arange(node_count, dtype=np.int64)
    for _ in range(iterations):
        after = runner.run(BOTH, _mode_kernel, label)
        if np.array_equal(after, label):
            break
        label = after
    return label


def _mode_kernel(block: Block, label: Values) -> Values:
    own = label[block.begin : block.begin + block.size].copy()
    owners = np.repeat(np.arange(block.size), np.diff(block.starts))
    seen = label[block.neighbours]
    order = np.lexsort((seen, owners))
    owners, seen = owners[order], seen[order]
    if not len(owners):
        return own
    first = np.flatnonzero(np.concatenate([[True], (owners[1:] != owners[:-1]) | (seen[1:] != seen[:-1])]))
    counts = np.diff(np.concatenate([first, [len(owners)]]))
    # Most frequent first, then lowest label: the first entry of each owner wins.
    best = np.lexsort((seen[first], -counts, owners[first]))
    winners, at = np.unique(owners[first][best], return_index=True)
    own[winners] = seen[first][best][at]
    return own


def distances(runner: Runner, node_count: int, source: int, max_hops: int | None) -> Ints:
    """Hops from one node along edges; -1 where it cannot get to."""
    distance = np.full(node_count, _UNREACHED, np.int64)
    distance[source] = 0
    hops = 0
    while max_hops is None or hops < max_hops:
        touched = runner.run(IN, _touched_kernel, distance == hops)
        fresh = touched & (distance == _UNREACHED)
        if not fresh.any():
            break
        hops += 1
        distance[fresh] = hops
    return distance


def _touched_kernel(block: Block, frontier: Values) -> Values:
    return reduce_rows(np.logical_or, block, frontier, False)


def triangles(runner: Runner, node_count: int) -> Ints:
    """Triangles that each node is a corner of, in the simple undirected graph."""
    degree = runner.degrees(SIMPLE)
    # Edges point from the rarer end: a hub then has few edges of its own, and each triangle is met once.
    place = np.empty(node_count, np.int64)
    place[np.lexsort((np.arange(node_count), degree))] = np.arange(node_count)
    codes = np.sort(runner.run(SIMPLE, _oriented_kernel, place))
    source, target = np.divmod(codes, max(node_count, 1))
    starts = np.searchsorted(source, np.arange(node_count + 1))
    if not len(codes):
        return np.zeros(node_count, np.int64)
    counted: Ints = runner.run(SIMPLE, _corner_kernel, place, starts, target, codes).reshape(-1, node_count).sum(axis=0)
    result: Ints = counted[place]
    return result


def _oriented_kernel(block: Block, place: Values) -> Values:
    source, target = _oriented(block, place)
    return source * len(place) + target


def _oriented(block: Block, place: Values) -> tuple[Values, Values]:
    owners = np.repeat(place[block.begin : block.begin + block.size], np.diff(block.starts))
    others = place[block.neighbours]
    up = owners < others
    return owners[up], others[up]


def _corner_kernel(block: Block, place: Values, starts: Values, target: Values, codes: Values) -> Values:
    """How often each node is a corner of a triangle whose lowest corner is in the block."""
    source, middle = _oriented(block, place)
    wedges = starts[middle + 1] - starts[middle]
    counts = np.zeros(len(place), np.int64)
    for begin, end in _chunks(wedges):
        count = wedges[begin:end]
        low, mid = np.repeat(source[begin:end], count), np.repeat(middle[begin:end], count)
        within = np.arange(len(low)) - np.repeat(np.cumsum(count) - count, count)
        high = target[np.repeat(starts[middle[begin:end]], count) + within]
        code = low * len(place) + high
        at = np.minimum(np.searchsorted(codes, code), len(codes) - 1)
        closed = codes[at] == code
        for corner in (low, mid, high):
            counts += np.bincount(corner[closed], minlength=len(place))
    return counts


def _chunks(wedges: Values) -> list[tuple[int, int]]:
    """Ranges of edges with a bounded number of wedges each."""
    total = np.cumsum(wedges)
    if not len(total) or not total[-1]:
        return []
    cuts = np.searchsorted(total, np.arange(_WEDGES_AT_ONCE, total[-1], _WEDGES_AT_ONCE), side="left") + 1
    edges = np.unique(np.concatenate([[0], cuts, [len(wedges)]]))
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
