"""Counting paths without making them.

When a query only counts rows, and everything else it asks is about one variable, its rows need not exist: the number
of ways in which a tree-shaped pattern extends a node is a product of sums over its neighbours, computed from the leaves
up. Degrees come straight from the index pointers. Where a filter leaves few nodes to start from, making their rows is
cheaper, and this stands aside.
"""

from __future__ import annotations

import numpy as np

from omnigraph.execution.arrow.data import GraphData, Ints
from omnigraph.execution.arrow.evaluate import Evaluator, Request, Scope
from omnigraph.execution.arrow.frame import Frame
from omnigraph.execution.arrow.topology import REVERSED, Adjacency
from omnigraph.query import ir

FEW = 1000


def counted_frame(query: ir.QueryIR, data: GraphData, scope: Scope, request: Request) -> Frame | None:
    """One row per node of the counting query's root, weighted by its number of matches; None when it does not apply."""
    roots = _roots(query)
    if not roots:
        return None
    counter = _Counter(query.pattern, data, scope, request)
    known = {var: counter.candidates(var) for f in query.pattern.filters for var in ir.variables(f)}
    root = min(roots, key=lambda var: len(known[var]) if var in known else data.node_count + 1)
    if any(len(numbers) <= FEW and var != root for var, numbers in known.items()):
        return None
    numbers = known[root] if root in known else counter.candidates(root)
    weights = counter.ways(root, numbers, came_by=None)
    kept = np.flatnonzero(weights)
    return Frame(len(kept), {root: numbers[kept]}, weights=weights[kept])


def _roots(query: ir.QueryIR) -> frozenset[str]:
    """The variable that everything but the counting is about, or all of them when nothing else is asked."""
    block = query.pattern
    simple_edges = all((e.min_hops, e.max_hops) == (1, 1) and e.path_var is None for e in block.edges)
    if not query.is_aggregate or not block.edges or block.optionals or block.negations or not simple_edges:
        return frozenset()
    if not _is_tree(block) or any(len(ir.variables(f)) > 1 for f in block.filters):
        return frozenset()
    exprs = [*(c.expr for c in query.outputs), *(k.expr for k in query.order)]
    if query.having is not None:
        exprs.append(query.having)
    aggregates = [each for expr in exprs for each in ir.walk(expr) if isinstance(each, ir.Aggregate)]
    if not all(
        a.function == "count" and not a.distinct and isinstance(a.operand, ir.Entity | None) for a in aggregates
    ):
        return frozenset()
    used = frozenset().union(*(_outside_aggregates(expr) for expr in exprs))
    edge_vars = {e.edge_var for e in block.edges}
    if len(used) > 1 or used & edge_vars or any(ir.variables(f) & edge_vars for f in block.filters):
        return frozenset()
    return used or frozenset(node.var for node in block.nodes)


def _is_tree(block: ir.Block) -> bool:
    """Connected, and without a cycle."""
    group = {node.var: node.var for node in block.nodes}
    for edge in block.edges:
        if edge.source not in group or edge.target not in group or group[edge.source] == group[edge.target]:
            return False
        old, new = group[edge.source], group[edge.target]
        group = {var: new if g == old else g for var, g in group.items()}
    return len(set(group.values())) == 1


def _outside_aggregates(expr: ir.Expr) -> frozenset[str]:
    if isinstance(expr, ir.Aggregate):
        return frozenset()
    own = frozenset({expr.var}) if hasattr(expr, "var") else frozenset()
    return own.union(*(_outside_aggregates(child) for child in ir.children(expr)))


class _Counter:
    """Counts, for each node of a variable, the ways to match the part of the tree that hangs below it."""

    def __init__(self, block: ir.Block, data: GraphData, scope: Scope, request: Request) -> None:
        self._block = block
        self._data = data
        self._scope = scope
        self._request = request

    def candidates(self, var: str) -> Ints:
        """Nodes of a variable that its own filters allow."""
        numbers = self._data.all_of(self._scope.nodes[var])
        for condition in self._block.filters:
            if ir.variables(condition) == {var}:
                frame = Frame(len(numbers), {var: numbers})
                numbers = numbers[Evaluator(self._data, self._scope, self._request, frame).mask(condition)]
        return numbers

    def ways(self, var: str, numbers: Ints, came_by: ir.EdgePattern | None) -> Ints:
        """How often each of the given nodes of `var` matches the edges below it."""
        product = np.ones(len(numbers), np.int64)
        for edge in self._block.edges:
            if edge is came_by or var not in (edge.source, edge.target):
                continue
            forward = edge.source == var
            below = edge.target if forward else edge.source
            direction = edge.direction if forward else REVERSED[edge.direction]
            adjacency = self._data.adjacency(edge.edge_types, direction, distinct=edge.edge_var is None)
            product *= self._sums(adjacency, numbers, below, edge)
        return product

    def _sums(self, adjacency: Adjacency, numbers: Ints, below: str, edge: ir.EdgePattern) -> Ints:
        if self._is_free_leaf(below, edge):
            return adjacency.degrees(numbers)
        allowed = self.candidates(below)
        weights = np.zeros(self._data.node_count, np.int64)
        weights[allowed] = self.ways(below, allowed, came_by=edge)
        running = np.zeros(len(adjacency.targets) + 1, np.int64)
        np.cumsum(weights[adjacency.targets + adjacency.far_offset], out=running[1:])
        starts = adjacency.starts
        places = numbers - adjacency.near_offset
        inside = (places >= 0) & (places < len(starts) - 1)
        places = np.where(inside, places, 0)
        sums: Ints = np.where(inside, running[starts[places + 1]] - running[starts[places]], 0)
        return sums

    def _is_free_leaf(self, var: str, came_by: ir.EdgePattern) -> bool:
        """Nothing hangs below it and nothing restricts it: every neighbour counts once."""
        if any(e is not came_by and var in (e.source, e.target) for e in self._block.edges):
            return False
        if any(ir.variables(f) == {var} for f in self._block.filters):
            return False
        reachable = self._ends(came_by, var)
        return reachable <= set(self._scope.nodes[var])

    def _ends(self, edge: ir.EdgePattern, var: str) -> set[str]:
        """The node types that a traversal can reach at one of its ends."""
        direction = edge.direction if var == edge.target else REVERSED[edge.direction]
        types = [self._data.catalog.edge(name) for name in edge.edge_types]
        found = {t.target for t in types} if direction != "in" else set()
        return found | ({t.source for t in types} if direction != "out" else set())
