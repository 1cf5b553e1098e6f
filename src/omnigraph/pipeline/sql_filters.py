"""Translate conditions of Spark SQL to conditions of the `filter` option of the data source.

Spark evaluates its conditions again, so a translation may let more rows pass and must never let fewer. A condition
without such a translation is left to Spark.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from typing import Any

from omnigraph.datatypes import EPOCH_DATE, EPOCH_DATETIME
from omnigraph.execution.spark.plans import class_name, sequence
from omnigraph.query.format import literal_text
from omnigraph.query.plan.pushdown import MAX_LISTED

_OPERATORS = {
    "EqualTo": "=", "EqualNullSafe": "=", "LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}  # fmt: skip
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED = {">": "<=", ">=": "<"}
_WHOLE = frozenset({"integer", "long", "decimal(20,0)"})
_SIMPLE = _WHOLE | {"string", "boolean", "date", "timestamp", "double"}
_LAST_DAY = (dt.date.max - EPOCH_DATE).days
_FIRST_DAY = (dt.date.min - EPOCH_DATE).days
_MICROS_PER_DAY = 86_400_000_000
Names = Mapping[int, str]
"""The columns of a type in the query language, by the numbers that Spark gave them."""


def filter_text(condition: Any, names: Names) -> str | None:
    """Return a condition that is true for every row for which Spark's is; None when there is no such condition."""
    kind = class_name(condition)
    if kind in ("And", "Or"):
        return _joined(kind, filter_text(condition.left(), names), filter_text(condition.right(), names))
    if kind in _OPERATORS:
        return _compared(_OPERATORS[kind], condition.left(), condition.right(), names)
    if kind == "AttributeReference":
        return _truth(condition, "true", names)
    if kind in ("IsNull", "IsNotNull"):
        name = _column(condition.child(), names)
        return None if name is None else f"{name} is {'not ' if kind == 'IsNotNull' else ''}null"
    if kind in ("In", "InSet"):
        return _listed(kind, condition, names)
    return _negated(condition.child(), names) if kind == "Not" else None


def _joined(kind: str, left: str | None, right: str | None) -> str | None:
    if left is None or right is None:
        return left or right if kind == "And" else None
    return f"({left} {kind.lower()} {right})"


def _truth(column: Any, value: str, names: Names) -> str | None:
    name = _column(column, names)
    return None if name is None or column.dataType().typeName() != "boolean" else f"{name} = {value}"


def _negated(condition: Any, names: Names) -> str | None:
    """Negate a condition only where both sides exclude nulls, and no number equals itself in one of them only."""
    kind = class_name(condition)
    if kind == "AttributeReference":
        return _truth(condition, "false", names)
    if kind == "EqualTo":
        found = _sides(condition.left(), condition.right(), names)
        return None if found is None or found[2] == "double" else f"{found[0]} != {found[1]}"
    return None


def _compared(op: str, left: Any, right: Any, names: Names) -> str | None:
    found = _sides(left, right, names)
    if found is None:
        found = _sides(right, left, names)
        op = _FLIPPED[op]
    if found is None:
        return None
    name, value, kind = found
    if kind == "double" and op in _NEGATED:  # for Spark NaN is above all numbers
        return f"not ({name} {_NEGATED[op]} {value})"
    return f"{name} {op} {value}"


def _sides(column: Any, literal: Any, names: Names) -> tuple[str, str, str] | None:
    """Return the column, the value and their type, when both are of the same one."""
    name = _column(column, names)
    if name is None or class_name(literal) != "Literal":
        return None
    kind: str = column.dataType().typeName()
    if literal.dataType().typeName() != kind:
        return None
    value = _value(literal.value(), kind)
    return None if value is None else (name, value, kind)


def _column(expression: Any, names: Names) -> str | None:
    if class_name(expression) != "AttributeReference" or expression.dataType().typeName() not in _SIMPLE:
        return None
    return names.get(expression.exprId().id())


def _value(value: Any, kind: str) -> str | None:
    """Return a value of Spark as a query literal; None for null, and for one that a query would read differently."""
    if value is None:
        return None
    if kind in _WHOLE:
        return str(value).partition(".")[0]
    if kind == "double":
        return literal_text(value) if math.isfinite(value) and value != 0 else None  # 0.0 is -0.0 for Spark
    if kind == "boolean":
        return literal_text(value)
    if kind == "date":
        return literal_text(EPOCH_DATE + dt.timedelta(value)) if _FIRST_DAY <= value <= _LAST_DAY else None
    if kind == "timestamp":
        is_known = _FIRST_DAY <= value // _MICROS_PER_DAY <= _LAST_DAY and value % 1000 == 0
        return literal_text(EPOCH_DATETIME + dt.timedelta(microseconds=value)) if is_known else None
    return literal_text(value if isinstance(value, str) else value.toString())


def _listed(kind: str, condition: Any, names: Names) -> str | None:
    child = condition.child() if kind == "InSet" else condition.value()
    name = _column(child, names)
    if name is None:
        return None
    scalar: str = child.dataType().typeName()
    if kind == "InSet":
        if condition.hset().size() > MAX_LISTED:
            return None
        values = sequence(condition.hset())
    else:
        literals = sequence(condition.list())
        if any(class_name(each) != "Literal" or each.dataType().typeName() != scalar for each in literals):
            return None
        values = [each.value() for each in literals]
    found = [_value(each, scalar) for each in values if each is not None]
    said = [each for each in found if each is not None]
    return f"{name} in [{', '.join(sorted(said))}]" if said and len(said) == len(found) else None
