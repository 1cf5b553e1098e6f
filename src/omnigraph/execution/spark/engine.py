"""Execute a read on Spark: patterns, filters and groups are distributed; a small result is finished in this process."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from omnigraph.errors import Unsupported
from omnigraph.execution.arrow.engine import Asked, Projection
from omnigraph.execution.arrow.evaluate import Request
from omnigraph.execution.arrow.governor import Governor, Limits
from omnigraph.execution.arrow.match import scope_of
from omnigraph.execution.arrow.ranking import ranking_key
from omnigraph.execution.spark.collected import CollectedGraph
from omnigraph.execution.spark.columns import (
    RANKINGS,
    Needs,
    bases,
    bound_variables,
    columns_of,
    id_of,
    storage_column,
    type_of,
    values_of,
)
from omnigraph.execution.spark.grouping import group_rows
from omnigraph.execution.spark.match import NOTHING_BOUND, Bound, Matcher, schema_of
from omnigraph.execution.spark.ranking import rank_rows
from omnigraph.execution.spark.scans import Source
from omnigraph.execution.spark.search import on_driver
from omnigraph.execution.spark.task_errors import refusal_in
from omnigraph.execution.spark.tasks import Computation, kind_of
from omnigraph.query import ir
from omnigraph.query.plan import QueryPlan
from omnigraph.query.plan.cutting import sort_key
from omnigraph.schema.catalog import Catalog
from omnigraph.versioning.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLLECTED = (ir.PathLength, ir.PathNodes, *RANKINGS)
"""Expressions that are not read from a node or edge again once rows are collected."""
_ANONYMOUS = re.compile(r"_\d+")


class SparkExecutor:
    """Executes queries on a Spark session."""

    def __init__(self, spark: SparkSession, uri: str, limits: Limits) -> None:
        self._spark = spark
        self._uri = uri
        self._limits = limits

    def execute(self, plan: QueryPlan, snapshot: Snapshot, catalog: Catalog, params: Mapping[str, Any]) -> pa.Table:
        """Return the result of a query, columns in the order of its outputs."""
        try:
            return self._executed(plan, snapshot, catalog, params)
        except PySparkException as error:
            refusal = refusal_in(str(error))
            if refusal is None:
                raise
            raise refusal from None

    def _executed(self, plan: QueryPlan, snapshot: Snapshot, catalog: Catalog, params: Mapping[str, Any]) -> pa.Table:
        query = plan.query
        _refuse_lonely_fusion(query)
        request = Request(params, dt.datetime.now(dt.UTC))
        needs = Needs(query, catalog)
        scope = scope_of(query.pattern)
        governor = Governor(self._limits)
        matcher = Matcher(Source(self._spark, self._uri, snapshot, catalog), needs, scope, request)
        bound = matcher.run(plan.match, NOTHING_BOUND)
        unfinished: Any = None
        projection = Projection(Asked(plan, unfinished, scope, on_driver(request), governor))
        columns: Mapping[ir.Expr, str] = {}
        if query.is_aggregate:
            groups = group_rows(bound, query, projection.keys(), projection.aggregates(), request)
            bound, columns = groups.bound, groups.columns
        else:
            bound = rank_rows(bound, query, request, projection.limit(), governor)
            columns = {base: columns_of(base) for base in bases(_shown(query)) if isinstance(base, _COLLECTED)}
            bound = _cut(bound, plan, projection.wanted_rows(), request)
        table = self._collected(bound, governor)
        graph: Any = CollectedGraph(table, scope, needs, catalog)
        projection = Projection(Asked(plan, graph, scope, on_driver(request), governor))
        known = {expr: values_of(expr, table[name].combine_chunks()) for expr, name in columns.items()}
        return projection.finished(graph.frame, known)

    def _collected(self, bound: Bound, governor: Governor) -> pa.Table:
        """Collect the rows in the types of storage; too many are refused before the transfer."""
        assert bound.rows is not None
        most = self._limits.max_rows
        table = bound.rows.select(*bound.kinds).limit(most + 1).toArrow()
        governor.check_rows(table.num_rows, max(len(bound.kinds), 1))
        arrays = [storage_column(table[name], kind) for name, kind in bound.kinds.items()]
        return pa.table(arrays, names=list(bound.kinds))


def _refuse_lonely_fusion(query: ir.QueryIR) -> None:
    """Refuse a fusion that is not a sort key: ranks exist only by an order."""
    score = None if query.is_aggregate else ranking_key(query)
    for expr in ir.expressions(query):
        for each in ir.walk(expr):
            if isinstance(each, ir.Rrf) and each != score:
                raise Unsupported("Rrf has no value here")


def _shown(query: ir.QueryIR) -> Iterator[ir.Expr]:
    """Return the expressions that the result shows or is sorted by."""
    yield from (column.expr for column in query.outputs)
    yield from (key.expr for key in query.order)


def _cut(bound: Bound, plan: QueryPlan, wanted: int | None, request: Request) -> Bound:
    """Keep only the rows of the result, where the order of rows alone determines them."""
    assert bound.rows is not None
    if wanted is None or not (plan.cuts_first or plan.stops_early):
        return bound
    if not plan.query.order:
        return Bound(bound.rows.limit(wanted), bound.kinds)
    keys = [sort_key(plan.query, key) for key in plan.query.order]
    names = {f"o:{number}": key for number, key in enumerate(keys)}
    kinds = {name: kind_of(key, request, bound.kinds) for name, key in names.items()}
    out = {**bound.kinds, **kinds}
    computation = Computation(request, bound.kinds, tuple(out), (), tuple(names.items()), kinds)
    rows = bound.rows.select(*bound.kinds).mapInArrow(computation, schema_of(out))
    order = [
        F.col(name).desc_nulls_last() if key.descending else F.col(name).asc_nulls_first()
        for name, key in zip(names, plan.query.order, strict=True)
    ]
    variables = bound_variables(bound.kinds)
    by_name = sorted(variables, key=lambda var: (_ANONYMOUS.fullmatch(var) is not None, var))
    order += [F.col(id_of(var)).asc_nulls_first() for var in by_name]
    order += [F.col(type_of(var)).asc_nulls_first() for var in sorted(variables)]
    return Bound(rows.orderBy(*order).limit(wanted).select(*bound.kinds), bound.kinds)
