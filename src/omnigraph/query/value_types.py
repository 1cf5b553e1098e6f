"""The type rules of values: comparable types, types of literals, types of arithmetic. (typecheck's rulebook)

Numbers of any two types are comparable; all other values must be of one scalar type. A literal takes the type of the
property that it is compared with whenever that loses nothing, so executors seldom convert; otherwise both sides are
promoted to a common type.
"""

from __future__ import annotations

import datetime as dt
import struct
from dataclasses import replace
from typing import Any

from omnigraph.datatypes import FLOATS, INTEGER_RANGE, INTEGERS, NUMERICS, PropertyType, Scalar
from omnigraph.query import ir

BOOL = ir.ExprType(PropertyType(Scalar.BOOL))
STRING = ir.ExprType(PropertyType(Scalar.STRING))
I64 = ir.ExprType(PropertyType(Scalar.I64))
F64 = ir.ExprType(PropertyType(Scalar.F64))
DATETIME = ir.ExprType(PropertyType(Scalar.DATETIME))
NULL = ir.ExprType(None, "null")

# Whole numbers up to here are exact in that float type.
_EXACT = {Scalar.F32: 2**24, Scalar.F64: 2**53}
_UNSIGNED = frozenset({Scalar.U32, Scalar.U64})


def value(written: PropertyType) -> ir.ExprType:
    """Return the expression type of a property type."""
    return ir.ExprType(written)


def nullable(written: ir.ExprType, is_nullable: bool) -> ir.ExprType:
    """Return the same type with the given nullability."""
    if written.value is None:
        return replace(written, optional=is_nullable)
    return ir.ExprType(replace(written.value, nullable=is_nullable))


def is_scalar(written: ir.ExprType) -> bool:
    """Return whether this is one plain value: no list, no vector, no blob, no node."""
    return written.value is not None and written.value.is_plain_scalar


def is_text(written: ir.ExprType) -> bool:
    """Return whether this is a String or an enum value."""
    return is_scalar(written) and written.value is not None and written.value.scalar is Scalar.STRING


def is_number(written: ir.ExprType) -> bool:
    """Return whether this is one number."""
    return written.value is not None and written.value.is_numeric


def is_list(written: ir.ExprType) -> bool:
    """Return whether this is a list (a vector is not)."""
    return written.value is not None and written.value.is_list


def scalars_meet(left: Scalar, right: Scalar) -> bool:
    """Return whether values of two scalar types can be compared or assigned."""
    return left is right or (left in NUMERICS and right in NUMERICS)


def scalar_of(constant: Any) -> Scalar:
    """Return the scalar type of a literal on its own."""
    match constant:
        case bool():
            return Scalar.BOOL
        case int():
            return Scalar.I64 if constant <= INTEGER_RANGE[Scalar.I64][1] else Scalar.U64
        case float():
            return Scalar.F64
        case dt.datetime():
            return Scalar.DATETIME
        case dt.date():
            return Scalar.DATE
        case _:
            return Scalar.STRING


def fold_literals(expr: ir.Expr, other: ir.ExprType) -> ir.Expr:
    """Convert a literal to the scalar type of the other side, if that loses nothing; return any other unchanged.

    A fraction compared with an F32 is rounded to F32: `0.1` finds the F32 values written as 0.1.
    """
    if not isinstance(expr, ir.Const) or expr.type.value is None or other.value is None:
        return expr
    target = other.value.scalar
    items = expr.value if isinstance(expr.value, tuple) else (expr.value,)
    folded = [folded_value(item, target) for item in items]
    if any(item is None for item in folded):
        return expr
    written = replace(expr.type.value, scalar=target)
    return ir.Const(tuple(folded) if isinstance(expr.value, tuple) else folded[0], value(written))


def folded_value(constant: Any, target: Scalar) -> Any | None:
    """Return one literal value in a scalar type; None when it does not fit."""
    if target not in NUMERICS or isinstance(constant, bool) or not isinstance(constant, int | float):
        return constant if scalar_of(constant) is target else None
    if target in INTEGERS:
        low, high = INTEGER_RANGE[target]
        return constant if isinstance(constant, int) and low <= constant <= high else None
    if isinstance(constant, int):
        return float(constant) if abs(constant) <= _EXACT[target] else None
    return constant if target is Scalar.F64 else single(constant)


def single(number: float) -> float | None:
    """Return the nearest F32; None when it is out of range.

    >>> single(0.5), single(1e300)
    (0.5, None)
    """
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return None


def arithmetic(left: ir.Expr, right: ir.Expr) -> ir.ExprType:
    """Return the type of an arithmetic result: F64 with a fraction, U64 among unsigned ones, I64 otherwise."""
    kinds = [each.type.value.scalar for each in (left, right) if each.type.value is not None]
    may_be_null = left.type.nullable or right.type.nullable
    if any(kind in FLOATS for kind in kinds):
        scalar = Scalar.F64
    elif Scalar.U64 in kinds and all(_is_unsigned(each) for each in (left, right)):
        scalar = Scalar.U64
    else:
        scalar = Scalar.I64
    return value(PropertyType(scalar, may_be_null))


def _is_unsigned(expr: ir.Expr) -> bool:
    if isinstance(expr, ir.Const):
        return isinstance(expr.value, int) and expr.value >= 0
    return expr.type.value is not None and expr.type.value.scalar in _UNSIGNED


def unify(types: list[PropertyType]) -> PropertyType | None:
    """Return the one type of a property that several node or edge types have; None when they disagree."""
    first = types[0]
    may_be_null = any(each.nullable for each in types)
    plain = {replace(each, nullable=False) for each in types}
    if len(plain) == 1:
        return replace(first, nullable=may_be_null)
    if all(each.is_plain_scalar and each.scalar is Scalar.STRING for each in types):
        return PropertyType(Scalar.STRING, may_be_null)
    return None
