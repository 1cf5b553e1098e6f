"""The value types of both languages, their Arrow form, and the canonical text of a scalar.

`PropertyType` is the declared type of one property. `canonical_text` is the only text form that key-derived ids and
uniqueness use: two values have equal text exactly when they are equal.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa

MAX_VECTOR_DIMENSION = 2**31 - 1
_FINE = re.compile(r"[.,][0-9]{3}[0-9]*[1-9]")
EPOCH_DATE = dt.date(1970, 1, 1)
EPOCH_DATETIME = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Scalar(StrEnum):
    """The base types, spelled as in the schema language."""

    STRING = "String"
    BLOB = "Blob"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATETIME = "DateTime"
    DATE = "Date"


INTEGERS = frozenset({Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64})
FLOATS = frozenset({Scalar.F32, Scalar.F64})
NUMERICS = INTEGERS | FLOATS

INTEGER_RANGE: dict[Scalar, tuple[int, int]] = {
    Scalar.I32: (-(2**31), 2**31 - 1),
    Scalar.I64: (-(2**63), 2**63 - 1),
    Scalar.U32: (0, 2**32 - 1),
    Scalar.U64: (0, 2**64 - 1),
}

_ARROW: dict[Scalar, pa.DataType] = {
    Scalar.STRING: pa.string(),
    Scalar.BLOB: pa.large_binary(),
    Scalar.BOOL: pa.bool_(),
    Scalar.I32: pa.int32(),
    Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(),
    Scalar.U64: pa.uint64(),
    Scalar.F32: pa.float32(),
    Scalar.F64: pa.float64(),
    Scalar.DATETIME: pa.timestamp("ms", tz="UTC"),
    Scalar.DATE: pa.date32(),
}


@dataclass(frozen=True, slots=True)
class PropertyType:
    """One property's type: a scalar, a list of scalars, a vector (`dimension`), or an enum (`values`)."""

    scalar: Scalar
    nullable: bool = False
    is_list: bool = False
    dimension: int | None = None
    values: tuple[str, ...] | None = None

    @property
    def is_vector(self) -> bool:
        """Return whether this is `Vector(n)`."""
        return self.dimension is not None

    @property
    def is_enum(self) -> bool:
        """Return whether this is `enum(...)`."""
        return self.values is not None

    @property
    def is_plain_scalar(self) -> bool:
        """Return whether values can be part of a key: no list, no vector, no blob."""
        return not self.is_list and not self.is_vector and self.scalar is not Scalar.BLOB

    @property
    def is_numeric(self) -> bool:
        """Return whether values are single numbers."""
        return self.scalar in NUMERICS and not self.is_list and not self.is_vector

    def to_arrow(self) -> pa.DataType:
        """Return the Arrow type of a column of this property."""
        base = _ARROW[self.scalar]
        if self.dimension is not None:
            return pa.list_(pa.field("item", pa.float32()), self.dimension)
        return pa.list_(pa.field("item", base)) if self.is_list else base

    def __str__(self) -> str:
        if self.dimension is not None:
            text = f"Vector({self.dimension})"
        elif self.values is not None:
            text = f"enum({', '.join(self.values)})"
        else:
            text = f"[{self.scalar}]" if self.is_list else str(self.scalar)
        return f"{text}?" if self.nullable else text


def canonical_text(value: Any, scalar: Scalar) -> str:
    """Render one non-null scalar as the text used in ids and uniqueness tuples.

    >>> canonical_text(-0.0, Scalar.F64), canonical_text(0.1, Scalar.F32), canonical_text(True, Scalar.BOOL)
    ('0', '0.1', 'true')
    """
    if scalar is Scalar.STRING:
        return str(value)
    if scalar is Scalar.BOOL:
        return "true" if value else "false"
    if scalar in INTEGERS:
        return str(int(value))
    if scalar in FLOATS:
        return _float_text(float(value), scalar)
    if scalar is Scalar.DATE:
        return str(value if isinstance(value, int) else (value - EPOCH_DATE).days)
    if scalar is Scalar.DATETIME:
        return str(value if isinstance(value, int) else datetime_to_ms(value))
    raise ValueError(f"{scalar} has no canonical text")


def _float_text(value: float, scalar: Scalar) -> str:
    if not math.isfinite(value):
        raise ValueError("a non-finite number has no canonical text")
    if value == 0:
        return "0"
    text = str(np.float32(value)) if scalar is Scalar.F32 else repr(value)
    return text.removesuffix(".0")


class TooPrecise(ValueError):
    """A moment between two milliseconds: a DateTime cannot hold it, and rounding it silently would lose data."""

    def __init__(self) -> None:
        super().__init__("is finer than a millisecond, which is all that a DateTime holds")


def datetime_to_ms(value: dt.datetime) -> int:
    """Return milliseconds since the epoch; a naive value is taken as UTC. Raises `TooPrecise`."""
    aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
    found, rest = divmod(aware - EPOCH_DATETIME, dt.timedelta(milliseconds=1))
    if rest:
        raise TooPrecise
    return found


def parse_datetime(text: str) -> dt.datetime:
    """Parse an ISO date and time. Raises `TooPrecise`, or another `ValueError`."""
    found = dt.datetime.fromisoformat(text)
    if _FINE.search(text):
        raise TooPrecise
    return found


def in_own_width(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Widen F32 values to the 64-bit numbers of the same digits: 0.1 and not 0.10000000149011612.

    For printing; lists, vectors and structs are widened too.
    """
    wide = _replaced(column.type, pa.float64())
    if wide == column.type:
        return column
    if column.null_count == len(column):  # Arrow reads the items of vectors also where there are none
        return pa.nulls(len(column), wide)
    return column.cast(_replaced(column.type, pa.string())).cast(wide)


def f32_digits(value: Any) -> Any:
    """Widen a value of an F32 property, or a list of them, to the 64-bit numbers of the same digits."""
    if isinstance(value, list):
        return [f32_digits(each) for each in value]
    return float(str(np.float32(value))) if isinstance(value, float) else value


def in_own_widths(table: pa.Table) -> pa.Table:
    """Apply `in_own_width` to every column."""
    return pa.table({name: in_own_width(table[name]) for name in table.column_names})


def _replaced(kind: pa.DataType, by: pa.DataType) -> pa.DataType:
    """Return a type with another one in the place of F32."""
    if kind == pa.float32():
        return by
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_replaced(kind.value_type, by)), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_replaced(kind.value_type, by)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_replaced(field.type, by)) for field in kind])
    return kind


def whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one array."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def canonical_texts(values: pa.Array) -> pa.Array:
    """Apply `canonical_text` to every value of a column, by its Arrow type; null stays null."""
    kind = values.type
    if pa.types.is_floating(kind):
        scalar = Scalar.F32 if kind == pa.float32() else Scalar.F64
        return pa.array([None if v is None else canonical_text(v, scalar) for v in values.to_pylist()], pa.string())
    if pa.types.is_date(kind):
        return values.cast(pa.date32()).cast(pa.int32()).cast(pa.string())
    if pa.types.is_timestamp(kind):
        return values.cast(pa.timestamp("ms", kind.tz)).cast(pa.int64()).cast(pa.string())
    return values.cast(pa.string())
