"""Shortest paths from one node, by hops or by the weights of edges, on any runner."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from omnigraph.execution.analytics.algorithms import IN, OUT
from omnigraph.execution.analytics.blocks import Block, Floats, Ints, Runner, Values, reduce_rows

_UNREACHED = -1


def distances(runner: Runner, node_count: int, source: int, max_hops: int | None) -> Ints:
    """Return the hops from one node along edges; -1 for unreachable nodes."""
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


def weighted_distances(runner: Runner, node_count: int, source: int) -> Floats:
    """Return the least sum of weights from one node along edges; infinity for unreachable nodes.

    No weight is negative. Both algorithms add up a path from its source on, and sums never decrease, so they agree to
    the last bit.
    """
    outgoing = runner.whole(OUT)
    return _dijkstra(outgoing, source) if outgoing is not None else _bellman_ford(runner, node_count, source)


def _dijkstra(block: Block, source: int) -> Floats:
    """Compute distances in one process: every edge is relaxed once, when the distance of its source is final."""
    assert block.weights is not None, "paths are weighed by the weights of edges"
    distance = np.full(block.size, np.inf)
    distance[source] = 0.0
    waiting = [(0.0, source)]
    while waiting:
        reached, node = heappop(waiting)
        if reached > distance[node]:
            continue
        edges = slice(int(block.starts[node]), int(block.starts[node + 1]))
        others, sums = block.neighbours[edges], reached + block.weights[edges]
        for other, found in zip(others.tolist(), sums.tolist(), strict=True):
            if found < distance[other]:
                distance[other] = found
                heappush(waiting, (found, other))
    return distance


def _bellman_ford(runner: Runner, node_count: int, source: int) -> Floats:
    """Compute distances over blocks: in each step every node takes its neighbours' best offer, until none improves."""
    distance = np.full(node_count, np.inf)
    distance[source] = 0.0
    while True:
        nearer = np.minimum(distance, runner.run(IN, _nearest_kernel, distance))
        if np.array_equal(nearer, distance):
            return distance
        distance = nearer


def _nearest_kernel(block: Block, distance: Values) -> Values:
    return reduce_rows(np.minimum, block, distance, np.inf, np.add)
