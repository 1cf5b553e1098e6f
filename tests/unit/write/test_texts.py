"""What a text of a column means is what `read_text` says, whatever the texts around it are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from omnigraph.datatypes import PropertyType, Scalar
from omnigraph.write.texts import is_readable, read_at_once, read_sure
from omnigraph.write.values import BadValue, coerce, read_text

INTEGERS = [
    "0x10", "0X1f", "0xFFFFFFFF", "0xFFFFFFFFFFFFFFFF", " 12", "12 ", "+12", "-0", "-7", "007", "1.0", "1e3", "", "x",
    "999999999", "2147483647", "2147483648", "-2147483648", "-2147483649", "4294967295", "4294967296",
    "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616",
]  # fmt: skip
FRACTIONS = [
    "1e5", " 1.5", "+1.5", ".5", "5.", "0.1", "-0.0", "0x1p3", "infinity", "nan", "1e999", "-nan", "1,5", "1e39", "",
    "123456789012345.123456789012345", "1234567890123456789",
]  # fmt: skip
DATES = [
    "2020-01-01", "2020-02-29", "2021-02-29", "1990-02-30", "1990-04-31", "9999-12-31", "0001-01-01", "0000-01-01",
    "10000-01-01", "2020-1-1", " 2020-01-01", "20200101", "12", "-12", "2020-13-01", "2020-01-01T00:00:00", "",
]  # fmt: skip
MOMENTS = [
    "2020-01-01T10:00:00Z", "2020-01-01T10:00:00", "2020-01-01 10:00:00", "2020-01-01 10:00:00Z", "2020-01-01",
    "2020-01-01T10:00:00.123", "2020-01-01T10:00:00.123Z", "2020-01-01T10:00:00.1Z", "2020-01-01T10:00:00.123456Z",
    "2020-01-01T10:00:00+01:00", "2020-01-01T24:00:00", "2020-01-01T23:59:60Z", "2020-02-30T00:00:00Z", "12", "x", "",
    "1969-12-31T23:59:59.999", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z",
]  # fmt: skip
BOOLS = ["true", "false", "TRUE", "False", "1", "0", "yes", " true", "t", ""]
TEXTS = {
    Scalar.BOOL: BOOLS, Scalar.I32: INTEGERS, Scalar.I64: INTEGERS, Scalar.U32: INTEGERS, Scalar.U64: INTEGERS,
    Scalar.F32: FRACTIONS, Scalar.F64: FRACTIONS, Scalar.DATE: DATES, Scalar.DATETIME: MOMENTS,
}  # fmt: skip
CASES = [(scalar, text) for scalar, texts in TEXTS.items() for text in texts]


def stored(scalar: Scalar, text: str) -> int | float | None:
    """The value that a text has alone, as it is stored; None where it is wrong."""
    kind = PropertyType(scalar)
    try:
        value: Any = coerce(read_text(text, kind), kind)
    except BadValue:
        return None
    return plain(pa.array([value], {Scalar.DATE: pa.int32(), Scalar.DATETIME: pa.int64()}.get(scalar, kind.to_arrow())))


def plain(values: pa.Array) -> Any:
    """The one value of a column as a number."""
    kind = values.type
    numbers = {pa.date32(): pa.int32(), pa.timestamp("ms", "UTC"): pa.int64()}.get(kind, kind)
    return values.cast(numbers)[0].as_py()


@pytest.mark.parametrize(("scalar", "text"), CASES)
def test_columns_are_read_as_their_texts_are(scalar: Scalar, text: str) -> None:
    kind, expected = PropertyType(scalar), stored(scalar, text)
    assert is_readable(kind)
    alone = read_at_once(pa.chunked_array([[text]]), kind)
    assert alone is None or (expected is not None and plain(alone.combine_chunks()) == expected)
    for texts in ([text, "?"], [text, "?"] * 5000):
        read, is_rest = read_sure(pa.array(texts), kind)
        assert len(read) == len(is_rest) == len(texts)
        assert is_rest[0].as_py() or plain(read) == expected
        assert (read[0].as_py() is None) == is_rest[0].as_py()


@pytest.mark.parametrize("scalar", TEXTS)
def test_nulls_stay_nulls(scalar: Scalar) -> None:
    for texts in ([None, "?"], [None, "?"] * 5000):
        read, is_rest = read_sure(pa.array(texts, pa.string()), PropertyType(scalar))
        assert (read[0].as_py(), is_rest[0].as_py(), is_rest[1].as_py()) == (None, False, True)
    none = read_at_once(pa.chunked_array([pa.nulls(2, pa.string())]), PropertyType(scalar))
    assert none is not None
    assert none.null_count == 2
    assert len(read_at_once(pa.chunked_array([], pa.string()), PropertyType(scalar)) or []) == 0
