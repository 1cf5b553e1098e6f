"""Count paths without materialising them.

When a query only counts rows, and all its other output refers to one variable, its rows need not be made: the number of
ways in which a tree-shaped pattern extends a node is a product of sums over its neighbours, computed from the leaves
up. Degrees come straight from the index pointers. Where a filter leaves few nodes to start from, making their rows is
cheaper, and this module returns None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from omnigraph.execution.arrow.data import GraphData, Ints, sizes_of
from omnigraph.execution.arrow.evaluate import Request, Scope
from omnigraph.execution.arrow.frame import Frame
from omnigraph.execution.arrow.scan import Scanner
from omnigraph.execution.arrow.topology import Adjacency, Places
from omnigraph.query import ir
from omnigraph.query.plan.model import REVERSED, Scan
from omnigraph.query.plan.pushdown import is_pushable
from omnigraph.query.plan.seek import seek_of

FEW = 1000
NODES_AT_ONCE = 2**14
"""Nodes are counted in blocks of this size, so that intermediate arrays fit the processor's cache."""
_INT32 = 2**31
SPARSE = 8
"""Counting from few nodes pays below one edge of theirs per this many edges."""

Factor = Callable[[Ints, slice], Ints]
"""Matches below some nodes, and the places of those nodes among all that are counted."""


def counted_frame(
    query: ir.QueryIR, roots: frozenset[str], data: GraphData, scope: Scope, request: Request
) -> Frame | None:
    """Return one row per node of the counting root, weighted by its matches; None when counting does not pay."""
    counter = _Counter(query.pattern, data, scope, request)
    known: dict[str, int] = {}
    filtered = {var for f in query.pattern.filters for var in ir.variables(f)}
    few = 0
    # Small types first: two that leave few nodes decide for matching before a large one is read.
    for var in sorted(filtered, key=lambda v: (sum(data.nodes[t].count for t in scope.nodes[v]), v)):
        known[var] = len(counter.candidates(var))
        if known[var] <= FEW:
            few += 1
            if few > 1 or var not in roots:
                return None

    def cost(var: str) -> tuple[int, int, str]:
        # Of two unrestricted ones take the middle one: the tree below it is shallow.
        edges = sum(var in (e.source, e.target) for e in query.pattern.edges)
        return known.get(var, data.node_count + 1), -edges, var

    root = min(roots, key=cost)
    if any(count <= FEW and var != root for var, count in known.items()):
        return None
    if len(roots) > 1:  # only the number is needed
        data.forget_numbers()
        return _one_row(counter, root, counter.candidates(root) if root in known else None)
    numbers = counter.candidates(root)
    weights = counter.ways(root, numbers, came_by=None)
    if weights.all():
        return Frame(len(numbers), {root: numbers}, weights=weights)
    kept = np.flatnonzero(weights)
    return Frame(len(kept), {root: numbers[kept]}, weights=weights[kept])


def _one_row(counter: _Counter, root: str, numbers: Ints | None) -> Frame:
    """Return one match that represents all of them, or no row when there is none."""
    total, example = counter.total(root, numbers)
    if example is None:
        return Frame(0, {root: np.empty(0, np.int64)}, weights=np.empty(0, np.int64))
    return Frame(1, {root: np.array([example], np.int64)}, weights=np.array([total], np.int64))


class _Counter:
    """Counts, for each node of a variable, the matches of the subtree below it."""

    def __init__(self, block: ir.Block, data: GraphData, scope: Scope, request: Request) -> None:
        self._block = block
        self._data = data
        self._scope = scope
        self._scanner = Scanner(data, scope, request)
        self._sizes = sizes_of(data)
        self._candidates: dict[str, Ints] = {}

    def candidates(self, var: str, among: Ints | None = None) -> Ints:
        """Return the nodes of a variable (or those given) that pass its own filters."""
        own = tuple(f for f in self._block.filters if ir.variables(f) == {var})
        if among is not None:
            return self._scanner.candidates(var, own, among)
        if var not in self._candidates:
            types = self._scope.nodes[var]
            seek = seek_of(var, types, own, self._sizes)
            scan = Scan(var, types, own, seek, tuple(f for f in own if is_pushable(f)), 0.0)
            self._candidates[var] = self._scanner.numbers(scan)
        return self._candidates[var]

    def ways(self, var: str, numbers: Ints, came_by: ir.EdgePattern | None) -> Ints:
        """Return the number of matches of the edges below each of the given nodes of `var`."""
        factors = self._factors(var, numbers, came_by)
        found = np.empty(len(numbers), np.int64)
        for at in range(0, len(numbers), NODES_AT_ONCE):
            part = slice(at, at + NODES_AT_ONCE)
            found[part] = _product(factors, numbers[part], part)
        return found

    def total(self, root: str, numbers: Ints | None) -> tuple[int, int | None]:
        """Return the number of matches, and a root node that has any; of all root nodes if none are given."""
        types = self._scope.nodes[root]
        if numbers is None and len(types) > 1:
            numbers = self.candidates(root)
        span = self._data.nodes[types[0]]
        factors = self._factors(root, numbers, None)
        total, example = 0, None
        for at in range(0, span.count if numbers is None else len(numbers), NODES_AT_ONCE):
            part = slice(at, at + NODES_AT_ONCE)
            nodes = span.numbers(part) if numbers is None else numbers[part]
            ways = _product(factors, nodes, part)
            total += int(ways.sum())
            if example is None and ways.any():
                example = int(nodes[np.argmax(ways > 0)])
        return total, example

    def _factors(self, var: str, numbers: Ints | None, came_by: ir.EdgePattern | None) -> list[Factor]:
        """Return the factors of the edges below a variable; `numbers` are the only nodes that will be used."""
        found = []
        for edge in self._block.edges:
            if edge is came_by or var not in (edge.source, edge.target):
                continue
            forward = edge.source == var
            below = edge.target if forward else edge.source
            direction = edge.direction if forward else REVERSED[edge.direction]
            adjacency = self._data.adjacency(edge.edge_types, direction, distinct=edge.edge_var is None)
            found.append(self._factor(adjacency, numbers, below, edge))
        return found

    def _factor(self, adjacency: Adjacency, numbers: Ints | None, below: str, edge: ir.EdgePattern) -> Factor:
        if self._is_free_leaf(below, edge):
            return lambda nodes, _part: adjacency.degrees(nodes)
        if numbers is not None and _edges_of(adjacency, numbers) * SPARSE < len(adjacency.targets):
            sums = self._sums_of_few(adjacency, numbers, below, edge)
            return lambda _nodes, part: sums[part]
        allowed = self.candidates(below)
        least, most = adjacency.far_offset, adjacency.far_offset + adjacency.far_count
        if len(allowed) and not (least <= int(allowed.min()) and int(allowed.max()) < most):
            allowed = allowed[(allowed >= least) & (allowed < most)]
        weights = self._weights(below, allowed, edge, most - least, least)
        self._candidates.pop(below, None)  # every variable of a tree is below one other only
        return lambda nodes, _part: adjacency.row_sums(weights, nodes)

    def _weights(self, below: str, allowed: Ints, edge: ir.EdgePattern, count: int, least: int) -> Places:
        """Return the matches below each node that an edge can reach, in the narrowest type that holds them."""
        if all(e is edge or below not in (e.source, e.target) for e in self._block.edges):
            leaves = np.zeros(count, np.uint8)
            leaves[allowed - least] = 1
            return leaves
        ways = self.ways(below, allowed, came_by=edge)
        weights = np.zeros(count, np.int32 if int(ways.max(initial=0)) < _INT32 else np.int64)
        weights[allowed - least] = ways
        return weights

    def _sums_of_few(self, adjacency: Adjacency, numbers: Ints, below: str, edge: ir.EdgePattern) -> Ints:
        """Sum the matches below the reached nodes only."""
        rows, places = adjacency.expand(numbers)
        reached, which = np.unique(adjacency.reached(places), return_inverse=True)
        allowed = self.candidates(below, among=reached[self._is_of_types(below, reached)])
        weights = np.zeros(len(reached), np.int64)
        weights[np.searchsorted(reached, allowed)] = self.ways(below, allowed, came_by=edge)
        sums = np.zeros(len(numbers), np.int64)
        np.add.at(sums, rows, weights[which])
        return sums

    def _is_of_types(self, var: str, numbers: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
        mask = np.zeros(len(numbers), np.bool_)
        for name in self._scope.nodes[var]:
            span = self._data.nodes[name]
            mask |= (numbers >= span.offset) & (numbers < span.offset + span.count)
        return mask

    def _is_free_leaf(self, var: str, came_by: ir.EdgePattern) -> bool:
        """Return whether a variable has no edges below it and no restriction: every neighbour counts once."""
        if any(e is not came_by and var in (e.source, e.target) for e in self._block.edges):
            return False
        if any(ir.variables(f) == {var} for f in self._block.filters):
            return False
        direction = came_by.direction if var == came_by.target else REVERSED[came_by.direction]
        return self._data.far_types(came_by.edge_types, direction) <= set(self._scope.nodes[var])


def _product(factors: list[Factor], nodes: Ints, part: slice) -> Ints:
    product = np.ones(len(nodes), np.int64)
    for factor in factors:
        product *= factor(nodes, part)
    return product


def _edges_of(adjacency: Adjacency, numbers: Ints) -> int:
    parts = (numbers[at : at + NODES_AT_ONCE] for at in range(0, len(numbers), NODES_AT_ONCE))
    return sum(int(adjacency.degrees(part).sum()) for part in parts)
