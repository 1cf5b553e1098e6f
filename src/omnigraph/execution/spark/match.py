"""Match a pattern on Spark: the steps of a plan become joins of DataFrames of bindings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from omnigraph.errors import LimitExceeded
from omnigraph.execution.arrow.evaluate import Request, Scope
from omnigraph.execution.arrow.match import scope_of
from omnigraph.execution.spark.columns import PATHS, Kinds, Needs, bound_variables, id_of, path_of, type_of
from omnigraph.execution.spark.frames import spark_arrow_type
from omnigraph.execution.spark.multi_hop import PATH, START, START_TYPE, reach_nodes
from omnigraph.execution.spark.scans import FAR, FAR_TYPE, NEAR, NEAR_TYPE, Source
from omnigraph.execution.spark.tasks import Computation
from omnigraph.execution.spark.versions import local_checkpoint, spark_schema
from omnigraph.query import ir
from omnigraph.query.plan.model import REVERSED, CountPaths, Expand, Filter, Optional, Scan, Step, Without

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Bound:
    """Rows of bindings: a DataFrame, and the stored types of its columns. `rows` is None before anything is bound."""

    rows: DataFrame | None
    kinds: Kinds


NOTHING_BOUND = Bound(None, {})


class Matcher:
    """Executes the matching steps of one query on one snapshot."""

    def __init__(self, source: Source, needs: Needs, scope: Scope, request: Request) -> None:
        self._source = source
        self._needs = needs
        self._scope = scope
        self._request = request

    def run(self, steps: tuple[Step, ...], bound: Bound) -> Bound:
        """Return all extensions of some rows over some steps."""
        conditions: list[ir.Expr] = []
        for step in steps:
            if isinstance(step, Filter):
                conditions.append(step.condition)  # consecutive filters run in one pass of a task
                continue
            bound = self._step(step, filter_rows(bound, conditions, self._request))
            conditions = []
        return filter_rows(bound, conditions, self._request)

    def _step(self, step: Step, bound: Bound) -> Bound:
        match step:
            case Scan():
                rows, kinds = self._source.nodes(
                    step.var, self._scope, self._needs, self._request, step.filters, step.pushed
                )
                beside = rows if bound.rows is None else bound.rows.crossJoin(rows)
                return Bound(beside, {**bound.kinds, **kinds})
            case Expand():
                return self._expand(step, bound)
            case Optional():
                return self._optional(step, bound)
            case Without():
                return self._without(step, bound)
            case Filter() | CountPaths():
                raise AssertionError(f"{type(step).__name__} is not a step of its own here")

    # --- traversals -----------------------------------------------------------------------------------------------

    def _expand(self, step: Expand, bound: Bound) -> Bound:
        edge = step.edge
        low, high = self._hops(edge)
        direction = edge.direction if step.forward else REVERSED[edge.direction]
        steps, kinds = self._source.edges(edge.edge_types, direction, edge.edge_var, self._scope, self._needs)
        near, far = (type_of(step.near), id_of(step.near)), (type_of(step.far), id_of(step.far))
        if (low, high) != (1, 1) or edge.path_var is not None:
            bound = checkpoint_rows(bound)
            assert bound.rows is not None
            starts = bound.rows.select(F.col(near[0]).alias(START_TYPE), F.col(near[1]).alias(START))
            starts = starts.where(F.col(START).isNotNull())
            steps = reach_nodes(starts, steps, low, high, paths=edge.path_var is not None)
            steps = steps.withColumnsRenamed({START_TYPE: NEAR_TYPE, START: NEAR})
            steps, kinds = self._with_path(steps, edge.path_var, forward=step.forward)
        if step.near == step.far:  # an edge from a node to itself
            loops = (F.col(NEAR_TYPE) == F.col(FAR_TYPE)) & (F.col(NEAR) == F.col(FAR))
            steps = steps.where(loops).drop(FAR_TYPE, FAR)
        steps = steps.withColumnsRenamed({NEAR_TYPE: near[0], NEAR: near[1], FAR_TYPE: far[0], FAR: far[1]})
        assert bound.rows is not None
        joined = bound.rows.join(steps, on=list(dict.fromkeys([*near, *far])) if step.closes else list(near))
        extra = {name: kind for name, kind in kinds.items() if name not in (NEAR_TYPE, NEAR, FAR_TYPE, FAR)}
        found = Bound(joined, {**bound.kinds, **extra})
        return found if step.closes else self._arrive(step, found)

    def _arrive(self, step: Expand, bound: Bound) -> Bound:
        """Join the node at the far end: of its types, with its properties, where its own filters hold."""
        assert bound.rows is not None
        var = step.far
        keys = [type_of(var), id_of(var)]
        nodes, kinds = self._source.nodes(var, self._scope, self._needs, self._request, step.own)
        if len(kinds) == len(keys) and not step.own:
            numbers = [self._source.node_numbers[name] for name in self._scope.nodes[var]]
            return Bound(bound.rows.where(F.col(keys[0]).isin(numbers)), {**bound.kinds, **kinds})
        return Bound(bound.rows.join(nodes, on=keys), {**bound.kinds, **kinds})

    def _with_path(self, steps: DataFrame, path_var: str | None, *, forward: bool) -> tuple[DataFrame, Kinds]:
        if path_var is None:
            return steps.drop(PATH), {}
        path = F.col(PATH) if forward else F.reverse(F.col(PATH))
        return steps.withColumn(PATH, path).withColumnRenamed(PATH, path_of(path_var)), {path_of(path_var): PATHS}

    def _hops(self, edge: ir.EdgePattern) -> tuple[int, int | None]:
        def number(bound: ir.Expr | int | None) -> int | None:
            if bound is None or isinstance(bound, int):
                return bound
            assert isinstance(bound, (ir.Const, ir.Param))
            return int(bound.value if isinstance(bound, ir.Const) else self._request.params[bound.name])

        low, high = number(edge.min_hops), number(edge.max_hops)
        assert low is not None
        if low < 1 or (high is not None and high < low):
            raise LimitExceeded(f"hop bounds {{{low},{high}}} are impossible", hint="use 1 <= min <= max")
        return low, high

    # --- inner blocks ---------------------------------------------------------------------------------------------

    def _optional(self, step: Optional, bound: Bound) -> Bound:
        bound = checkpoint_rows(bound)
        inner = self.run(step.steps, bound)
        assert inner.rows is not None
        if bound.rows is None:
            return inner
        lonely = _without_partners(bound.rows, inner.rows)
        return Bound(inner.rows.unionByName(lonely, allowMissingColumns=True), inner.kinds)

    def _without(self, step: Without, bound: Bound) -> Bound:
        # Names of a negated block are local: another block may use them for another variable.
        bound = checkpoint_rows(bound)
        scope = scope_of(step.block, self._scope)
        inner = Matcher(self._source, self._needs, scope, self._request).run(step.steps, bound)
        assert inner.rows is not None
        if bound.rows is None:
            raise AssertionError("a negation alone binds nothing")
        return Bound(_without_partners(bound.rows, inner.rows), bound.kinds)


def filter_rows(bound: Bound, conditions: list[ir.Expr], request: Request) -> Bound:
    """Return the rows that meet some conditions."""
    if not conditions:
        return bound
    assert bound.rows is not None
    names = tuple(bound.kinds)
    judge = Computation(request, bound.kinds, names, tuple(conditions))
    return Bound(bound.rows.select(*names).mapInArrow(judge, schema_of(bound.kinds)), bound.kinds)


def checkpoint_rows(bound: Bound) -> Bound:
    """Materialise rows that are read more than once: plans that repeat themselves double with every step."""
    return bound if bound.rows is None else Bound(local_checkpoint(bound.rows, eager=False), bound.kinds)


def _without_partners(rows: DataFrame, extended: DataFrame) -> DataFrame:
    """Return the rows without a match. A row is identified by its bindings; unbound variables equal each other."""
    keys = [name for var in bound_variables(rows.columns) for name in (type_of(var), id_of(var))]
    made = extended.select(*(F.col(name).alias(f"made {name}") for name in keys)).distinct()
    same = reduce(lambda a, b: a & b, [F.col(name).eqNullSafe(F.col(f"made {name}")) for name in keys])
    return rows.join(made, on=same, how="left_anti")


def schema_of(kinds: Kinds) -> object:
    """Return the Spark schema of columns of stored types."""
    return spark_schema(pa.schema([(name, spark_arrow_type(kind)) for name, kind in kinds.items()]))
