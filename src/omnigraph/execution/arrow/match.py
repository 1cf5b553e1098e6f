"""Matching a pattern: blocks of nodes, edges, filters, optionals and negations become a frame of bindings.

A block starts where the fewest candidates are, expands along edges from what is bound, and applies each filter as soon
as its variables are. The order in which things were written does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from omnigraph.errors import LimitExceeded
from omnigraph.execution.arrow.data import GraphData, Ints
from omnigraph.execution.arrow.evaluate import Evaluator, Request, Scope
from omnigraph.execution.arrow.frame import Bools, Frame, concat
from omnigraph.execution.arrow.topology import REVERSED, Adjacency, SearchTree, reach
from omnigraph.query import ir


@dataclass(frozen=True)
class Limits:
    """Where a runaway query stops."""

    max_rows: int = 50_000_000


def scope_of(block: ir.Block, outer: Scope | None = None) -> Scope:
    """The types of the variables that are visible after a block: its own, its optionals', and those around it."""
    nodes = dict(outer.nodes) if outer else {}
    edges = dict(outer.edges) if outer else {}
    pending = [block]
    while pending:
        each = pending.pop()
        nodes.update({n.var: n.types for n in each.nodes})
        edges.update({e.edge_var: e.edge_types for e in each.edges if e.edge_var is not None})
        pending.extend(each.optionals)
    return Scope(nodes, edges)


class Matcher:
    """Matches blocks of one query against one snapshot."""

    def __init__(self, data: GraphData, scope: Scope, request: Request, limits: Limits) -> None:
        self._data = data
        self._scope = scope
        self._request = request
        self._limits = limits
        self._depth = 0

    def match(self, block: ir.Block, frame: Frame) -> Frame:
        """Every way to extend the rows of `frame` over a block."""
        work = _Work(list(block.edges), [n.var for n in block.nodes], list(block.filters))
        frame = self._filter(work, frame)
        while True:
            step = self._next_edge(work, frame)
            if step is not None:
                work.edges.remove(step)
                frame = self._traverse(step, work, frame)
            elif any(not frame.is_bound(var) for var in work.nodes):
                frame = self._start(work, frame)
            else:
                break
            frame = self._filter(work, frame)
        for optional in block.optionals:
            frame = self._filter(work, self._optional(optional, frame))
        for negation in block.negations:
            frame = self._negation(negation, frame)
        return frame

    def evaluator(self, frame: Frame) -> Evaluator:
        """Expressions over a frame."""
        return Evaluator(self._data, self._scope, self._request, frame)

    # --- what to do next ------------------------------------------------------------------------------------------

    def _filter(self, work: _Work, frame: Frame) -> Frame:
        ready = [f for f in work.filters if all(frame.is_bound(v) for v in ir.variables(f))]
        for condition in ready:
            work.filters.remove(condition)
            if frame.length:
                frame = frame.keep(self.evaluator(frame).mask(condition))
        return frame

    def _next_edge(self, work: _Work, frame: Frame) -> ir.EdgePattern | None:
        """An edge between bound ends first, because it only removes rows; then one that starts at a bound end."""
        half_bound = None
        for edge in work.edges:
            ends = frame.is_bound(edge.source), frame.is_bound(edge.target)
            if all(ends):
                return edge
            # Paths to everywhere are dear: when the other end is known by itself, it is bound first.
            other = edge.target if ends[0] else edge.source
            waits = edge.path_var is not None and bool(self._own_filters(other, work))
            if any(ends) and half_bound is None and not waits:
                half_bound = edge
        return half_bound

    def _start(self, work: _Work, frame: Frame) -> Frame:
        """Bind the unbound variable with the fewest candidates, beside every row there is."""
        options = {var: self._candidates(var, work) for var in work.nodes if not frame.is_bound(var)}
        var = min(options, key=lambda v: len(options[v]))
        for condition in self._own_filters(var, work):
            work.filters.remove(condition)
        numbers = options[var]
        self._guard(frame.length * len(numbers))
        rows = np.repeat(np.arange(frame.length, dtype=np.int64), len(numbers))
        return frame.take(rows).bind(var, np.tile(numbers, frame.length))

    def _own_filters(self, var: str, work: _Work) -> list[ir.Expr]:
        return [f for f in work.filters if ir.variables(f) == {var}]

    def _candidates(self, var: str, work: _Work) -> Ints:
        numbers = self._data.all_of(self._scope.nodes[var])
        for condition in self._own_filters(var, work):
            frame = Frame(len(numbers), {var: numbers})
            numbers = numbers[self.evaluator(frame).mask(condition)]
        return numbers

    def _guard(self, rows: int) -> None:
        if rows > self._limits.max_rows:
            raise LimitExceeded(
                f"the query would make {rows:,} rows of bindings; the limit is {self._limits.max_rows:,}",
                hint="add a filter, a limit on hops, or connect the parts of the pattern",
            )

    # --- traversals -----------------------------------------------------------------------------------------------

    def _traverse(self, edge: ir.EdgePattern, work: _Work, frame: Frame) -> Frame:
        forward = frame.is_bound(edge.source)
        near, far = (edge.source, edge.target) if forward else (edge.target, edge.source)
        direction = edge.direction if forward else REVERSED[edge.direction]
        # What an optional left unbound has no neighbours.
        frame = frame.keep(frame.numbers[near] >= 0)
        low, high = self._hops(edge)
        adjacency = self._data.adjacency(edge.edge_types, direction, distinct=edge.edge_var is None)
        if edge.path_var is not None:
            return self._paths(edge, adjacency, near, far, (low, high), frame, forward=forward)
        if (low, high) == (1, 1):
            rows, numbers, edges = self._one_hop(adjacency, frame.numbers[near])
        else:
            rows, numbers = self._many_hops(adjacency, frame.numbers[near], low, high)
            edges = np.empty(0, np.int64)
        kept = self._fits(far, work, frame, rows, numbers)
        rows, numbers = rows[kept], numbers[kept]
        extended = frame.take(rows)
        if edge.edge_var is not None:
            extended = extended.bind(edge.edge_var, edges[kept])
        return extended if frame.is_bound(far) else extended.bind(far, numbers)

    def _hops(self, edge: ir.EdgePattern) -> tuple[int, int | None]:
        def number(bound: ir.Expr | int | None) -> int | None:
            if bound is None or isinstance(bound, int):
                return bound
            value: int = self.evaluator(Frame(1)).scalar(bound).as_py()
            return value

        low, high = number(edge.min_hops), number(edge.max_hops)
        assert low is not None
        if low < 1 or (high is not None and high < low):
            raise LimitExceeded(f"hop bounds {{{low},{high}}} are impossible", hint="use 1 <= min <= max")
        return low, high

    def _one_hop(self, adjacency: Adjacency, sources: Ints) -> tuple[Ints, Ints, Ints]:
        self._guard(int(adjacency.degrees(sources).sum()))
        rows, places = adjacency.expand(sources)
        edges = adjacency.edge_numbers(places) if len(adjacency.edges) else np.empty(len(places), np.int64)
        return rows, adjacency.reached(places), edges

    def _many_hops(self, adjacency: Adjacency, sources: Ints, low: int, high: int | None) -> tuple[Ints, Ints]:
        distinct, which = np.unique(sources, return_inverse=True)
        found = [reach(adjacency, int(source), low, high)[0] for source in distinct]
        counts = np.array([len(f) for f in found], np.int64)
        self._guard(int(counts[which].sum()) if len(which) else 0)
        rows = np.repeat(np.arange(len(sources), dtype=np.int64), counts[which])
        numbers = np.concatenate([found[i] for i in which]) if len(which) else np.empty(0, np.int64)
        return rows, numbers

    def _fits(self, far: str, work: _Work, frame: Frame, rows: Ints, numbers: Ints) -> Bools:
        """Which of the reached nodes the far variable may be."""
        if frame.is_bound(far):
            same: Bools = numbers == frame.numbers[far][rows]
            return same
        mask = self._of_types(self._scope.nodes[far], numbers)
        own = self._own_filters(far, work)
        if own and len(numbers) > 4 * sum(self._data.nodes[t].count for t in self._scope.nodes[far]):
            # Many rows, few nodes: judge each node once.
            allowed = np.zeros(self._data.node_count, np.bool_)
            allowed[self._candidates(far, work)] = True
            for condition in own:
                work.filters.remove(condition)
            mask &= allowed[numbers]
        return mask

    def _of_types(self, types: tuple[str, ...], numbers: Ints) -> Bools:
        mask = np.zeros(len(numbers), np.bool_)
        for name in types:
            span = self._data.nodes[name]
            mask |= (numbers >= span.offset) & (numbers < span.offset + span.count)
        return mask

    def _paths(
        self, edge: ir.EdgePattern, adjacency: Adjacency, near: str, far: str, hops: tuple[int, int | None],
        frame: Frame, *, forward: bool,
    ) -> Frame:  # fmt: skip
        assert edge.path_var is not None
        if not frame.is_bound(far):
            rows, numbers = self._many_hops(adjacency, frame.numbers[near], *hops)
            kept = self._of_types(self._scope.nodes[far], numbers)
            frame = frame.take(rows[kept]).bind(far, numbers[kept])
        low, high = hops
        trees: dict[int, SearchTree] = {}
        paths = []
        for start, goal in zip(frame.numbers[near].tolist(), frame.numbers[far].tolist(), strict=True):
            if start not in trees:
                trees[start] = SearchTree(adjacency, start, high)
            path = trees[start].path_to(goal)
            paths.append(path if path is not None and len(path) > low else None)
        found = np.array([p is not None for p in paths], np.bool_)
        kept_paths = [p if forward else p[::-1] for p in paths if p is not None]
        return frame.take(np.flatnonzero(found)).bind_path(edge.path_var, kept_paths)

    # --- inner blocks ---------------------------------------------------------------------------------------------

    def _inner(self, block: ir.Block, frame: Frame) -> tuple[Frame, Ints]:
        """An inner block matched for every row, and the row each match belongs to."""
        self._depth += 1
        row = f"#{self._depth}"
        inner = self.match(block, frame.bind(row, np.arange(frame.length, dtype=np.int64)))
        self._depth -= 1
        return inner.without(row), inner.numbers[row]

    def _optional(self, block: ir.Block, frame: Frame) -> Frame:
        inner, rows = self._inner(block, frame)
        lonely = np.setdiff1d(np.arange(frame.length, dtype=np.int64), rows)
        return concat(inner, frame.take(lonely))

    def _negation(self, block: ir.Block, frame: Frame) -> Frame:
        # Names of a negated block are its own: another block may use them for something else.
        inner = Matcher(self._data, scope_of(block, self._scope), self._request, self._limits)
        inner._depth = self._depth
        _, rows = inner._inner(block, frame)
        mask = np.ones(frame.length, np.bool_)
        mask[rows] = False
        return frame.keep(mask)


@dataclass
class _Work:
    """What of a block is still to be done."""

    edges: list[ir.EdgePattern]
    nodes: list[str]
    filters: list[ir.Expr]
