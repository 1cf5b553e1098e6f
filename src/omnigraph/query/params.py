"""Bind parameter values, in JSON or Python form, to the types that a query declares.            (ir, values -> BIND)

Everything is checked before a query runs: missing, unknown and ill-typed values are all refused here.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from omnigraph.datatypes import FLOATS, INTEGER_RANGE, INTEGERS, PropertyType, Scalar, TooPrecise
from omnigraph.errors import InvalidArgument
from omnigraph.errors.base import show_value
from omnigraph.parsing.source_text import MAX_NAME
from omnigraph.query import ir
from omnigraph.query.value_types import single
from omnigraph.schema.names import suggest
from omnigraph.schema.resolve import utc


class _Unfit(Exception):
    """A value does not fit its type; the text is the reason."""


def bind_params(query: ir.QueryIR | ir.MutationIR, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of every declared parameter, names without `$`; a nullable one may be left out.

    Whole numbers may be given as decimal text, dates and moments as ISO text. The result holds str, int, float, bool,
    `date`, UTC `datetime`, bytes, lists of those, and None.
    """
    declared = {each.name: each.type for each in query.params}
    for name in given:
        if name not in declared:
            hint = suggest(
                str(name)[:MAX_NAME], declared, f"declared: {', '.join(declared)}" if declared else "it declares none"
            )
            raise InvalidArgument(f"the query `{query.name}` has no parameter '{str(name)[:MAX_NAME]}'", hint=hint)
    bound = {name: _bound(query.name, name, wanted, given) for name, wanted in declared.items()}
    if isinstance(query, ir.QueryIR):
        _refuse_impossible(query, bound)
    return bound


def _refuse_impossible(query: ir.QueryIR, bound: Mapping[str, Any]) -> None:
    """Refuse numbers that no literal could be: the type checker refuses such literals, this function parameters."""
    for what, number in (("limit", query.limit), ("offset", query.offset)):
        _at_least(0, what, number, bound)
    for block in ir.blocks(query.pattern):
        for edge in block.edges:
            low = _at_least(1, "the lower hop bound", edge.min_hops, bound)
            high = _at_least(1, "the upper hop bound", edge.max_hops, bound)
            if low is not None and high is not None and high < low:
                raise InvalidArgument(f"no number of hops lies between {low} and {high}", hint="swap the bounds")
    for expr in ir.expressions(query):
        for each in ir.walk(expr):
            if isinstance(each, ir.Rrf):
                _at_least(1, "k of rrf", each.k, bound)
            elif isinstance(each, ir.TextMatch):
                _at_least(0, "the edits of fuzzy", each.max_edits, bound)


def _at_least(least: int, what: str, number: ir.Expr | int | None, bound: Mapping[str, Any]) -> int | None:
    value = bound[number.name] if isinstance(number, ir.Param) else number
    if not isinstance(value, int):
        return None
    if isinstance(number, ir.Param) and value < least:
        raise InvalidArgument(f"parameter '{number.name}': {what} must be at least {least}, got {value}")
    return value


def _bound(query: str, name: str, wanted: PropertyType, given: Mapping[str, Any]) -> Any:
    if given.get(name) is None:
        if wanted.nullable:
            return None
        what = "must not be null" if name in given else "not provided"
        raise InvalidArgument(f"parameter '{name}' {what}", hint=f"`{query}` needs {name}: {wanted}")
    try:
        return _value(given[name], wanted)
    except _Unfit as error:
        raise InvalidArgument(f"parameter '{name}': {error}", hint=f"it is declared as {wanted}") from None


def _value(value: Any, wanted: PropertyType) -> Any:
    if not wanted.is_list and not wanted.is_vector:
        return _scalar(value, wanted.scalar)
    # Arrays of other libraries become plain lists.
    items = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
        raise _Unfit(f"expected a list, got {_shown(value)}")
    found = []
    for index, item in enumerate(items):
        if item is None:
            raise _Unfit(f"item {index} is null")
        try:
            found.append(_scalar(item, wanted.scalar))
        except _Unfit as error:
            raise _Unfit(f"item {index}: {error}") from None
    if wanted.dimension is not None and len(found) != wanted.dimension:
        raise _Unfit(f"expected {wanted.dimension} numbers, got {len(found)}")
    return found


def _scalar(value: Any, scalar: Scalar) -> Any:
    if scalar in INTEGERS:
        return _integer(value, scalar)
    if scalar in FLOATS:
        return _float(value, scalar)
    if scalar is Scalar.DATE:
        return _date(value)
    if scalar is Scalar.DATETIME:
        return _datetime(value)
    wanted: tuple[type, ...] = (bool,) if scalar is Scalar.BOOL else (str,)
    if scalar is Scalar.BLOB:
        wanted = (str, bytes)
    if not isinstance(value, wanted):
        raise _Unfit(f"expected a {scalar}, got {_shown(value)}")
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise _Unfit("half of a surrogate pair is not a character")
    return value


def _integer(value: Any, scalar: Scalar) -> int:
    if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,40}", value):
        value = int(value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise _Unfit(f"expected a whole number, got {_shown(value)}")
    number = int(value.__index__())
    low, high = INTEGER_RANGE[scalar]
    if not low <= number <= high:
        raise _Unfit(f"{_shown(number)} is outside the {scalar} range, {low} to {high}")
    return number


def _float(value: Any, scalar: Scalar) -> float:
    is_number = hasattr(value, "__float__") or hasattr(value, "__index__")
    if isinstance(value, bool) or not is_number:
        raise _Unfit(f"expected a number, got {_shown(value)}")
    try:
        number: float | None = float(value)
    except (OverflowError, TypeError, ValueError):
        raise _Unfit(f"{_shown(value)} is outside the {scalar} range") from None
    assert number is not None, "a float is a number"
    if not math.isfinite(number):
        raise _Unfit("expected a finite number")
    number = single(number) if scalar is Scalar.F32 else number
    if number is None:
        raise _Unfit(f"{_shown(value)} is outside the {scalar} range")
    return number


def _date(value: Any) -> dt.date:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    if isinstance(value, str):
        try:
            return dt.date.fromisoformat(value)
        except ValueError:
            raise _Unfit(f"{_shown(value)} is not a date such as 2024-01-31") from None
    raise _Unfit(f"expected a date such as 2024-01-31, got {_shown(value)}")


def _datetime(value: Any) -> dt.datetime:
    if isinstance(value, dt.datetime | str):
        try:
            return utc(value.isoformat() if isinstance(value, dt.datetime) else value)
        except TooPrecise as error:
            raise _Unfit(f"{_shown(value)} {error}") from None
        except ValueError:
            raise _Unfit(f"{_shown(value)} is not a moment such as 2024-01-31T12:00:00Z") from None
    raise _Unfit(f"expected a moment such as 2024-01-31T12:00:00Z, got {_shown(value)}")


def _shown(value: Any) -> str:
    return show_value(value, 40)
