"""Rule: order the steps of a block, and place its filters.

Start where the fewest rows are expected; follow first the edges between bound ends, because they only drop rows, then
the one with the smallest fan-out; apply every filter as soon as its variables are bound. Paths to all nodes are
expensive: when the far end of a shortest path has a filter of its own, it is bound first. What was written first
decides ties.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.query import ir
from omnigraph.query.plan.estimate import estimate_scan, fan_out, selectivity
from omnigraph.query.plan.model import Expand, Filter, Optional, Scan, Sizes, Step, Without
from omnigraph.query.plan.pushdown import is_pushable
from omnigraph.query.plan.seek import seek_of


class BlockOrder:
    """Orders one block. `bound` are the variables that outer rows bind already."""

    def __init__(
        self, block: ir.Block, types: Mapping[str, tuple[str, ...]], bound: frozenset[str], rows: float, sizes: Sizes
    ) -> None:
        self._block = block
        self._types = {**types, **{n.var: n.types for n in block.nodes}}
        self._bound = set(bound)
        self._rows = rows
        self._sizes = sizes
        self._edges = list(block.edges)
        self._filters = list(block.filters)
        self._steps: list[Step] = []

    def steps(self) -> tuple[tuple[Step, ...], float]:
        """Return the block's steps, and the estimated number of rows they leave."""
        self._apply_filters()
        while True:
            edge = self._next_edge()
            if edge is not None:
                self._expand(edge)
            elif any(node.var not in self._bound for node in self._block.nodes):
                self._scan()
            else:
                break
            self._apply_filters()
        for optional in self._block.optionals:
            inner, rows = self._inner(optional)
            self._rows = max(self._rows, rows)
            self._steps.append(Optional(optional, inner, self._rows))
            self._bind_all(optional)
            self._apply_filters()
        for negation in self._block.negations:
            inner, _ = self._inner(negation)
            self._rows *= 0.5
            self._steps.append(Without(negation, inner, self._rows))
        return tuple(self._steps), self._rows

    def _inner(self, block: ir.Block) -> tuple[tuple[Step, ...], float]:
        return BlockOrder(block, self._types, frozenset(self._bound), self._rows, self._sizes).steps()

    def _bind_all(self, block: ir.Block) -> None:
        """Mark the variables of an optional as bound after it, whether it matched or not."""
        for each in (block, *block.optionals):
            self._bound |= {n.var for n in each.nodes}
            self._bound |= {v for e in each.edges for v in (e.edge_var, e.path_var) if v is not None}
            self._types |= {n.var: n.types for n in each.nodes}
        for each in block.optionals:
            self._bind_all(each)

    def _apply_filters(self) -> None:
        for condition in [f for f in self._filters if ir.variables(f) <= self._bound]:
            self._filters.remove(condition)
            self._rows *= selectivity(condition)
            self._steps.append(Filter(condition, self._rows))

    def _next_edge(self) -> ir.EdgePattern | None:
        best: tuple[float, int] | None = None
        for index, edge in enumerate(self._edges):
            ends = edge.source in self._bound, edge.target in self._bound
            if all(ends):
                return edge
            other = edge.target if ends[0] else edge.source
            waits = edge.path_var is not None and bool(self._own(other))
            if any(ends) and not waits:
                cost = self._cost(edge, edge.source if ends[0] else edge.target, other)
                best = min(best, (cost, index)) if best is not None else (cost, index)
        return self._edges[best[1]] if best is not None else None

    def _cost(self, edge: ir.EdgePattern, near: str, far: str) -> float:
        cost = fan_out(edge, self._types[near], self._sizes)
        for condition in self._own(far):
            cost *= selectivity(condition)
        return cost

    def _own(self, var: str) -> tuple[ir.Expr, ...]:
        return tuple(f for f in self._filters if ir.variables(f) == {var})

    def _expand(self, edge: ir.EdgePattern) -> None:
        self._edges.remove(edge)
        forward = edge.source in self._bound
        near, far = (edge.source, edge.target) if forward else (edge.target, edge.source)
        closes = far in self._bound
        own = () if closes or edge.path_var is not None else self._own(far)
        rows = self._rows * fan_out(edge, self._types[near], self._sizes)
        if closes:
            rows = min(self._rows, rows / max(1, self._sizes.of(self._types[far])))
        for condition in own:
            self._filters.remove(condition)
            rows *= selectivity(condition)
        self._rows = rows
        self._bound |= {v for v in (far, edge.edge_var, edge.path_var) if v is not None}
        self._steps.append(Expand(edge, near, far, forward, closes, own, rows))

    def _scan(self) -> None:
        waiting = [n.var for n in self._block.nodes if n.var not in self._bound]
        options = [self._scan_of(var) for var in waiting]
        best = min(options, key=lambda scan: scan.rows)
        for condition in best.filters:
            self._filters.remove(condition)
        self._rows *= best.rows
        self._bound.add(best.var)
        self._steps.append(best)

    def _scan_of(self, var: str) -> Scan:
        types, own = self._types[var], self._own(var)
        seek = seek_of(var, types, own, self._sizes)
        rows = estimate_scan(types, own, sought=seek is not None, sizes=self._sizes)
        return Scan(var, types, own, seek, tuple(f for f in own if is_pushable(f)), rows)
