"""Degrees, PageRank, connected components and communities, on any runner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from omnigraph.errors import InvalidArgument
from omnigraph.execution.analytics.blocks import Block, Ints, Runner, Values, reduce_rows

OUT, IN, BOTH, SIMPLE = "out", "in", "both", "simple"
"""Rows by direction. `simple`: both directions, parallel edges once and self-loops left out, neighbours in order."""


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


def degrees(runner: Runner, direction: str) -> Ints:
    """Return the number of neighbours of each node; parallel edges count separately."""
    return runner.run(direction, _count_kernel)


def _count_kernel(block: Block) -> Values:
    return np.diff(block.starts)


def strengths(runner: Runner, direction: str) -> Values:
    """Return the sum of the weights of each node's edges."""
    return runner.run(direction, _strength_kernel)


def _strength_kernel(block: Block) -> Values:
    assert block.weights is not None, "a block without weights has no strengths"
    found = np.zeros(block.size)
    if len(block.filled):
        found[block.filled] = np.add.reduceat(block.weights, block.starts[block.filled])
    return found


def pagerank(
    runner: Runner, node_count: int, options: PageRankOptions, sources: Ints | None = None, *, weighted: bool = False
) -> Values:
    """Return the rank of each node; ranks add up to 1.

    A walk follows an edge (by its weight when `weighted`) or restarts: at any node, or at one of the `sources`. It also
    restarts at a node without outgoing edges.
    """
    if node_count == 0:
        return np.empty(0, np.float64)
    outgoing = strengths(runner, OUT) if weighted else degrees(runner, OUT).astype(np.float64)
    dangling = outgoing == 0
    outgoing[dangling] = 1.0
    start: Values | float = 1.0 / node_count
    if sources is not None:
        start = np.zeros(node_count)
        start[sources] = 1.0 / len(sources)
    rank = np.full(node_count, start)
    kernel = _weighted_sum_kernel if weighted else _sum_kernel
    for _ in range(options.iterations):
        spread = float(rank[dangling].sum())
        gathered = runner.run(IN, kernel, rank / outgoing)
        after = (1 - options.damping) * start + options.damping * (gathered + spread * start)
        moved = float(np.abs(after - rank).sum())
        rank = after
        if options.tolerance is not None and moved < node_count * options.tolerance:
            break
    return rank


def _sum_kernel(block: Block, share: Values) -> Values:
    return reduce_rows(np.add, block, share, 0.0)


def _weighted_sum_kernel(block: Block, share: Values) -> Values:
    return reduce_rows(np.add, block, share, 0.0, np.multiply)


def components(runner: Runner, node_count: int) -> Ints:
    """Return weakly connected components: each node's value is the lowest node number of its component."""
    label = np.arange(node_count, dtype=np.int64)
    while True:
        lowest = np.minimum(label, runner.run(BOTH, _min_kernel, label))
        # Hook whole components at once: the root of a node takes the lowest label of all members.
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
    """Return communities: each round every node takes its neighbours' most frequent label, the lowest one of a tie.

    With weights it takes the label with the most weight.
    """
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
    if block.weights is None:
        votes: Values = np.diff(np.concatenate([first, [len(owners)]]))
    else:
        votes = np.add.reduceat(block.weights[order], first)
    # Most votes first, then lowest label: the first entry of each owner wins.
    best = np.lexsort((seen[first], -votes, owners[first]))
    winners, at = np.unique(owners[first][best], return_index=True)
    own[winners] = seen[first][best][at]
    return own
