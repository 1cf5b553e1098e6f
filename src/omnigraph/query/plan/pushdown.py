"""Rule: find the conditions that storage can evaluate, and translate them to SQL.

Only conditions whose SQL means exactly what they mean here: comparisons of one property with one value, `in` lists,
`starts_with` and null tests, joined by and/or. A filter keeps a row only when it is true, so false and null may be
exchanged; under `not` they may not, and nothing is pushed there. Values are folded to the type of their column first
(`folding.py`).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.datatypes import FLOATS, INTEGERS, NUMERICS, Scalar
from omnigraph.query import ir
from omnigraph.query.plan.folding import fold

_PUSHABLE = NUMERICS | {Scalar.STRING, Scalar.BOOL, Scalar.DATE, Scalar.DATETIME}
_FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
MAX_LISTED = 1000
Column = Callable[[str], str]
"""Return the physical column of a property."""


@dataclass(frozen=True, slots=True)
class Never:
    """The predicate that no row passes."""


@dataclass(frozen=True, slots=True)
class NullTest:
    """Rows whose column is null, or is not."""

    column: str
    is_null: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """`column op value`; the value is of the column's type, a DateTime in milliseconds."""

    column: str
    scalar: Scalar
    op: str
    value: Any


@dataclass(frozen=True, slots=True)
class Prefix:
    """Rows whose text begins with another."""

    column: str
    text: str


@dataclass(frozen=True, slots=True)
class AllOf:
    """Rows that pass all of some predicates."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Rows that pass one of some predicates."""

    parts: tuple[Predicate, ...]


Predicate = Never | NullTest | Comparison | Prefix | AllOf | AnyOf
NEVER = Never()


def is_pushable(condition: ir.Expr) -> bool:
    """Return whether a condition has a shape that storage can evaluate, whatever its values."""
    match condition:
        case ir.Compare(_, left, right):
            return _is_side(left, right) or _is_side(right, left)
        case ir.Member(item, items):
            return _is_side(item, items)
        case ir.TextTest("starts_with", left, right):
            return _is_side(left, right)
        case ir.IsNull(ir.Prop(_, _, kind)):
            return _is_simple(kind)
        case ir.And(operands) | ir.Or(operands):
            return all(is_pushable(o) for o in operands)
        case _:
            return False


def predicate(condition: ir.Expr, params: Mapping[str, Any], column: Column) -> str | None:
    """Return the condition as SQL over physical columns; None when one of its values has no SQL literal."""
    found = fold_constants(condition, params, column)
    return None if found is None else sql(found)


def fold_constants(condition: ir.Expr, params: Mapping[str, Any], column: Column) -> Predicate | None:
    """Return the condition over physical columns, values in their types; None when a value has no such form."""
    match condition:
        case ir.Compare(op, ir.Prop() as prop, value) if isinstance(value, (ir.Const, ir.Param)):
            return _comparison(op, prop, value, _value(value, params), column)
        case ir.Compare(op, value, ir.Prop() as prop) if isinstance(value, (ir.Const, ir.Param)):
            return _comparison(_FLIPPED[op], prop, value, _value(value, params), column)
        case ir.Member(ir.Prop() as prop, items) if isinstance(items, (ir.Const, ir.Param)):
            return _listed(prop, items, _value(items, params), column)
        case ir.TextTest("starts_with", ir.Prop(_, name), text) if isinstance(text, (ir.Const, ir.Param)):
            return _prefix(column(name), _value(text, params))
        case ir.IsNull(ir.Prop(_, name), negated):
            return NullTest(column(name), not negated)
        case ir.And(operands) | ir.Or(operands):
            parts = [fold_constants(o, params, column) for o in operands]
            said = tuple(p for p in parts if p is not None)
            if len(said) < len(parts):
                return None
            return all_of(said) if isinstance(condition, ir.And) else any_of(said)
        case _:
            return None


def all_of(parts: Iterable[Predicate]) -> Predicate:
    """Return the conjunction of predicates as one."""
    found = tuple(parts)
    if NEVER in found:
        return NEVER
    return found[0] if len(found) == 1 else AllOf(found)


def sql(found: Predicate) -> str:
    """Return a predicate as SQL of the storage layer."""
    match found:
        case Never():
            return "FALSE"
        case NullTest(column, is_null):
            return f"`{column}` IS {'' if is_null else 'NOT '}NULL"
        case Comparison(column, scalar, op, value):
            return f"`{column}` {'<>' if op == '!=' else op} {_literal(value, scalar)}"
        case Prefix(column, text):
            return f"starts_with(`{column}`, {_literal(text, Scalar.STRING)})"
        case AllOf(parts):
            return "(" + " AND ".join(map(sql, parts)) + ")"
        case AnyOf(parts):
            return "(" + " OR ".join(map(sql, parts)) + ")"


def any_of(parts: tuple[Predicate, ...]) -> Predicate:
    """Return the disjunction of predicates as one."""
    left = tuple(dict.fromkeys(part for part in parts if part != NEVER))
    if not left:
        return NEVER
    return left[0] if len(left) == 1 else AnyOf(left)


def _is_side(prop: ir.Expr, value: ir.Expr) -> bool:
    if not isinstance(prop, ir.Prop) or not isinstance(value, (ir.Const, ir.Param)) or value.type.value is None:
        return False
    assert prop.type.value is not None
    mine, other = prop.type.value.scalar, value.type.value.scalar
    fits = mine is other or (mine in INTEGERS | FLOATS and other in INTEGERS | FLOATS)
    return fits and _is_simple(prop.type)


def _is_simple(kind: ir.ExprType) -> bool:
    value = kind.value
    return value is not None and not value.is_list and not value.is_vector and value.scalar in _PUSHABLE


def _value(expr: ir.Const | ir.Param, params: Mapping[str, Any]) -> Any:
    return expr.value if isinstance(expr, ir.Const) else params[expr.name]


def _comparison(op: str, prop: ir.Prop, side: ir.Const | ir.Param, value: Any, column: Column) -> Predicate | None:
    if value is None:
        return NEVER
    assert prop.type.value is not None
    assert side.type.value is not None
    name, scalar = column(prop.name), prop.type.value.scalar
    found = fold(op, value, scalar, side.type.value.scalar)
    if found is None:
        return None
    if found == "never":
        return NEVER
    if found == "always":
        return NullTest(name, is_null=False)
    return Comparison(name, scalar, *found)


def _listed(prop: ir.Prop, side: ir.Const | ir.Param, values: Any, column: Column) -> Predicate | None:
    if not values:
        return NEVER
    if len(values) > MAX_LISTED:
        return None
    parts = [_comparison("=", prop, side, value, column) for value in values if value is not None]
    said = tuple(p for p in parts if p is not None)
    return any_of(said) if len(said) == len(parts) else None


def _prefix(column: str, text: Any) -> Predicate | None:
    if text is None:
        return NEVER
    if not text:
        return NullTest(column, is_null=False)
    return None if "\0" in text else Prefix(column, text)


def _literal(value: Any, scalar: Scalar) -> str:
    if scalar is Scalar.STRING:
        return "'" + str(value).replace("'", "''") + "'"
    if scalar is Scalar.BOOL:
        return "TRUE" if value else "FALSE"
    if scalar is Scalar.DATE:
        assert isinstance(value, dt.date)
        return f"date '{value.isoformat()}'"
    if scalar is Scalar.DATETIME:
        # A `timestamp` literal counts nanoseconds and ends in the year 2262.
        return f"to_timestamp_millis({value})"
    return repr(value)
