"""Spark's filters as predicates with literals of the column's own type.

Only what means exactly the same on both sides is taken; Spark keeps the rest. A literal that the column's type cannot
hold is left to Spark as well, which knows what such a comparison means.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from omnigraph.storage.predicates import sql_column, sql_literal

_ORDERED = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_date, pa.types.is_timestamp)
_PLAIN = (str, bool, int, float, dt.date, dt.datetime, decimal.Decimal)


def push(filters: Iterable[Any], kinds: Mapping[str, tuple[str, pa.DataType]]) -> tuple[str | None, list[Any]]:
    """One predicate of all filters that can be taken (None: no filter), and the filters that Spark has to apply.

    `kinds` gives the physical column and the type of every public name.
    """
    taken: list[str] = []
    left: list[Any] = []
    for item in filters:
        predicate = _predicate(item, kinds)
        if predicate is None:
            left.append(item)
        else:
            taken.append(f"({predicate})")
    return (" AND ".join(taken) if taken else None), left


def _predicate(item: Any, kinds: Mapping[str, tuple[str, pa.DataType]]) -> str | None:
    from pyspark.sql import datasource as spark

    if isinstance(item, spark.Not):
        inside = _predicate(item.child, kinds)
        return None if inside is None else f"NOT ({inside})"
    path: Sequence[str] = getattr(item, "attribute", ())
    if len(path) != 1 or path[0] not in kinds:
        return None
    column, kind = kinds[path[0]]
    name = sql_column(column)
    if isinstance(item, spark.IsNull):
        return f"{name} IS NULL"
    if isinstance(item, spark.IsNotNull):
        return f"{name} IS NOT NULL"
    if isinstance(item, spark.In):
        values = [_literal(value, kind) for value in item.value]
        known = [value for value in values if value is not None]
        return f"{name} IN ({', '.join(known)})" if known and len(known) == len(values) else None
    compare = {
        spark.EqualTo: "=", spark.GreaterThan: ">", spark.GreaterThanOrEqual: ">=", spark.LessThan: "<",
        spark.LessThanOrEqual: "<=",
    }.get(type(item))  # fmt: skip
    value = _literal(getattr(item, "value", None), kind)
    return None if compare is None or value is None else f"{name} {compare} {value}"


def _literal(value: Any, kind: pa.DataType) -> str | None:
    """A value as a literal of a column's type, or None when it has no exact place there."""
    if not isinstance(value, _PLAIN) or not (any(test(kind) for test in _ORDERED) or pa.types.is_boolean(kind)):
        return None
    if isinstance(value, float) and (value != value or not pa.types.is_floating(kind)):
        return None
    if isinstance(value, decimal.Decimal) and pa.types.is_integer(kind) and value == value.to_integral_value():
        value = int(value)
    try:
        found = pa.scalar(value, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError, TypeError):
        return None
    exact = pa.types.is_timestamp(kind) or found.as_py() == value
    if pa.types.is_timestamp(kind) and isinstance(value, dt.datetime) and value.microsecond % 1000:
        return None
    return sql_literal(found) if exact else None
