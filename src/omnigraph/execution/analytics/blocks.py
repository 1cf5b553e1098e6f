"""The unit of work of an algorithm: the neighbours of a range of nodes, and the runners of kernels on such ranges.

A kernel is a module-level function of a block and some vectors over all nodes; it returns values for the block's own
nodes. Each node's value is computed inside one block from its neighbours in one order, so the number of blocks and
their placement never change a result.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from omnigraph.errors import CorruptGraph

Ints = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Values = np.ndarray[Any, np.dtype[Any]]
_NEIGHBOURS_AT_ONCE = 1 << 17


@dataclass(frozen=True)
class Block:
    """Neighbours of the nodes `begin .. begin + len(starts) - 2`; `starts` counts from the block's first neighbour.

    The numbers of neighbours take four bytes each where they fit. `weights` are those of the edges to them.
    """

    begin: int
    starts: Ints
    neighbours: Values
    weights: Floats | None = None

    @property
    def size(self) -> int:
        """Return the number of nodes of the block."""
        return len(self.starts) - 1

    @cached_property
    def filled(self) -> Ints:
        """Return its nodes that have neighbours, counted from its first node."""
        return np.flatnonzero(np.diff(self.starts))

    @cached_property
    def highest(self) -> int:
        """Return the highest number of a neighbour, -1 without any."""
        return int(self.neighbours.max()) if len(self.neighbours) else -1

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """Yield all its neighbours, for some of the `filled` nodes at a time."""
        bounds = np.append(self.starts[self.filled], self.starts[-1])
        wanted = np.arange(0, len(self.neighbours), _NEIGHBOURS_AT_ONCE)
        cuts = np.unique(np.append(np.searchsorted(bounds[:-1], wanted), len(self.filled))).tolist()
        return tuple(
            Piece(slice(begin, end), slice(int(bounds[begin]), int(bounds[end])), bounds[begin:end] - bounds[begin])
            for begin, end in itertools.pairwise(cuts)
        )


@dataclass(frozen=True)
class Piece:
    """Some of the `filled` nodes of a block, their neighbours, and where those of each node begin in them."""

    nodes: slice
    neighbours: slice
    starts: Ints


Kernel = Callable[..., Values]


class Runner(Protocol):
    """Runs kernels over the blocks of a direction."""

    def run(self, direction: str, kernel: Kernel, *vectors: Values) -> Values:
        """Return values for all nodes, in node order: the kernel's results for each block, concatenated."""

    def add_up(self, direction: str, kernel: Kernel, *vectors: Values) -> Values:
        """Return the sum of the kernel's results for each pair of blocks: integers for all nodes."""

    def whole(self, direction: str) -> Block | None:
        """Return all nodes as one block, if one process holds them; else None."""


@dataclass(frozen=True)
class Rows:
    """Compressed rows over all nodes."""

    starts: Ints
    neighbours: Values
    weights: Floats | None = None

    @property
    def node_count(self) -> int:
        """Return the number of nodes."""
        return len(self.starts) - 1

    def blocks(self, count: int) -> Iterator[Block]:
        """Return ranges of nodes with about equally many neighbours each."""
        nodes = self.node_count
        wanted = np.linspace(0, len(self.neighbours) + nodes, count + 1)[1:-1]
        cuts = np.searchsorted(self.starts[:-1] + np.arange(nodes), wanted)
        edges = np.unique(np.concatenate([[0], cuts, [nodes]]))
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            first, last = self.starts[begin], self.starts[end]
            weights = None if self.weights is None else self.weights[first:last]
            yield Block(begin, self.starts[begin : end + 1] - first, self.neighbours[first:last], weights)


class LocalRunner:
    """Runs kernels in this process, on one block of all nodes."""

    def __init__(self, rows: Callable[[str], Rows]) -> None:
        self._rows = rows
        self._blocks: dict[str, Block] = {}

    def run(self, direction: str, kernel: Kernel, *vectors: Values) -> Values:
        """Return values for all nodes, in node order."""
        return kernel(self.whole(direction), *vectors)

    def add_up(self, direction: str, kernel: Kernel, *vectors: Values) -> Values:
        """Return the kernel's result for all nodes."""
        block = self.whole(direction)
        return kernel(block, block, *vectors)

    def whole(self, direction: str) -> Block:
        """Return all nodes as one block."""
        if direction not in self._blocks:
            rows = self._rows(direction)
            self._blocks[direction] = Block(0, rows.starts, rows.neighbours, rows.weights)
        return self._blocks[direction]


def reduce_rows(combine: np.ufunc, block: Block, values: Values, empty: Any, weigh: np.ufunc | None = None) -> Values:
    """Reduce the values of each node's neighbours by `combine`; `empty` for nodes without neighbours.

    `weigh` is applied to each value and the weight of the edge first. Works in pieces that fit the processor's cache,
    in reused memory: a fresh page costs more than the computation on it.
    """
    if block.highest >= len(values):
        raise CorruptGraph(
            f"an edge leads to node number {block.highest} of {len(values)}",
            hint="the topology is damaged; `omnigraph fsck` says whether the edges are",
        )
    found = np.empty(len(block.filled), values.dtype)
    longest = max((len(block.neighbours[piece.neighbours]) for piece in block.pieces), default=0)
    places, gathered = np.empty(longest, np.intp), np.empty(longest, values.dtype)
    for piece in block.pieces:
        neighbours = block.neighbours[piece.neighbours]
        at, mine = places[: len(neighbours)], gathered[: len(neighbours)]
        at[:] = neighbours
        np.take(values, at, out=mine, mode="clip")  # nothing is out of range, and any other mode copies
        if weigh is not None:
            assert block.weights is not None, "a block without weights cannot be weighed"
            weigh(mine, block.weights[piece.neighbours], out=mine)
        combine.reduceat(mine, piece.starts, out=found[piece.nodes])
    result = np.full(block.size, empty, values.dtype)
    result[block.filled] = found
    return result
