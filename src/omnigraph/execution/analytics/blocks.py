"""The unit of work of an algorithm: the neighbours of a range of nodes, and who runs kernels on such ranges.

A kernel is a module-level function of a block and some vectors over all nodes; it returns values for the block's own
nodes. Each node's value is computed inside one block from its neighbours in one order, so the number of blocks, and
the machine that a block is on, never change a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Ints = np.ndarray[Any, np.dtype[np.int64]]
Values = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Block:
    """Neighbours of the nodes `begin .. begin + len(starts) - 1`; `starts` counts from the block's first neighbour."""

    begin: int
    starts: Ints
    neighbours: Ints

    @property
    def size(self) -> int:
        """How many nodes the block is about."""
        return len(self.starts) - 1


Kernel = Callable[..., Values]


class Runner(Protocol):
    """Runs one kernel over every block of a direction and joins what they return."""

    def degrees(self, direction: str) -> Ints:
        """How many neighbours each node has."""

    def run(self, direction: str, kernel: Kernel, *vectors: Values) -> Values:
        """Values for all nodes, in node order."""


@dataclass(frozen=True)
class Rows:
    """Compressed rows over all nodes."""

    starts: Ints
    neighbours: Ints

    @property
    def node_count(self) -> int:
        """Nodes."""
        return len(self.starts) - 1

    def degrees(self) -> Ints:
        """Neighbours of each node, parallel edges counted each."""
        return np.diff(self.starts)

    def blocks(self, count: int) -> Iterator[Block]:
        """Ranges of nodes with about equally many neighbours each."""
        nodes = self.node_count
        wanted = np.linspace(0, len(self.neighbours) + nodes, count + 1)[1:-1]
        cuts = np.searchsorted(self.starts[:-1] + np.arange(nodes), wanted)
        edges = np.unique(np.concatenate([[0], cuts, [nodes]]))
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            first, last = self.starts[begin], self.starts[end]
            yield Block(begin, self.starts[begin : end + 1] - first, self.neighbours[first:last])


class LocalRunner:
    """Everything as one block, in this process."""

    def __init__(self, rows: Callable[[str], Rows]) -> None:
        self._rows = rows

    def degrees(self, direction: str) -> Ints:
        """How many neighbours each node has."""
        return self._rows(direction).degrees()

    def run(self, direction: str, kernel: Kernel, *vectors: Values) -> Values:
        """Values for all nodes, in node order."""
        rows = self._rows(direction)
        return kernel(Block(0, rows.starts, rows.neighbours), *vectors)


def reduce_rows(combine: np.ufunc, block: Block, values: Values, empty: Any) -> Values:
    """`combine` over the neighbours' values of each node of a block; `empty` for nodes without neighbours."""
    result = np.full(block.size, empty, values.dtype)
    filled = np.flatnonzero(np.diff(block.starts))
    if len(filled):
        result[filled] = combine.reduceat(np.take(values, block.neighbours), block.starts[filled])
    return result
