"""Execute a read: match the pattern, group, project, order, cut.         (QueryIR -> ArrowExecutor -> pyarrow.Table)"""

from __future__ import annotations

import datetime as dt
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.datatypes import Scalar
from omnigraph.errors import InvalidValue
from omnigraph.execution.arrow.aggregate import group_rows
from omnigraph.execution.arrow.data import GraphData, Ints, sizes_of
from omnigraph.execution.arrow.evaluate import Evaluator, Request, Scope
from omnigraph.execution.arrow.factorise import counted_frame
from omnigraph.execution.arrow.frame import ONE_ROW, Frame, concat
from omnigraph.execution.arrow.governor import Governor, Limits, Measured
from omnigraph.execution.arrow.match import Matcher, scope_of
from omnigraph.execution.arrow.nearest import indexed_candidates
from omnigraph.execution.arrow.pin_cache import PinCache
from omnigraph.execution.arrow.rank import codes, groups, ranks, sortable
from omnigraph.execution.arrow.ranking import Ranking
from omnigraph.execution.arrow.streaming import Streamed, projected_batches
from omnigraph.execution.arrow.topologies import Topologies
from omnigraph.execution.embedding import provider_from_env
from omnigraph.query import ir
from omnigraph.query.plan import QueryPlan, plan_query
from omnigraph.query.plan.cutting import sort_key
from omnigraph.query.plan.model import Scan
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.bounded_cache import BoundedCache
from omnigraph.versioning.snapshot import Snapshot
from omnigraph.versioning.store import GraphStore

_MAX_PLANS = 512
_FIRST_SLICE = 1024
_MUCH_LESS = 4
_ANONYMOUS = re.compile(r"_\d+")
"""Names of nodes that a query leaves anonymous."""


@dataclass(frozen=True)
class Run:
    """A finished query: its rows, the plan that ran, and the measurements of its operators."""

    table: pa.Table
    plan: QueryPlan
    counted: bool
    measured: Mapping[int, Measured]
    seconds: float


@dataclass(frozen=True)
class Asked:
    """One execution: the plan, the data, the request with its parameters, and the governor."""

    plan: QueryPlan
    data: GraphData
    scope: Scope
    request: Request
    governor: Governor


class ArrowExecutor:
    """Executes queries in this process. Safe to share between threads."""

    def __init__(self, store: GraphStore, limits: Limits | None = None) -> None:
        settings = store.settings
        self._cache = PinCache(store)
        self.topologies = Topologies(store, self._cache)
        self._limits = limits or Limits(settings.query_max_rows, settings.query_max_memory, settings.query_max_seconds)
        self._plans: BoundedCache[int, tuple[ir.QueryIR, str, QueryPlan]] = BoundedCache(_MAX_PLANS)

    def data(self, snapshot: Snapshot, catalog: Catalog) -> GraphData:
        """Return the data of a snapshot, including everything that this process has loaded already."""
        return GraphData(self._cache, self.topologies, snapshot, catalog)

    def execute(self, query: ir.QueryIR, snapshot: Snapshot, catalog: Catalog, params: Mapping[str, Any]) -> pa.Table:
        """Return the result of a query, columns in the order of its outputs."""
        return self.run(query, snapshot, catalog, params).table

    def run(self, query: ir.QueryIR, snapshot: Snapshot, catalog: Catalog, params: Mapping[str, Any]) -> Run:
        """Return the result of a query, with its plan and measurements."""
        begun = time.perf_counter()
        asked = self._asked(query, snapshot, catalog, params)
        projection = Projection(asked)
        frame, counted = _bound(asked, projection)
        table = projection.table(frame)
        return Run(table, asked.plan, counted, asked.governor.measured, time.perf_counter() - begun)

    def stream(
        self, query: ir.QueryIR, snapshot: Snapshot, catalog: Catalog, params: Mapping[str, Any], max_rows: int
    ) -> Streamed:
        """Return the result in batches of at most the given number of rows, projected on demand if the plan allows it.

        Matching runs in this call, so its errors are raised here.
        """
        asked = self._asked(query, snapshot, catalog, params)
        projection = Projection(asked)
        frame, _ = _bound(asked, projection)
        if not asked.plan.streams:
            table = projection.table(frame)
            return Streamed(table.schema, table.num_rows, iter(table.to_batches(max_chunksize=max_rows)))
        frame = projection.ordered(frame)
        pieces = Projection(replace(asked, data=asked.data.fetching()))
        schema = pieces.projected(frame.take(np.empty(0, np.int64))).schema
        return Streamed(
            schema, frame.length, projected_batches(pieces.projected, frame, schema, asked.governor, max_rows)
        )

    def _asked(self, query: ir.QueryIR, snapshot: Snapshot, catalog: Catalog, params: Mapping[str, Any]) -> Asked:
        governor = Governor(self._limits)
        data = GraphData(self._cache, self.topologies, snapshot, catalog, governor.note)
        request = Request(params, dt.datetime.now(dt.UTC), lambda: provider_from_env(os.environ))
        return Asked(self._planned(query, data), data, scope_of(query.pattern), request, governor)

    def plan(self, query: ir.QueryIR, snapshot: Snapshot, catalog: Catalog) -> QueryPlan:
        """Return the plan of a query on a snapshot. Reads no data."""
        return self._planned(query, GraphData(self._cache, self.topologies, snapshot, catalog))

    def _planned(self, query: ir.QueryIR, data: GraphData) -> QueryPlan:
        """Return the cached plan of a query and snapshot. Compiled queries are cached too, so the object is the key."""
        known = self._plans.get(id(query))
        if known is not None and known[0] is query and known[1] == data.snapshot.commit_id:
            return known[2]
        plan = plan_query(query, sizes_of(data))
        self._plans.put(id(query), (query, data.snapshot.commit_id, plan))
        return plan


def _bound(asked: Asked, projection: Projection) -> tuple[Frame, bool]:
    """Return the matched rows, and whether they were only counted."""
    plan, data, scope, request, governor = asked.plan, asked.data, asked.scope, asked.request, asked.governor
    if plan.count is not None:
        with governor.operator(plan.count) as measured:
            frame = counted_frame(plan.query, plan.count.roots, data, scope, request)
            measured.rows = frame.length if frame is not None else 0
        if frame is not None:
            return frame, True
    if "rank" in projection.names:
        with governor.operator(plan.match[0]) as measured:
            proposed = indexed_candidates(plan, data, scope, request, projection.wanted_rows())
            if proposed is not None:
                frame = Frame(len(proposed[1]), {proposed[0]: proposed[1]})
                measured.rows = frame.length
                return frame, False
    return _matched(plan, Matcher(data, scope, request, governor), projection.wanted_rows()), False


def _matched(plan: QueryPlan, matcher: Matcher, wanted: int | None) -> Frame:
    """Return all matches; if any rows suffice, match only as many slices of the first scan as yield enough."""
    first = plan.match[0] if plan.match else None
    if wanted is None or not plan.stops_early or not isinstance(first, Scan) or len(plan.match) == 1:
        return matcher.run(plan.match, ONE_ROW, plan.carried)
    numbers = matcher.first(first)
    found: Frame | None = None
    at, size = 0, max(_FIRST_SLICE, wanted)
    while at < len(numbers) or found is None:
        part = numbers[at : at + size]
        frame = matcher.run(plan.match[1:], Frame(len(part), {first.var: part}))
        found = frame if found is None else concat(found, frame)
        if found.length >= wanted:
            break
        at, size = at + size, size * 4
    return found


class Projection:
    """The operators from bindings to the result."""

    def __init__(self, asked: Asked) -> None:
        self._plan = asked.plan
        self._query = asked.plan.query
        self._operators = {finish.name: finish for finish in asked.plan.finish}
        self.names = frozenset(self._operators)
        self._data = asked.data
        self._scope = asked.scope
        self._request = asked.request
        self._governor = asked.governor

    def wanted_rows(self) -> int | None:
        """Return the number of rows that the result can use at most."""
        limit = self.limit()
        return None if limit is None else limit + (self._bound(self._query.offset) or 0)

    def limit(self) -> int | None:
        """Return the query's limit."""
        return self._bound(self._query.limit)

    def table(self, frame: Frame) -> pa.Table:
        """Return the result from matched rows."""
        query = self._query
        known: dict[ir.Expr, pa.Array] = {}
        if "rank" in self._operators:
            with self._operator("rank") as measured:
                ranking = Ranking(query, self._data, self._scope, self._request, self.limit())
                frame, known = ranking.apply(frame)
                measured.rows = frame.length
        if query.is_aggregate:
            with self._operator("group") as measured:
                frame, known = group_rows(self.keys(), self.aggregates(), self._evaluator(frame, known), frame)
                measured.rows = frame.length
        return self.finished(frame, known)

    def finished(self, frame: Frame, known: dict[ir.Expr, pa.Array]) -> pa.Table:
        """Return the result from ranked or grouped rows, reusing the values computed so far."""
        if self._plan.cuts_first:
            # Values that are dropped later are not computed.
            with self._operator("sort"):
                frame, known, _ = _taken(self._cut(self._order(frame, known)), frame, known, {})
        columns = self._columns(frame, known)
        if self._plan.cuts_first:
            return self._finished_table(frame, columns)
        return self._refined(frame, known, columns)

    def ordered(self, frame: Frame) -> Frame:
        """Return matched rows in their final order, cut to those of the result."""
        if not {"sort", "cut"} & self.names:
            return frame
        with self._operator("sort"):
            return frame.take(self._cut(self._order(frame, {})))

    def projected(self, frame: Frame) -> pa.Table:
        """Return the result from rows that are in order already."""
        return self._finished_table(frame, self._columns(frame, {}))

    def _columns(self, frame: Frame, known: Mapping[ir.Expr, pa.Array]) -> dict[str, pa.Array]:
        with self._operator("project") as measured:
            evaluator = self._evaluator(frame, known)
            columns = {column.name: evaluator.array(column.expr) for column in self._query.outputs}
            measured.rows += frame.length
        return columns

    def _refined(self, frame: Frame, known: dict[ir.Expr, pa.Array], columns: dict[str, pa.Array]) -> pa.Table:
        """Apply having, distinct, sort and cut, in that order, to projected rows."""
        query = self._query
        if query.having is not None:
            with self._operator("having") as measured:
                kept = self._evaluator(frame, self._with_outputs(known, columns)).mask(query.having)
                frame, known, columns = _taken(np.flatnonzero(kept), frame, known, columns)
                measured.rows = frame.length
        if query.distinct:
            with self._operator("distinct") as measured:
                _, first = groups([self._codes(c, columns[c.name], frame) for c in query.outputs], frame.length)
                frame, known, columns = _taken(first, frame, known, columns)
                measured.rows = frame.length
        with self._operator("sort") as measured:
            order = self._order(frame, self._with_outputs(known, columns))
            measured.rows = frame.length
        with self._operator("cut") as measured:
            rows = self._cut(order)
            frame, known, columns = _taken(rows, frame, known, columns)
            measured.rows = frame.length
        return self._finished_table(frame, columns)

    def _finished_table(self, frame: Frame, columns: Mapping[str, pa.Array]) -> pa.Table:
        outputs = self._query.outputs
        return pa.table([self._finished(c, columns[c.name], frame) for c in outputs], names=list(columns))

    def _operator(self, name: str) -> AbstractContextManager[Measured]:
        return self._governor.operator(self._operators.get(name, name))

    @staticmethod
    def _codes(column: ir.OutputColumn, values: pa.Array, frame: Frame) -> Ints:
        """Return codes that distinguish the values of a column; nodes of different types may have one id."""
        return frame.numbers[column.expr.var] if isinstance(column.expr, ir.Entity) else codes(values)

    def _evaluator(self, frame: Frame, known: Mapping[ir.Expr, pa.Array]) -> Evaluator:
        return Evaluator(self._data, self._scope, self._request, frame, known)

    def keys(self) -> list[ir.Expr]:
        """Return the grouping keys."""
        return [c.expr for c in self._query.outputs if not ir.has_aggregate(c.expr)]

    def aggregates(self) -> list[ir.Aggregate]:
        """Return every aggregate of the query, once."""
        query = self._query
        exprs = [*(c.expr for c in query.outputs), *(k.expr for k in query.order)]
        if query.having is not None:
            exprs.append(query.having)
        found = [each for expr in exprs for each in ir.walk(expr) if isinstance(each, ir.Aggregate)]
        return list(dict.fromkeys(found))

    def _with_outputs(
        self, known: Mapping[ir.Expr, pa.Array], columns: Mapping[str, pa.Array]
    ) -> dict[ir.Expr, pa.Array]:
        named: dict[ir.Expr, pa.Array] = {ir.Output(c.name, c.type): columns[c.name] for c in self._query.outputs}
        return {**known, **named}

    def _order(self, frame: Frame, known: Mapping[ir.Expr, pa.Array]) -> Ints:
        """Return rows in their final order. Ties are broken by the ids of everything bound, so the order is total."""
        if not self._query.order:
            return np.arange(frame.length, dtype=np.int64)
        first = self._sort_key(0, frame, known)
        needed = self.wanted_rows()
        if needed is None or needed * _MUCH_LESS > frame.length or not needed:
            return self._sorted([first], frame, known)
        # Most rows are cut off: whatever their other keys, they sort behind the last row that is kept.
        last = np.partition(first, needed - 1)[needed - 1]
        kept = np.flatnonzero(first <= last)
        few, few_known, _ = _taken(kept, frame, known, {})
        return kept[self._sorted([first[kept]], few, few_known)]

    def _sorted(self, keys: list[Any], frame: Frame, known: Mapping[ir.Expr, pa.Array]) -> Ints:
        keys += [self._sort_key(i, frame, known) for i in range(1, len(self._query.order))]
        if not self._query.is_aggregate:
            keys.extend(self._ties(frame))
        order: Ints = np.lexsort(keys[::-1])
        return order

    def _sort_key(self, index: int, frame: Frame, known: Mapping[ir.Expr, pa.Array]) -> Any:
        """Return numbers that sort like the values of one key."""
        key = self._query.order[index]
        expr = key.expr if key.expr in known else sort_key(self._query, key)
        values = sortable(self._evaluator(frame, known).array(expr))
        return -values if key.descending else values

    def _ties(self, frame: Frame) -> Iterator[Ints]:
        """Return tie-breakers: ids of named entities, then of anonymous ones, then types. The order is total."""
        for var in sorted(frame.numbers, key=lambda v: (_ANONYMOUS.fullmatch(v) is not None, v)):
            is_edge = var in self._scope.edges
            types = self._scope.edges[var] if is_edge else self._scope.nodes[var]
            yield ranks(self._data.take(types, "id", frame.numbers[var], is_edge=is_edge))
        # Types are numbered by name, and one id of one type is one number.
        yield from (frame.numbers[var] for var in sorted(frame.numbers))

    def _cut(self, order: Ints) -> Ints:
        first = self._bound(self._query.offset) or 0
        limit = self._bound(self._query.limit)
        return order[first : None if limit is None else first + limit]

    def _bound(self, bound: ir.Expr | int | None) -> int | None:
        if bound is None or isinstance(bound, int):
            return bound
        value = self._evaluator(Frame(1), {}).scalar(bound).as_py()
        if value is None or value < 0:
            raise InvalidValue(f"limit and offset must not be negative, got {value}")
        return int(value)

    def _finished(self, column: ir.OutputColumn, values: pa.Array, frame: Frame) -> pa.Array:
        """Return a column of the result; a whole node becomes an object, any other value stays as it is."""
        if not isinstance(column.expr, ir.Entity):
            return values
        return self._objects(column.expr.var, frame)

    def _objects(self, var: str, frame: Frame) -> pa.Array:
        is_edge = var in self._scope.edges
        types = self._scope.edges[var] if is_edge else self._scope.nodes[var]
        fields: dict[str, pa.Array] = {"@id": self._data.take(types, "id", frame.numbers[var], is_edge=is_edge)}
        for name in types:
            entity = self._data.entity(name, is_edge=is_edge)
            span = (self._data.edges if is_edge else self._data.nodes)[name]
            numbers = frame.numbers[var]
            inside = (numbers >= span.offset) & (numbers < span.offset + span.count)
            for prop in entity.properties:
                if prop.type.is_vector or prop.type.scalar is Scalar.BLOB:
                    continue
                values = self._data.take((name,), prop.name, np.where(inside, numbers, -1), is_edge=is_edge)
                earlier = fields.get(prop.name)
                # Types of one interface may disagree on a property that is not the interface's: one field for each.
                field = prop.name if earlier is None or earlier.type == values.type else f"{prop.name}#{name}"
                fields[field] = values if earlier is None or field != prop.name else pc.coalesce(earlier, values)
        absent = pa.array(frame.numbers[var] < 0)
        return pa.StructArray.from_arrays(list(fields.values()), names=list(fields), mask=absent)


def _taken(
    rows: Ints, frame: Frame, known: Mapping[ir.Expr, pa.Array], columns: Mapping[str, pa.Array]
) -> tuple[Frame, dict[ir.Expr, pa.Array], dict[str, pa.Array]]:
    index = pa.array(rows)
    return (
        frame.take(rows),
        {expr: values.take(index) for expr, values in known.items()},
        {name: values.take(index) for name, values in columns.items()},
    )
