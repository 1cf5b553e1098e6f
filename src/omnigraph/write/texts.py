"""Parsing columns of text into values, all at once where Arrow reads a text as `read_text` does.

The meaning of a text never depends on the texts around it: texts that Arrow may read differently are returned
separately, and the caller reads them one by one.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.datatypes import FLOATS, INTEGERS, PropertyType, Scalar
from omnigraph.write.values import FIRST_DAY, FIRST_MS, LAST_DAY, LAST_MS

_DATE = (
    r"[1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    r"|02-(0[1-9]|1[0-9]|2[0-8]))"
)
_FRACTION = r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$"
_SURE_TEXTS = {
    Scalar.BOOL: "^(true|false)$", Scalar.I32: "^-?[0-9]{1,9}$", Scalar.I64: "^-?[0-9]{1,18}$",
    Scalar.U32: "^[0-9]{1,9}$", Scalar.U64: "^[0-9]{1,18}$", Scalar.F32: _FRACTION, Scalar.F64: _FRACTION,
    Scalar.DATE: f"^{_DATE}$",
    Scalar.DATETIME: rf"^{_DATE}[T ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{{3}})?Z?$",
}  # fmt: skip
"""Texts that Arrow is sure to read, and to read as `read_text` does. Others may be right too."""
_SAMPLE, _FEW = 8192, 2048
"""How many texts are sampled first, and how few distinct ones among them mean that the column repeats its texts."""


def is_readable(kind: PropertyType) -> bool:
    """Whether most texts of a type can be read at once."""
    return kind.is_plain_scalar and not kind.is_enum and kind.scalar in _SURE_TEXTS


def read_at_once(column: pa.ChunkedArray, kind: PropertyType) -> pa.ChunkedArray | None:
    """The values of a column of text; None where Arrow cannot read all of it, or may read it in another way."""
    if not kind.is_plain_scalar or (kind.scalar in INTEGERS and _may_be_hexadecimal(column)):
        return None
    try:
        column.slice(0, _SAMPLE).cast(kind.to_arrow())  # Arrow goes on behind a text that it cannot read
        read = column.cast(kind.to_arrow())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if kind.scalar in FLOATS and not pc.all(pc.is_finite(read), min_count=0).as_py():
        return None
    return read if is_in_calendar(read, kind.scalar) else None


def read_sure(texts: pa.Array, kind: PropertyType) -> tuple[pa.Array, pa.Array]:
    """The values of the texts that are surely read correctly, null for others, and which others there are."""
    if pc.count_distinct(texts.slice(0, _SAMPLE)).as_py() > _FEW or len(texts) <= _SAMPLE:
        return _read_sure(texts, kind)
    encoded = texts.dictionary_encode()
    read, is_rest = _read_sure(encoded.dictionary, kind)
    return read.take(encoded.indices), pc.fill_null(is_rest.take(encoded.indices), False)


def is_in_calendar(column: pa.ChunkedArray, scalar: Scalar) -> bool:
    """Whether all dates and moments lie in the years 1 to 9999: others could not be read back."""
    if scalar not in (Scalar.DATE, Scalar.DATETIME):
        return True
    is_date = scalar is Scalar.DATE
    found = pc.min_max(column.cast(pa.int32() if is_date else pa.int64()))
    low, high = (FIRST_DAY, LAST_DAY) if is_date else (FIRST_MS, LAST_MS)
    least, most = found["min"].as_py(), found["max"].as_py()
    return least is None or (low <= least and most <= high)


def _read_sure(texts: pa.Array, kind: PropertyType) -> tuple[pa.Array, pa.Array]:
    is_sure = pc.match_substring_regex(texts, _SURE_TEXTS[kind.scalar])
    sure = pc.if_else(is_sure, texts, pa.scalar(None, texts.type))
    if kind.scalar is Scalar.DATETIME:  # without a zone it is UTC, which Arrow has to be given
        sure = pc.if_else(pc.ends_with(sure, "Z"), sure, pc.binary_join_element_wise(sure, "Z", ""))
    return sure.cast(kind.to_arrow()), pc.fill_null(pc.invert(is_sure), False)


def _may_be_hexadecimal(column: pa.ChunkedArray) -> bool:
    """Whether a text may be a number like 0x1F, which only Arrow reads."""
    data: list[Any] = [chunk.buffers()[-1] for chunk in column.chunks]
    return any(b"x" in body or b"X" in body for body in (buffer.to_pybytes() for buffer in data if buffer is not None))
