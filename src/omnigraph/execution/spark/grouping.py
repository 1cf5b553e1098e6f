"""Group and aggregate on Spark: tasks compute keys and operands, Spark groups them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from omnigraph.execution.arrow.evaluate import Request
from omnigraph.execution.spark.columns import Kinds, bases, columns_of, id_of, outside_aggregates, type_of, values_of
from omnigraph.execution.spark.match import Bound, schema_of
from omnigraph.execution.spark.tasks import Computation, kind_of
from omnigraph.query import ir

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class Grouped:
    """One row per group, and the column of each expression."""

    bound: Bound
    columns: Mapping[ir.Expr, str]

    def known(self, table: pa.Table) -> dict[ir.Expr, pa.Array]:
        """Return the values of keys and aggregates, from the collected rows."""
        return {expr: values_of(expr, table[name].combine_chunks()) for expr, name in self.columns.items()}


def group_rows(
    bound: Bound, query: ir.QueryIR, keys: list[ir.Expr], aggregates: list[ir.Aggregate], request: Request
) -> Grouped:
    """Group by `keys`; without keys there is one group, even of no rows."""
    operands = list(dict.fromkeys(a.operand for a in aggregates if a.operand is not None))
    computed = [expr for expr in dict.fromkeys([*keys, *operands]) if not isinstance(expr, ir.Entity)]
    names: dict[ir.Expr, str] = {expr: f"x:{number}" for number, expr in enumerate(computed)}
    rows = _computed(bound, names, request)
    kinds: Kinds = dict(bound.kinds)
    kinds.update({name: kind_of(expr, request, bound.kinds) for expr, name in names.items()})
    by = list(dict.fromkeys(name for key in keys for name in _key_columns(key, names)))
    found = {f"a:{number}": aggregate for number, aggregate in enumerate(aggregates)}
    shown = _shown_beside(query, keys)
    carried = sorted({columns_of(base) for base in shown} | _entity_columns(keys, bound.kinds) - set(by))
    wanted = [_aggregate(a, names).alias(name) for name, a in found.items()]
    wanted += [F.first(name).alias(name) for name in carried if name not in by]
    result = rows.groupBy(*by).agg(*wanted) if wanted else rows.select(*by).distinct()
    out: Kinds = {name: kinds[name] for name in [*by, *carried]}
    out.update({name: _kind(a, names, kinds) for name, a in found.items()})
    columns: dict[ir.Expr, str] = {a: name for name, a in found.items()}
    columns.update({key: names[key] for key in keys if key in names})
    columns.update({base: columns_of(base) for base in shown if base not in columns})
    return Grouped(Bound(result.select(*out), out), columns)


def _computed(bound: Bound, names: Mapping[ir.Expr, str], request: Request) -> DataFrame:
    assert bound.rows is not None
    kinds = {name: kind_of(expr, request, bound.kinds) for expr, name in names.items()}
    out = {**bound.kinds, **kinds}
    wanted = tuple((name, expr) for expr, name in names.items())
    computation = Computation(request, bound.kinds, tuple(out), (), wanted, kinds)
    return bound.rows.select(*bound.kinds).mapInArrow(computation, schema_of(out))


def _key_columns(key: ir.Expr, names: Mapping[ir.Expr, str]) -> list[str]:
    return [type_of(key.var), id_of(key.var)] if isinstance(key, ir.Entity) else [names[key]]


def _entity_columns(keys: list[ir.Expr], kinds: Kinds) -> set[str]:
    """Return the columns of a whole node in a result."""
    whole = [key.var for key in keys if isinstance(key, ir.Entity)]
    return {name for name in kinds for var in whole if name.startswith(f"p:{var}:")}


def _shown_beside(query: ir.QueryIR, keys: list[ir.Expr]) -> list[ir.Expr]:
    """Return the expressions beside aggregates that are not keys themselves."""
    exprs = [*(c.expr for c in query.outputs), *(k.expr for k in query.order)]
    if query.having is not None:
        exprs.append(query.having)
    parts = [each for expr in exprs if expr not in keys for each in outside_aggregates(expr)]
    plain = [each for each in parts if not isinstance(each, (ir.Aggregate, ir.Entity))]
    leaves = [each for each in plain if not list(ir.children(each))]
    return [base for base in bases(leaves) if base not in keys]


def _aggregate(aggregate: ir.Aggregate, names: Mapping[ir.Expr, str]) -> Column:
    operand = aggregate.operand
    if operand is None:
        return F.count(F.lit(1))
    if isinstance(operand, ir.Entity):
        whole = F.when(F.col(id_of(operand.var)).isNotNull(), F.struct(type_of(operand.var), id_of(operand.var)))
        return F.count_distinct(whole) if aggregate.distinct else F.count(whole)
    value = F.col(names[operand])
    if aggregate.function in ("sum", "avg"):
        value = value.cast("double")
    plain: dict[str, Any] = {
        "count": F.count, "sum": F.sum, "avg": F.avg, "min": F.min, "max": F.max, "collect": F.collect_list,
    }  # fmt: skip
    distinct: dict[str, Any] = {
        "count": F.count_distinct, "sum": F.sum_distinct, "avg": lambda c: F.avg(c), "min": F.min, "max": F.max,
        "collect": F.collect_set,
    }  # fmt: skip
    if aggregate.distinct and aggregate.function == "avg":
        return F.expr(f"avg(DISTINCT CAST(`{names[operand]}` AS DOUBLE))")
    column: Column = (distinct if aggregate.distinct else plain)[aggregate.function](value)
    return column


def _kind(aggregate: ir.Aggregate, names: Mapping[ir.Expr, str], kinds: Kinds) -> pa.DataType:
    if aggregate.function == "count":
        return pa.int64()
    if aggregate.function in ("sum", "avg"):
        return pa.float64()
    assert aggregate.operand is not None
    kind = pa.string() if isinstance(aggregate.operand, ir.Entity) else kinds[names[aggregate.operand]]
    return pa.list_(kind) if aggregate.function == "collect" else kind
