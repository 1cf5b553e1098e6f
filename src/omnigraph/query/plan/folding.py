"""Rule: fold a comparison of a column with a constant to the domain of the column.

Storage compares in the column's own type: a literal that the type cannot hold is refused or rounded. So a comparison is
rewritten before it is sent: to one with the nearest value of the column's type that keeps its meaning, to "every row
that is not null", or to "no row".
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from omnigraph.datatypes import FLOATS, INTEGER_RANGE, INTEGERS, Scalar, datetime_to_ms

Verdict = Literal["always", "never"]
Folded = tuple[str, Any] | Verdict | None
"""An operator with a value of the column's type; a constant answer for every value; None if inexpressible."""
_EXACT_FLOAT = 2**53


def fold(op: str, value: Any, column: Scalar, value_type: Scalar) -> Folded:
    """Rewrite `column op value` within the type of the column. The value is not null."""
    if column in INTEGERS:
        return _fold_integer(op, value, column)
    if column in FLOATS:
        return _fold_float(op, value, column, value_type)
    if column is Scalar.DATETIME:
        return op, datetime_to_ms(value)
    if column is Scalar.STRING and "\0" in value:
        return None
    return op, value


def _fold_integer(op: str, value: float, column: Scalar) -> Folded:
    low, high = INTEGER_RANGE[column]
    if not low <= value <= high:
        return _outside(op, is_above=value > high)
    if isinstance(value, float):
        # Beyond 2**53 numbers are compared as floats, and several integers equal one float: storage distinguishes them.
        if abs(value) >= _EXACT_FLOAT:
            return None
        if not value.is_integer() and op in ("=", "!="):
            return "never" if op == "=" else "always"
        # The nearest integer on the side of the comparison.
        value = math.ceil(value) if op in ("<", ">=") else math.floor(value)
        if not low <= value <= high:
            return _outside(op, is_above=value > high)
    return op, int(value)


def _fold_float(op: str, value: Any, column: Scalar, value_type: Scalar) -> Folded:
    number = float(np.float32(value)) if value_type is Scalar.F32 else float(value)
    if math.isnan(number):
        return "always" if op == "!=" else "never"
    if column is Scalar.F64:
        return (op, number) if math.isfinite(number) else _outside(op, is_above=number > 0)
    return _fold_single(op, number)


def _fold_single(op: str, number: float) -> Folded:
    """Fold a comparison of an F32 column with any F64."""
    most = float(np.finfo(np.float32).max)
    if abs(number) > most:
        return _outside(op, is_above=number > 0)
    nearest = np.float32(number)
    if float(nearest) == number:
        return op, number
    if op in ("=", "!="):
        return "never" if op == "=" else "always"
    infinity = np.float32(math.inf)
    if op in ("<", "<="):
        below = nearest if float(nearest) < number else np.nextafter(nearest, -infinity)
        return "<=", float(below)
    above = nearest if float(nearest) > number else np.nextafter(nearest, infinity)
    return ">=", float(above)


def _outside(op: str, *, is_above: bool) -> Verdict:
    """Fold a comparison with a value outside the range of the column."""
    holds = op == "!=" or (op in ("<", "<=") and is_above) or (op in (">", ">=") and not is_above)
    return "always" if holds else "never"
