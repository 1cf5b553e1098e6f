"""Runs a `QueryIR` over a plain graph by trying everything.

A result row is one assignment of the pattern's variables under which the whole pattern holds: every node variable
stands for a node of its types, every named edge for a stored edge between its ends, and between the ends of an unnamed
one there is a walk of the wanted length. So nodes are tried one by one in nested loops, edges are looked up in lists,
distances are found by plain breadth-first search. Nothing here is meant to be fast.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from omnigraph.query import ir
from omnigraph.schema.catalog import Catalog
from tests.reference.data import EdgeRef, NodeRef, PathRef, PlainGraph, Row, edges_of, has_node
from tests.reference.expressions import EvaluationError, Evaluator, Place, as_key

NOW = dt.datetime(2024, 6, 1, 12, tzinfo=dt.UTC)
MOST_ROWS = 20_000
ResultRow = dict[str, Any]


class TooManyRows(Exception):
    """The query is beyond what trying everything can do."""


@dataclass(frozen=True)
class Outcome:
    """What a query returns: `rows` after offset and limit, `all_rows` before them, and the sort keys of all rows."""

    columns: list[str]
    rows: list[ResultRow]
    all_rows: list[ResultRow]
    sort_keys: list[tuple[Any, ...]]


def interpret(
    query: ir.QueryIR,
    graph: PlainGraph,
    catalog: Catalog,
    params: Mapping[str, Any] | None = None,
    now: dt.datetime = NOW,
) -> Outcome:
    """Run a query; `params` are bound already."""
    return Interpreter(graph, catalog, dict(params or {}), now).run(query)


@dataclass
class Interpreter:
    """One run over one graph."""

    graph: PlainGraph
    catalog: Catalog
    params: Mapping[str, Any]
    now: dt.datetime
    # Paths from a node by pattern, so that each is searched once.
    known_paths: dict[tuple[Any, ...], dict[NodeRef, PathRef]] = field(default_factory=dict)
    tried: int = 0

    def __post_init__(self) -> None:
        self.evaluator = Evaluator(self.graph, self.catalog, self.params, self.now)

    def run(self, query: ir.QueryIR) -> Outcome:
        rows = list(self.matches(query.pattern, {}))
        places = self._grouped(query, rows) if query.is_aggregate else [Place(row) for row in self._by_id(rows)]
        named = []
        for place in places:
            outputs = {column.name: self.evaluator.value(column.expr, place) for column in query.outputs}
            named.append(Place(place.row, place.group, outputs))
        if query.having is not None:
            named = [place for place in named if self.evaluator.is_true(query.having, place)]
        if query.distinct:
            named = list({as_key(place.outputs): place for place in reversed(named)}.values())[::-1]
        keyed = [(tuple(self.evaluator.value(key.expr, place) for key in query.order), place) for place in named]
        for index, key in reversed(list(enumerate(query.order))):
            keyed.sort(key=lambda each, at=index: (each[0][at] is not None, each[0][at]), reverse=key.descending)
        found = [dict(place.outputs) for _, place in keyed]
        offset, limit = self._count(query.offset) or 0, self._count(query.limit)
        return Outcome(
            columns=[column.name for column in query.outputs],
            rows=found[offset:] if limit is None else found[offset : offset + limit],
            all_rows=found,
            sort_keys=[keys for keys, _ in keyed],
        )

    # --- pattern ------------------------------------------------------------------------------------------------------

    def matches(self, block: ir.Block, around: Row) -> Iterator[Row]:
        """Every assignment of a block's variables that fits the row around it."""
        for bound in self._bind_nodes(block, list(block.nodes), around):
            for joined in self._bind_edges(block, list(block.edges), bound):
                for row in self._bind_optionals(list(block.optionals), joined):
                    if self._holds(block, row):
                        yield row

    def _bind_nodes(self, block: ir.Block, nodes: list[ir.NodePattern], row: Row) -> Iterator[Row]:
        if not nodes:
            yield row
            return
        for type_name in nodes[0].types:
            for node_id in self.graph["nodes"].get(type_name, {}):
                bound = {**row, nodes[0].var: NodeRef(type_name, node_id)}
                if all(self._may_join(edge, bound) for edge in block.edges):
                    yield from self._bind_nodes(block, nodes[1:], bound)

    def _may_join(self, edge: ir.EdgePattern, row: Row) -> bool:
        """False when both ends are bound and nothing joins them: saves trying the rest."""
        if edge.source not in row or edge.target not in row:
            return True
        return next(self._joins(edge, row), None) is not None

    def _bind_edges(self, block: ir.Block, edges: list[ir.EdgePattern], row: Row) -> Iterator[Row]:
        if not edges:
            yield row
            return
        for joined in self._joins(edges[0], row):
            yield from self._bind_edges(block, edges[1:], joined)

    def _joins(self, edge: ir.EdgePattern, row: Row) -> Iterator[Row]:
        """The row once per named edge between two bound ends; once in all when the edge has no name."""
        source, target = row[edge.source], row[edge.target]
        if source is None or target is None:
            return
        assert isinstance(source, NodeRef)
        assert isinstance(target, NodeRef)
        if edge.edge_var is not None:
            for each in edges_of(self.graph, self.catalog, edge.edge_types):
                if (source, target) in _steps(each, edge.direction):
                    yield {**row, edge.edge_var: each}
            return
        path = self._paths(edge, source).get(target)
        if path is not None:
            yield row if edge.path_var is None else {**row, edge.path_var: path}

    def _bind_optionals(self, optionals: list[ir.Block], row: Row) -> Iterator[Row]:
        if not optionals:
            yield row
            return
        found = list(self.matches(optionals[0], row))
        if not found:
            found = [{**row, **dict.fromkeys(_variables(optionals[0]))}]
        for each in found:
            yield from self._bind_optionals(optionals[1:], each)

    def _holds(self, block: ir.Block, row: Row) -> bool:
        self.tried += 1
        if self.tried > MOST_ROWS:
            raise TooManyRows
        if not all(self.evaluator.is_true(each, Place(row)) for each in block.filters):
            return False
        return not any(next(self.matches(each, row), None) is not None for each in block.negations)

    # --- walks --------------------------------------------------------------------------------------------------------

    def _paths(self, edge: ir.EdgePattern, start: NodeRef) -> dict[NodeRef, PathRef]:
        """One shortest path to each node within the bounds."""
        low, high = self._hops(edge)
        known = (edge.edge_types, edge.direction, low, high, start)
        if known not in self.known_paths:
            paths = shortest_paths(self.graph, self.catalog, edge.edge_types, edge.direction, start, high)
            self.known_paths[known] = {node: path for node, path in paths.items() if path.length >= low}
        return self.known_paths[known]

    def _hops(self, edge: ir.EdgePattern) -> tuple[int, int | None]:
        low, high = self._number(edge.min_hops), self._number(edge.max_hops)
        assert low is not None
        if low < 1 or (high is not None and high < low):
            raise EvaluationError(f"no number of hops lies between {low} and {high}")
        return low, high

    def _number(self, written: ir.Expr | int | None) -> int | None:
        return written if written is None or isinstance(written, int) else self.evaluator.value(written, Place({}))

    def _count(self, written: ir.Expr | int | None) -> int | None:
        number = self._number(written)
        if number is not None and number < 0:
            raise EvaluationError(f"{number} is no number of rows")
        return number

    # --- groups and order ---------------------------------------------------------------------------------------------

    def _grouped(self, query: ir.QueryIR, rows: list[Row]) -> list[Place]:
        keys = [column.expr for column in query.outputs if not ir.has_aggregate(column.expr)]
        if not keys:
            return [Place({}, rows)]
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            groups.setdefault(tuple(self._group_key(key, row) for key in keys), []).append(row)
        return [Place(group[0], group) for group in groups.values()]

    def _group_key(self, expr: ir.Expr, row: Row) -> Any:
        return row[expr.var] if isinstance(expr, ir.Entity) else as_key(self.evaluator.value(expr, Place(row)))

    def _by_id(self, rows: list[Row]) -> list[Row]:
        """Rows by the ids of their nodes and edges, in the order of the names, those without a name last.

        Nulls come first. What is left are nodes of different types with one id: the names of the types decide.
        """

        def ids(row: Row) -> tuple[list[tuple[str, ...]], list[str]]:
            names = sorted(row, key=lambda name: (name.startswith("_"), name))
            bound = [each for each in (row[name] for name in names) if not isinstance(each, PathRef)]
            return [() if each is None else (each.id,) for each in bound], [each.type for each in bound if each]

        return sorted(rows, key=ids)


def shortest_paths(
    graph: PlainGraph,
    catalog: Catalog,
    edge_types: tuple[str, ...],
    direction: str,
    start: NodeRef,
    farthest: int | None,
) -> dict[NodeRef, PathRef]:
    """One shortest path to every node around `start`; to `start` itself only over an edge that joins it to itself."""
    steps = [step for each in edges_of(graph, catalog, edge_types) for step in _steps(each, direction)]
    found = {start: PathRef((start, start))} if (start, start) in steps else {}
    frontier, visited = [PathRef((start,))], {start}
    while frontier and (farthest is None or frontier[0].length < farthest):
        following = []
        for path in frontier:
            for source, target in steps:
                if source == path.nodes[-1] and target not in visited:
                    visited.add(target)
                    following.append(PathRef((*path.nodes, target)))
        found |= {path.nodes[-1]: path for path in following}
        frontier = following
    return found


def is_shortest_path(
    graph: PlainGraph, catalog: Catalog, edge: ir.EdgePattern, nodes: list[NodeRef], farthest: int | None
) -> bool:
    """Whether a sequence of nodes follows stored edges, and no shorter one joins its ends."""
    steps = {step for each in edges_of(graph, catalog, edge.edge_types) for step in _steps(each, edge.direction)}
    if not all(has_node(graph, node) for node in nodes) or not all(pair in steps for pair in pairwise(nodes)):
        return False
    best = shortest_paths(graph, catalog, edge.edge_types, edge.direction, nodes[0], farthest).get(nodes[-1])
    return best is not None and best.length == len(nodes) - 1


def _steps(edge: EdgeRef, direction: str) -> list[tuple[NodeRef, NodeRef]]:
    """The (from, to) pairs that one stored edge offers in a direction."""
    there, back = (edge.src, edge.dst), (edge.dst, edge.src)
    return {"out": [there], "in": [back], "both": [there, back]}[direction]


def _variables(block: ir.Block) -> list[str]:
    """The variables a block binds, those of its optionals included."""
    edges = [name for edge in block.edges for name in (edge.edge_var, edge.path_var) if name is not None]
    inner = [name for each in block.optionals for name in _variables(each)]
    return [*(node.var for node in block.nodes), *edges, *inner]
