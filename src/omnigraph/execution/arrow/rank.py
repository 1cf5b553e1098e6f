"""Sort and group by values of any type, through small integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.arrow.data import Ints
from omnigraph.execution.arrow.evaluate import one_zero

_LEAST = -(2**63)
_SPREAD = 4
_SPREAD_AT_LEAST = 4096


def ranks(values: pa.Array) -> Ints:
    """Return a number per value that sorts like it; null is -1 and so comes first."""
    encoded = one_zero(values).dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank_of = np.empty(len(order), np.int64)
    rank_of[order] = np.arange(len(order))
    return _by_code(encoded, rank_of)


def sortable(values: pa.Array) -> Any:
    """Return numbers that sort like the values, null first; negated they sort in reverse."""
    kind = values.type
    if values.null_count or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)) or kind == pa.uint64():
        return ranks(values)
    numbers = values.to_numpy(zero_copy_only=False)
    if pa.types.is_floating(kind):
        return numbers + 0.0  # there is one zero
    numbers = numbers.astype(np.int64, copy=False)
    return ranks(values) if len(numbers) and numbers.min() == _LEAST else numbers


def codes(values: pa.Array) -> Ints:
    """Return a number per value, equal for equal values; null is -1."""
    if pa.types.is_nested(values.type):
        seen: dict[str, int] = {}
        return np.array(
            [-1 if v is None else seen.setdefault(repr(v), len(seen)) for v in values.to_pylist()], np.int64
        )
    encoded = one_zero(values).dictionary_encode()
    return _by_code(encoded, np.arange(len(encoded.dictionary), dtype=np.int64))


def _by_code(encoded: pa.DictionaryArray, values: Ints) -> Ints:
    indices: Ints = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    if not len(values):
        return indices
    found: Ints = np.where(indices < 0, -1, values[np.maximum(indices, 0)])
    return found


def groups(columns: list[Ints], length: int) -> tuple[Ints, Ints]:
    """Return the group number of every row, and the first row of every group, groups in order of first appearance."""
    if not columns:
        return np.zeros(length, np.int64), np.zeros(min(length, 1), np.int64)
    combined = _dense(columns[0])
    for column in columns[1:]:
        right = _dense(column)
        width = int(right.max(initial=0)) + 1
        combined = _dense(combined * width + right)
    # No sorting: the codes are small, so an array holds the first row of each.
    rows = np.arange(length, dtype=np.int64)
    place = np.empty(int(combined.max(initial=0)) + 1, np.int64)
    place[combined[::-1]] = rows[::-1]
    used = np.flatnonzero(np.bincount(combined))
    order = np.argsort(place[used])
    first: Ints = place[used[order]]
    place[used[order]] = np.arange(len(first))
    return place[combined], first


def _dense(column: Ints) -> Ints:
    """Renumber the groups with codes from 0 that are not much larger than the number of rows."""
    if not len(column):
        return column
    low = column.min()
    if int(column.max()) - int(low) <= _SPREAD * len(column) + _SPREAD_AT_LEAST:
        shifted: Ints = column - low
        return shifted
    inverse: Ints = np.unique(column, return_inverse=True)[1]
    return inverse
