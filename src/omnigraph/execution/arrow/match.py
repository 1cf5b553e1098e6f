"""Match a pattern: execute the steps of a plan into a frame of bindings."""

from __future__ import annotations

from collections import Counter

import numpy as np

from omnigraph.errors import LimitExceeded
from omnigraph.execution.arrow.data import GraphData, Ints
from omnigraph.execution.arrow.evaluate import Evaluator, Request, Scope
from omnigraph.execution.arrow.frame import Bools, Frame, concat
from omnigraph.execution.arrow.governor import Governor
from omnigraph.execution.arrow.paths import SearchTree, meet
from omnigraph.execution.arrow.scan import Scanner
from omnigraph.execution.arrow.topology import Neighbourhood, reach
from omnigraph.query import ir
from omnigraph.query.plan.model import REVERSED, CountPaths, Expand, Filter, Optional, Scan, Step, Without

FEW_GOALS = 8
"""Up to this many goals of one start, two searches that meet are cheaper than one tree."""


def scope_of(block: ir.Block, outer: Scope | None = None) -> Scope:
    """Return the types of the variables visible after a block: its own, its optionals', and those around it."""
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
    """Executes the matching steps of one query on one snapshot."""

    def __init__(self, data: GraphData, scope: Scope, request: Request, governor: Governor) -> None:
        self._data = data
        self._scope = scope
        self._request = request
        self._governor = governor
        self._scanner = Scanner(data, scope, request)
        self._depth = 0

    def run(self, steps: tuple[Step, ...], frame: Frame, carried: tuple[frozenset[str], ...] | None = None) -> Frame:
        """Return all extensions of the rows of `frame` over some steps; `carried` are the variables kept after each."""
        for index, step in enumerate(steps):
            with self._governor.operator(step) as measured:
                frame = self._step(step, frame, carried[index] if carried is not None else None)
                measured.rows += frame.length
        return frame

    def first(self, scan: Scan) -> Ints:
        """Return the nodes of the scan that a plan begins with."""
        with self._governor.operator(scan) as measured:
            numbers = self._scanner.numbers(scan)
            measured.rows += len(numbers)
        return numbers

    def _step(self, step: Step, frame: Frame, carried: frozenset[str] | None) -> Frame:
        match step:
            case Scan():
                return self._beside(step.var, self._scanner.numbers(step), frame.only(carried))
            case Expand():
                return self._expand(step, frame, carried).only(carried)
            case Filter(condition):
                return frame.keep(self._evaluator(frame).mask(condition)) if frame.length else frame
            case Optional():
                return self._optional(step, frame)
            case Without():
                return self._without(step, frame)
            case CountPaths():
                raise AssertionError("counting is not a matching step")

    def _evaluator(self, frame: Frame) -> Evaluator:
        return Evaluator(self._data, self._scope, self._request, frame)

    def _beside(self, var: str, numbers: Ints, frame: Frame) -> Frame:
        """Bind a variable to every number, for every row."""
        self._governor.check_rows(frame.length * len(numbers), len(frame.numbers) + 1)
        if frame.length == 1:
            rows = np.zeros(len(numbers), np.int64)
            return (frame.take(rows) if frame.numbers or frame.paths else Frame(len(numbers))).bind(var, numbers)
        rows = np.repeat(np.arange(frame.length, dtype=np.int64), len(numbers))
        return frame.take(rows).bind(var, np.tile(numbers, frame.length))

    # --- traversals -----------------------------------------------------------------------------------------------

    def _expand(self, step: Expand, frame: Frame, carried: frozenset[str] | None) -> Frame:
        edge = step.edge
        # A variable that an optional left unbound has no neighbours.
        frame = frame.keep(frame.numbers[step.near] >= 0)
        low, high = self._hops(edge)
        direction = step.direction
        way = self._data.neighbourhood(edge.edge_types, direction, distinct=edge.edge_var is None)
        if edge.path_var is not None:
            return self._paths(step, way, (low, high), frame)
        sources = frame.numbers[step.near]
        if (low, high) == (1, 1):
            rows, numbers, edges = way.neighbours(sources, self._guard(frame))
        else:
            rows, numbers = self._many_hops(way, sources, (low, high), frame)
            edges = np.empty(0, np.int64)
        kept = self._fits(step, frame, rows, numbers)
        if not kept.all():
            rows, numbers, edges = rows[kept], numbers[kept], edges[kept] if len(edges) else edges
        # Edges to exactly one neighbour leave the rows as they are.
        slim = frame.only(carried)
        extended = slim if len(rows) == frame.length and _is_counting(rows) else slim.take(rows)
        if edge.edge_var is not None:
            extended = extended.bind(edge.edge_var, edges)
        return extended if step.closes else extended.bind(step.far, numbers)

    def _guard(self, frame: Frame) -> Guarding:
        return Guarding(self._governor, len(frame.numbers) + 1)

    def _hops(self, edge: ir.EdgePattern) -> tuple[int, int | None]:
        def number(bound: ir.Expr | int | None) -> int | None:
            if bound is None or isinstance(bound, int):
                return bound
            value: int = self._evaluator(Frame(1)).scalar(bound).as_py()
            return value

        low, high = number(edge.min_hops), number(edge.max_hops)
        assert low is not None
        if low < 1 or (high is not None and high < low):
            raise LimitExceeded(f"hop bounds {{{low},{high}}} are impossible", hint="use 1 <= min <= max")
        return low, high

    def _many_hops(
        self, way: Neighbourhood, sources: Ints, hops: tuple[int, int | None], frame: Frame
    ) -> tuple[Ints, Ints]:
        distinct, which = np.unique(sources, return_inverse=True)
        guard = self._guard(frame)
        repeats = np.bincount(which, minlength=len(distinct))
        found: list[Ints] = []
        total = 0
        for source, times in zip(distinct.tolist(), repeats.tolist(), strict=True):
            found.append(reach(way, source, *hops, guard)[0])
            total += len(found[-1]) * times
            guard(total)
        counts = np.array([len(f) for f in found], np.int64)
        rows = np.repeat(np.arange(len(sources), dtype=np.int64), counts[which])
        numbers = np.concatenate([found[i] for i in which]) if len(which) else np.empty(0, np.int64)
        return rows, numbers

    def _fits(self, step: Expand, frame: Frame, rows: Ints, numbers: Ints) -> Bools:
        """Return which of the reached nodes the far variable may be."""
        if step.closes:
            same: Bools = numbers == frame.numbers[step.far][rows]
            return same
        types = self._scope.nodes[step.far]
        if self._data.far_types(step.edge.edge_types, step.direction) <= set(types):
            mask = np.ones(len(numbers), np.bool_)
        else:
            mask = self._of_types(types, numbers)
        if not step.own:
            return mask
        places = np.flatnonzero(mask)
        if len(places) > 4 * sum(self._data.nodes[t].count for t in types):
            # Many rows, few nodes: test each reached node once.
            allowed = np.zeros(self._data.node_count, np.bool_)
            allowed[numbers[places]] = True
            fitting = self._scanner.candidates(step.far, step.own, np.flatnonzero(allowed))
            allowed[:] = False
            allowed[fitting] = True
            return mask & allowed[numbers]
        for condition in step.own:
            places = places[self._scanner.mask(step.far, condition, numbers[places])]
        mask[:] = False
        mask[places] = True
        return mask

    def _of_types(self, types: tuple[str, ...], numbers: Ints) -> Bools:
        mask = np.zeros(len(numbers), np.bool_)
        for name in types:
            span = self._data.nodes[name]
            mask |= (numbers >= span.offset) & (numbers < span.offset + span.count)
        return mask

    def _paths(self, step: Expand, way: Neighbourhood, hops: tuple[int, int | None], frame: Frame) -> Frame:
        assert step.edge.path_var is not None
        if not step.closes:
            rows, numbers = self._many_hops(way, frame.numbers[step.near], hops, frame)
            kept = self._of_types(self._scope.nodes[step.far], numbers)
            frame = frame.take(rows[kept]).bind(step.far, numbers[kept])
        low, high = hops
        starts, goals = frame.numbers[step.near].tolist(), frame.numbers[step.far].tolist()
        goals_of = Counter(starts)
        direction = REVERSED[step.direction]
        back = self._data.neighbourhood(step.edge.edge_types, direction, distinct=True)
        guard = self._guard(frame)
        trees: dict[int, SearchTree] = {}
        paths = []
        for start, goal in zip(starts, goals, strict=True):
            if goals_of[start] <= FEW_GOALS:
                path = meet(way, back, start, goal, high, guard)
            else:
                if start not in trees:
                    trees[start] = SearchTree(way, start, high, guard)
                path = trees[start].path_to(goal)
            paths.append(path if path is not None and len(path) > low else None)
        found = np.array([p is not None for p in paths], np.bool_)
        kept_paths = [p if step.forward else p[::-1] for p in paths if p is not None]
        return frame.take(np.flatnonzero(found)).bind_path(step.edge.path_var, kept_paths)

    # --- inner blocks ---------------------------------------------------------------------------------------------

    def _inner(self, steps: tuple[Step, ...], frame: Frame) -> tuple[Frame, Ints]:
        """Run inner steps for every row; return the matches with the row that each belongs to."""
        self._depth += 1
        row = f"#{self._depth}"
        inner = self.run(steps, frame.bind(row, np.arange(frame.length, dtype=np.int64)))
        self._depth -= 1
        return inner.without(row), inner.numbers[row]

    def _optional(self, step: Optional, frame: Frame) -> Frame:
        inner, rows = self._inner(step.steps, frame)
        lonely = np.ones(frame.length, np.bool_)
        lonely[rows] = False
        return concat(inner, frame.take(np.flatnonzero(lonely)))

    def _without(self, step: Without, frame: Frame) -> Frame:
        # Names of a negated block are local: another block may use them for another variable.
        inner = Matcher(self._data, scope_of(step.block, self._scope), self._request, self._governor)
        inner._depth = self._depth
        _, rows = inner._inner(step.steps, frame)
        mask = np.ones(frame.length, np.bool_)
        mask[rows] = False
        return frame.keep(mask)


def _is_counting(rows: Ints) -> bool:
    """Return whether these are 0, 1, 2 and so on."""
    return not len(rows) or (rows[0] == 0 and bool((rows[1:] - rows[:-1] == 1).all()))


class Guarding:
    """Refuses to make too many rows of a given number of variables."""

    def __init__(self, governor: Governor, width: int) -> None:
        self._governor = governor
        self._width = width

    def __call__(self, rows: int) -> None:
        """Refuse, or do nothing."""
        self._governor.check_rows(rows, self._width)
