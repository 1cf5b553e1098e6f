"""Inferring from the values of a column the property that could hold them, with the reason in words."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.write.frames import plain_column

_INTEGER = r"^-?(0|[1-9][0-9]{0,17})$"
_PADDED = r"^-?0[0-9]+$"
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_TRUTH = r"^(true|false|True|False|TRUE|FALSE)$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}"
_FEW_VALUES = 12
_INTEGERS = {
    pa.int8(): "I32", pa.int16(): "I32", pa.int32(): "I32", pa.int64(): "I64", pa.uint8(): "U32", pa.uint16(): "U32",
    pa.uint32(): "U32", pa.uint64(): "U64", pa.float16(): "F32", pa.float32(): "F32", pa.float64(): "F64",
    pa.bool_(): "Bool", pa.date32(): "Date", pa.date64(): "Date",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """A column: the property type that fits (None where none does), and why. `values` are its distinct texts."""

    column: str
    kind: str | None
    reasons: tuple[str, ...]
    rows: int
    missing: int
    values: frozenset[str] = frozenset()

    @property
    def is_unique(self) -> bool:
        """Whether every row has a distinct value."""
        return bool(self.rows) and not self.missing and len(self.values) == self.rows


def profile(name: str, column: pa.ChunkedArray, *, is_text: bool) -> ColumnProfile:
    """Profile all values of a column. `is_text`: they are fields of CSV, whose text may mean any type."""
    column = plain_column(column)
    rows, missing = len(column), column.null_count
    present = column.drop_null()
    kind: str | None
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        kind, why = _spelled(present) if is_text else _of_text(present)
    else:
        kind, why = _typed(column.type, present)
    values: frozenset[str] = frozenset()
    if kind in ("String", "I32", "I64", "U32", "U64", "Date"):
        values = frozenset(pc.unique(present.cast(pa.string())).to_pylist())
    if kind == "String" and 1 < len(values) <= _FEW_VALUES < len(present) // 4:
        why = f"{why}; only {len(values)} different values, an enum may fit: {', '.join(sorted(values))}"
    absent = f"{missing} of {rows} rows have no value" if missing else f"all {rows} rows have a value"
    return ColumnProfile(name, kind, tuple(each for each in (why, absent) if each), rows, missing, values)


def _typed(kind: pa.DataType, present: pa.ChunkedArray) -> tuple[str | None, str]:
    if pa.types.is_null(kind):
        return "String", "no row has a value: the type is a guess"
    if kind in _INTEGERS:
        return _INTEGERS[kind], f"the column is {kind}"
    if pa.types.is_timestamp(kind):
        return "DateTime", f"the column is {kind}"
    if pa.types.is_decimal(kind):
        return ("I64" if kind.scale <= 0 and kind.precision <= 18 else "F64"), f"the column is {kind}"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "Blob", f"the column is {kind}"
    if pa.types.is_fixed_size_list(kind) and pa.types.is_floating(kind.value_type):
        return f"Vector({kind.list_size})", f"the column is {kind}"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _listed(kind, present)
    return None, f"the column is {kind}, which no property can hold"


def _listed(kind: pa.DataType, present: pa.ChunkedArray) -> tuple[str | None, str]:
    items = kind.value_type
    sizes = pc.unique(pc.list_value_length(present)).to_pylist()
    if pa.types.is_floating(items) and len(sizes) == 1 and sizes[0] > 2:
        return f"Vector({sizes[0]})", f"every list has {sizes[0]} numbers; [F64] if they are no vectors"
    name = "String" if pa.types.is_string(items) or pa.types.is_large_string(items) else _INTEGERS.get(items)
    return (None, f"the column is {kind}, which no property can hold") if name is None else (f"[{name}]", "lists")


def _of_text(present: pa.ChunkedArray) -> tuple[str, str]:
    for pattern, name in ((_DATE, "a Date"), (_MOMENT, "a DateTime")):
        if _all(present, pattern):
            return name.split()[1], f"every value is written as {name}"
    return "String", "text"


def _spelled(present: pa.ChunkedArray) -> tuple[str, str]:
    if not len(present):
        return "String", "no row has a value: the type is a guess"
    if _all(present, _INTEGER):
        return "I64", "every value is a whole number"
    if _all(present, _TRUTH):
        return "Bool", "every value is true or false"
    if _all(present, _NUMBER):
        return "F64", "every value is a number"
    if pc.any(pc.match_substring_regex(present, _PADDED)).as_py() and _all(present, r"^-?[0-9]+$"):
        return "String", "numbers with leading zeros, which a number would lose"
    kind, why = _of_text(present)
    if kind == "String":
        fits = pc.sum(pc.match_substring_regex(present, _NUMBER)).as_py() or 0
        if fits * 10 >= len(present) * 9:
            first = present.filter(pc.invert(pc.match_substring_regex(present, _NUMBER)))[0].as_py()
            why = f"{fits} of {len(present)} values are numbers, but not {_short(first)}"
    return kind, why


def _short(text: str) -> str:
    return repr(re.sub(r"\s+", " ", text)[:40])


def _all(present: pa.ChunkedArray, pattern: str) -> bool:
    return bool(len(present)) and bool(pc.all(pc.match_substring_regex(present, pattern)).as_py())
