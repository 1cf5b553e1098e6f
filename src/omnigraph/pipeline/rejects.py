"""Rows of DataFrames that a load leaves out, as JSON values: only the row itself identifies it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from omnigraph.errors import Violation
from omnigraph.json_values import json_value
from omnigraph.write.export import blob_text


def row_data(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a row as JSON values, blobs as base64 text."""
    return {name: json_value(_plain(value)) for name, value in row.items()}


def with_row(violation: Violation, first: int, batch: pa.RecordBatch) -> Mapping[str, Any] | None:
    """Return the row of a violation in a batch whose first row has the number `first`; None if it is elsewhere."""
    index = None if violation.row is None else violation.row - first
    if index is None or not 0 <= index < batch.num_rows:
        return None
    return row_data({name: _scalar(batch.column(at)[index]) for at, name in enumerate(batch.schema.names)})


def _scalar(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):  # a moment outside the range of Python's calendar
        return scalar.value


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return blob_text(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (str, int, float)) or hasattr(value, "isoformat"):
        return value
    return str(value)
