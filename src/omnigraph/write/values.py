"""One value of a row into the Arrow form of its property, strictly: nothing is truncated, guessed or dropped."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from omnigraph.datatypes import (
    EPOCH_DATE,
    FLOATS,
    INTEGER_RANGE,
    INTEGERS,
    PropertyType,
    Scalar,
    TooPrecise,
    datetime_to_ms,
    parse_datetime,
)
from omnigraph.errors.base import show_value

_DECIMAL_DIGITS = 77
F32_MAX = float(np.finfo(np.float32).max)
_DATE_DAYS = (-719_162, 2_932_896)  # 0001-01-01 .. 9999-12-31
FIRST_MS, LAST_MS = _DATE_DAYS[0] * 86_400_000, (_DATE_DAYS[1] + 1) * 86_400_000 - 1
FIRST_DAY, LAST_DAY = _DATE_DAYS


class BadValue(Exception):
    """Why a value does not fit, in a few words, and which rule it breaks. The caller adds the row."""

    def __init__(self, message: str, rule: str = "type") -> None:
        super().__init__(message)
        self.rule = rule


def coerce(value: Any, kind: PropertyType) -> Any:
    """The value to store for a non-null input, or `BadValue`."""
    if kind.dimension is not None:
        return _vector(value, kind.dimension)
    if kind.is_list:
        if not isinstance(value, (list, tuple)):
            raise BadValue(f"expects a list of {kind.scalar}, got {_shown(value)}")
        if any(item is None for item in value):
            raise BadValue("list items cannot be null")
        return [_SCALARS[kind.scalar](item) for item in value]
    found = _SCALARS[kind.scalar](value)
    if kind.values is not None and found not in kind.values:
        raise BadValue(f"invalid enum value {found!r}; expected one of {', '.join(kind.values)}", "enum")
    return found


def read_text(text: str, kind: PropertyType) -> Any:
    """The plain value that a CSV field spells, for `coerce`: numbers, true and false, JSON for lists and vectors."""
    if kind.is_list or kind.is_vector:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadValue(f"expects a JSON list, got {_shown(text)}") from error
    if kind.scalar is Scalar.BOOL:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    try:
        if kind.scalar in INTEGERS or (kind.scalar in (Scalar.DATE, Scalar.DATETIME) and text.lstrip("-").isdecimal()):
            return int(text)
        return float(text) if kind.scalar in FLOATS else text
    except ValueError:
        return text


@dataclass(frozen=True, slots=True)
class DateFormats:
    """How text spells dates and moments, as patterns of `strptime`; None is ISO."""

    date: str | None = None
    datetime: str | None = None

    def pattern(self, kind: PropertyType) -> str | None:
        """The pattern for the values of a type."""
        if kind.is_list:
            return None
        return {Scalar.DATE: self.date, Scalar.DATETIME: self.datetime}.get(kind.scalar)


ISO = DateFormats()


def read_date(text: str, pattern: str, kind: PropertyType) -> Any:
    """The date or the moment that a text spells by a pattern, for `coerce`."""
    try:
        found = dt.datetime.strptime(text.strip(), pattern)
    except ValueError:
        raise BadValue(f"expects a {kind.scalar} written as {pattern}, got {_shown(text)}") from None
    return found.date() if kind.scalar is Scalar.DATE else found


def _shown(value: Any) -> str:
    return show_value(value)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise BadValue(f"expects a String, got {_shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadValue("is not valid Unicode text") from error
    return value


def _bool(value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise BadValue(f"expects a Bool, got {_shown(value)}")
    return bool(value)


def _integer(scalar: Scalar) -> Callable[[Any], int]:
    low, high = INTEGER_RANGE[scalar]

    def convert(value: Any) -> int:
        if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
            value = int(value) if value.adjusted() < _DECIMAL_DIGITS else value
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise BadValue(f"expects an integer ({scalar}), got {_shown(value)}")
        if not low <= value <= high:
            raise BadValue(f"{_shown(value)} is outside the {scalar} range")
        return int(value)

    return convert


def _float(scalar: Scalar) -> Callable[[Any], float]:
    def convert(value: Any) -> float:
        if isinstance(value, Decimal):
            value = _float_of(value, scalar)
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
            raise BadValue(f"expects a number ({scalar}), got {_shown(value)}")
        try:
            number = float(value)
        except OverflowError as error:
            raise BadValue(f"{_shown(value)} is outside the {scalar} range") from error
        if not math.isfinite(number):
            raise BadValue(f"expects a finite number, got {_shown(value)}")
        if scalar is Scalar.F32 and abs(number) > F32_MAX:
            raise BadValue(f"{_shown(value)} is outside the F32 range")
        return number

    return convert


def _float_of(value: Decimal, scalar: Scalar) -> float:
    """The float that is written as this decimal; a decimal with more digits than a float keeps is refused."""
    with np.errstate(over="ignore"):  # the caller refuses an infinite one
        found = np.float32(value) if scalar is Scalar.F32 else np.float64(value)
    if np.isfinite(found) and Decimal(str(found)) != value:
        raise BadValue(f"{_shown(str(value))} has more digits than {scalar} keeps")
    return float(found)


def _date(value: Any) -> int:
    if isinstance(value, (dt.datetime, bool)):
        raise BadValue(f"expects a Date, got {_shown(value)}")
    if isinstance(value, dt.date):
        return (value - EPOCH_DATE).days
    if isinstance(value, int):
        if not _DATE_DAYS[0] <= value <= _DATE_DAYS[1]:
            raise BadValue(f"{_shown(value)} is outside the Date range")
        return value
    if isinstance(value, str):
        try:
            return (dt.date.fromisoformat(value) - EPOCH_DATE).days
        except ValueError as error:
            raise BadValue(f"{_shown(value)} is not an ISO date (YYYY-MM-DD)") from error
    raise BadValue(f"expects a Date (ISO text or days since 1970-01-01), got {_shown(value)}")


def _datetime(value: Any) -> int:
    if isinstance(value, dt.datetime):
        return _in_calendar(_milliseconds(value, value), value)
    if isinstance(value, int) and not isinstance(value, bool):
        return _in_calendar(value, value)
    if isinstance(value, str):
        try:
            moment = parse_datetime(value)
        except TooPrecise as error:
            raise BadValue(f"{_shown(value)} {error}") from error
        except ValueError as error:
            raise BadValue(f"{_shown(value)} is not an ISO date and time") from error
        return _in_calendar(_milliseconds(moment, value), value)
    raise BadValue(f"expects a DateTime (ISO text or ms since 1970-01-01), got {_shown(value)}")


def _milliseconds(value: dt.datetime, given: Any) -> int:
    try:
        return datetime_to_ms(value)
    except TooPrecise as error:
        raise BadValue(f"{_shown(given)} {error}") from error


def _in_calendar(moment: int, given: Any) -> int:
    if not FIRST_MS <= moment <= LAST_MS:
        raise BadValue(f"{_shown(given)} is outside the DateTime range")
    return moment


def _blob(value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, str) and value.startswith("base64:"):
        try:
            return base64.b64decode(value[7:], validate=True)
        except binascii.Error as error:
            raise BadValue("is not valid base64") from error
    if isinstance(value, str) and "://" in value:
        raise BadValue(
            f"names an external URI, which is not allowed: give bytes or 'base64:...' text, not {_shown(value)}"
        )
    raise BadValue(f"expects bytes or 'base64:...' text, got {_shown(value)}")


def _vector(value: Any, dimension: int) -> list[float]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        raise BadValue(f"expects a vector of {dimension} numbers, got {_shown(value)}")
    if len(value) != dimension:
        raise BadValue(f"expects {dimension} dimensions, got {len(value)}")
    convert = _SCALARS[Scalar.F32]
    try:
        return [convert(item) for item in value]
    except BadValue as error:
        raise BadValue(f"vector elements must be numeric: {error}") from error


_SCALARS: dict[Scalar, Callable[[Any], Any]] = {
    Scalar.STRING: _string,
    Scalar.BOOL: _bool,
    Scalar.DATE: _date,
    Scalar.DATETIME: _datetime,
    Scalar.BLOB: _blob,
    **{scalar: _integer(scalar) for scalar in INTEGERS},
    **{scalar: _float(scalar) for scalar in FLOATS},
}
