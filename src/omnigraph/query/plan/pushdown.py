"""Rule: which conditions storage can decide, and how they are said to it.

Only conditions whose SQL means exactly what they mean here: comparisons of one property with one value of an integer,
String, Bool or Date type, `in` lists and null tests, joined by and/or. A filter keeps a row only when it is true, so
false and null may be exchanged; under `not` they may not, and nothing is pushed there. A number outside the domain of
its column would be refused by storage: such a comparison is folded to what it always is.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping
from typing import Any

from omnigraph.datatypes import FLOATS, INTEGER_RANGE, INTEGERS, Scalar
from omnigraph.query import ir

_PUSHABLE = INTEGERS | {Scalar.STRING, Scalar.BOOL, Scalar.DATE}
_FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EXACT_FLOAT = 2**53
MAX_LISTED = 1000
Column = Callable[[str], str]


def is_pushable(condition: ir.Expr) -> bool:
    """Whether a condition has the shape that storage can decide, whatever its values turn out to be."""
    match condition:
        case ir.Compare(_, left, right):
            return _is_side(left, right) or _is_side(right, left)
        case ir.Member(item, items):
            return _is_side(item, items)
        case ir.IsNull(ir.Prop(_, _, kind)):
            return _is_simple(kind)
        case ir.And(operands) | ir.Or(operands):
            return all(is_pushable(o) for o in operands)
        case _:
            return False


def predicate(condition: ir.Expr, params: Mapping[str, Any], column: Column) -> str | None:
    """The condition as SQL over physical columns; None when its values cannot be said."""
    match condition:
        case ir.Compare(op, ir.Prop() as prop, value) if isinstance(value, (ir.Const, ir.Param)):
            return _comparison(op, prop, _value(value, params), column)
        case ir.Compare(op, value, ir.Prop() as prop) if isinstance(value, (ir.Const, ir.Param)):
            return _comparison(_FLIPPED[op], prop, _value(value, params), column)
        case ir.Member(ir.Prop() as prop, items) if isinstance(items, (ir.Const, ir.Param)):
            return _listed(prop, _value(items, params), column)
        case ir.IsNull(ir.Prop(_, name), negated):
            return f"{column(name)} IS {'NOT ' if negated else ''}NULL"
        case ir.And(operands) | ir.Or(operands):
            parts = [predicate(o, params, column) for o in operands]
            word = " AND " if isinstance(condition, ir.And) else " OR "
            return None if None in parts else "(" + word.join(p for p in parts if p is not None) + ")"
        case _:
            return None


def _is_side(prop: ir.Expr, value: ir.Expr) -> bool:
    if not isinstance(prop, ir.Prop) or not isinstance(value, (ir.Const, ir.Param)) or value.type.value is None:
        return False
    assert prop.type.value is not None
    mine, other = prop.type.value.scalar, value.type.value.scalar
    fits = mine is other or (mine in INTEGERS and other in INTEGERS | FLOATS)
    return fits and _is_simple(prop.type)


def _is_simple(kind: ir.ExprType) -> bool:
    value = kind.value
    return value is not None and not value.is_list and not value.is_vector and value.scalar in _PUSHABLE


def _value(expr: ir.Const | ir.Param, params: Mapping[str, Any]) -> Any:
    return expr.value if isinstance(expr, ir.Const) else params[expr.name]


def _comparison(op: str, prop: ir.Prop, value: Any, column: Column) -> str | None:
    if value is None:
        return "FALSE"
    assert prop.type.value is not None
    name = column(prop.name)
    if prop.type.value.scalar in INTEGERS:
        return _of_integer(op, name, value, INTEGER_RANGE[prop.type.value.scalar])
    literal = _literal(value)
    return None if literal is None else f"{name} {'<>' if op == '!=' else op} {literal}"


def _of_integer(op: str, name: str, value: float, domain: tuple[int, int]) -> str | None:
    always, never = f"{name} IS NOT NULL", "FALSE"
    if isinstance(value, float):
        if not abs(value) < _EXACT_FLOAT:
            return None
        if not value.is_integer() and op in ("=", "!="):
            return never if op == "=" else always
        # The nearest whole number on the side that the comparison looks at.
        value = math.ceil(value) if op in ("<", ">=") else math.floor(value)
    low, high = domain
    if low <= value <= high:
        return f"{name} {'<>' if op == '!=' else op} {int(value)}"
    is_above = value > high
    holds = op == "!=" or (op in ("<", "<=") and is_above) or (op in (">", ">=") and not is_above)
    return always if holds else never


def _listed(prop: ir.Prop, values: Any, column: Column) -> str | None:
    if values is None or not values:
        return "FALSE"
    if len(values) > MAX_LISTED:
        return None
    parts = [_comparison("=", prop, value, column) for value in values if value is not None]
    if None in parts:
        return None
    options = sorted({p for p in parts if p is not None and p != "FALSE"})
    return "(" + " OR ".join(options) + ")" if options else "FALSE"


def _literal(value: Any) -> str | None:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return None if "\0" in value else "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return f"date '{value.isoformat()}'"
    return None
